"""Members of .7z and tar archives as streams of bytes, in constant memory; members are never written under their
names.

    stackoverflow.com-Posts.7z   -> Posts.xml
    beer.stackexchange.com.7z    -> Badges.xml, ..., Posts.xml, ...
    beer.stackexchange.com.7z    -> beer.stackexchange.com.7z -> Posts.xml      (a few dumps of 2024)

A .7z keeps its list of members at its end, so a truncated download is seen at opening; damage inside shows only
while reading (checksums). Members before the wanted one are decompressed as well: an archive cannot be entered
in its middle. A .7z is read with libarchive where the system has it, else with py7zr, which needs no system library
but can only be read through a pipe, from a thread.

A tar is 512-byte blocks: a header (name, size, kind), the content, zeros up to a full block, and so on, and a
block of zeros at the end. Members other than plain files (folders, links, devices) are skipped; so are headers of long
names beyond MAX_NAME_BYTES: the reader of `tarfile` loads those into memory whole, however large they say they are,
and keeps a record of every member it saw.
"""

from __future__ import annotations

import ctypes
import os
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from longform.errors import SourceError
from tasks.sources.files.bombs import LARGEST_RATIO, RATIO_FROM_BYTES, refuse_bomb
from tasks.sources.files.lines import unpacked

MAGIC = b"7z\xbc\xaf\x27\x1c"
BLOCK_BYTES = 1 << 20
DEEPEST = 3
MOST_FILES = 10_000
MAX_NAME_BYTES = 64 << 10
LINK = -1

_TAR_BLOCK = 512
_LONG_NAMES = b"L"
_EXTENDED = b"x"
_NO_CONTENT = {tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE}


def check(path: Path, member: str) -> None:
    """SourceError unless `path` is a complete, unencrypted .7z that has one file called `member`, not empty, or one .7z
    inside that may have it (which is not opened), or if it states far more unpacked bytes than text has
    (`refuse_bomb`). Only the list of members is read, no content.
    """
    with path.open("rb") as file:
        _choose(file, member, subject=str(path))


def holds(path: Path, member: str) -> bool:
    """Whether the .7z has a file called `member` (in upper or lower case) that is not empty, in any folder. Archives
    inside are not searched. SourceError if the archive is damaged or encrypted.
    """
    with path.open("rb") as file:
        return any(_is_called(name, member) and size for name, size in _sizes(file, str(path)).items())


def unpacked_bytes(path: Path, member: str) -> float:
    """Unpacked bytes of the file called `member`, as the .7z states them; if only a .7z inside may have it, the most
    that this one may unpack to (LARGEST_RATIO times its size, at least RATIO_FROM_BYTES). SourceError in the cases of
    `check`.
    """
    with path.open("rb") as file:
        name = _choose(file, member, subject=str(path))
        size = _sizes(file, str(path))[name]
    return size if _is_called(name, member) else max(RATIO_FROM_BYTES, LARGEST_RATIO * size)


def member_blocks(path: Path, member: str) -> Iterator[bytes]:
    """The unpacked content of the file called `member` of a .7z, in blocks. It may be in any folder, and in a .7z
    inside the .7z, at most DEEPEST deep. SourceError if there is no such file, more than one or an empty one, if the
    archive is damaged or encrypted, or if it unpacks to far more than text does (`refuse_bomb`).
    """
    with path.open("rb") as file:
        yield from _descend(file, member, subject=str(path), depth=1)


def _descend(file: IO[bytes], member: str, *, subject: str, depth: int) -> Iterator[bytes]:
    """The content of `member` of an open .7z, in blocks. If the .7z has no such file, the archive inside that
    `_choose` names is unpacked to a temporary file and searched in turn. SourceError as in `_choose` and `_bounded`,
    and if archive number DEEPEST does not hold the member either. `depth`: 1 for the outermost archive. `subject`:
    what messages call the archive.
    """
    name = _choose(file, member, subject=subject)
    if _is_called(name, member):
        yield from _bounded(file, name, subject)
        return
    if depth == DEEPEST:
        raise SourceError(f"{subject} nests archives {depth} deep without {member}: unpack it and give that file.")
    with tempfile.TemporaryFile() as inner:
        for block in _bounded(file, name, subject):
            inner.write(block)
        yield from _descend(inner, member, subject=f"{subject} ({name})", depth=depth + 1)


def _bounded(file: IO[bytes], name: str, subject: str) -> Iterator[bytes]:
    """The unpacked content of the .7z's member with the full name `name`, in blocks. SourceError if it is damaged, or
    if it unpacks to far more bytes than text does for the size of the archive (`refuse_bomb`).
    """
    packed, read, libarchive = file.seek(0, 2), 0, _libarchive()
    file.seek(0)
    blocks = libarchive_blocks(libarchive, file, name, subject) if libarchive else py7zr_blocks(file, name, subject)
    for block in blocks:
        read += len(block)
        refuse_bomb(f"{name} in {subject}", read, packed)
        yield block


