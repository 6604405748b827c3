"""The ids of a paper: the several names under which one paper is taken down, and the rows that these names mean.

    openreview/hUJGDNCOPA    a note of OpenReview           doi/10.1000/xyz123       in lower case
    s2/13756489              Semantic Scholar's corpus id   arxiv/2101.00001         without version
    acl/2020.acl-main.1      ACL Anthology                  sha256/9f0c…             a file, by its 64 hex digits
    file/9f0c5d2e71aa3b04    a file without another id      title/9f0c5d2e71aa3b04   metadata without another id
    filename/kites.pdf       every file of this name
    author/ada aloft         every paper with this author   author/~ada_aloft1       the same, by OpenReview's id

The first eight are one paper's own, and a row that has two of them says that both mean the same paper. A file's name
and an author select papers; no further papers are found through them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.takedowns import load
from longform.errors import UsageError
from tasks.sources.files.inputs import SIDE_FILE, read_notes
from tasks.sources.home_tables import batches_of, tables_of
from tasks.sources.paper_names import canonical, in_doi, papers_in_address
from tasks.sources.permalinks import FORMS, record_of

OWN = ("openreview", "s2", "acl", "doi", "arxiv", "sha256", "file", "title")
SELECTING = ("filename", "author")
PAPER_GROUPS = (*OWN, *SELECTING)
KEYS = ("paper_id", "submission_id")

_COLUMNS = {
    "doi": "doi",
    "arxiv_id": "arxiv",
    "acl_id": "acl",
    "corpus_id": "s2",
    "note_id": "openreview",
    "file_sha256": "sha256",
}


# ---------------------------------------------------------------- a batch of rows


def own_ids(batch: pa.RecordBatch) -> list[pa.Array]:
    """The paper ids that each row has, one array of strings a column, with nulls where a row has none: its key as it is
    and in its one form, its other ids in their one form, and those that its DOI holds. `batch`: rows of a table of
    papers, metadata or submissions, with whichever columns it has.
    """
    keys = [batch.column(name).cast(pa.string()) for name in KEYS if name in batch.schema.names]
    found = [*keys, *(_in_one_form(key) for key in keys)]
    for name, group in _COLUMNS.items():
        if name in batch.schema.names:
            found.append(_in_one_form(_named(group, batch.column(name))))
            found += _in_dois(found[-1]) if name == "doi" else []
    if "file_sha256" in batch.schema.names:
        found.append(_named("file", pc.utf8_slice_codeunits(batch.column("file_sha256"), 0, 16)))
    return found


def _named(group: str, values: pa.Array) -> pa.Array:
    """<group>/<value> for each value; null for null."""
    return pc.binary_join_element_wise(group, values.cast(pa.string()), "/")


def _in_one_form(names: pa.Array) -> pa.Array:
    """The ids in their one form; null for null."""
    return pa.array([name and canonical(name) for name in names.to_pylist()], pa.string())


def _in_dois(names: pa.Array) -> list[pa.Array]:
    """The ids of arXiv or the ACL Anthology in these ids of DOIs, as an array in a list; [] if none holds one."""
    held = [next(iter(in_doi(name)), None) if name else None for name in names.to_pylist()]
    return [pa.array(held, pa.string())] if any(held) else []


def is_listed(batch: pa.RecordBatch, ids: Collection[str]) -> pa.Array:
    """For each row of a table of papers, metadata or submissions, whether one of the ids means it: as its own id, the
    name of its file, or one of its authors.
    """
    listed = pa.array(sorted({*ids, *map(canonical, ids)}), pa.string())
    hit = pa.array([False] * len(batch), pa.bool_())
    for values in [*own_ids(batch), *_file_names(batch)]:
        hit = pc.or_(hit, pc.is_in(values, value_set=listed))
    for name in ("authors", "author_ids"):
        if name in batch.schema.names and any(one.startswith("author/") for one in ids):
            hit = pc.or_(hit, _has_one(batch.column(name), listed))
    return hit


def _file_names(batch: pa.RecordBatch) -> list[pa.Array]:
    """filename/<name> of each row, in a list; [] if the table has no names of files."""
    return [_named("filename", batch.column("file"))] if "file" in batch.schema.names else []


def _has_one(authors: pa.Array, listed: pa.Array) -> pa.Array:
    """For each list of authors, whether one is among the `listed` ids author/<name in lower case>."""
    composed = pc.utf8_normalize(pc.list_flatten(authors), form="NFC")
    trimmed = pc.utf8_trim_whitespace(pc.utf8_lower(composed))
    names = _named("author", pc.replace_substring_regex(trimmed, r"\s+", " "))
    rows = pc.list_parent_indices(authors).filter(pc.is_in(names, value_set=listed))
    return pc.is_in(pa.array(range(len(authors)), rows.type), value_set=rows)


# ---------------------------------------------------------------- a home


def all_ids(home: Path, ids: Iterable[str]) -> list[str]:
    """These ids, in their order, and then, sorted, the own ids of the papers that they mean, as the rows of a home's
    stages and the files that were fetched into it say. Ids of other things than papers stay alone.
    """
    given = list(dict.fromkeys(ids))
    known, before = {name for name in given if name.split("/", 1)[0] in PAPER_GROUPS}, None
    while known != before:
        before = set(known)
        known |= _same(home, before)
        known |= {f"sha256/{sha256}" for sha256 in _fetched(home, known)}
        known |= {f"file/{name[7:23]}" for name in known if name.startswith("sha256/")}
    return [*given, *sorted(known - set(given))]


def _same(home: Path, ids: Collection[str]) -> set[str]:
    """All own ids of the rows of a home's papers that one of the ids means."""
    found: set[str] = set()
    for hit in _meant(home, ids):
        found.update(one for values in own_ids(hit) for one in values.to_pylist() if one)
    return found


