"""Files that a configuration names, opened as sources of a build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longform.artifacts.rows import Source
from longform.engine.stage import Builder


def opened(builder: Builder, opening: Callable[..., list[Source]], setting: str | list[str]) -> list[Source]:
    """The files of a setting as sources, identified by their content; empty if it names none."""
    paths = listed(setting)
    return opening(paths, digest=builder.digests) if paths else []


def listed(setting: str | list[str]) -> list[Path]:
    """The paths that a setting names. An empty string names none (as a path it would be the current folder)."""
    return [Path(path) for path in ([setting] if isinstance(setting, str) else setting) if path]
