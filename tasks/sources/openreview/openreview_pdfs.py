"""Downloads of the PDFs of OpenReview's submissions, by note id, in few requests; interrupted ones can be resumed.

    GET <api>/attachment?name=pdf&ids=<id>,<id>,...    up to 50: a zip of <number>_<title, cut short>.pdf
    GET <api>/pdf?id=<id>                              one PDF

In 2026 the server gave out some 36 attachments an hour, so many PDFs are asked for in one request where the server can
do that. Names in the zip never become paths: they are matched to submissions by number or note id. A file that starts
as a PDF is kept as <folder>/pdfs/<id>.pdf; submissions without a PDF are listed in pdfs/without_pdf.json. A PDF has its
hash in its path on the site (/pdf/9f….pdf), so a note that names another path than before has another PDF.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import orjson

from longform.errors import HttpError, SourceError
from longform.files import remove, sha256_of, write_json
from longform.net.download import Progress, note_fetch, side_file
from tasks.sources.files.inputs import NOTES, read_notes
from tasks.sources.openreview.openreview_api import NOT_THERE, REFUSED, Api, limit_reset
from tasks.sources.openreview.submissions import (
    Replies,
    author_ids,
    by_kind,
    decide,
    direct_replies,
    licence_of,
    names,
    pdf_path,
    text,
    value,
    year_of,
)

PDFS = "pdfs"
WITHOUT = "without_pdf.json"
BATCH_IDS = 50
MAX_PDF_BYTES = 200 << 20
MAX_ZIP_BYTES = 4 << 30
MAX_MEMBERS = 500
REFUSED_IN_A_ROW = 20
NO_PATH = "its note names no PDF"
END_WITHIN = 4_096

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBER = re.compile(r"(\d{1,9})(?:_.*)?\.pdf", re.IGNORECASE | re.DOTALL)
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True)
class Paper:
    """A submission whose PDF is wanted. `id`: of its note; `number`: within its conference, None if unknown; `path`: of
    the PDF on the site, None if the note names none; `about`: what is noted beside the PDF (`about`).
    """

    id: str
    number: int | None
    path: str | None
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)


def papers(files: Iterable[Path], replies: Replies, decisions: frozenset[str]) -> Iterator[Paper]:
    """The submissions in these JSONL files of notes that have one of these decisions, or all if `decisions` is empty;
    without those with an ill-formed id. `replies`: replies in files of their own, from which decisions are read too.
    """
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                note = orjson.loads(line)
                decision = _decision(note, replies)
                if _ID.fullmatch(note["id"]) and (not decisions or decision in decisions):
                    number = note.get("number")
                    known = number if isinstance(number, int) else None
                    yield Paper(note["id"], known, pdf_path(note), about(note, decision))


def _decision(note: dict[str, Any], replies: Replies) -> str:
    """The decision on a submission (a word of DECISIONS, `unknown` if none is found), from its note, the replies that
    the note carries, and `replies`.
    """
    return decide(note, by_kind([*direct_replies(note), *replies.to(str(note.get("forum")))])).decision


def about(note: dict[str, Any], decision: str) -> dict[str, Any]:
    """What is noted beside the PDF of a submission, so that its rows are the submission's: note id, decision, title,
    abstract, authors and their ids, year, venue, licence; what the note does not say is null or empty.
    """
    content = note.get("content")
    return {
        "note": note["id"],
        "decision": decision,
        **{name: text(content, name) for name in ("title", "abstract", "venue")},
        "authors": names(value(content, "authors")),
        "author_ids": author_ids(content),
        "year": year_of(note),
        "licence": licence_of(note),
        "site_path": pdf_path(note) or "",
    }


def fetch_pdfs(
    api: Api,
    wanted: Iterable[Paper],
    folder: Path,
    progress: Progress,
    *,
    refresh: bool = False,
    max_pdf_bytes: int = MAX_PDF_BYTES,
) -> list[Path]:
    """Download the PDFs of these submissions that are not in `folder`/pdfs yet, or of which the notes name another one
    since; return the files of all that are there then, in the order of `wanted`. Submissions without a PDF are listed
    in pdfs/without_pdf.json and, but with `refresh`, not asked for again until their notes name one. SourceError at the
    end if the server refused some, or sent more than `max_pdf_bytes` bytes for them, or if it has none of several: the
    next run asks for these again.
    """
    fetch = _Fetch(api, folder / PDFS, progress, refresh, max_pdf_bytes)
    asked = list(dict.fromkeys(wanted))
    for paper in asked:
        if fetch.place(paper).exists():
            fetch.renew(paper)
    fetch.all([paper for paper in asked if fetch.is_open(paper)])
    return [fetch.place(paper) for paper in asked if fetch.place(paper).exists()]


class _Fetch:
    """Downloads the PDFs of one call of `fetch_pdfs` into `folder`: `all` fetches, `is_open` says whether a paper is
    still to be asked for, `place` where its PDF is. `without`: note id -> why it has no PDF, as in without_pdf.json;
    `replaced`: the ids of notes that name another PDF than the one that is there, which stays until the other came;
    `batches_failed`: how many zips in a row brought no PDF.
    """

    def __init__(self, api: Api, folder: Path, progress: Progress, refresh: bool, max_pdf_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.api, self.folder, self.progress, self.max_pdf_bytes = api, folder, progress, max_pdf_bytes
        self.refresh, self.without = refresh, read_notes(folder / WITHOUT)
        self.replaced: set[str] = set()
        self.batches_failed = 0

    def place(self, paper: Paper) -> Path:
        """Where the paper's PDF is, or will be."""
        return self.folder / f"{paper.id}.pdf"

    @staticmethod
    def _facts(paper: Paper) -> dict[str, Any]:
        """What is noted beside the paper's PDF."""
        return {"note": paper.id, "site_path": paper.path or "", **paper.about}

    def renew(self, paper: Paper) -> None:
        """Bring a PDF that was fetched before up to date: remove it if it was changed since, so that it is fetched
        again; write what the note says now beside it, if that is missing or says something else; but the path stays
        that of the PDF that is there, until the one that the note names now has come.
        """
        place = self.place(paper)
        side = side_file(place)
        notes = read_notes(side)
        if notes and _is_changed(place, side, notes):
            _remove(place)
        elif not notes.get("sha256"):
            known = {"sha256": sha256_of(place)}
            note_fetch(place, f"{self.api.base_url}/pdf", place.stat().st_size, known, self._facts(paper))
        elif paper.about:
            facts, path = self._facts(paper), _site_path(notes)
            if path and paper.path and path != paper.path:
                self.replaced.add(paper.id)
                facts["site_path"] = path
            if notes.get("facts") != facts:
                write_json(side, {**notes, "facts": facts})

    def _incoming(self, paper: Paper) -> Path:
        """Where the paper's file is downloaded to, before it is checked."""
        return self.folder / f".{paper.id}.incoming"

    def is_open(self, paper: Paper) -> bool:
        """Whether the paper's PDF has still to be asked for: it is missing (`is_missing`), and the paper not listed in
        without_pdf.json. A paper whose note names no PDF is added to that list; one whose note names one by now, and
        with `refresh` any that has one, is taken from it.
        """
        if paper.path is None and paper.id not in self.without:
            self._note_without(paper, NO_PATH)
        if paper.path and (self.refresh or self.without.get(paper.id) == NO_PATH):
            self._note_with(paper)
        return paper.id not in self.without and self.is_missing(paper)

    def is_missing(self, paper: Paper) -> bool:
        """Whether the paper's PDF is not there, or another one than its note names."""
        return paper.id in self.replaced or not self.place(paper).exists()

    def all(self, todo: list[Paper]) -> None:
        """Download the PDFs of these papers: those of a batch as one zip, until two zips in a row bring none; what is
        then missing one by one. Stops early if REFUSED_IN_A_ROW or more were refused in all and a batch brought no PDF.
        SourceError at the end if some were refused.
        """
        refused: list[str] = []
        before = dict(self.without)
        for batch in batches(todo):
            if len(batch) > 1 and self.batches_failed < 2:
                self.batches_failed = 0 if self._batch(batch) else self.batches_failed + 1
            refused += [paper.id for paper in batch if self.is_missing(paper) and not self._single(paper)]
            if len(refused) >= REFUSED_IN_A_ROW and not any(self.place(paper).exists() for paper in batch):
                break
        for left in self.folder.glob(".*.zip.part*"):
            left.unlink(missing_ok=True)
        if len(todo) > 1 and not any(self.folder.glob("*.pdf")) and all(paper.id in self.without for paper in todo):
            self.without = before
            write_json(self.folder / WITHOUT, dict(sorted(before.items())))
            raise SourceError(
                f"{self.api.base_url} has none of the PDFs of {len(todo)} submissions, {todo[0].id} the first: check "
                "the address, or run this again later."
            )
        if refused:
            raise SourceError(
                f"{self.api.base_url} refuses the PDFs of {len(refused)} submissions, {refused[0]} the first: set "
                "OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD to an account that may read them."
            )

    # ------------------------------------------------------------ many at once

    def _batch(self, batch: list[Paper]) -> int:
        """Ask for the PDFs of the batch as one zip, and put those that come into their places; return how many. 0 if
        the server refuses, does not give several at once, or the zip is too large; other HttpErrors are passed on.
        """
        ids = ",".join(paper.id for paper in batch)
        place = self.folder / f".{hashlib.sha256(ids.encode()).hexdigest()[:16]}.zip"
        try:
            self._download(f"/attachment?name=pdf&ids={ids}", place, MAX_ZIP_BYTES)
            done = self._unpack(place, batch)
        except SourceError as error:
            if isinstance(error, HttpError) and error.status not in (*NOT_THERE, *REFUSED, 405, 413, 414, 422):
                raise
            done = 0
        _remove(place)
        return done

    def _unpack(self, file: Path, batch: list[Paper]) -> int:
        """Write the PDFs of the batch's papers that are in the zip `file` to their places; return how many. The first
        damage ends the reading, as do more than MAX_ZIP_BYTES unpacked bytes: the rest is left out.
        """
        done = unpacked = 0
        with suppress(*_DAMAGED), zipfile.ZipFile(file) as archive:
            for member, paper in _members(archive, batch, self.max_pdf_bytes):
                unpacked += member.file_size
                if unpacked > MAX_ZIP_BYTES:
                    break
                incoming = self._incoming(paper)
                with archive.open(member) as stream, incoming.open("wb") as target:
                    copyfileobj(stream, target)  # no more than its `file_size`, which zipfile cuts it at
                done += self._admitted(paper, incoming, "/attachment")
        return done

    # ------------------------------------------------------------ one

    def _single(self, paper: Paper) -> bool:
        """Ask for one PDF, by the note's id and then by its path; once more where what comes is no PDF, or one that is
        cut off. False if the server refuses it; True if it came, or if there is none or what comes is no PDF, which is
        then noted in without_pdf.json.
        """
        incoming = self._incoming(paper)
        for address in (f"/pdf?id={paper.id}", paper.path or ""):
            status = self._asked(address, incoming)
            if status is None and not _is_whole(incoming):
                _remove(incoming)
                status = self._asked(address, incoming)
            if status in REFUSED:
                return False
            if status is None:
                if not self._admitted(paper, incoming, address):
                    self._note_without(paper, "what the server gives is no PDF")
                return True
        self._note_without(paper, "the server has none")
        return True

    def _asked(self, address: str, incoming: Path) -> int | None:
        """Download the file at `address` of the API to `incoming`. None if a file came; else the HTTP status of a
        refusal or of a missing file (400, 401, 403, 404, 410, 451), and 401 for any SourceError without a status, as
        for a file that is larger than a PDF may be. Other HttpErrors are passed on.
        """
        try:
            self._download(address, incoming, self.max_pdf_bytes)
            return None
        except SourceError as error:
            _remove(incoming)
            status = error.status if isinstance(error, HttpError) else REFUSED[0]
            if status not in (*NOT_THERE, *REFUSED, 410, 451):
                raise
            return status

    def _admitted(self, paper: Paper, incoming: Path, address: str) -> bool:
        """Whether the downloaded file `incoming` starts as a PDF and is not too large. If so it is moved to the paper's
        place, with a record of the fetch (<name>.fetch.json) beside it; else it is removed.
        """
        with incoming.open("rb") as file:
            start = file.read(1024)
        if b"%PDF-" not in start or incoming.stat().st_size > self.max_pdf_bytes:
            _remove(incoming)
            return False
        place, size = self.place(paper), incoming.stat().st_size
        url = self.api.base_url + address.split("?")[0]
        note_fetch(place, url, size, {"sha256": sha256_of(incoming)}, self._facts(paper))
        incoming.replace(place)
        _remove(incoming)
        self.replaced.discard(paper.id)
        return True

    def _download(self, address: str, place: Path, max_bytes: int) -> None:
        """Download the file at `address` of the API to `place`, with the API's login. SourceError if it has more than
        `max_bytes` bytes, and in the other cases of `Downloader.download`.
        """

        def ask(credentials: dict[str, str] | None) -> None:
            self.api.http.download(
                self.api.base_url + address,
                place,
                at_most=max_bytes,
                credentials=credentials,
                progress=self.progress,
                retry_after=limit_reset,
            )

        self.api.asked(ask)

    def _note_without(self, paper: Paper, reason: str) -> None:
        """List the paper in without_pdf.json, with the reason why it has no PDF; not if an earlier one is there."""
        if not self.place(paper).exists():
            self.without[paper.id] = reason
            write_json(self.folder / WITHOUT, dict(sorted(self.without.items())))

    def _note_with(self, paper: Paper) -> None:
        """Take the paper from the list in without_pdf.json, if it is there."""
        if self.without.pop(paper.id, None):
            write_json(self.folder / WITHOUT, dict(sorted(self.without.items())))


