"""Stack Exchange: a generated dump as it is given out (.7z), its posts read, and a bare parse of the same file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.make_dump import write_dump

SITE = "generated.example"
FAST = 1


def generate(folder: Path, megabytes: float) -> Path:
    """A .7z of LZMA2 with a Posts.xml of so many megabytes in it; the same posts each time."""
    import py7zr

    posts, path = folder / "Posts.xml", folder / f"{SITE}.7z"
    write_dump(posts, int(megabytes * 1_000_000), seed=1)
    with py7zr.SevenZipFile(path, "w", filters=[{"id": py7zr.FILTER_LZMA2, "preset": FAST}]) as archive:
        archive.write(posts, "Posts.xml")
    posts.unlink()
    return path


def ours(path: Path, home: Path) -> int:
    """The stage `read_posts`: HTML to Markdown and all checks included; posts and rejected rows."""
    from benchmarks.building import accounted, building
    from longform.artifacts.store import Digests
    from tasks.sources.stackexchange.posts import open_dumps, read_posts

    with building(home) as build:
        read_posts(build, open_dumps(str(path), SITE, None, Digests(home)))
    return accounted(build)


def bare(path: Path) -> int:
    """libarchive, and lxml over each line; the rows it takes (those with illegal characters it does not)."""
    from lxml import etree

    parser, rows = etree.XMLParser(), 0
    for line in _lines(path):
        if b"<row" in line:
            try:
                etree.fromstring(line, parser)
                rows += 1
            except etree.XMLSyntaxError:
                continue
    return rows


def _lines(path: Path) -> Iterator[bytes]:
    import libarchive

    rest = b""
    with libarchive.file_reader(str(path)) as archive:
        for entry in archive:
            for block in entry.get_blocks(1 << 20):
                *lines, rest = (rest + block).split(b"\n")
                yield from lines
    yield rest
