"""Stored responses on the command line: exporting, importing, counting, checking."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.builds.building import DATASETS
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, keys_used
from longform.errors import UsageError
from longform.llm.responses.store import forget_responses, open_responses
from longform.settings import responses


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: rows and bytes of the file. `missing`: the number of responses that the version used
    but the store lacks; 0 if all responses were exported.
    """

    rows: int
    bytes: int
    missing: int


def address_and_file(words: list[str]) -> tuple[str | None, Path]:
    """(`DATASET[@VERSION]` or None for all responses, the file to write), from the words of the command line.
    UsageError for too many words, or for a dataset without a file.
    """
    *addresses, file = words
    if len(addresses) > 1:
        raise UsageError(
            f"Give a file, or a dataset and a file, not {len(words)} words: "
            "longform responses export [DATASET[@VERSION]] FILE."
        )
    if not addresses and file.partition("@")[0] in DATASETS:
        raise UsageError(f"Name the file to write, behind the dataset: longform responses export {file} FILE.")
    return (addresses[0] if addresses else None), Path(file)


def export(home: Path, path: Path, version: Version | None) -> Exported:
    """Write all responses, or those that a version used, to a Parquet file, which appears only when it is whole; also
    works while a build is running. UsageError if the file cannot be written, StoreError if the disk is full or an
    artifact of the version is gone.
    """
    from longform.llm.responses.exchange import export_parquet

    keys = keys_used(Store(home), version) if version else None
    with closing(open_responses(responses(home), read_only=True)) as store:
        rows = export_parquet(store, path, keys)
    return Exported(rows, path.stat().st_size, 0 if keys is None else len(keys) - rows)


def load(home: Path, path: Path) -> tuple[int, int]:
    """Import a file that `export` wrote: (number of new responses, number of responses that were stored already and
    stay as they are). UsageError if the file is missing, damaged, altered or no export: then nothing is imported.
    BusyError while another process, e.g. a build, writes to the same SQLite file of responses.
    """
    from longform.llm.responses.exchange import check_export, import_parquet

    check_export(path)
    with closing(open_responses(responses(home), home=home)) as store:
        return import_parquet(store, path)


def stats(home: Path) -> list[dict[str, Any]]:
    """A dict for each endpoint, model and task: numbers of answers, errors, input and output tokens, bytes, and the
    cost in billionths of a US dollar (`cost_nano`). Also works while a build is running.
    """
    with closing(open_responses(responses(home), read_only=True)) as store:
        return store.stats()


def check(home: Path, *, drop: bool) -> tuple[list[str], list[str]]:
    """(keys of the records that are damaged, what else is damaged in the database, in its words); with `drop` these
    records are deleted, so that they are asked again, and indexes are built anew. Without it works while a build is
    running; with it BusyError as of `load`.
    """
    with closing(open_responses(responses(home), read_only=not drop, home=home)) as store:
        faults = store.faults(repair=drop)
        damaged = store.damaged()
        if drop:
            store.purge(damaged)
        return damaged, faults


def forget(home: Path) -> bool:
    """Have the home forget which store it used, so that it takes the one that is there; whether it knew any."""
    return forget_responses(responses(home), home)
