"""Tables of a Stack Exchange data dump as rows: Posts.xml, Users.xml, PostLinks.xml, plain or inside a .7z.

    <?xml version="1.0" encoding="utf-8"?>
    <users>
      <row Id="7" Reputation="101" CreationDate="2014-01-21T15:02:40.313" DisplayName="Hop &amp; Ale" ... />
    </users>

The root element is the table's name. A byte order mark and comments may stand before it. Rows are found without
a parser of the whole file, as one illegal character in one row would end it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from lxml import etree

from longform.artifacts.rows import Shard, Source
from longform.errors import SourceError
from tasks.sources.files import archives
from tasks.sources.files.inputs import RAW_CHARS, WHOLE, cut_evenly

PIECE_BYTES = 32 << 20
BLOCK_BYTES = 1 << 20
HEAD_BYTES = 64 << 10
MAX_ROW_BYTES = 16 << 20
POSTLINKS = "postlinks"
MAY_BE_EMPTY = (POSTLINKS,)  # a young site may have no links

_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)
_PROLOGUE = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*+", re.DOTALL)
_ROOT = re.compile(rb"<([A-Za-z]+)[\s/>]")
_ILLEGAL = re.compile(
    rb"&#(x[0-9a-fA-F]+|[0-9]+);|[\x00-\x08\x0b\x0c\x0e-\x1f]|\xed[\xa0-\xbf][\x80-\xbf]|\xef\xbf[\xbe\xbf]"
)


def open_beside(dumps: Iterable[Source], table: str, digest: Callable[[Path], str]) -> list[Source]:
    """The sources of a further table (users, postlinks) for these dumps of posts: in the same archive, or in a file
    beside that of the posts.

    A dump without the table has no source in the list. `digest` computes the SHA-256 of a file. Raises SourceError if a
    file of the table is damaged, or holds no rows where it must.
    """
    found = ((dump, _file_beside(Path(dump.path), table)) for dump in dumps)
    return [
        Source(dump.group, str(file), digest(file), (("table", table),), pieces_of(file, table))
        for dump, file in found
        if file is not None
    ]


def _file_beside(posts: Path, table: str) -> Path | None:
    """The file of a table for a file of posts; None if there is none.

    Beside Posts.xml it is e.g. Users.xml, beside `x-Posts.7z` `x-Users.7z`; any other archive may hold both.
    """
    name = file_name(table)
    if not is_archive(posts):
        return _beside(posts, name)
    if posts.stem.lower().endswith("-posts"):
        return _beside(posts, f"{posts.stem[:-6]}-{Path(name).stem}.7z")
    return posts if archives.holds(posts, name) else None


def _beside(file: Path, name: str) -> Path | None:
    """The file called `name`, in any case, in the folder of `file`; None if there is none. A symbolic link is none."""
    files = (other for other in sorted(file.parent.iterdir()) if not other.is_symlink())
    return next((other for other in files if other.name.lower() == name.lower()), None)


def pieces_of(file: Path, table: str, piece_bytes: int = PIECE_BYTES) -> tuple[tuple[int, int], ...]:
    """Byte ranges of `piece_bytes` each that make up a plain file; (WHOLE,) for an archive.

    Raises SourceError if the file does not hold the table.
    """
    if is_archive(file):
        archives.check(file, file_name(table))
        return (WHOLE,)
    check_table(file, table)
    return cut_evenly(file.stat().st_size, piece_bytes)


def is_archive(file: Path) -> bool:
    """Whether a file is a .7z archive, by its name or its first bytes."""
    if file.suffix.lower() == ".7z":
        return True
    with file.open("rb") as stream:
        return stream.read(len(archives.MAGIC)) == archives.MAGIC


def check_table(file: Path, table: str) -> None:
    """Check that a plain (not packed) file is a whole table with rows.

    Raises SourceError if it does not start as XML with the table's name as root, does not end with its closing tag, or
    has no row in its first HEAD_BYTES, unless the table is one of MAY_BE_EMPTY.
    """
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        stream.seek(max(0, file.stat().st_size - 256))
        end = stream.read().rstrip()
    body = _body_start(head, table, str(file))
    if not _is_whole(head[:body], end, table):
        raise SourceError(f"{file} is truncated: it does not end in </{table}>; fetch it again.")
    if b"<row" not in head[body:] and table not in MAY_BE_EMPTY:
        raise SourceError(f"{file} is an empty dump, without a single row: leave it out.")


def _is_whole(start: bytes, end: bytes, table: str) -> bool:
    """Whether the table is complete: it ends with its closing tag, or its opening tag closes itself (`<posts/>`).

    `start`: the file up to the end of the opening tag; `end`: its last bytes.
    """
    return start.endswith(b"/>") or end.endswith(f"</{table}>".encode())


def file_name(table: str) -> str:
    """The name of a table's file in dumps: posts -> Posts.xml, postlinks -> PostLinks.xml."""
    return "PostLinks.xml" if table == POSTLINKS else f"{table.capitalize()}.xml"


def _body_start(head: bytes, table: str, subject: str) -> int:
    """The offset right after the opening tag of the table.

    Raises SourceError if `head`, the beginning of the file, has no such tag, or that of another table. `subject`: the
    file, for the message.
    """
    match = _PROLOGUE.match(head)
    start = match.end() if match else 0
    root = _ROOT.match(head, start)
    if root is None or b">" not in head[start:]:
        raise SourceError(f"{subject} is no dump of {table}: it does not start as XML; give a {file_name(table)}.")
    if root[1] != table.encode():
        name = root[1].decode()
        raise SourceError(
            f"{subject} is no dump of {table}: its root element is <{name}>, not <{table}>; give {file_name(table)}."
        )
    return head.index(b">", start) + 1


