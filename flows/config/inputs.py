"""Files that a configuration names, as sources of a build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longform.artifacts.rows import Source
from longform.engine.stage import Builder


def opened(builder: Builder, opening: Callable[..., list[Source]], given: str | list[str]) -> list[Source]:
    """The files of a setting, identified by their content; none where it is an empty list."""
    paths = listed(given)
    return opening(paths, digest=builder.digests) if paths else []


def listed(given: str | list[str]) -> list[Path]:
    """An empty text names no file: as a path it would be the folder one is in."""
    return [Path(path) for path in ([given] if isinstance(given, str) else given) if path]
