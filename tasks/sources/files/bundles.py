"""Many small files as few units of work: folders cut into bundles, archives read as streams.

A file of 100 KB is too small for a unit of its own: files are grouped, in the order of their paths, into bundles. A
bundle ends after a file whose hash says so: adding or removing a file changes one bundle, not all that follow.
Archives (.zip, .tar, packed .tar) are not unpacked to disk: names of members are labels, never paths, and the size of
each member, and of all together, is bounded. A .zip is cut into ranges of its members, MAX_PIECES at most, a .tar is
one piece.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from longform.artifacts.rows import Shard, Source
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.sources.files.archives import LINK, tar_members
from tasks.sources.files.bombs import refuse_bomb
from tasks.sources.files.inputs import SIDE_FILE, WHOLE, check_access, cut_evenly, fetched_at, files_in, links_in
from tasks.sources.files.lines import unpacked

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
ZIPS = (".zip",)
PACKED = (".gz", ".zst", ".bz2", ".xz")
LONGEST = 4
MAX_PIECES = 32  # each piece of a .zip reads the list of all members
MAX_DIRECTORY_BYTES = 64 << 20
MAX_NOTES_BYTES = 128 << 10
MAX_NOTES = 100_000
REPEATED, NOT_FOLLOWED, TOO_LARGE = "repeated file", "link, not followed", "too large"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a bundle: path, hash of its content, when it was fetched (ISO 8601; None if unknown), and the text of
    its side file (`side_names`; "" without one). `fault`: why it is not read (a repeated file; a symbolic link, whose
    `sha256` is that of its path in the folder), or None. `repeats`: how many equal ones were listed before.
    """

    path: str
    sha256: str
    retrieved_at: str | None
    notes: str = ""
    fault: str | None = None
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class Bundle(Source):
    """A source made of several files, which one unit of work reads. Its `sha256` is that of the files' own hashes,
    names (without folders), fetch times and side files. `path` is the folder of the first file.
    """

    files: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle or archive. `name`: without folders in a bundle, as written in an archive. `content`:
    unpacked; `sha256`: of the content, but another hash if that is too large. `retrieved_at`: ISO 8601; None if
    unknown. `fault`: why the file must not be used (empty file, too large, repeated file, link), or None; with a
    fault `content` is b"". `notes`: the text of its side file, "" without one.
    """

    name: str
    sha256: str
    content: bytes
    retrieved_at: str | None
    fault: str | None = None
    notes: str = ""


# ---------------------------------------------------------------- opening


def open_bundles(
    paths: Iterable[Path | str],
    *,
    group: str,
    endings: Sequence[str],
    digest: Callable[[Path], str],
    mean: int,
    facts: Sequence[tuple[str, str | None]] = (),
) -> list[Source]:
    """Sources: first bundles of `mean` files on average, made of the files in `paths` whose names end in one of
    `endings` (in lower case; also with .gz, .zst, .bz2 or .xz after it); then each .zip or tar with a member of such a
    name, as a source of its own. Empty if there are no such files.

    `paths` are files and folders; the files are taken in the order of their paths. Of files and archives with equal
    contents only the first is used; the others, and symbolic links in folders, are in the bundles with a fault, so that
    each file is accounted for. `digest` gives the SHA-256 of an archive. `facts` are added to each
    source. SourceError for a path that does not exist, a file that may not be read, or a damaged archive; UsageError if
    the fetch time noted beside a file is ill-formed.
    """
    found = sorted({file for path in paths for file in files_in(Path(path))})
    for file in found:
        check_access(file)
    archives = [file for file in found if file.name.lower().endswith((*TARS, *ZIPS))]
    plain = [file for file in found if _has(file.name, endings) and file not in set(archives)]
    held = {archive: digest(archive) for archive in archives if first_member(archive, endings)}
    used = {sha256: archive for archive, sha256 in reversed(held.items())}
    again = [Listed(str(file), sha256, None, fault=REPEATED) for file, sha256 in held.items() if used[sha256] != file]
    listed = _numbered([*_listed(plain), *again, *_links(map(Path, paths), endings)])
    bundles: list[Source] = [_bundle(files, group, facts) for files in _dealt(listed, mean)]
    return bundles + [
        _archive(file, sha256, group, endings, mean, facts) for file, sha256 in held.items() if used[sha256] == file
    ]


def _has(name: str, endings: Sequence[str]) -> bool:
    """Whether the last part of the path `name`, in lower case, ends in one of `endings`, with or without .gz, .zst,
    .bz2 or .xz after it. False for a hidden file (its name begins with a dot).
    """
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    unpacked_name = base.removesuffix(PurePosixPath(base).suffix) if base.endswith(PACKED) else base
    return any(each.endswith(tuple(endings)) for each in (base, unpacked_name)) and not base.startswith(".")


def _listed(files: Iterable[Path]) -> Iterator[Listed]:
    """The files with their hashes and fetch times, in order; of files with equal contents all but the first with a
    fault.
    """
    seen: set[str] = set()
    for file in files:
        listed = Listed(str(file), sha256_of(file), fetched_at(file), _notes_beside(file))
        yield replace(listed, fault=REPEATED) if listed.sha256 in seen else listed
        seen.add(listed.sha256)


def _links(folders: Iterable[Path], endings: Sequence[str]) -> Iterator[Listed]:
    """The symbolic links in and below the folders whose names end in one of `endings`, or as archives do; never read.
    The hash is that of the path in the folder.
    """
    seen: set[Path] = set()
    for folder in folders:
        for link in (link for link in links_in(folder) if link not in seen):
            seen.add(link)
            if _has(link.name, endings) or link.name.lower().endswith((*TARS, *ZIPS)):
                place = f"link {link.relative_to(folder).as_posix()}".encode(errors="surrogateescape")
                yield Listed(str(link), hashlib.sha256(place).hexdigest(), None, fault=NOT_FOLLOWED)


def _numbered(files: Iterable[Listed]) -> list[Listed]:
    """The files, `repeats` set, so that no two are equal and no two bundles have the same hash."""
    counts: Counter[str] = Counter()
    found = []
    for file in files:
        found.append(replace(file, repeats=counts[file.sha256]))
        counts[file.sha256] += 1
    return found


def _dealt(files: list[Listed], mean: int) -> Iterator[list[Listed]]:
    """The files in lists of consecutive ones: `mean` long on average, at most LONGEST times that. A list ends after a
    file whose hash, as a number, is divisible by `mean`. No list is empty.
    """
    held: list[Listed] = []
    for file in files:
        held.append(file)
        if int(file.sha256[:12], 16) % mean == 0 or len(held) == LONGEST * mean:
            yield held
            held = []
    if held:
        yield held


def _bundle(files: list[Listed], group: str, facts: Sequence[tuple[str, str | None]]) -> Bundle:
    """The bundle of these files (at least one), as a source of one piece."""
    contents = "\n".join(
        f"{_signature(file)} {file.retrieved_at}" + (f" {file.fault} {file.repeats}" if file.fault else "")
        for file in files
    )
    sha256 = hashlib.sha256(contents.encode()).hexdigest()
    return Bundle(group, str(Path(files[0].path).parent), sha256, tuple(facts), (WHOLE,), tuple(files))


def _archive(
    file: Path, sha256: str, group: str, endings: Sequence[str], mean: int, facts: Sequence[tuple[str, str | None]]
) -> Source:
    """The archive as a source, with its fetch time among the facts; `sha256`: its hash. A .zip has pieces of `mean`
    members, or of more where these would be over MAX_PIECES; only members with one of `endings` count. A tar is one
    piece.
    """
    when = fetched_at(file)
    pieces: tuple[tuple[int, int], ...] = (WHOLE,)
    if file.name.lower().endswith(ZIPS):
        with _zip(file) as archive:
            number = len(_wanted(archive, endings))
        pieces = cut_evenly(number, max(mean, -(-number // MAX_PIECES)))
    return Source(group, str(file), sha256, (("retrieved_at", when), *facts), pieces)


def first_member(archive: Path, endings: Sequence[str]) -> str:
    """Name of the first member of a .zip or tar whose name ends in one of `endings`; "" if there is none. SourceError
    if the archive is damaged.
    """
    if archive.name.lower().endswith(ZIPS):
        with _zip(archive) as opened:
            return next((info.filename for info in opened.infolist() if _has(info.filename, endings)), "")
    return next((name for name, _, _ in tar_members(archive) if _has(name, endings)), "")


# ---------------------------------------------------------------- reading


def members(piece: Shard, *, endings: Sequence[str], max_bytes: int) -> Iterator[Member]:
    """The files of a piece, in order, one in memory at a time: all files of a bundle, or those members of an archive
    (of a .zip, of the piece's range) whose names end in one of `endings`.

    A file of more than `max_bytes` unpacked bytes, an empty one, a link, and one with the content of an earlier file of
    the folders, or member of the same piece of an archive, come with a `fault`. SourceError if a file is damaged or
    encrypted, if it unpacks to far more than text does (`refuse_bomb`), or if a file of a bundle changed (packed ones
    are not compared).
    """
    if isinstance(piece.source, Bundle):
        yield from (_listed_member(file, max_bytes) for file in piece.source.files)
        return
    seen: set[str] = set()
    for member in _archived(piece, endings, max_bytes):
        yield replace(member, content=b"", fault=REPEATED) if member.sha256 in seen else member
        seen.add(member.sha256)


def _archived(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[Member]:
    """The members of a piece of an archive whose names end in one of `endings`, in order. A member that is too large,
    or a link, is not read: its `sha256` is made of the archive's hash and of the names of all such members up to it.
    """
    when = dict(piece.source.facts).get("retrieved_at")
    unread = hashlib.sha256(piece.source.sha256.encode())
    notes = _notes_inside(Path(piece.source.path))
    read = _zipped if piece.source.path.lower().endswith(ZIPS) else _tarred
    for name, content in read(piece, endings, max_bytes):
        if isinstance(content, str):
            unread.update(name.encode(errors="replace"))
        member = _member(name, content, when, unread.hexdigest())
        yield replace(member, notes=next((notes[side] for side in side_names(name) if side in notes), ""))


def _listed_member(file: Listed, max_bytes: int) -> Member:
    """The file of a bundle, read and unpacked, with a fault if it is empty or too large; not read if it is listed with
    one. SourceError if its hash is not
    the listed one; a packed file (.gz, .zst, .bz2, .xz) and one that is too large are not compared.
    """
    path = Path(file.path)
    if file.fault:
        return Member(path.name, file.sha256, b"", file.retrieved_at, file.fault)
    content = _bounded(unpacked(path), max_bytes)
    member = replace(_member(path.name, content, file.retrieved_at, file.sha256), notes=file.notes)
    if member.sha256 != file.sha256 and not path.name.lower().endswith(PACKED):
        raise SourceError(f"{path} changed while it was being read: run the same command again.")
    return member


def _member(name: str, content: bytes | str, when: str | None, unread: str) -> Member:
    """The Member with the SHA-256 of its content, and with a fault if the content is empty. `content` as a text is the
    fault for which it was not read, and `unread` the `sha256`. `when`: when it was fetched.
    """
    if isinstance(content, str):
        return Member(name, unread, b"", when, content)
    return Member(name, hashlib.sha256(content).hexdigest(), content, when, None if content else "empty file")


def _bounded(blocks: Iterable[bytes], max_bytes: int) -> bytes | str:
    """The blocks joined; TOO_LARGE if they have more than `max_bytes` bytes, of which no more are then read."""
    content = bytearray()
    for block in blocks:
        content += block
        if len(content) > max_bytes:
            return TOO_LARGE
    return bytes(content)


# ---------------------------------------------------------------- side files


def side_names(name: str) -> list[str]:
    """The names that a file's side file may have, the likeliest first: <name>.fetch.json, and for TEI made of a PDF
    (a.tei.xml, a.grobid.tei.xml) that of the PDF (a.pdf.fetch.json).
    """
    base = next((name.removesuffix(each) for each in (".grobid.tei.xml", ".tei.xml") if name.endswith(each)), None)
    return [name + SIDE_FILE, *([f"{base}.pdf{SIDE_FILE}"] if base else [])]


def _signature(file: Listed) -> str:
    """What of a file determines its rows, but for the time it was fetched: its hash, name and side file's hash."""
    notes = hashlib.sha256(file.notes.encode("utf-8", "replace")).hexdigest() if file.notes else "-"
    return f"{file.sha256} {Path(file.path).name.encode('utf-8', 'replace').decode()} {notes}"


def _notes_beside(file: Path) -> str:
    """The text of the side file beside a file; "" if there is none, or it is longer than MAX_NOTES_BYTES."""
    found = (file.with_name(name) for name in side_names(file.name))
    place = next((place for place in found if place.is_file() and not place.is_symlink()), None)
    fits = place is not None and place.stat().st_size <= MAX_NOTES_BYTES
    return place.read_bytes().decode("utf-8", "replace") if place and fits else ""


def _notes_inside(archive: Path) -> dict[str, str]:
    """Name -> text of the side files in a .zip or tar, without those longer than MAX_NOTES_BYTES, which are damaged, or
    come after MAX_NOTES others.
    """
    found: dict[str, str] = {}
    if archive.name.lower().endswith(ZIPS):
        with _zip(archive) as opened:
            infos = [info for info in opened.infolist() if info.filename.endswith(SIDE_FILE)][:MAX_NOTES]
            return {
                info.filename: opened.read(info).decode("utf-8", "replace")
                for info in infos
                if info.file_size <= MAX_NOTES_BYTES
            }
    for name, size, content in tar_members(archive):
        if name.endswith(SIDE_FILE) and size <= MAX_NOTES_BYTES and len(found) < MAX_NOTES:
            found[name] = b"".join(content).decode("utf-8", "replace")
    return found


# ---------------------------------------------------------------- zip


@contextmanager
def _zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A context with the opened .zip, in which errors of damaged or encrypted archives become a SourceError on `path`.
    SourceError at once if the list of members is missing or too long (`_check_directory`).
    """
    _check_directory(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error, ValueError) as error:
        raise SourceError(f"{path} is damaged ({error}): fetch it again and compare its SHA-256.") from error
    except RuntimeError as error:  # what zipfile raises for an encrypted member
        raise SourceError(f"{path} is encrypted: decrypt it first, passwords are not taken.") from error


def _check_directory(path: Path) -> None:
    """SourceError if the .zip does not end in a list of members, or if this list has more than MAX_DIRECTORY_BYTES."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16) - 22))
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + 22:
        raise SourceError(f"{path} is truncated or no .zip: it does not end in a list of members; fetch it again.")
    if struct.unpack("<I", end[at + 12 : at + 16])[0] > MAX_DIRECTORY_BYTES:
        raise SourceError(f"{path} lists more members than are read at once: unpack it and give the folder.")


def _wanted(archive: zipfile.ZipFile, endings: Sequence[str]) -> list[zipfile.ZipInfo]:
    """The archive's files (no folders) whose names end in one of `endings`, in its order."""
    return [info for info in archive.infolist() if not info.is_dir() and _has(info.filename, endings)]


def _zipped(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[tuple[str, bytes | str]]:
    """(name, content) of the members of a .zip in the piece's range, which counts only members with one of `endings`.
    Instead of a content of more than `max_bytes` bytes, or that of a link, the fault. SourceError if the archive is
    damaged or encrypted, or unpacks to far more than text does (`refuse_bomb`).
    """
    path, read = Path(piece.source.path), 0
    with _zip(path) as archive:
        for info in _wanted(archive, endings)[piece.start : piece.end]:
            if stat.S_ISLNK(info.external_attr >> 16):
                yield info.filename, NOT_FOLLOWED
                continue
            with archive.open(info) as file:
                content = file.read(max_bytes + 1) if info.file_size <= max_bytes else None
            read += len(content or b"")
            refuse_bomb(path, read, path.stat().st_size)
            yield info.filename, content if content is not None and len(content) <= max_bytes else TOO_LARGE


# ---------------------------------------------------------------- tar


def _tarred(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[tuple[str, bytes | str]]:
    """(name, content) of all members of a tar whose names end in one of `endings`, in its order. Instead of a content
    of more than `max_bytes` bytes, or that of a link, the fault.
    """
    for name, size, content in tar_members(Path(piece.source.path), links=True):
        if _has(name, endings):
            yield name, NOT_FOLLOWED if size == LINK else b"".join(content) if size <= max_bytes else TOO_LARGE