def _choose(file: IO[bytes], member: str, *, subject: str) -> str:
    """Full name of the .7z's one file called `member`; else of the one archive inside whose name ends in
    `-<member without its ending>.7z`; else of the one archive inside. SourceError if the first of these kinds of which
    there is any has more than one file or an empty one, if there is none of any kind, or if the archive states
    far more unpacked bytes than text has (`refuse_bomb`).
    """
    sizes = _sizes(file, subject)
    refuse_bomb(subject, sum(sizes.values()), file.seek(0, 2))  # also for what stands before the member
    names = list(sizes)
    table = f"-{PurePosixPath(member).stem}.7z".lower()
    archives = [name for name in names if name.lower().endswith(".7z")]
    for found in (
        [name for name in names if _is_called(name, member)],
        [name for name in archives if name.lower().endswith(table)],
        archives,
    ):
        if len(found) > 1:
            raise SourceError(f"{subject} holds {len(found)} files called {member} or archives of it: unpack one.")
        if found and not sizes[found[0]]:
            raise SourceError(f"{subject} holds {found[0]}, but it is empty: fetch it again.")
        if found:
            return found[0]
    listed = ", ".join(names[:5]) or "nothing"
    raise SourceError(f"{subject} holds no {member} (but {listed}): fetch the archive of posts.")


def _is_called(name: str, member: str) -> bool:
    """Whether the last part of the path `name` equals `member`, ignoring case. Both / and \\ separate parts."""
    return PurePosixPath(name.replace("\\", "/")).name.lower() == member.lower()


def _sizes(file: IO[bytes], subject: str) -> dict[str, int]:
    """Full name -> unpacked bytes, as stated, of each file in the .7z, in the archive's order. SourceError if the
    archive is damaged, encrypted or no .7z, or lists more than MOST_FILES entries.
    """
    py7zr = _py7zr()
    _check_header(file, subject)
    with _readable(subject), py7zr.SevenZipFile(file) as archive:
        if archive.needs_password():
            raise py7zr.PasswordRequired(subject)
        return {info.filename: info.uncompressed for info in archive.list() if info.is_file}


def _py7zr() -> Any:
    """The module py7zr, with its limits for the list of members lowered: MOST_FILES entries, and 1,024 bytes for each.
    With its own limits a file of a kilobyte may list millions of empty files.
    """
    import py7zr
    from py7zr import archiveinfo

    archiveinfo.MAX_NUMFILES = archiveinfo.MAX_NUMFOLDERS = archiveinfo.MAX_SUBSTREAMS = MOST_FILES
    archiveinfo.MAX_HEADER_SIZE = MOST_FILES << 10
    return py7zr


def _check_header(file: IO[bytes], subject: str) -> None:
    """SourceError if the file is no .7z, if its first 32 bytes are damaged, or if it ends before the end of its list of
    members. Leaves the file's position at 0.
    """
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(32)
    if not start.startswith(MAGIC):
        raise SourceError(f"{subject} is no 7z archive (its first bytes are another format's): fetch it again.")
    if len(start) < 32 or zlib.crc32(start[12:]) != struct.unpack("<I", start[8:12])[0]:
        raise SourceError(f"{subject} is truncated or damaged in its first 32 bytes: fetch it again.")
    offset, length = struct.unpack("<QQ", start[12:28])
    if 32 + offset + length > size:
        raise SourceError(f"{subject} is truncated: it has {size} of {32 + offset + length} bytes: fetch it again.")
    file.seek(0)


def _libarchive() -> Any:
    """The module libarchive, or None where the binding or the system's library is missing."""
    try:
        import libarchive
    except (ImportError, OSError, AttributeError, TypeError):
        return None
    return libarchive


def libarchive_blocks(libarchive: Any, file: IO[bytes], name: str, subject: str) -> Iterator[bytes]:
    """The unpacked content of the .7z's member with the full name `name`, in blocks of at most BLOCK_BYTES, read
    through the module `libarchive`. SourceError if there is no such member, or it is damaged.

    Does not use the binding's own `get_blocks`, which yields stale bytes where libarchive warns of a bad checksum.
    """
    try:
        with libarchive.read.new_archive_read("7zip", "none") as archive:
            libarchive.ffi.read_open_fd(archive, file.fileno(), BLOCK_BYTES)
            if not any(entry.pathname == name for entry in libarchive.read.ArchiveRead(archive)):
                raise SourceError(_damaged(subject, f"{name} was not found"))
            buffer = ctypes.create_string_buffer(BLOCK_BYTES)
            while size := libarchive.ffi.read_data(archive, buffer, BLOCK_BYTES):
                if size < 0:
                    raise SourceError(_damaged(subject, "wrong checksum"))
                yield ctypes.string_at(buffer, size)
    except libarchive.ArchiveError as error:
        raise SourceError(_damaged(subject, error)) from error


