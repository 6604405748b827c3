"""What a stage's body may use besides its inputs: counters, temporary folders, model calls, the web."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from longform.artifacts.store import Store
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models

if TYPE_CHECKING:
    from longform.llm.client import Client
    from longform.net.web import Manners, Visitor, Web

Item = TypeVar("Item")
TEXTS_AT_ONCE = 4_096


class StageContext:
    """The context that a stage's body gets for one unit of work; no part of the stage's identity.

    `count` adds to a counter of the part, shown by `longform show`. `shared` is a folder of the whole build.
    """

    def __init__(
        self,
        store: Store,
        models: Models | None,
        stage: str,
        recipe: str,
        count: Callable[[str, int], None],
        shared: Path | None = None,
    ) -> None:
        self.store, self.count = store, count
        self.responses = bytearray()
        self._models, self._stage, self._recipe, self._shared = models, stage, recipe, shared
        self._scratch: Path | None = None
        self._web: Web | None = None

    def scratch(self) -> Path:
        """A temporary folder that is deleted when the unit ends."""
        self._scratch = self._scratch or self.store.new_folder(self._stage)
        return self._scratch

    @contextmanager
    def shared(self) -> Iterator[Path]:
        """A folder that all units of a build share, locked for one unit at a time; deleted when the build ends."""
        folder = self._shared or self.scratch()
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield folder

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Item, Request]]) -> Iterator[tuple[Item, Answer | Failure]]:
        """(item, reply or failure) for each request, in the order of the items; replies are stored before they are
        returned.
        """
        yield from self._client(endpoint).ask(items)

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        """One vector for each text, in the order of the texts."""
        return self._client(endpoint).embed(texts)

    def embeddings(self, endpoint: Endpoint, texts: Iterable[str]) -> Iterator[list[float]]:
        """One vector for each text, in order, read in blocks so that not all texts are in memory."""
        texts = iter(texts)
        while block := list(islice(texts, TEXTS_AT_ONCE)):
            yield from self.embed(endpoint, block)

    def web(self, manners: Manners) -> Visitor:
        """A web client with these manners (rates, robots.txt); pages that are stored in the home are not requested
        again.
        """
        from longform.net.web import open_web

        self._web = self._web or open_web(self.store.home)
        return self._web.visitor(manners)

    def _client(self, endpoint: Endpoint) -> Client:
        assert self._models
        return self._models.client(endpoint, stage=self._stage, recipe=self._recipe, note=self._note)

    def _note(self, keys: Iterable[str]) -> None:
        """Record the keys of responses that the unit read."""
        for key in keys:
            self.responses += bytes.fromhex(key)

    def close(self) -> None:
        if self._web is not None:
            self._web.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


class NeedsEmbeddings(Exception):
    """The body asked for embeddings, without which it cannot go on."""


class NeedsWeb(Exception):
    """The body asked the web, so what it would ask a model afterwards is unknown."""


class DryContext(StageContext):
    """The context of a dry run: requests and texts go to `asks` and `embeds` in place of a model; no reply comes back.

    Its temporary folder is outside the home.
    """

    def __init__(
        self,
        store: Store,
        asks: Callable[[Endpoint, Request], None],
        embeds: Callable[[Endpoint, list[str]], None],
    ) -> None:
        super().__init__(store, None, "", "", lambda *_: None)
        self._asks, self._embeds = asks, embeds

    def scratch(self) -> Path:
        self._scratch = self._scratch or Path(tempfile.mkdtemp(prefix="longform-plan-"))
        return self._scratch

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Item, Request]]) -> Iterator[Any]:
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
