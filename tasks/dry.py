"""What a stage would ask: its body, walked with its real inputs, where nothing is sent or written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.errors import StoreError
from longform.llm.types import Endpoint, Request
from longform.rows import Rows
from longform.store import Store
from tasks.stage import TEXTS_AT_ONCE, Stage
from tasks.units import Job

if TYPE_CHECKING:
    from longform.web import Manners, Visitor


class Embedded(Exception):
    """A body asked for embeddings, or the web: without them it cannot go on."""


def walk(
    store: Store,
    work: Stage,
    job: Job,
    asks: Callable[[Endpoint, Request], None],
    embeds: Callable[[Endpoint, list[str]], None],
) -> None:
    """Tell `asks` every question of a unit of work, and `embeds` its texts. What depends on an answer is not told."""
    run = DryRun(store, asks, embeds)
    try:
        for _ in work.body(run, **job.inputs, **job.arguments):
            pass
    except Embedded:
        return
    except Exception:
        _check_inputs(store, job)
        raise
    finally:
        run.close()


def _check_inputs(store: Store, job: Job) -> None:
    for rows in job.inputs.values():
        for part in (rows.parts or ()) if isinstance(rows, Rows) else ():
            if not store.intact(part):
                raise StoreError(
                    f"{store.part(part)} is damaged, {job.stage} cannot be planned from it: "
                    f"build again with --force {part.stage}, which makes it anew."
                ) from None


class DryRun:
    """What a body is given instead of a Run."""

    def __init__(
        self,
        store: Store,
        asks: Callable[[Endpoint, Request], None],
        embeds: Callable[[Endpoint, list[str]], None],
    ) -> None:
        self.store = store
        self._asks, self._embeds = asks, embeds
        self._scratch: Path | None = None

    def count(self, name: str, number: int) -> None:
        pass

    def scratch(self) -> Path:
        """A folder outside the home that is gone when the unit ends."""
        self._scratch = self._scratch or Path(tempfile.mkdtemp(prefix="longform-plan-"))
        return self._scratch

    @contextmanager
    def shared(self) -> Iterator[Path]:
        yield self.scratch()

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Any, Request]]) -> Iterator[Any]:
        for _, request in items:
            self._asks(endpoint, request)
        yield from ()

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        self._embeds(endpoint, texts)
        raise Embedded

    def embeddings(self, endpoint: Endpoint, texts: Iterable[str]) -> Iterator[list[float]]:
        texts = iter(texts)
        while block := list(islice(texts, TEXTS_AT_ONCE)):
            self._embeds(endpoint, block)
            yield from ()
        raise Embedded

    def web(self, manners: Manners) -> Visitor:
        raise Embedded

    def close(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