def py7zr_blocks(file: IO[bytes], name: str, subject: str) -> Iterator[bytes]:
    """The unpacked content of the .7z's member with the full name `name`, in blocks of at most BLOCK_BYTES, read
    through py7zr: a thread unpacks into a pipe, from which the blocks are read. The thread ends with the iterator, even
    if that is closed early. SourceError if the member is damaged.
    """
    end, start = os.pipe()
    with ThreadPoolExecutor(1) as pool, _readable(subject):
        pushed = pool.submit(_push, file, name, start)
        with open(end, "rb", BLOCK_BYTES) as pipe:
            yield from iter(partial(pipe.read, BLOCK_BYTES), b"")
        pushed.result()


def _push(file: IO[bytes], name: str, start: int) -> None:
    """Unpack the .7z's member `name` into the pipe whose writing end is the file descriptor `start`; close that end."""
    from py7zr.io import WriterFactory

    class Piped(WriterFactory):
        def create(self, filename: str) -> Any:
            return pipe

    with open(start, "wb") as pipe, _py7zr().SevenZipFile(file) as archive:
        archive.extract(targets=[name], factory=Piped())


@contextmanager
def _readable(subject: str) -> Iterator[None]:
    """A context in which any exception becomes a SourceError on `subject`: encrypted if py7zr asks for a password, else
    damaged, as py7zr may raise nearly any exception for damaged input.
    """
    import py7zr

    try:
        yield
    except py7zr.PasswordRequired as error:
        raise SourceError(f"{subject} is encrypted: decrypt it first, passwords are not taken.") from error
    except Exception as error:
        raise SourceError(_damaged(subject, error)) from error


def _damaged(subject: str, why: object) -> str:
    """The message for a damaged archive: `subject` says which one, `why` what was found."""
    return f"{subject} is damaged ({why}): fetch it again and compare its SHA-256."


# ---------------------------------------------------------------- tar


def tar_members(path: Path, *, links: bool = False) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """(name as written, unpacked bytes, content in blocks) of each plain file of a tar, in the archive's order; the tar
    may be packed as gzip, zstd, bzip2 or xz. `links`: symbolic and hard links come as well, with LINK for their bytes
    and no content; they are never followed.

    The content must be read before the next file is asked for; what is not read of it is skipped. A long name of more
    than MAX_NAME_BYTES is ignored: the file then has the short one of its header. SourceError if the archive is
    damaged, ends before its closing block of zeros, or unpacks to far more than text does (`refuse_bomb`).
    """
    stream, name = _Stream(unpacked(path), path), ""
    while header := _tar_header(stream):
        end = stream.at + header.size
        if header.type == _LONG_NAMES and header.size <= MAX_NAME_BYTES:
            name = stream.read(header.size).rstrip(b"\0").decode(errors="replace")
        elif header.type == _EXTENDED and header.size <= MAX_NAME_BYTES:
            name = _extended_name(stream.read(header.size)) or name
        else:
            if header.isreg():
                yield name or header.name, header.size, stream.take(header.size)
            elif links and (header.issym() or header.islnk()):
                yield name or header.name, LINK, iter(())
            name = ""
        stream.skip(end - stream.at + -header.size % _TAR_BLOCK)
    for _ in stream.blocks:
        pass  # so that a damaged packing is noticed


def _tar_header(stream: _Stream) -> tarfile.TarInfo | None:
    """The header in the next block; None at the archive's end, which is a block of zeros. The size is 0 for folders,
    links and devices, which have no content. SourceError if the header is damaged or the stream ends.
    """
    block = stream.read(_TAR_BLOCK)
    if not block.strip(b"\0"):
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except tarfile.HeaderError as error:
        raise SourceError(f"{stream.path} is no tar archive, or a damaged one ({error}): fetch it again.") from error
    if header.size < 0:
        raise SourceError(f"{stream.path} is damaged (a member of negative size): fetch it again.")
    if header.type in _NO_CONTENT:
        header.size = 0
    return header


def _extended_name(content: bytes) -> str:
    """The path in the content of a PAX header, where it stands as a line `<length> path=<name>`; "" if it has none."""
    fields = (line.partition(b" ")[2] for line in content.split(b"\n"))
    return next((field[5:].decode(errors="replace") for field in fields if field.startswith(b"path=")), "")


class _Stream:
    """Reads an iterator of blocks by numbers of bytes. `at`: how many bytes were read or skipped so far. `path`: what
    messages name.
    """

    def __init__(self, blocks: Iterator[bytes], path: Path) -> None:
        self.blocks, self.path = blocks, path
        self.held, self.offset, self.at = b"", 0, 0

    def read(self, size: int) -> bytes:
        """The next `size` bytes. SourceError if the input ends before that."""
        return b"".join(self.take(size))

    def skip(self, size: int) -> None:
        """Pass over the next `size` bytes. SourceError if the input ends before that."""
        for _ in self.take(size):
            pass

    def take(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes, in blocks. SourceError if the input ends before that."""
        while size:
            if self.offset == len(self.held):
                self.held, self.offset = next(self.blocks, b""), 0
            if not self.held:
                raise SourceError(f"{self.path} is truncated: its last member is not whole; fetch it again.")
            found = self.held[self.offset : self.offset + size]
            self.offset += len(found)
            self.at += len(found)
            size -= len(found)
            yield found