def _site_path(notes: Mapping[str, Any]) -> str | None:
    """The path on the site of the PDF that a side file is on; None if it has none."""
    facts = notes.get("facts")
    found = facts.get("site_path") if isinstance(facts, dict) else None
    return found if isinstance(found, str) else None


def _is_whole(file: Path) -> bool:
    """Whether a file begins and ends as a PDF does, as far as its first and last END_WITHIN bytes tell."""
    with file.open("rb") as stream:
        start = stream.read(END_WITHIN)
        stream.seek(max(0, file.stat().st_size - END_WITHIN))
        return b"%PDF-" in start and b"%%EOF" in stream.read()


def _is_changed(place: Path, side: Path, notes: Mapping[str, Any]) -> bool:
    """Whether a file is not what its side file notes: of another size, or written later and with another SHA-256."""
    found = place.stat()
    later = found.st_mtime_ns > side.stat().st_mtime_ns
    return notes.get("bytes") != found.st_size or (later and notes.get("sha256") not in (None, sha256_of(place)))


def batches(todo: list[Paper]) -> Iterator[list[Paper]]:
    """The papers, in order, in lists of up to BATCH_IDS; empty if `todo` is. A list has a single paper only if `todo`
    has just one: the server gives no zip of one PDF.
    """
    rest = todo
    while rest:
        size = BATCH_IDS - 1 if len(rest) == BATCH_IDS + 1 else BATCH_IDS
        yield rest[:size]
        rest = rest[size:]


