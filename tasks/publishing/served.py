"""Whether a version was served by other models than the versions before it, where the same ones were asked for.

A name of a served model that is new refuses the version (the gate SERVED_MODEL); a name that is gone does not, and a
changed fingerprint is only noted. An endpoint's model is compared with the newest earlier version that asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longform.artifacts.versions import Version
from longform.engine.health import Gate
from longform.engine.served import Served, listed

SERVED_MODEL = "served_model"


def served_in(version: Version) -> list[Served]:
    """What served the stages of a version; [] for one of an earlier release, which did not record it."""
    return [Served(**entry) for entry in version.manifest.get("served", [])]


def served_gates(served: Sequence[Served], earlier: Sequence[Version]) -> list[Gate]:
    """A gate for each stage that was served by a model that is new; if there is none, one that found nothing. [] for a
    version that asked no real model. `earlier`: the versions before, oldest first.
    """
    found = [gate for each in served if (gate := _gate(each, earlier)) is not None]
    unchanged = "replies are by another model than before"
    replies = sum(each.replies for each in served)
    return found or ([Gate(SERVED_MODEL, "version", unchanged, 0, replies, 0.0)] if served else [])


def _gate(now: Served, earlier: Sequence[Version]) -> Gate | None:
    """The gate of a stage that was served by a model that is new; None if it was not."""
    version, before = _newest(now, earlier)
    known = {name for each in before for name in [*each.models, *([each.asked] if each.unnamed else [])]}
    new = [name for name in now.models if name not in known]
    if version is None or not new:
        return None
    was, now_by = listed(sorted(known)), listed(list(now.models))
    what = f"replies of {now.stage}: {now.asked} was served by {was} in {version.name}, now by {now_by}"
    return Gate(SERVED_MODEL, "version", what, sum(now.models[name] for name in new), now.replies, 0.0)


def fingerprint_notes(version: Version, earlier: Sequence[Version]) -> Iterator[str]:
    """A sentence for each stage of a version with a fingerprint that is new, though it names the models of before."""
    for now in served_in(version):
        other, before = _newest(now, earlier)
        known = {name for each in before for name in each.fingerprints}
        models = {name for each in before for name in each.models}
        if other is not None and known and now.fingerprints.keys() - known and now.models.keys() <= models:
            was, now_by = listed(sorted(known)), listed(list(now.fingerprints))
            yield f"{now.stage}: {now.asked} had the fingerprint {was} in {other.name}, now {now_by}"


def _newest(now: Served, earlier: Sequence[Version]) -> tuple[Version | None, list[Served]]:
    """(the newest version that asked for the same model through the same endpoint, what served it there, in all its
    stages); (None, []) if there is none.
    """
    for version in reversed(earlier):
        if same := [each for each in served_in(version) if (each.endpoint, each.asked) == (now.endpoint, now.asked)]:
            return version, same
    return None, []
