"""What turns a generator of rows into a stage: identity, reuse, parts, workers, conservation, Prefect runs.

    @stage(CLAIMS, revision=1)
    def split_claims(run: Run, answers: Rows, *, splitter: str) -> Iterator[Row | Rejected]: ...

Called in a flow with a `Build` it makes what is missing and returns `Rows`; called with a `Plan` it only says
what would run and why. Positional parameters after the run are inputs, keyword-only ones are identity.

The annotation of the first input is the shape. `Rows`: one unit of work a part, in parallel. `Group`: one a group
(a site), whose output is cut at ranges of the hash of the schema's `cut` column. `Whole`: one for all. `Piece`: a
source. A further input annotated `Group` or `Whole` in a stage of parts is there to look things up in; in a stage of
sources it is `Whole`.
"""

from __future__ import annotations

import fcntl
import gc
import inspect
import shutil
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from longform.conservation import check_conservation
from longform.errors import StoreError
from longform.llm.models import Models
from longform.llm.types import Answer, Endpoint, Failure, Request
from longform.parts import Parts
from longform.recipe import Recipe, identity, shape
from longform.rows import Group, Piece, Rejected, Row, Rows, Whole
from longform.settings import responses
from longform.store import Part, Store, full, unwritable

if TYPE_CHECKING:
    from longform.llm.client import Client
    from longform.web import Manners, SharedWeb, Visitor
    from tasks.build import Build
    from tasks.plan import Plan
    from tasks.units import Job

__all__ = ["Group", "Piece", "Rejected", "Row", "Rows", "Run", "Stage", "Whole", "stage"]

Body = Callable[..., Iterator[Any]]
Item = TypeVar("Item")
TEXTS_AT_ONCE = 4_096
OBJECTS_BETWEEN_COLLECTIONS = 200_000


def stage(
    schema: pa.Schema,
    *,
    revision: int,
    split_by: str | None = None,
    several: bool = False,
    rows_each: int | None = None,
) -> Callable[[Body], Stage]:
    """Make a generator of rows a stage. Raise `revision` when its code changes its meaning.

    `several`: it may ask a model more than once for a row of its first input, or make more rows of it than one. A plan
    then knows no bound before the inputs are built; no identity.
    `rows_each`: a unit of parts makes parts of at most so many rows, in its order; later stages work on them side by
    side, hold one at a time, and keep those whose rows are as before.
    """
    return lambda body: Stage(body, schema, revision, split_by, several, rows_each)


class Stage:
    def __init__(
        self,
        body: Body,
        schema: pa.Schema,
        revision: int,
        split_by: str | None = None,
        several: bool = False,
        rows_each: int | None = None,
    ) -> None:
        self.body, self.schema, self.revision = body, schema, revision
        self.split_by, self.several, self.rows_each = split_by, several, rows_each
        self.name = body.__name__
        self.__doc__ = body.__doc__
        hints = typing.get_type_hints(body)
        parameters = list(inspect.signature(body).parameters.values())[1:]
        self.inputs = {p.name: hints[p.name] for p in parameters if p.kind is not p.KEYWORD_ONLY}
        self.shape = next(iter(self.inputs.values()))

    def __call__(self, run: Build | Plan, *inputs: Any, **arguments: Any) -> Rows:
        named = dict(zip(self.inputs, inputs, strict=True))
        return run.stage(self, named, arguments)

    def recipe(self, inputs: dict[str, Any], arguments: dict[str, Any]) -> Recipe:
        given = {name: _input_identity(value) for name, value in inputs.items()}
        columns = shape(self.schema) + ([["split by", self.split_by]] if self.split_by else [])
        columns += [["rows each", str(self.rows_each)]] if self.rows_each else []
        return Recipe(self.name, self.revision, columns, identity(arguments), given)

    def conserved(self, inputs: dict[str, Any]) -> list[Rows]:
        """The inputs of which no row may vanish: the first, and of its shape those whose rows become rows of one id.

        Others are looked things up in.
        """
        key = self.schema.metadata[b"key"].decode()
        first = next(iter(self.inputs))
        return [
            rows
            for name, rows in inputs.items()
            if isinstance(rows, Rows) and (name == first or (rows.key == key and self.inputs[name] is self.shape))
        ]

    def looked_up(self, inputs: dict[str, Any]) -> list[Rows]:
        """The inputs of which some rows may become rows of one id, and others belong to other parts."""
        kept, key = self.conserved(inputs), self.schema.metadata[b"key"].decode()
        return [
            rows
            for rows in inputs.values()
            if isinstance(rows, Rows) and rows.key == key and not any(rows is other for other in kept)
        ]

    def endpoints(self, arguments: dict[str, Any]) -> list[Endpoint]:
        """The models this stage calls."""
        return [value for value in arguments.values() if isinstance(value, Endpoint)]

    def endpoint(self, arguments: dict[str, Any]) -> Endpoint | None:
        """The first model this stage calls, if any."""
        return next(iter(self.endpoints(arguments)), None)

    def asks_web(self, arguments: dict[str, Any]) -> bool:
        return any(hasattr(value, "manners") for value in arguments.values())

    def one_process(self, arguments: dict[str, Any]) -> bool:
        """Whether its units run in the flow's process: it keeps to the rates of the web, and holds a model once."""
        return self.asks_web(arguments) or any(hasattr(value, "one_process") for value in arguments.values())