def table_bytes(piece: Shard, table: str) -> float:
    """Size of the shard in bytes, unpacked: of an archive what it states itself, or an upper bound.

    Raises SourceError if an archive is damaged, or has no file of the table.
    """
    if (piece.start, piece.end) != WHOLE:
        return piece.end - piece.start
    return archives.unpacked_bytes(Path(piece.source.path), file_name(table))


def read_rows(piece: Shard, table: str) -> Iterator[bytes]:
    """The `<row .../>` elements of a shard, as bytes, in constant memory. A byte range has the rows that start in it.

    Raises SourceError if the file is no dump of the table; of an archive also if it is damaged, or the table is
    truncated or has no row.
    """
    file, start = Path(piece.source.path), piece.start
    if (piece.start, piece.end) == WHOLE:
        yield from _archived_rows(file, table)
        return
    with file.open("rb") as stream:
        start = max(start, _body_start(stream.read(HEAD_BYTES), table, str(file)))
        if start < piece.end:
            stream.seek(start)
            yield from split_rows(iter(lambda: stream.read(BLOCK_BYTES), b""), stop=piece.end - start)


def _archived_rows(file: Path, table: str) -> Iterator[bytes]:
    """The rows of a table in an archive.

    Raises SourceError if there is none (unless the table is one of MAY_BE_EMPTY), the archive is damaged, the root is
    that of another table, or, after the last row, if the table is truncated.
    """
    rows = split_rows(_body(archives.member_blocks(file, file_name(table)), table, str(file)))
    first = next(rows, None)
    if first is None:
        if table in MAY_BE_EMPTY:
            return
        raise SourceError(f"{file} is an empty dump, without a single row: leave it out.")
    yield first
    yield from rows


def _body(blocks: Iterator[bytes], table: str, subject: str) -> Iterator[bytes]:
    """The blocks of a table after its opening tag.

    Raises SourceError at the beginning if there is no such tag, and at the end of the stream if the closing tag is
    missing. `subject`: the file, for the message.
    """
    head = b""
    while len(head) < HEAD_BYTES and (block := next(blocks, b"")):
        head += block
    start, end = _body_start(head, table, subject), head[-256:]
    yield head[start:]
    for block in blocks:
        end = (end + block)[-256:]
        yield block
    if not _is_whole(head[:start], end.rstrip(), table):
        raise SourceError(
            f"{file_name(table)} in {subject} is truncated: it does not end in </{table}>; fetch it again."
        )


def split_rows(blocks: Iterable[bytes], *, stop: int | None = None) -> Iterator[bytes]:
    """The rows that start before offset `stop` (None: all rows), however rows and lines are laid out.

    Offsets count from the beginning of the first block. In attributes a "<" is always escaped, so every "<row" begins
    a row. Of a row over MAX_ROW_BYTES only "<row" and the RAW_CHARS bytes after it are returned, which no parser
    accepts.
    """
    tail, offset, inside = b"", 0, False
    for block in chain(blocks, (b"<row",)):
        parts = (tail + block).split(b"<row")
        tail = parts.pop()
        for part in parts:
            if inside:
                yield _row(part)
            offset += len(part)
            if stop is not None and offset >= stop:
                return
            offset, inside = offset + 4, True
        if len(tail) > MAX_ROW_BYTES:
            if inside:
                yield b"<row" + tail[:RAW_CHARS]
            offset, inside, tail = offset + len(tail) - 3, False, tail[-3:]


def _row(part: bytes) -> bytes:
    """The row in `part`, which is what stands between two "<row" or after the last, without anything after its "/>".

    Without a "/>" it is all of `part`, without white space at its end.
    """
    end = part.rfind(b"/>")
    return b"<row" + (part.rstrip() if end < 0 else part[: end + 2])


def row_parser() -> etree.XMLParser:
    """An XML parser that resolves no entities, and loads neither DTDs nor anything from the network."""
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


def parse_row(row: bytes, parser: etree.XMLParser) -> tuple[etree._Element, int]:
    """(the parsed row, the number of illegal characters that were removed so that it could be parsed).

    Raises XMLSyntaxError if it is still malformed.
    """
    try:
        return etree.fromstring(row, parser), 0
    except etree.XMLSyntaxError:
        repaired, repairs = repair(row)
        return etree.fromstring(repaired, parser), repairs


def repair(row: bytes) -> tuple[bytes, int]:
    """(the row without characters and numeric references that XML 1.0 forbids, the number of those removed)."""
    removed = 0

    def keep(match: re.Match[bytes]) -> bytes:
        nonlocal removed
        if match[1] and _is_legal(match[1].decode()):
            return match[0]
        removed += 1
        return b""

    return _ILLEGAL.sub(keep, row), removed


def moment_of(text: str) -> datetime | None:
    """The date and time in UTC, without a zone, as dumps write it.

    None if the text is no date, or not in the years 1 to 9999.
    """
    try:
        when = datetime.fromisoformat(text)
        return when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # of a zone that moves it out of the years 1 to 9999
        return None


def milliseconds(when: datetime) -> int:
    """Milliseconds since 1970 of a moment in UTC, without a zone."""
    return (when - _EPOCH) // _MILLISECOND


def _is_legal(reference: str) -> bool:
    """Whether XML 1.0 allows the character of a numeric reference, given as its digits: 10 or, hexadecimal, xA."""
    digits, base = (reference[1:], 16) if reference[0] == "x" else (reference, 10)
    code = int(digits.lstrip("0")[:10] or "0", base)
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF
