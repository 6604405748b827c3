"""Builds of two Stack Exchange sites: the parts in a home, and their file stamps."""

from __future__ import annotations

from pathlib import Path

from benchmarks.make_dump import write_dump

SITES = ("tea.stackexchange.com", "bees.stackexchange.com")


Stamp = tuple[int, int]


def dumps_of(folder: Path, megabytes: float) -> list[str]:
    """The dumps of two sites, so that every stage has work for two processes."""
    size = int(megabytes * 1_000_000 / len(SITES))
    return [write_dump(folder / site / "Posts.xml", size, seed=site).path for site in SITES]


def parts(home: Path) -> list[Path]:
    return [path.parent for path in home.glob("stages/*/parts/[!.]*/part.json")]


def stamps(home: Path) -> dict[Path, list[Stamp]]:
    """Inode and time of every finished part's folder and files."""
    return {part: [stamp(path) for path in (part, *sorted(part.iterdir()))] for part in parts(home)}


def stamp(path: Path) -> Stamp:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns


def contents(home: Path) -> dict[str, bytes]:
    """Every file of the stages and versions that must be the same in every build."""
    files = [path for kind in ("stages", "datasets") for path in (home / kind).rglob("*") if path.is_file()]
    return {str(path.relative_to(home)): path.read_bytes() for path in files}
