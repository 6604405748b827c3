"""The method of a dataset, walked once: the stage calls of its flow, in order, and what it publishes."""

from __future__ import annotations

from typing import Any

from longform.artifacts.store import Digests, Store
from longform.engine.stage import StageCall


class UntilReached(Exception):
    """The stage that `--until` names is noted: nothing after it is wanted."""


class Method:
    """A builder that notes what a flow calls. `publication` is what the flow handed to `publish`, None before."""

    def __init__(self, store: Store, *, until: str | None = None) -> None:
        self.store, self.until = store, until
        self.digests = Digests(store.home)
        self.calls: list[StageCall] = []
        self.publication: Any = None

    def add(self, call: StageCall) -> None:
        self.calls.append(call)
        if call.name == self.until:
            raise UntilReached

    @property
    def fingerprints(self) -> dict[str, str]:
        """stage -> fingerprint, in order: what names a version's recipe."""
        return {call.name: call.recipe.fingerprint for call in self.calls}
