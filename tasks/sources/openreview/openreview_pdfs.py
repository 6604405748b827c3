"""PDFs of OpenReview's submissions, by note id, few requests and resumably.

    GET <api>/attachment?name=pdf&ids=<id>,<id>,...    up to 50: a zip of <number>_<title, cut short>.pdf
    GET <api>/pdf?id=<id>                              one

In 2026 some 36 attachments an hour were given out, so many are asked for at once where the server can do that. Names
in the zip never become paths: the number says which submission it is, or the id where the name is one. A PDF is kept
once it starts as one, as <folder>/pdfs/<id>.pdf; those that there are none of are named in pdfs/without_pdf.json.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import orjson

from longform.errors import HttpError, SourceError
from longform.files import remove, sha256_of, write_json
from longform.net.download import Progress, note_fetch
from tasks.sources.files.found import NOTES, noted
from tasks.sources.openreview.openreview_api import NOT_THERE, REFUSED, Api, limit_reset
from tasks.sources.openreview.submissions import Replies, by_kind, decide, direct_replies, pdf_path

PDFS = "pdfs"
WITHOUT = "without_pdf.json"
BATCH_IDS = 50
MAX_PDF_BYTES = 200 << 20
MAX_ZIP_BYTES = 4 << 30
MAX_MEMBERS = 500
REFUSED_IN_A_ROW = 20

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBER = re.compile(r"(\d{1,9})(?:_.*)?\.pdf", re.IGNORECASE | re.DOTALL)
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True)
class Paper:
    """A submission whose PDF is wanted. `path` is None where its note names none."""

    id: str
    number: int | None
    path: str | None


def papers(files: Iterable[Path], replies: Replies, decisions: frozenset[str]) -> Iterator[Paper]:
    """The submissions in these files with one of these decisions, or all of them where none is named."""
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                note = orjson.loads(line)
                if _ID.fullmatch(note["id"]) and (not decisions or _decision(note, replies) in decisions):
                    number = note.get("number")
                    yield Paper(note["id"], number if isinstance(number, int) else None, pdf_path(note))


def _decision(note: dict[str, Any], replies: Replies) -> str:
    return decide(note, by_kind([*direct_replies(note), *replies.to(str(note.get("forum")))])).decision


def fetch_pdfs(
    api: Api, wanted: Iterable[Paper], folder: Path, progress: Progress, *, max_pdf_bytes: int = MAX_PDF_BYTES
) -> list[Path]:
    """The PDFs that are there in the end. SourceError at the end where some were refused: they are asked for again."""
    fetch = _Fetch(api, folder / PDFS, progress, max_pdf_bytes)
    asked = list(dict.fromkeys(wanted))
    fetch.all([paper for paper in asked if fetch.is_open(paper)])
    return [fetch.place(paper) for paper in asked if fetch.place(paper).exists()]


class _Fetch:
    def __init__(self, api: Api, folder: Path, progress: Progress, max_pdf_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.api, self.folder, self.progress, self.max_pdf_bytes = api, folder, progress, max_pdf_bytes
        self.without = noted(folder / WITHOUT)
        self.batches_failed = 0

    def place(self, paper: Paper) -> Path:
        return self.folder / f"{paper.id}.pdf"

    def _incoming(self, paper: Paper) -> Path:
        return self.folder / f".{paper.id}.incoming"

    def is_open(self, paper: Paper) -> bool:
        """Whether it has still to be asked for."""
        if paper.path is None and paper.id not in self.without:
            self._note_without(paper, "its note names no PDF")
        return paper.id not in self.without and not self.place(paper).exists()

    def all(self, todo: list[Paper]) -> None:
        refused: list[str] = []
        for batch in batches(todo):
            if len(batch) > 1 and self.batches_failed < 2:
                self.batches_failed = 0 if self._batch(batch) else self.batches_failed + 1
            refused += [paper.id for paper in batch if not self.place(paper).exists() and not self._single(paper)]
            if len(refused) >= REFUSED_IN_A_ROW and not any(self.place(paper).exists() for paper in batch):
                break
        for left in self.folder.glob(".*.zip.part*"):
            left.unlink(missing_ok=True)
        if refused:
            raise SourceError(
                f"{self.api.base_url} refuses the PDFs of {len(refused)} submissions, {refused[0]} the first: set "
                "OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD to an account that may read them."
            )

    # ------------------------------------------------------------ many at once

    def _batch(self, batch: list[Paper]) -> int:
        """How many of the batch's PDFs came; 0 where the server does not give many at once."""
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
        """Put the PDFs of a zip into their places; those that are damaged stay out, and are asked for singly."""
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
        """False where the server refuses; what is not there, or no PDF, is noted."""
        incoming = self._incoming(paper)
        for address in (f"/pdf?id={paper.id}", paper.path or ""):
            if (status := self._asked(address, incoming)) in REFUSED:
                return False
            if status is None:
                if not self._admitted(paper, incoming, address):
                    self._note_without(paper, "what the server gives is no PDF")
                return True
        self._note_without(paper, "the server has none")
        return True

    def _asked(self, address: str, incoming: Path) -> int | None:
        """None where it came, else the status; a page where a PDF was expected counts as refused."""
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
        """Move what starts as a PDF to its place; remove what does not."""
        with incoming.open("rb") as file:
            start = file.read(1024)
        if b"%PDF-" not in start or incoming.stat().st_size > self.max_pdf_bytes:
            _remove(incoming)
            return False
        place, size = self.place(paper), incoming.stat().st_size
        facts = {"note": paper.id, "site_path": paper.path or ""}
        url = self.api.base_url + address.split("?")[0]
        note_fetch(place, url, size, {"sha256": sha256_of(incoming)}, facts)
        incoming.replace(place)
        _remove(incoming)
        return True

    def _download(self, address: str, place: Path, max_bytes: int) -> None:
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
        self.without[paper.id] = reason
        write_json(self.folder / WITHOUT, dict(sorted(self.without.items())))


def batches(todo: list[Paper]) -> Iterator[list[Paper]]:
    """Runs of up to BATCH_IDS; the last has no single paper, of which the server gives no zip."""
    rest = todo
    while rest:
        size = BATCH_IDS - 1 if len(rest) == BATCH_IDS + 1 else BATCH_IDS
        yield rest[:size]
        rest = rest[size:]


def _members(
    archive: zipfile.ZipFile, batch: list[Paper], max_pdf_bytes: int
) -> Iterator[tuple[zipfile.ZipInfo, Paper]]:
    """The members that are one paper's, each paper once, of a size that a PDF may have."""
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
    for ending in ("", ".part", *NOTES):
        remove(file.with_name(file.name + ending))
