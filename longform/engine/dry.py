"""The requests that a stage would send: its body is run on its real inputs, but nothing is sent or written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.artifacts.store import Store
from longform.engine.context import TEXTS_AT_ONCE
from longform.engine.execute import check_inputs
from longform.engine.jobs import Job
from longform.engine.stage import Stage
from longform.llm.ask.types import Endpoint, Request

if TYPE_CHECKING:
    from longform.net.web import Manners, Visitor


class NeedsEmbeddings(Exception):
    """The body asked for embeddings, without which it cannot go on."""


class NeedsWeb(Exception):
    """The body asked the web, so what it would ask a model afterwards is unknown."""


def walk(
    store: Store,
    work: Stage,
    job: Job,
    asks: Callable[[Endpoint, Request], None],
    embeds: Callable[[Endpoint, list[str]], None],
) -> bool:
    """Run a unit of work dry: call `asks` with each of its requests and `embeds` with its texts. Whether these are all.

    Requests that depend on a reply are not found; False means that the body stopped at a web request.
    """
    context = DryContext(store, asks, embeds)
    try:
        for _ in work.body(context, **job.inputs, **job.arguments):
            pass
        return True
    except NeedsEmbeddings:
        return True
    except NeedsWeb:
        return False
    except Exception:
        check_inputs(job, store)
        raise
    finally:
        context.close()


class DryContext:
    """The context of a dry run: it records requests in place of sending them, and returns no replies."""

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
        """A temporary folder outside the home, deleted when the unit ends."""
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
        raise NeedsEmbeddings

    def embeddings(self, endpoint: Endpoint, texts: Iterable[str]) -> Iterator[list[float]]:
        texts = iter(texts)
        while block := list(islice(texts, TEXTS_AT_ONCE)):
            self._embeds(endpoint, block)
            yield from ()
        raise NeedsEmbeddings

    def web(self, manners: Manners) -> Visitor:
        raise NeedsWeb

    def close(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
