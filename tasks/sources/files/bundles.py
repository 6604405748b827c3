"""Many small files as few units of work: folders cut into bundles, archives read as streams.

A file of 100 KB is too small for a unit of its own: files are grouped, in the order of their paths, into bundles. A
bundle ends after a file whose hash says so: adding or removing a file changes one bundle, not all that follow.
Archives (.zip, .tar, packed .tar) are not unpacked to disk: names of members are labels, never paths, and the size of
each member, and of all together, is bounded. A .zip is cut into ranges of its members, MAX_PIECES at most, a .tar is
one piece.
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
from tasks.sources.files.inputs import WHOLE, check_access, cut_evenly, fetched_at, files_in, refuse_bomb
from tasks.sources.files.lines import unpacked

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
ZIPS = (".zip",)
PACKED = (".gz", ".zst", ".bz2", ".xz")
LONGEST = 4
MAX_PIECES = 32  # each piece of a .zip reads the list of all members
MAX_DIRECTORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a bundle: path, hash of its content, and when it was fetched (ISO 8601; None if unknown)."""

    path: str
    sha256: str
    retrieved_at: str | None


@dataclass(frozen=True, slots=True)
class Bundle(Source):
    """Files that one unit of work reads. Its identity depends on their contents and fetch times, not on their names."""

    files: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle or archive. `fault`: why it must not be used (empty file, too large, repeated file), or
    None; a file with a fault has no `content`.
    """

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
    """Bundles of `mean` files on average, made of the files in `paths` whose names end in one of `endings`; and each
    archive that has such a file, as a source of its own.

    `paths` are files and folders. Of files with equal contents one is used. An archive counts if any of its members has
    such a name, not only the first. `digest` gives the SHA-256 of an archive. Empty where there are no such files.
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
    """Whether the name ends in one of `endings`, with or without .gz, .zst, .bz2 or .xz after it. False for hidden
    files.
    """
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    unpacked_name = base.removesuffix(PurePosixPath(base).suffix) if base.endswith(PACKED) else base
    return any(each.endswith(tuple(endings)) for each in (base, unpacked_name)) and not base.startswith(".")


def _listed(files: Iterable[Path]) -> list[Listed]:
    """The files with their hashes and fetch times; of files with equal contents the first."""
    found: dict[str, Listed] = {}
    for file in files:
        listed = Listed(str(file), sha256_of(file), fetched_at(file))
        found.setdefault(listed.sha256, listed)
    return list(found.values())


def _dealt(files: list[Listed], mean: int) -> Iterator[list[Listed]]:
    """Runs of files in order, `mean` long on average, at most LONGEST times that. A run ends after a file whose hash is
    divisible by `mean`.
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
    contents = "\n".join(f"{file.sha256} {file.retrieved_at}" for file in files)
    sha256 = hashlib.sha256(contents.encode()).hexdigest()
    return Bundle(group, str(Path(files[0].path).parent), sha256, tuple(facts), (WHOLE,), tuple(files))


def _archive(
    file: Path, sha256: str, group: str, endings: Sequence[str], mean: int, facts: Sequence[tuple[str, str | None]]
) -> Source:
    """The archive as a source: a .zip in pieces of `mean` or more members, a tar as one piece."""
    when = fetched_at(file)
    pieces: tuple[tuple[int, int], ...] = (WHOLE,)
    if file.name.lower().endswith(ZIPS):
        with _zip(file) as archive:
            number = len(_wanted(archive, endings))
        pieces = cut_evenly(number, max(mean, -(-number // MAX_PIECES)))
    return Source(group, str(file), sha256, (("retrieved_at", when), *facts), pieces)


def first_member(archive: Path, endings: Sequence[str]) -> str:
    """Name of the archive's first member whose name ends in one of `endings`; empty where there is none."""
    if archive.name.lower().endswith(ZIPS):
        with _zip(archive) as opened:
            return next((info.filename for info in opened.infolist() if _has(info.filename, endings)), "")
    return next((name for name, _, _ in tar_members(archive) if _has(name, endings)), "")


# ---------------------------------------------------------------- reading


def members(piece: Shard, *, endings: Sequence[str], max_bytes: int) -> Iterator[Member]:
    """The files of a piece (a bundle, or a range of an archive's members) with one of `endings`, one in memory at a
    time.

    A file of more than `max_bytes` unpacked bytes, an empty one, and one with the content of an earlier member of the
    archive come with a `fault`.
    """
    if isinstance(piece.source, Bundle):
        yield from (_listed_member(file, max_bytes) for file in piece.source.files)
        return
    seen: set[str] = set()
    for member in _archived(piece, endings, max_bytes):
        yield replace(member, content=b"", fault="repeated file") if member.sha256 in seen else member
        seen.add(member.sha256)


def _archived(piece: Shard, endings: Sequence[str], max_bytes: int) -> Iterator[Member]:
    """The members of a piece of an archive. The `sha256` of one that is too large is made of the archive's hash and of
    names.
    """
    when = dict(piece.source.facts).get("retrieved_at")
    unread = hashlib.sha256(piece.source.sha256.encode())
    read = _zipped if piece.source.path.lower().endswith(ZIPS) else _tarred
    for name, content in read(piece, endings, max_bytes):
        if content is None:
            unread.update(name.encode(errors="replace"))
        yield _member(name, content, when, unread.hexdigest())


def _listed_member(file: Listed, max_bytes: int) -> Member:
    """The file of a bundle, read and unpacked. SourceError where its content is not what was listed."""
    path = Path(file.path)
    content = _bounded(unpacked(path), max_bytes)
    member = _member(path.name, content, file.retrieved_at, file.sha256)
    if member.sha256 != file.sha256 and not path.name.lower().endswith(PACKED):
        raise SourceError(f"{path} changed while it was being read: run the same command again.")
    return member


def _member(name: str, content: bytes | None, when: str | None, unread: str) -> Member:
    """The Member with its hash and fault. `content` None means too large: its `sha256` is then `unread`."""
    if content is None:
        return Member(name, unread, b"", when, "too large")
    return Member(name, hashlib.sha256(content).hexdigest(), content, when, None if content else "empty file")


def _bounded(blocks: Iterable[bytes], max_bytes: int) -> bytes | None:
    """The blocks joined; None where they have more than `max_bytes` bytes."""
    content = bytearray()
    for block in blocks:
        content += block
        if len(content) > max_bytes:
            return None
    return bytes(content)


# ---------------------------------------------------------------- zip


@contextmanager
def _zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The opened .zip. Within it, errors of damaged or encrypted archives become a SourceError on `path`."""
    _check_directory(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error, ValueError) as error:
        raise SourceError(f"{path} is damaged ({error}): fetch it again and compare its SHA-256.") from error
    except RuntimeError as error:  # what zipfile raises for an encrypted member
        raise SourceError(f"{path} is encrypted: decrypt it first, passwords are not taken.") from error


def _check_directory(path: Path) -> None:
    """SourceError where the file does not end in a list of members, or this list is too long for memory
    (MAX_DIRECTORY_BYTES).
    """
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
    """(name, content) of the members in the piece's range; content is None where it has more than `max_bytes` bytes."""
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
    """As `_zipped`, for all members of a tar with one of `endings`."""
    for name, size, content in tar_members(Path(piece.source.path)):
        if _has(name, endings):
            yield name, b"".join(content) if size <= max_bytes else None