def papers_meant(home: Path, ids: Iterable[str]) -> dict[str, set[str]]:
    """id -> the keys (paper_id, submission_id) of the rows of a home's stages that it means; ids of other things than
    papers, and of papers that the home does not have, are left out.
    """
    asked, found = [name for name in ids if name.split("/", 1)[0] in PAPER_GROUPS], dict[str, set[str]]()
    for hit in _meant(home, asked):
        key = next(name for name in KEYS if name in hit.schema.names)
        for name in asked:
            found.setdefault(name, set()).update(hit.filter(is_listed(hit, [name])).column(key).to_pylist())
    return {name: keys for name, keys in found.items() if keys}


_READ = {*KEYS, *_COLUMNS, "file", "authors", "author_ids"}


def _meant(home: Path, ids: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The rows of papers, metadata of papers and submissions of a home's stages that one of the ids means, with the
    columns that name papers.
    """
    for table in tables_of(home) if ids else []:
        names = set(table.schema.names)
        if names & set(KEYS) and names & {"authors", "note_id", "doi"}:
            columns = ", ".join(f'"{name}"' for name in table.schema.names if name in _READ)
            for batch in batches_of(f"SELECT {columns} FROM {{}}", table.paths):
                hit = batch.filter(is_listed(batch, ids))
                if len(hit):
                    yield hit


def _fetched(home: Path, ids: Collection[str]) -> list[str]:
    """SHA-256 of the PDFs that were fetched into the home for these notes of OpenReview, also if they were never
    read.
    """
    notes = [name.split("/", 1)[1] for name in ids if name.startswith("openreview/")]
    places = (home / "sources" / "openreview" / "pdfs" / f"{note}.pdf{SIDE_FILE}" for note in notes)
    found = (read_notes(place).get("sha256") for place in places)
    return [one for one in found if isinstance(one, str) and re.fullmatch("[0-9a-f]{64}", one)]


def taken_down_files(home: Path) -> set[str]:
    """The first 16 digits of the SHA-256 of all files that are taken down in a home."""
    ids = (takedown.id.partition("/") for takedown in load(home))
    return {rest[:16] for group, _, rest in ids if group in ("sha256", "file")}


def ids_named(home: Path, text: str) -> list[str]:
    """The ids that a text means: what `record_of` reads in it, with the ids in a DOI or in the address of a page; else,
    of a home's papers, those of which it is the note id, the corpus id, the name of a file, or the name or id of an
    author. UsageError if it means none.
    """
    try:
        record = record_of(text)
        return list(dict.fromkeys([record, *in_doi(record), *papers_in_address(text)]))
    except UsageError:
        flat = " ".join(text.split())
        as_one = [f"openreview/{flat}", f"s2/{flat}", f"filename/{flat}", f"author/{flat.lower()}"]
        found = [name for name in as_one if _same(home, [name])]
    if not found:
        raise UsageError(f'"{text}" names no record, and no paper of {home}: give {FORMS}.')
    return found
