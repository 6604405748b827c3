"""A stage: a generator of rows with an identity, called in a flow, run part by part.

    @stage(CLAIMS, revision=1)
    def split_claims(context: StageContext, answers: Rows, *, splitter: str) -> Iterator[Row | Rejected]: ...

    claims = split_claims(builder, answers, splitter="sentences")

Positional parameters after the context are inputs; keyword-only ones are part of the identity. A call returns at once a
`Rows`, for rows that the builder will make (`Method` only records the call, `Build` makes what is missing). The type
checker and the call itself refuse wrong arguments.

The annotation of the first input is the stage's shape. `Rows`: one unit of work for each part, in parallel. `PerGroup`:
one for each group (a site), whose output is cut at ranges of the hash of the schema's `cut` column. `AllRows`: one for
all rows. `Shard`: one for each shard of a list of sources. In a stage of parts, a further input annotated `PerGroup` or
`AllRows` is for lookups; in a source stage further inputs are `AllRows`. A stage of parts may name further inputs of
`Rows` whose parts are units, too (`also`): rows of other groups that become rows of the same table.
"""

from __future__ import annotations

import fcntl
import inspect
import shutil
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import pyarrow as pa

from longform.artifacts.recipe import Recipe, identity, shape
from longform.artifacts.rows import AllRows, PerGroup, Rejected, Row, Rows, Shard, Source
from longform.artifacts.store import Digests, Store
from longform.engine.at_most import AtMost
from longform.engine.health import REPLIES, UNBOUNDED, Health, counted_of, counters_of
from longform.engine.served import Names
from longform.errors import FlowError
from longform.hints import hint
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models
from longform.llm.read.repeated import Repeats

if TYPE_CHECKING:
    from longform.llm.client import Client
    from longform.net.web import Manners, PageClient, Web

__all__ = ["AllRows", "AtMost", "PerGroup", "Rejected", "Row", "Rows", "Shard", "Stage", "StageContext", "stage"]

P = ParamSpec("P")
Item = TypeVar("Item")
TEXTS_AT_ONCE = 4_096


class Shape(Enum):
    """What one unit of work sees of an input."""

    SHARD = "a shard of a source"
    PART = "a part"
    GROUP = "all rows of a group"
    ALL = "all rows"


SHAPES = {Shard: Shape.SHARD, Rows: Shape.PART, PerGroup: Shape.GROUP, AllRows: Shape.ALL}


class Builder(Protocol):
    """The interface of what a flow passes to its stages: it records their calls (Method), plans them (Plan) or makes
    their rows (Build).

    `publication` is what the flow passes to `set_publication`.
    """

    store: Store
    digests: Digests
    publication: Any

    def add(self, call: StageCall) -> None:
        """Record, plan or start this call of a stage, as the builder does."""


@dataclass(frozen=True, slots=True, eq=False)
class StageCall:
    """One call of a stage in a flow. `inputs`: parameter -> rows, or a list of sources. `arguments`: its keyword
    arguments. `rows`: what the call returned, a `Rows` for the rows that the stage will make.
    """

    stage: Stage
    inputs: dict[str, Any]
    arguments: dict[str, Any]
    recipe: Recipe
    rows: Rows

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.stage.name

    @property
    def upstream(self) -> dict[str, Rows]:
        """parameter -> rows, for the inputs that are rows of other stages."""
        return {name: value for name, value in self.inputs.items() if isinstance(value, Rows)}

    @property
    def endpoints(self) -> list[Endpoint]:
        """The model endpoints among the arguments of the call, in their order."""
        return [value for value in self.arguments.values() if isinstance(value, Endpoint)]

    @property
    def online(self) -> bool:
        """Whether one of its endpoints is a real model, not the built-in offline one."""
        return any(not endpoint.offline for endpoint in self.endpoints)

    @property
    def asks_web(self) -> bool:
        """Whether the call sends web requests: one of its arguments has `manners`, the rules for a web client."""
        return any(hasattr(value, "manners") for value in self.arguments.values())

    @property
    def one_process(self) -> bool:
        """Whether all units of work of the call run in the flow's process, as they share rate limits of the web, or
        load a model that should be loaded once.
        """
        return self.asks_web or any(hasattr(value, "one_process") for value in self.arguments.values())


