"""Consequences of a takedown: which published versions contain the record, and which stored responses were made from
it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.builds.building import DATASETS, module_of
from longform.artifacts.store import Store
from longform.artifacts.takedowns import Mention, mentions
from longform.artifacts.versions import datasets
from longform.errors import BusyError, UsageError
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.sources.author_names import author_named
from tasks.sources.papers import parsed
from tasks.sources.papers.paper_ids import all_ids, ids_named
from tasks.sources.permalinks import ids_of_address, ids_with_former
from tasks.sources.reach import other_versions, posts_of_authors, rows_reached

FIELDS = {"id", "date", "reason"}
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Holder:
    """A published version that mentions taken-down records, and where: `hits` are the ids with
    their file and column.
    """

    dataset: str
    version: str
    hits: list[Mention]

    @property
    def withdraw(self) -> str:
        """The command that removes the version."""
        return f"longform withdraw {self.dataset}@{self.version}"


def wanted(
    home: Path, records: list[str], file: Path | None, reason: str | None, day: str
) -> list[tuple[str, str, str]]:
    """(id, date, reason) of each record to take down, from the command line (`records`: ids or addresses) and from the
    JSON lines of `file`. After the ids that a text names stand those of an author's posts and the other ids of the same
    papers, as the rows of `home` say.

    `reason` and `day` (YYYY-MM-DD) hold for records that do not state their own. UsageError without a record, for a
    text that names none, for a record without a reason, and for an invalid file.
    """
    named = [(text, day, reason or "") for text in records]
    named += [(line["id"], line.get("date", day), line.get("reason") or reason or "") for line in _lines(file)]
    found = [(name, when, why) for text, when, why in named for name in _all_named(home, text)]
    if not found:
        raise UsageError("Name what is taken down: an id, an address, or --file with one JSON object a line.")
    if any(not why.strip() for _, _, why in found):
        raise UsageError("A takedown needs its reason: --reason 'its author asked'.")
    return found


def _all_named(home: Path, text: str) -> list[str]:
    """The ids that a text names: its own, those of the posts of an author, and the other ids of a paper. UsageError if
    it names none.
    """
    author = author_named(home, text)
    ids = [author] if author else ids_named(home, text)
    posts = [post for of_author in posts_of_authors(home, ids).values() for post in of_author]
    return all_ids(home, [*ids, *posts])


def _lines(file: Path | None) -> Iterator[dict[str, str]]:
    """The objects in a file of JSON lines, one for each takedown, blank lines left out; none if `file` is None.
    UsageError if the file cannot be read, or for an invalid line.
    """
    if file is None:
        return
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({error}): give a file of JSON lines.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _line(file, number, line)


def _line(file: Path, number: int, line: str) -> dict[str, str]:
    """A line of a takedown file as a dict: `id`, and perhaps `reason` and `date`. UsageError if it is anything else."""
    try:
        values = json.loads(line)
    except ValueError:
        values = None
    valid = isinstance(values, dict) and "id" in values and values.keys() <= FIELDS
    if not valid or not all(isinstance(value, str) for value in values.values()):
        raise UsageError(
            f'Line {number} of {file} is no takedown: write {{"id": "…", "reason": "…", "date": "YYYY-MM-DD"}}, '
            "of which reason and date may be left to the options."
        )
    return dict(values)


def all_names(ids: Collection[str]) -> list[str]:
    """These ids and the other ids under which the same records may occur (a renamed site's former ones), sorted."""
    return sorted({name for record in ids for name in ids_with_former(record)})


def holders(home: Path, ids: Collection[str]) -> list[Holder]:
    """The published versions of a home, also those with a damaged manifest, whose Parquet files mention one of these
    records under any of its ids (`all_names`); sorted by dataset and name.
    """
    names, found = all_names(ids), []
    for dataset in datasets(home):
        for folder in sorted(path for path in (home / "datasets" / dataset).glob("[!.]*") if path.is_dir()):
            if hits := mentions(sorted(folder.rglob("*.parquet")), names, ids_of_address):
                found.append(Holder(dataset, folder.name, hits))
    return found


def purge_responses(home: Path, ids: Collection[str]) -> int:
    """Delete the stored model responses that were made from these records, and return their number; 0 if no response
    is stored yet. BusyError, with the advice to run the command again, while a dataset is being built.
    """
    store, where = Store(home), responses(home)
    if isinstance(where, Path) and not where.exists():
        return 0
    try:
        with ExitStack() as locks:
            for dataset in DATASETS:
                locks.enter_context(store.lock(dataset))
            with closing(open_responses(where, home=home)) as stored:
                keys = [module_of(dataset).responses_of(store, all_names(ids), stored) for dataset in DATASETS]
                return stored.purge(set().union(*keys))
    except BusyError as error:
        raise BusyError(
            f"The takedown is written down, but stored responses were not purged: {error} "
            "Then run the same command again."
        ) from None


def forget_parsed(home: Path, ids: Collection[str]) -> int:
    """Delete what parsers made of the PDFs among these ids (sha256/…, file/…), and return how many results it were."""
    parts = (name.partition("/") for name in ids)
    return parsed.forget(home, [rest for group, _, rest in parts if group in ("sha256", "file")])


@dataclass(frozen=True, slots=True)
class Reached:
    """What takedowns reach in a home: `rows`, id -> how many rows of stages it names (0: none), `all_rows`, how many
    different ones these are, and `versions`, the ids of other versions of the papers among them.
    """

    rows: dict[str, int]
    all_rows: int
    versions: list[str]

    def sentences(self, held: Collection[str] = ()) -> list[str]:
        """What is printed of it. `held`: ids that published versions hold, of which it is said there."""
        missing = [name for name, count in self.rows.items() if not count and name not in held]
        said = (
            [f"They name {self.all_rows:,} {'row' if self.all_rows == 1 else 'rows'} of this home."]
            if self.all_rows
            else []
        )
        said += [f"{name} names no row of this home: {_later(name)}." for name in missing[:SHOWN]]
        if len(missing) > SHOWN:
            said.append(f"{len(missing) - SHOWN:,} more name no row of this home.")
        if self.versions:
            shown = " ".join(self.versions[:SHOWN]) + (" …" if len(self.versions) > SHOWN else "")
            said.append(
                f"Also versions of these papers: {shown}; take them down too with: longform takedowns add {shown}"
            )
        return said


def _later(record: str) -> str:
    """What becomes of a record that comes into the home after its takedown."""
    if record.startswith("author/"):
        return (
            "papers by this author will be left out when they come; of posts, name the author as author/<site>/<number>"
            " (Reddit: author/<author_id>) once they are read, or name the posts"
        )
    return "it will be left out when it comes"


def reached(home: Path, ids: list[str]) -> Reached:
    """What the takedown of these ids reaches in the rows of a home's stages."""
    found = rows_reached(home, ids)
    keys = {key for some in found.values() for key in some}
    counts = {name: len(some) for name, some in found.items()}
    return Reached(counts, len(keys), other_versions(home, keys | set(ids)))


def described(holder: Holder) -> dict[str, Any]:
    """A version that mentions taken-down records as a JSON value: dataset, version, the command that withdraws it, and
    the mentions with file and column.
    """
    hits = [{"id": hit.id, "file": hit.file.name, "column": hit.column} for hit in holder.hits]
    return {"dataset": holder.dataset, "version": holder.version, "withdraw": holder.withdraw, "holds": hits}
