"""Files that a configuration names, opened as sources of a build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longform.artifacts.rows import Source
from longform.engine.stage import Builder

ACCOUNTS = (
    "whose the accounts of a tool are: a file or folder of exports of one server, as it is named above -> account -> "
    'annotator, e.g. { "exports/lab" = { 1 = "e7" } }'
)


def opened(builder: Builder, opening: Callable[..., list[Source]], setting: str | list[str]) -> list[Source]:
    """The sources that `opening(paths, digest=...)` makes of the paths in a setting, with the builder's file hashes;
    empty if the setting names no path. Errors of `opening` pass through.
    """
    paths = listed(setting)
    return opening(paths, digest=builder.digests) if paths else []


def listed(setting: str | list[str]) -> list[Path]:
    """The paths in a setting, which is one path or a list. Empty strings are left out (as paths they would be the
    current folder).
    """
    return [Path(path) for path in ([setting] if isinstance(setting, str) else setting) if path]


def check_accounts(accounts: dict[str, dict[str, str]], *settings: str | list[str]) -> None:
    """Raise ValueError if `accounts` (file or folder -> account -> annotator) has a path that none of these settings
    names.
    """
    named = {path for setting in settings for path in listed(setting)}
    for place in accounts:
        if Path(place) not in named:
            known = ", ".join(sorted(map(str, named))) or "no file"
            raise ValueError(
                f'accounts is given for "{place}", but labels are read of {known}: '
                "name the file or folder as it is named there"
            )