class Stage:
    """A declared stage, whatever its parameters; see `stage` for the arguments.

    `body`: the generator. `inputs`: input -> how much of it a unit of work sees; `shape`: how much it sees of the
    first input.
    """

    def __init__(
        self,
        body: Callable[..., Iterator[Any]],
        schema: pa.Schema,
        revision: int,
        split_by: str | None = None,
        at_most: AtMost | None = None,
        max_rows_per_part: int | None = None,
        also: tuple[str, ...] = (),
        only: str | None = None,
    ) -> None:
        self.body, self.schema, self.revision, self.also, self.only = body, schema, revision, also, only
        self.split_by, self.max_rows_per_part = split_by, max_rows_per_part
        self.at_most = at_most or AtMost()
        self.name, self.module = body.__name__, body.__module__
        self.__doc__ = body.__doc__
        hints = typing.get_type_hints(body, include_extras=True)
        parameters = list(inspect.signature(body).parameters.values())[1:]
        self.signature = inspect.Signature(parameters)
        inputs = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        self.inputs = {name: SHAPES[hints[name]] for name in inputs}
        self.shape = next(iter(self.inputs.values()))

    @property
    def key(self) -> str:
        """The column that identifies the rows that the stage makes."""
        return str(self.schema.metadata[b"key"].decode())

    @property
    def fan_out(self) -> bool:
        """Whether the stage may ask a model more than once for a row of its first input: it declares a bound of its
        calls.
        """
        return self.at_most.calls is not None

    @property
    def sees_more_than_a_part(self) -> bool:
        """Whether a unit of work of the stage reads all rows of a group or of an input: it joins or indexes."""
        return any(shape in (Shape.GROUP, Shape.ALL) for shape in self.inputs.values())

    def add_to(self, builder: Builder, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Rows:
        """Call the stage with a builder: give it the call, and return the `Rows` that the stage will make. `inputs`
        are positional, `arguments` by name. FlowError if the arguments do not fit.
        """
        bound = self._bound(inputs, arguments)
        inputs_by_name = {name: bound.pop(name) for name in self.inputs}
        call = self.called(builder.store, inputs_by_name, bound)
        builder.add(call)
        return call.rows

    def called(self, store: Store, inputs: dict[str, Any], arguments: dict[str, Any]) -> StageCall:
        """The stage call with these inputs and arguments, both by parameter name; it is given to no builder, so
        nothing is made.
        """
        recipe = self.recipe(inputs, arguments)
        return StageCall(self, inputs, arguments, recipe, Rows(store, self.schema, self.name, recipe.fingerprint))

    def _bound(self, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> dict[str, Any]:
        """parameter -> argument, inputs and keyword arguments together. FlowError if an argument is unknown or
        missing, or an input is neither rows nor, for a stage that reads sources, a list of sources.
        """
        for name in arguments:
            if name not in self.signature.parameters:
                raise FlowError(
                    f'{self.name} has no argument "{name}"; {hint(name, self.signature.parameters, "it takes")}'
                )
        try:
            bound = self.signature.bind(*inputs, **arguments).arguments
        except TypeError as error:
            raise FlowError(f"{self.name}: {error}; it takes {', '.join(self.signature.parameters)}.") from None
        for name, input_shape in self.inputs.items():
            type_, wanted = (list, "a list of sources") if input_shape is Shape.SHARD else (Rows, "the rows of a stage")
            if not isinstance(bound[name], type_):
                found = type(bound[name]).__name__
                raise FlowError(f'{self.name}: its input "{name}" is {found}; it takes {wanted}.')
        return dict(bound)

    def recipe(self, inputs: dict[str, Any], arguments: dict[str, Any]) -> Recipe:
        """The recipe of a call: name, revision, schema (with `split_by`, `max_rows_per_part` and `only`, if the stage
        has them), arguments and the identities of its inputs. TypeError for an argument without an identity.
        """
        input_identities = {
            name: value.fingerprint if isinstance(value, Rows) else [source.identity() for source in value]
            for name, value in inputs.items()
        }
        columns = shape(self.schema) + ([["split by", self.split_by]] if self.split_by else [])
        columns += [["rows each", str(self.max_rows_per_part)]] if self.max_rows_per_part else []
        columns += [["only", self.only]] if self.only else []
        return Recipe(self.name, self.revision, columns, identity(arguments), input_identities)

    def conserved(self, inputs: dict[str, Any]) -> list[Rows]:
        """The inputs of which no row may vanish: the first, those in `also`, and those of the same shape whose rows
        have the output's key column. Sources are left out.

        Other inputs are for lookups.
        """
        first = next(iter(self.inputs))
        return [
            rows
            for name, rows in inputs.items()
            if isinstance(rows, Rows)
            and (name in (first, *self.also) or (rows.key == self.key and self.inputs[name] is self.shape))
        ]

    def side_inputs(self, inputs: dict[str, Any]) -> list[Rows]:
        """The other inputs of rows with the output's key column. They are seen in another shape than the first input,
        so that a unit of work may use only some of their rows.
        """
        kept = self.conserved(inputs)
        return [
            rows
            for rows in inputs.values()
            if isinstance(rows, Rows) and rows.key == self.key and not any(rows is other for other in kept)
        ]


class RowStage(Stage, Generic[P]):
    """A stage whose first input is the rows of another."""

    def __call__(self, builder: Builder, /, *inputs: P.args, **arguments: P.kwargs) -> Rows:
        """Call the stage in a flow and return the `Rows` that it will make. FlowError if the arguments do not fit."""
        return self.add_to(builder, inputs, arguments)


class SourceStage(Stage, Generic[P]):
    """A stage that reads sources; its body sees one shard at a time."""

    def __call__(self, builder: Builder, sources: list[Source], /, *inputs: P.args, **arguments: P.kwargs) -> Rows:
        """Call the stage in a flow with its sources and return the `Rows` that it will make. FlowError if the
        arguments do not fit.
        """
        return self.add_to(builder, (sources, *inputs), arguments)


class Declare(Protocol):
    """The type of what `stage(...)` returns: it turns a body into a stage with the body's parameters."""

    @overload
    def __call__(self, body: Callable[Concatenate[StageContext, Shard, P], Iterator[Any]]) -> SourceStage[P]: ...
    @overload
    def __call__(self, body: Callable[Concatenate[StageContext, P], Iterator[Any]]) -> RowStage[P]: ...


def stage(
    schema: pa.Schema,
    *,
    revision: int,
    split_by: str | None = None,
    at_most: AtMost | None = None,
    max_rows_per_part: int | None = None,
    also: tuple[str, ...] = (),
    only: str | None = None,
) -> Declare:
    """Turn a generator of rows into a stage (decorator). Raise `revision` when a change of its code changes its rows.

    `schema`: of the rows. `split_by`: a column by whose values every part is divided into parts.
    `at_most`: bounds of the rows it makes and the questions it asks, by the sizes of its inputs and its arguments,
    which a plan uses before the inputs are built; no part of the identity.
    `max_rows_per_part`: a unit makes parts of at most so many rows, in order; later stages work on these parts in
    parallel, read one at a time, and reuse their own parts where these are unchanged.
    `only`: SQL condition of the rows of the first input that the stage is for, where several stages share them; it
    passes over the others, which are then neither rows nor rejected rows of it.
    `also`: inputs beside the first whose parts are units of work, too; such a unit sees no row of the first input. Only
    for stages of parts.
    """

    def declare(body: Callable[..., Iterator[Any]]) -> Any:
        first = next(iter(list(typing.get_type_hints(body).values())[1:]))
        return (SourceStage if first is Shard else RowStage)(
            body, schema, revision, split_by, at_most, max_rows_per_part, also, only
        )

    return declare


class UntilReached(Exception):
    """Raised when the flow calls the stage that `--until` names, to end the flow there."""


class Method:
    """A builder that only records a flow's calls, up to the stage `until` (None: all). `publication` is what the flow
    passed to `set_publication`, None before that.
    """

    def __init__(self, store: Store, *, until: str | None = None) -> None:
        self.store, self.until = store, until
        self.digests = Digests(store.home)
        self.calls: list[StageCall] = []
        self.publication: Any = None

    def add(self, call: StageCall) -> None:
        """Record a call. Raises UntilReached after the call of the stage `until`."""
        self.calls.append(call)
        if call.name == self.until:
            raise UntilReached

    @property
    def fingerprints(self) -> dict[str, str]:
        """stage -> fingerprint of its recipe, in the order of the flow; together they identify the recipe of a
        version.
        """
        return {call.name: call.recipe.fingerprint for call in self.calls}


class StageContext:
    """The context that a stage's body gets for one unit of work; no part of the stage's identity. `ask` and `embed`
    call models, `web` gives a web client, `scratch` and `shared` give folders.

    `count(name, number)` adds to a counter of the part, shown by `longform show`. `responses` collects the keys of the
    model responses that the unit read, 32 bytes each. `health`: where replies are counted, None for a stage whose
    replies are not judged.
    """

    def __init__(
        self,
        store: Store,
        models: Models | None,
        stage: str,
        recipe: str,
        count: Callable[[str, int], None],
        shared: Path | None = None,
        health: Health | None = None,
    ) -> None:
        self.store, self.count, self._health = store, count, health
        self.responses = bytearray()
        self._names, self._repeats = Names(), Repeats()
        self._models, self._stage, self._recipe, self._shared = models, stage, recipe, shared
        self._scratch: Path | None = None
        self._web: Web | None = None

    def scratch(self) -> Path:
        """A temporary folder of the unit of work, the same at each call, deleted when the unit ends."""
        self._scratch = self._scratch or self.store.new_folder(self._stage)
        return self._scratch

    @contextmanager
    def shared(self) -> Iterator[Path]:
        """A context with a folder that all units of a build share, locked for one unit at a time; deleted when the
        build ends. Outside of a build it is the unit's own temporary folder.
        """
        folder = self._shared or self.scratch()
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield folder

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Item, Request]]) -> Iterator[tuple[Item, Answer | Failure]]:
        """(item, reply or failure) for each request, in the order of the items; one for each sample if a request wants
        several. `item` is anything by which the caller knows its request. Replies are stored before they are returned.
        Errors as in `Client.ask`; GateError if too many replies are of no use.
        """
        health = self._health
        asked, room = (items, lambda: UNBOUNDED) if health is None else (health.counted(items), health.room)
        both = (((item, request), request) for item, request in asked)
        for (item, request), reply in self._client(endpoint).ask(both, room=room):
            self.count(REPLIES, 1)
            if isinstance(reply, Answer) and not endpoint.offline:
                self._count_served(endpoint, *reply.served)
                reply = self._repeats.checked(request, reply)
            counted = {} if endpoint.offline else counted_of(request, reply)
            for name in counters_of(request.system, counted):
                self.count(name, 1)
            if health is not None:
                health.add_reply(reply, item, request.system, counted)
            yield item, reply

    def goes_on_from_replies(self) -> None:
        """Called by a body whose next questions depend on replies: ends a dry run, whose figures are then bounds."""

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        """One vector for each text, in the order of the texts. UsageError for the offline model; other errors as in
        `Client.embed`.
        """
        if self._health is not None:
            self._health.waive_pilot()
        return self._client(endpoint).embed(texts, served=partial(self._count_served, endpoint))

    def embeddings(self, endpoint: Endpoint, texts: Iterable[str]) -> Iterator[list[float]]:
        """One vector for each text, in order. Reads and embeds the texts in blocks of TEXTS_AT_ONCE, so that not all
        are in memory; `embed` takes a list.
        """
        texts = iter(texts)
        while block := list(islice(texts, TEXTS_AT_ONCE)):
            yield from self.embed(endpoint, block)

    def web(self, manners: Manners) -> PageClient:
        """A web client with these manners (rates, robots.txt); pages that are stored in the home are not requested
        again.
        """
        from longform.net.web import open_web

        self._web = self._web or open_web(self.store.home)
        return self._web.client(manners)

    def _client(self, endpoint: Endpoint) -> Client:
        """The client of an endpoint, which notes the keys of the responses that it gives in this context."""
        assert self._models
        return self._models.client(endpoint, stage=self._stage, recipe=self._recipe, note=self._note)

    def _count_served(self, endpoint: Endpoint, model: str | None, fingerprint: str | None) -> None:
        """Count a reply by the model and fingerprint that it names."""
        self.count(self._names.counter(endpoint, model, fingerprint), 1)

    def _note(self, keys: Iterable[str]) -> None:
        """Add the keys (hex digits) of responses that the unit read to `responses`, 32 bytes each."""
        self.responses += b"".join(map(bytes.fromhex, keys))

    def close(self) -> None:
        """Close the web client and delete the temporary folder, if there are any."""
        if self._web is not None:
            self._web.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


