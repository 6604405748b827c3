from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from longform.errors import UsageError
from longform.rows import Source
from schemas.stackexchange import POSTS, THREADS
from tasks.sources.stackexchange import open_dump, parse_posts, read_rows, threads
from tasks.stage import Group, Piece, Rejected, Run, stage


def open_dumps(
    dump: str | list[str], site: str | list[str] | None, retrieved_at: str | None, digest: Callable[[Path], str]
) -> list[Source]:
    """The sources of a build, by site. One host for all dumps, or a list with one each ("" where the name tells)."""
    paths = [dump] if isinstance(dump, str) else dump
    if not paths:
        raise UsageError("dump is an empty list: name at least one Stack Exchange dump.")
    hosts = site if isinstance(site, list) else [site] * len(paths)
    if len(hosts) != len(paths):
        raise UsageError(
            f"site names {len(hosts)} hosts for {len(paths)} dumps: give one host for each, in their order."
        )
    found = [
        open_dump(Path(path), site=host or None, retrieved_at=retrieved_at, digest=digest)
        for path, host in zip(paths, hosts, strict=True)
    ]
    _check_once(found)
    return sorted(found, key=lambda source: (source.group, source.sha256))


def _check_once(sources: list[Source]) -> None:
    seen: dict[str, Source] = {}
    for source in sources:
        other = seen.setdefault(source.group, source)
        if other is not source:
            raise UsageError(
                f"{other.path} and {source.path} are both of {source.group}: keep one, or set site for each of them."
            )


@stage(POSTS, revision=1)
def read_posts(run: Run, dumps: Piece) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions and answers of a dump, converted to Markdown; what else is in it is filtered or rejected."""
    facts = dict(dumps.source.facts)
    for item in parse_posts(read_rows(dumps), site=dumps.source.group, retrieved_at=facts["retrieved_at"]):
        if isinstance(item, pa.RecordBatch):
            run.count("read", item.num_rows)
            repairs = item.column("repairs").to_numpy()
            run.count("repaired", int((repairs > 0).sum()))
        else:
            run.count("read", 1)
        yield item


@stage(THREADS, revision=1)
def join_threads(run: Run, posts: Group) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions with their answers, in whatever order these came."""
    yield from threads(posts.paths, run.scratch())
