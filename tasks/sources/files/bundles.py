"""Many small files as few units of work: folders cut into bundles, archives read as streams.

A file of 100 KB each is no unit of its own: files are dealt out, in the order of their paths, to bundles that end
where a file's hash says so, so that a file more or less changes one bundle and not all that follow. Archives (.zip,
.tar, packed .tar) are read where they lie: names of members are labels, never paths, and every member, and all of
them together, have a bound. A .zip is cut into ranges of its members, MAX_PIECES at most, a .tar is one piece.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from longform.artifacts.rows import Shard, Source
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.sources.files.archives import tar_members
from tasks.sources.files.found import WHOLE, check_access, fetched_at, files_in, ranges, refuse_bomb
from tasks.sources.files.lines import unpacked

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
ZIPS = (".zip",)
PACKED = (".gz", ".zst", ".bz2", ".xz")
LONGEST = 4
MAX_PIECES = 32  # each piece of a .zip reads the list of all members
MAX_DIRECTORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a bundle."""

    path: str
    sha256: str
    retrieved_at: str | None


@dataclass(frozen=True, slots=True)
class Bundle(Source):
    """Files that are read as one unit. Identity: their contents and when they were fetched, never their names."""

    files: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a piece. `fault` says why it is not to be read: empty file, too large, repeated file."""

    name: str
    sha256: str
    content: bytes
    retrieved_at: str | None
    fault: str | None = None


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
    """The files with one of `endings` in these files and folders, `mean` to a bundle, and the archives that hold any.

    An archive of several kinds of files is a source of each kind: nothing in it is passed over because of what comes
    first. Empty where there are none. Equal files count once.
    """
    found = sorted({file for path in paths for file in files_in(Path(path))})
    for file in found:
        check_access(file)
    archives = [file for file in found if file.name.lower().endswith((*TARS, *ZIPS))]
    plain = [file for file in found if _has(file.name, endings) and file not in set(archives)]
    bundles: list[Source] = [_bundle(files, group, facts) for files in _dealt(_listed(plain), mean)]
    held = [archive for archive in archives if first_member(archive, endings)]
    bundles += [_archive(archive, digest(archive), group, endings, mean, facts) for archive in held]
    return list({source.sha256: source for source in bundles}.values())


def _has(name: str, endings: Sequence[str]) -> bool:
    """Whether a file's name ends so, packed or not; files that systems hide do not count."""
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    unpacked_name = base.removesuffix(PurePosixPath(base).suffix) if base.endswith(PACKED) else base
    return any(each.endswith(tuple(endings)) for each in (base, unpacked_name)) and not base.startswith(".")


def _listed(files: Iterable[Path]) -> list[Listed]:
    found: dict[str, Listed] = {}
    for file in files:
        listed = Listed(str(file), sha256_of(file), fetched_at(file))
        found.setdefault(listed.sha256, listed)
    return list(found.values())


def _dealt(files: list[Listed], mean: int) -> Iterator[list[Listed]]:
    """Runs of files, `mean` long on average; where one ends is a matter of the hash of its last file."""
    held: list[Listed] = []
    for file in files:
        held.append(file)
        if int(file.sha256[:12], 16) % mean == 0 or len(held) == LONGEST * mean:
            yield held
            held = []
    if held:
        yield held


def _bundle(files: list[Listed], group: str, facts: Sequence[tuple[str, str | None]]) -> Bundle:
    contents = "\n".join(f"{file.sha256} {file.retrieved_at}" for file in files)
    sha256 = hashlib.sha256(contents.encode()).hexdigest()
    return Bundle(group, str(Path(files[0].path).parent), sha256, tuple(facts), (WHOLE,), tuple(files))