def _members(
    archive: zipfile.ZipFile, batch: list[Paper], max_pdf_bytes: int
) -> Iterator[tuple[zipfile.ZipInfo, Paper]]:
    """(member, paper) for each member of the zip that is named <id>.pdf, <number>.pdf or <number>_... .pdf for a paper
    of the batch; each paper once. A number that two papers have does not count. Only the first MAX_MEMBERS members are
    looked at, and none larger than `max_pdf_bytes`.
    """
    by_id = {paper.id: paper for paper in batch}
    numbers = [paper.number for paper in batch]
    by_number = {paper.number: paper for paper in batch if paper.number and numbers.count(paper.number) == 1}
    for member in archive.infolist()[:MAX_MEMBERS]:
        name = member.filename.replace("\\", "/").rsplit("/", 1)[-1]
        match = _NUMBER.fullmatch(name)
        paper = by_id.get(name.removesuffix(".pdf")) or (by_number.get(int(match[1])) if match else None)
        if paper is not None and member.file_size <= max_pdf_bytes and paper.id in by_id:
            del by_id[paper.id]
            yield member, paper


def _remove(file: Path) -> None:
    """Remove a downloaded file, its unfinished download (.part) and the notes on both (.fetch.json, .part.json), as far
    as they exist.
    """
    for ending in ("", ".part", *NOTES):
        remove(file.with_name(file.name + ending))
