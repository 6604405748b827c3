"""A dataset's method as data: the stage calls of its flow in order, and what it publishes."""

from __future__ import annotations

from typing import Any

from longform.artifacts.store import Digests, Store
from longform.engine.stage import StageCall


class UntilReached(Exception):
    """The flow has called the stage that `--until` names, so it ends here."""


class Method:
    """A builder that only records a flow's calls. `publication` is what the flow passed to `publish`, None
    before that.
    """

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
        """stage -> fingerprint, in order; together they identify the recipe of a version."""
        return {call.name: call.recipe.fingerprint for call in self.calls}
