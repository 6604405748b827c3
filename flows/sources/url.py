"""Any file on the web, fetched whole and recorded beside it; what it may be used for is for you to find out."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.addresses import shown
from longform.errors import UsageError
from longform.files import read_json
from longform.net.download import Downloader, Progress, side_file

LONGEST_NAME = 200
KEPT_ENDINGS = (".part", ".part.json", ".fetch.json")  # of what stands beside a file

TERMS = Terms(
    what="any file behind an address",
    licence="not known: what its owner says",
    attribution="the address, kept beside the file",
)

DEFECTS = (
    Defect(
        "What stands behind an address may change or go; only a checksum tells.",
    ),
)


class Fetch(BaseModel):
    sha256: str | None = Field(None, pattern=r"^[0-9a-fA-F]{64}$", description="its SHA-256, if known")
    md5: str | None = Field(None, pattern=r"^[0-9a-fA-F]{32}$", description="its MD5, if known")
    size: int | None = Field(None, ge=0, description="its bytes, if known")
    name: str | None = Field(None, description="what the file is called here; else as the address ends")


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch the files at these http(s) URLs. Settings for digest, size and name are allowed for a single file only."""
    file_settings = config.model_fields_set & {"sha256", "md5", "size", "name"}
    if len(what) > 1 and file_settings:
        raise UsageError(
            f"{', '.join(sorted(file_settings))} is of one file, but {len(what)} are asked for: fetch them one by one."
        )
    places = {url: folder / (file_name(config.name) if config.name else name_of(url)) for url in what}
    if len(set(places.values())) < len(places):
        raise UsageError("Two of these addresses end in the same name: fetch them one by one, each with its own --to.")
    for url, place in () if config.sha256 or config.md5 else places.items():
        _check_same_address(url, place)
    return [
        http.download(url, place, size=config.size, sha256=config.sha256, md5=config.md5, progress=progress).path
        for url, place in places.items()
    ]


def _check_same_address(url: str, place: Path) -> None:
    """UsageError if the file at `place` was fetched from another address, queries aside: else the file of the one would
    be taken for that of the other, as both have the same name.
    """
    noted = read_json(side_file(place)) if place.exists() else None
    before = noted.get("url") if isinstance(noted, dict) else None
    if before not in (None, shown(url)):
        raise UsageError(
            f"{place} was fetched from {before}, not from {shown(url)}: give another --to, or a name with --set name=…"
        )


def name_of(url: str) -> str:
    """A file name made from the last segment of a URL's path, percent-decoded, or `index.html` if there is none.
    UsageError if the URL is malformed, or the segment cannot be a file name (see `file_name`).
    """
    try:
        last = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    except ValueError:
        raise UsageError(f"{shown(url)} is no address: correct it.") from None
    return file_name(last or "index.html")


def file_name(name: str) -> str:
    """The name unchanged if it is a plain file name. UsageError if it is empty, a path, hidden, has characters that
    cannot be printed, more than LONGEST_NAME bytes, or one of KEPT_ENDINGS, which belong to the notes of downloads.
    """
    odd = not name or not name.isprintable() or name.startswith(".") or re.search(r"[/\\]", name)
    if odd or name.endswith(KEPT_ENDINGS) or len(name.encode()) > LONGEST_NAME:
        raise UsageError(f"{name[:80]!r} cannot be the name of a file: give one with --set name=…")
    return name
