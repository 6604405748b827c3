"""What `longform read SOURCE … --to DIR` wrote into DIR before and does not write now: removed, so that no table from
before a takedown stays beside the new ones. `DIR/.longform-read.json` holds, for each source, the files written and
their SHA-256:

    {"reddit": {"join_reddit.parquet": "9f0c…", "join_reddit.rejected.parquet": "07aa…"}}
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longform.errors import StoreError
from longform.files import read_json, sha256_of, unwritable, write_json

NAME = ".longform-read.json"
ENDING = ".parquet"


def remove_earlier(source: str, folder: Path, written: Sequence[Path]) -> list[Path]:
    """Delete the files that the last read of `source` into `folder` wrote and that are not among `written`, those of
    this read; then record these. Returns the deleted paths, sorted.

    A file stays if it is not in the record, if its content is not the recorded one, or if it is a link. StoreError if
    the record is damaged, or if a file cannot be deleted or written.
    """
    record = _record(folder)
    names = {path.name for path in written}
    found = [folder / name for name in sorted(record.get(source, {}).keys() - names)]
    removed = [path for path in found if _is_as_written(path, record[source][path.name])]
    for path in removed:
        try:
            path.unlink()
        except OSError as error:
            raise unwritable(path, error) from None
    others = {name: _without(files, names) for name, files in record.items() if name != source}
    write_json(folder / NAME, {**others, source: {path.name: sha256_of(path) for path in written}})
    return removed


def _without(files: dict[str, str], names: set[str]) -> dict[str, str]:
    """The recorded files but for those with these names, which another source has written since."""
    return {name: digest for name, digest in files.items() if name not in names}


def _record(folder: Path) -> dict[str, dict[str, str]]:
    """source -> name of a file -> its SHA-256; empty if nothing is recorded. StoreError for a damaged record."""
    document = read_json(folder / NAME)
    if document is None:
        return {}
    if not _is_record(document):
        raise StoreError(
            f"{folder / NAME} is no record of what `longform read` wrote there: delete it, and whichever older tables "
            f"of {folder} you no longer want."
        )
    return dict(document)


def _is_record(document: Any) -> bool:
    """Whether a JSON document is a record: names of Parquet files, without folders, and digests, by source."""
    if not isinstance(document, dict) or not all(isinstance(files, dict) for files in document.values()):
        return False
    entries = [entry for files in document.values() for entry in files.items()]
    return all(
        os.path.basename(name) == name and name.endswith(ENDING) and isinstance(digest, str) for name, digest in entries
    )


def _is_as_written(path: Path, digest: str) -> bool:
    """Whether the file is there, is no link, and has the content with this SHA-256. StoreError if it cannot be read."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        return sha256_of(path) == digest
    except OSError as error:
        raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable, or delete it.") from None
