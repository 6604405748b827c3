"""Two versions compared: what `longform diff` says, and the settings of the builds that published them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from flows.inspection.comparison import compare
from flows.page.look.catalogue import check_keys
from flows.page.look.runs import settings_of
from flows.page.look.tables import readable, taking_turns
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.errors import LongformError

KEPT = 32

_known: OrderedDict[tuple[str, ...], dict[str, Any]] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Compared:
    """`found`: as `flows.inspection.comparison.compare` returns it, None if `problem` says why not; `settings`:
    (setting, before, after) of those that differ, None if a record of the builds is missing.
    """

    found: dict[str, Any] | None
    problem: str
    settings: list[tuple[str, Any, Any]] | None


def compared(store: Store, before: Version, after: Version) -> Compared:
    """The differences of two versions. Published versions do not change, so the last KEPT comparisons are kept."""
    problem = ""
    found = _known.get(_name(store, before, after))
    if found is None:
        try:
            with taking_turns(), readable(f"{before.dataset} {before.name} or {after.name}"):
                check_keys(before)
                check_keys(after)
                found = compare(store, before, after)
            _known[_name(store, before, after)] = found
            while len(_known) > KEPT:
                _known.popitem(last=False)
        except LongformError as error:
            problem = str(error)
    then, now = settings_of(store.home, before), settings_of(store.home, after)
    return Compared(found, problem, None if then is None or now is None else changes(then, now))


def _name(store: Store, *versions: Version) -> tuple[str, ...]:
    return (str(store.home), *(text for each in versions for text in (str(each.folder), each.recipe)))


def changes(before: dict[str, Any], after: dict[str, Any], within: str = "") -> list[tuple[str, Any, Any]]:
    """(setting, value before, value after) of the settings that differ; those of tables as `table.setting`."""
    found: list[tuple[str, Any, Any]] = []
    for name in dict.fromkeys([*before, *after]):
        then, now = before.get(name), after.get(name)
        if isinstance(then, dict) and isinstance(now, dict):
            found += changes(then, now, f"{within}{name}.")
        elif then != now:
            found.append((f"{within}{name}", then, now))
    return found