class NeedsEmbeddings(Exception):
    """Raised in a dry run when the body asks for embeddings, without which it cannot go on."""


class NeedsReplies(Exception):
    """Raised in a dry run when what the body asks next depends on replies."""


class NeedsWeb(Exception):
    """Raised in a dry run when the body asks the web: what it would then ask a model is unknown."""


class DryContext(StageContext):
    """The context of a dry run: requests and texts go to the functions `asks` and `embeds` in place of a model. `ask`
    then yields nothing; embeddings end the body with NeedsEmbeddings, web requests with NeedsWeb.

    The temporary folder is outside the home.
    """

    def __init__(
        self,
        store: Store,
        asks: Callable[[Endpoint, Request, Any], None],
        embeds: Callable[[Endpoint, list[str]], None],
    ) -> None:
        super().__init__(store, None, "", "", lambda *_: None)
        self._asks, self._embeds = asks, embeds

    def scratch(self) -> Path:
        """A temporary folder outside the home, the same at each call, deleted when the unit ends."""
        self._scratch = self._scratch or Path(tempfile.mkdtemp(prefix="longform-plan-"))
        return self._scratch

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Item, Request]]) -> Iterator[Any]:
        """Pass each request, and its item, to `asks`; yields nothing."""
        for item, request in items:
            self._asks(endpoint, request, item)
        yield from ()

    def goes_on_from_replies(self) -> None:
        """Raise NeedsReplies."""
        raise NeedsReplies

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        """Pass the texts to `embeds`, then raise NeedsEmbeddings."""
        self._embeds(endpoint, texts)
        raise NeedsEmbeddings

    def embeddings(self, endpoint: Endpoint, texts: Iterable[str]) -> Iterator[list[float]]:
        """Pass the texts to `embeds` in blocks of TEXTS_AT_ONCE, then raise NeedsEmbeddings; yields nothing."""
        texts = iter(texts)
        while block := list(islice(texts, TEXTS_AT_ONCE)):
            self._embeds(endpoint, block)
            yield from ()
        raise NeedsEmbeddings

    def web(self, manners: Manners) -> PageClient:
        """Raise NeedsWeb."""
        raise NeedsWeb