def _archive(
    file: Path, sha256: str, group: str, endings: Sequence[str], mean: int, facts: Sequence[tuple[str, str | None]]
) -> Source:
    when = fetched_at(file)
    pieces: tuple[tuple[int, int], ...] = (WHOLE,)
    if file.name.lower().endswith(ZIPS):
        with _zip(file) as archive:
            number = len(_wanted(archive, endings))
        pieces = ranges(number, max(mean, -(-number // MAX_PIECES)))
    return Source(group, str(file), sha256, (("retrieved_at", when), *facts), pieces)


def first_member(archive: Path, endings: Sequence[str]) -> str:
    """The name of the first member with one of `endings`; empty where there is none."""
    if archive.name.lower().endswith(ZIPS):
        with _zip(archive) as opened:
            return next((info.filename for info in opened.infolist() if _has(info.filename, endings)), "")
    return next((name for name, _, _ in tar_members(archive) if _has(name, endings)), "")


# ---------------------------------------------------------------- reading


def members(piece: Shard, *, endings: Sequence[str], max_bytes: int) -> Iterator[Member]:
    """The piece's files, one in memory at a time; those of other kinds are passed over."""
    if isinstance(piece.source, Bundle):
        yield from (_listed_member(file, max_bytes) for file in piece.source.files)
        return
    seen: set[str] = set()
    for member in _archived(piece, endings, max_bytes):
        yield replace(member, content=b"", fault="repeated file") if member.sha256 in seen else member
        seen.add(member.sha256)


def _archived(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[Member]:
    when = dict(piece.source.facts).get("retrieved_at")
    unread = hashlib.sha256(piece.source.sha256.encode())
    read = _zipped if piece.source.path.lower().endswith(ZIPS) else _tarred
    for name, content in read(piece, endings, max_bytes):
        if content is None:
            unread.update(name.encode(errors="replace"))
        yield _member(name, content, when, unread.hexdigest())


def _listed_member(file: Listed, max_bytes: int) -> Member:
    path = Path(file.path)
    content = _bounded(unpacked(path), max_bytes)
    member = _member(path.name, content, file.retrieved_at, file.sha256)
    if member.sha256 != file.sha256 and not path.name.lower().endswith(PACKED):
        raise SourceError(f"{path} changed while it was being read: run the same command again.")
    return member


def _member(name: str, content: bytes | None, when: str | None, unread: str) -> Member:
    """The member; `unread` is the hash of one that is too large, of which there is no content."""
    if content is None:
        return Member(name, unread, b"", when, "too large")
    return Member(name, hashlib.sha256(content).hexdigest(), content, when, None if content else "empty file")


def _bounded(blocks: Iterable[bytes], max_bytes: int) -> bytes | None:
    """The content; None where it is larger."""
    content = bytearray()
    for block in blocks:
        content += block
        if len(content) > max_bytes:
            return None
    return bytes(content)


# ---------------------------------------------------------------- zip


@contextmanager
def _zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, and what goes wrong with it translated."""
    _check_directory(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error, ValueError) as error:
        raise SourceError(f"{path} is damaged ({error}): fetch it again and compare its SHA-256.") from error
    except RuntimeError as error:  # what zipfile raises for an encrypted member
        raise SourceError(f"{path} is encrypted: decrypt it first, passwords are not taken.") from error


def _check_directory(path: Path) -> None:
    """SourceError where the list of members alone would fill the memory."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16) - 22))
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + 22:
        raise SourceError(f"{path} is truncated or no .zip: it does not end in a list of members; fetch it again.")
    if struct.unpack("<I", end[at + 12 : at + 16])[0] > MAX_DIRECTORY_BYTES:
        raise SourceError(f"{path} lists more members than are read at once: unpack it and give the folder.")


def _wanted(archive: zipfile.ZipFile, endings: Sequence[str]) -> list[zipfile.ZipInfo]:
    return [info for info in archive.infolist() if not info.is_dir() and _has(info.filename, endings)]


def _zipped(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[tuple[str, bytes | None]]:
    path, read = Path(piece.source.path), 0
    with _zip(path) as archive:
        for info in _wanted(archive, endings)[piece.start : piece.end]:
            with archive.open(info) as file:
                content = file.read(max_bytes + 1) if info.file_size <= max_bytes else None
            read += len(content or b"")
            refuse_bomb(path, read, path.stat().st_size)
            yield info.filename, content if content is not None and len(content) <= max_bytes else None


# ---------------------------------------------------------------- tar


def _tarred(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[tuple[str, bytes | None]]:
    for name, size, content in tar_members(Path(piece.source.path)):
        if _has(name, endings):
            yield name, b"".join(content) if size <= max_bytes else None