class Run:
    """What a stage's body may use besides its inputs: counters, scratch space, model calls. Not identity."""

    def __init__(self, store: Store, parts: Parts, models: Models, recipe: str, shared: Path | None = None) -> None:
        self.store = store
        self.responses = bytearray()
        self._parts, self._models, self._recipe, self._shared = parts, models, recipe, shared
        self._scratch: Path | None = None
        self._web: SharedWeb | None = None

    def count(self, name: str, number: int) -> None:
        """Add to a counter of the part, shown by `longform show`."""
        self._parts.counts[name] += number

    def scratch(self) -> Path:
        """A folder that is gone when the unit ends."""
        if self._scratch is None:
            self._scratch = self.store.new_folder(self._parts.stage)
        return self._scratch

    @contextmanager
    def shared(self) -> Iterator[Path]:
        """A folder of all units of the build, in the hands of one at a time; gone when the build ends."""
        folder = self._shared or self.scratch()
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield folder

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Item, Request]]) -> Iterator[tuple[Item, Answer | Failure]]:
        """The model's replies in the order of the items; stored before they are handed on."""
        yield from self._client(endpoint).ask(items)

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        """One vector a text, in the order of the texts."""
        return self._client(endpoint).embed(texts)

    def embeddings(self, endpoint: Endpoint, texts: Iterable[str]) -> Iterator[list[float]]:
        """As `embed`, of texts that memory need not hold."""
        texts = iter(texts)
        while block := list(islice(texts, TEXTS_AT_ONCE)):
            yield from self.embed(endpoint, block)

    def web(self, manners: Manners) -> Visitor:
        """Who asks the web, with these manners; what was answered before is taken from the home."""
        from longform.web import open_web

        self._web = self._web or open_web(self.store.home)
        return self._web.visitor(manners)

    def _client(self, endpoint: Endpoint) -> Client:
        return self._models.client(endpoint, stage=self._parts.stage, recipe=self._recipe, note=self._note)

    def _note(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.responses += bytes.fromhex(key)

    def close(self) -> None:
        if self._web is not None:
            self._web.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def execute(job: Job, models: Models | None = None) -> list[Part]:
    """Do one unit of work and commit its parts. Runs in a worker, or in the flow's own process with its models."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)  # rows hold no cycles: looking for some took a tenth of the time
    work: Stage = getattr(import_module(job.module), job.stage)
    store = Store(job.home)
    try:
        return _execute(job, work, store, models or Models(responses(job.home)))
    except StoreError:
        raise
    except Exception as error:
        if full(error):
            raise unwritable(job.home, OSError(28, str(error))) from None
        if isinstance(error, PermissionError):
            raise unwritable(job.home, error) from None
        if _out_of_memory(error):
            raise StoreError(
                f"DuckDB had too little memory while {job.stage} worked on {job.label} ({_first_line(error)}): "
                "what was finished is kept; free some memory, or give the sources as smaller files, "
                "and run the command again."
            ) from None
        _check_inputs(job, store)
        raise


def _out_of_memory(error: Exception) -> bool:
    import duckdb  # only where a stage failed

    return isinstance(error, duckdb.OutOfMemoryException)


def _first_line(error: Exception) -> str:
    """What follows it is advice on DuckDB's own settings."""
    return next(iter(str(error).splitlines()), "").removeprefix("Out of Memory Error: ")


def _check_inputs(job: Job, store: Store) -> None:
    """Raise StoreError where a stage failed because what it read is no longer what was written."""
    for rows in job.inputs.values():
        for part in (rows.parts or ()) if isinstance(rows, Rows) else ():
            if not store.intact(part):
                raise StoreError(
                    f"{store.part(part)} is damaged, {job.stage} cannot read it: "
                    f"build again with --force {part.stage}, which makes it anew."
                ) from None


def _execute(job: Job, work: Stage, store: Store, models: Models) -> list[Part]:
    parts = Parts(store, work.name, work.schema, job.keys, work.split_by, work.rows_each)
    run = Run(store, parts, models, job.recipe, job.shared)
    try:
        for item in work.body(run, **job.inputs, **job.arguments):
            parts.add(item)
        done = parts.finish()
        kept, looked_up = work.conserved(job.inputs), work.looked_up(job.inputs)
        check_conservation(store, work.name, work.schema, done, kept, run.scratch(), looked_up)
        store.commit_unit(work.name, job.unit, done, run.responses)
        return done
    except BaseException:
        parts.discard()
        raise
    finally:
        run.close()


def _input_identity(value: Any) -> Any:
    return value.fingerprint if isinstance(value, Rows) else [source.identity() for source in value]
