"""Reddit's monthly dumps: RC_2024-01.zst (comments) and RS_2024-01.zst (submissions), one JSON object a line.

    {"id": "kod0b1", "link_id": "t3_1afw2c", "parent_id": "t3_1afw2c", "subreddit": "explainlikeimfive",
     "author": "some_name", "body": "Salt &amp; ice", "score": 12, "created_utc": 1706745600, "edited": false,
     "retrieved_on": 1706745615, "_meta": {"retrieved_2nd_on": 1706875209}, ...}
    {"id": "1afw2c", "title": "ELI5: Why?", "selftext": "", "is_self": true, "subreddit": "explainlikeimfive", ...}

Whether a record is a comment or a submission is read from its fields, not from the file's name. created_utc is a
number, a string of one, or a float, depending on the month; score may be null; name, permalink and author are missing
in some years; parent_id may be a bare number, or null where the comment answers the submission. Ids count in base 36.
Text is Markdown whose &, < and > are escaped once. Text that is gone reads [deleted] (by its author) or [removed] (by
moderators); since 2023-11 each item was read again after 36 hours, and one that had gone by then keeps its text beside
_meta.was_deleted_later: it is left out all the same, as Reddit's terms ask. Frames of .zst want a window of 2^31 bytes.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash

from longform.artifacts.rows import Rejected, Shard, Source
from longform.engine.stage import StageContext, stage
from longform.pseudonyms import NoAuthors, Pseudonyms
from schemas.sources.reddit import ITEMS
from tasks.sources.files.batches import batch_of, batched
from tasks.sources.files.inputs import RAW_CHARS, files_in, open_files, raw_text, retrieved_at, text_or_none
from tasks.sources.files.lines import block_rows, read_lines

GROUP = "reddit"
ENDINGS = (".zst", ".zst_blocks", ".bz2", ".xz", ".gz", ".jsonl", ".ndjson")
_UNPACKED = re.compile(r"R[CS]_\d{4}-\d{2}|[\w-]+_(?:comments|submissions)")
LICENCE = "Reddit User Agreement"
PIECE_BYTES = 64 << 20
BATCH_ROWS = 2_000
BATCH_BYTES = 16 << 20
LAST_SECOND = 253_402_300_799  # the end of the year 9999
LARGEST_VOTES = (1 << 31) - 1

BY_AUTHOR, BY_MODERATORS, BY_REDDIT = "deleted by its author", "removed by moderators", "removed by Reddit"
LATER = "deleted or removed later"
_TEXTS_OF_NOTHING = {"[deleted]": BY_AUTHOR, "[deleted by user]": BY_AUTHOR, "[removed]": BY_MODERATORS}
_BY_REDDIT = "[ removed by reddit"
_CATEGORIES = {
    "deleted": BY_AUTHOR,
    "author": BY_AUTHOR,
    "moderator": BY_MODERATORS,
    "automod_filtered": BY_MODERATORS,
}

_ID = re.compile(r"[0-9a-z]{1,12}").fullmatch
_COMMUNITY = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SUBREDDIT = re.compile(rb'"subreddit"\s*:\s*"([^"\\]*)"')
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_SURROGATE = re.compile("[\ud800-\udfff]")
_AUTHOR = re.compile(rb'("author[a-z_]*"\s*:\s*")[^"]*')
_GONE_LATER = re.compile(rb'"was_deleted_later"\s*:\s*true')
_SAYS_BOT = "I am a bot, and this action was performed automatically"
_BOT_NAMES = ("AutoModerator", "Bot", "-bot", "_bot", "BOT")

Record = dict[str, Any]
Item = tuple[Any, ...]
Pseudonym = Callable[[str], str | None]


def open_dumps(
    paths: Iterable[Path | str], digest: Callable[[Path], str], retrieved_at: str | None = None
) -> list[Source]:
    """The dumps as sources of the group `reddit`: each file that `paths` names, and each in a folder of `paths` with
    one of ENDINGS or, unpacked, named as dumps are (RC_2024-01, askscience_comments); a plain file in pieces of
    PIECE_BYTES. `digest`: the SHA-256 of a file. `retrieved_at`: ISO 8601,
    for files without a record of their fetch beside them. SourceError for a file that is missing, empty or unreadable,
    and for a folder without dumps; UsageError if `paths` is empty, or a time is no ISO 8601 date.
    """
    files = [file for path in map(Path, paths) for file in _dumps_in(path)]
    return open_files(
        files, group=GROUP, endings=ENDINGS, digest=digest, retrieved_at=retrieved_at, piece_bytes=PIECE_BYTES
    )


def _dumps_in(path: Path) -> list[Path]:
    """The dumps in a folder, by their names; `path` itself if it is a file, or a folder without dumps."""
    if not path.is_dir():
        return [path]
    return [
        file for file in files_in(path) if file.name.lower().endswith(ENDINGS) or _UNPACKED.fullmatch(file.name)
    ] or [path]


# ---------------------------------------------------------------- lines


def dump_lines(piece: Shard) -> Iterator[bytes]:
    """The lines of a piece of a dump, unpacked; in a .zst_blocks file its rows. Each should be one JSON object.
    SourceError if the file is damaged or truncated.
    """
    path = Path(piece.source.path)
    return block_rows(path) if path.name.lower().endswith(".zst_blocks") else read_lines(piece)


def is_elsewhere(line: bytes, wanted: frozenset[str]) -> bool:
    """Whether the line is surely of none of the wanted subreddits (names in lower case), as can be seen without parsing
    it: it names subreddits, and none of them is wanted.

    A submission may contain another as its cross-post, so that a line names several: one wanted name leaves the
    decision to the parser, as does a line that names none in the usual form.
    """
    names = _SUBREDDIT.findall(line)
    return bool(names) and all(_lower(name) not in wanted for name in names)


@lru_cache(1 << 14)
def _lower(name: bytes) -> str:
    """The name as text in lower case; bytes that are no UTF-8 become U+FFFD."""
    return name.decode(errors="replace").lower()


def record_of(line: bytes) -> tuple[Record, int] | None:
    """(the JSON object in a line, how many ill-formed characters in its fields became U+FFFD); None if the line is no
    JSON object.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _mended(line)
    return (record, 0) if isinstance(record, dict) else None


def _mended(line: bytes) -> tuple[Record, int] | None:
    """(the JSON object in a line, how many ill-formed characters in its fields became U+FFFD), for a line that orjson
    refuses, such as one with half surrogate pairs or bytes that are no UTF-8: scripts that write dumps produce both.
    Only fields that are texts are repaired. None if the line is no JSON object.
    """
    try:
        record = json.loads(line.decode("utf-8", "surrogateescape").lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    found = {name: _SURROGATE.subn("\ufffd", value) for name, value in record.items() if isinstance(value, str)}
    return record | {name: text for name, (text, _) in found.items()}, sum(repairs for _, repairs in found.values())


# ---------------------------------------------------------------- fields


def unescaped(text: str) -> str:
    """The text with its HTML entities replaced by their characters, once: "&amp;lt;" becomes "&lt;". Only those with
    ";" at the end count: "&copy=1" in an address stays.
    """
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def seconds(value: Any) -> int | None:
    """Whole seconds since 1970, from 1706745600, 1706745600.0, "1706745600" or "1706745600.0"; None for any other
    value, for 0 and less, and beyond LAST_SECOND.
    """
    if type(value) is not int and type(value) is not float:
        value = _number(value)
    return int(value) if value is not None and 0 < value <= LAST_SECOND else None


def votes(value: Any) -> int | None:
    """A score, which may be negative, as a whole number, from 12, 12.0, "12" or "12.0"; None if it is null, unreadable
    or beyond LARGEST_VOTES.
    """
    if type(value) is not int and type(value) is not float:
        value = _number(value)
    return int(value) if value is not None and -LARGEST_VOTES <= value <= LARGEST_VOTES else None


def ratio(value: Any) -> float | None:
    """The number, if it is one from 0 to 1, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


def _number(value: Any) -> float | None:
    """The number that a text writes; None for any other text or value. NaN and infinity are returned, too: callers set
    bounds that neither meets.
    """
    if not isinstance(value, str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def bare_id(value: Any, prefix: str) -> str | None:
    """An id of Reddit without this prefix (t1_, t3_): "87" from "t3_87", from "87", or from the integer that "87" is in
    base 36. None for any other value, also for one with another prefix.
    """
    if type(value) is int:
        value = np.base_repr(value, 36).lower() if 0 <= value < 36**12 else ""
    if not isinstance(value, str):
        return None
    value = value.removeprefix(prefix)
    return value if _ID(value) else None


def kind_of(record: Record) -> str | None:
    """`submission` or `comment`: by the field that only one of them has (`title` or `body`), else by the prefix of
    `name`; None if neither says it.
    """
    answers, asks = "body" in record, "title" in record
    if answers != asks:
        return "comment" if answers else "submission"
    name = record.get("name")
    named = name[:3] if isinstance(name, str) else ""
    return {"t1_": "comment", "t3_": "submission"}.get(named)


def gone(record: Record) -> tuple[str, str | None] | None:
    """(fixed phrase, detail or None) why the text of a record must not be used: it was deleted or removed, as its text
    or other fields say. None if neither says so, and if it was gone at first, but not when it was read again.
    """
    body = record.get("body")
    reason = _says_gone(body) or (
        body is None and (_says_gone(record.get("selftext")) or _says_gone(record.get("title")))
    )
    if reason:
        return reason, None
    meta = record.get("_meta")
    if isinstance(meta, dict):
        if meta.get("was_deleted_later"):
            return LATER, _short(meta.get("removal_type"))
        if meta.get("was_initially_deleted"):
            return None
    if category := record.get("removed_by_category"):
        return _CATEGORIES.get(category if isinstance(category, str) else "", BY_REDDIT), _short(category)
    if record.get("banned_by"):
        return BY_MODERATORS, None
    return (BY_REDDIT, _short(why)) if (why := record.get("removal_reason")) else None


def _says_gone(text: Any) -> str | None:
    """Who removed it (BY_AUTHOR, BY_MODERATORS, BY_REDDIT), if `text` is what Reddit shows in place of a deleted or
    removed text; else None.
    """
    if not isinstance(text, str) or "[" not in text[:20]:
        return None
    text = text[:200].strip().lower()
    return BY_REDDIT if text.startswith(_BY_REDDIT) else _TEXTS_OF_NOTHING.get(text)


def _short(value: Any) -> str | None:
    """The value, if it is a text of 1 to 40 ASCII letters, digits, spaces, _ and -; else None."""
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9 _-]{1,40}", value) else None


def seen_at(record: Record) -> int | None:
    """When a record was read from Reddit, and so its score, in seconds since 1970: the second time, if it was read
    twice; None if unknown.
    """
    meta = record.get("_meta")
    again = meta.get("retrieved_2nd_on") if isinstance(meta, dict) else None
    return seconds(again) or seconds(record.get("retrieved_on")) or seconds(record.get("retrieved_utc"))


@lru_cache(1 << 14)
def community_of(name: str) -> str | None:
    """The name of a subreddit in lower case; None if the text cannot be such a name."""
    return name.lower() if _COMMUNITY.fullmatch(name) else None


def permalink(community: str, thread: str, comment: str | None = None) -> str:
    """The address of the submission `thread`, or of the comment `comment` on it (ids without prefix). It has no words
    of the title, as Reddit's own permalinks have: these may be of a deleted title.
    """
    place = f"https://www.reddit.com/r/{community}/comments/{thread}/"
    return f"{place}_/{comment}/" if comment else place


# ---------------------------------------------------------------- records


def item_of(
    record: Record, pseudonym: Pseudonym, wanted: frozenset[str], retrieved: int | None, *, repairs: int
) -> Item | Rejected | None:
    """The record's values for the columns of ITEMS. None for a record of a subreddit that is not wanted (`wanted`:
    names in lower case; empty: all are). A Rejected without raw text, its key "" if kind or id is unknown:
    filtered for what was deleted or removed, an advertisement (promoted, in no subreddit), or on a user's own page
    (unless that is wanted); a defect for a record with an ill-formed field. `pseudonym`: name of an author ->
    pseudonym; `retrieved`: milliseconds since 1970; `repairs`: how many of its characters were replaced.

    Each line is turned into values at once: 2,000 parsed records held for a batch would cost more than all else.
    """
    subreddit = record.get("subreddit")
    community = community_of(subreddit) if isinstance(subreddit, str) else None
    if wanted and community is not None and community not in wanted:
        return None
    kind = kind_of(record)
    if kind is None:
        return _defect("", "neither a submission nor a comment")
    prefix = "t1_" if kind == "comment" else "t3_"
    own = bare_id(record.get("id"), prefix) or bare_id(record.get("name"), prefix)
    post_id = f"{GROUP}/{prefix}{own}" if own else ""
    if reason := gone(record):
        return Rejected(post_id, "filtered", *reason)
    if own is None:
        return _defect("", "missing or ill-formed id")
    if community is None and record.get("promoted"):
        return Rejected(post_id, "filtered", "advertisement")
    if community is None:
        return _defect(post_id, "missing or ill-formed subreddit")
    if community.startswith("u_") and community not in wanted:
        return Rejected(post_id, "filtered", "on a user's own page")
    created = seconds(record.get("created_utc"))
    if created is None:
        return _defect(post_id, "missing or ill-formed created_utc")
    make = _comment if kind == "comment" else _submission
    return make(record, post_id, own, community, created, pseudonym, (LICENCE, retrieved, repairs))


def _defect(post_id: str, reason: str) -> Rejected:
    """A Rejected of the kind `defect`. `post_id`: "" if unknown."""
    return Rejected(post_id, "defect", reason)


def _submission(
    record: Record, post_id: str, own: str, community: str, created: int, pseudonym: Pseudonym, last: tuple[Any, ...]
) -> Item | Rejected:
    """The values of a submission for the columns of ITEMS; a Rejected (a defect) if it has no title, or its `selftext`
    is neither text nor null. `own`: its id without prefix; `created`: seconds since 1970; `last`: the values of the
    last columns (licence, retrieved_at, repairs).
    """
    title, text = record.get("title"), record.get("selftext")
    title = " ".join(unescaped(title).split()) if isinstance(title, str) else ""
    if not title:
        return _defect(post_id, "missing or ill-formed title")
    if not (text is None or isinstance(text, str)):
        return _defect(post_id, "missing or ill-formed selftext")
    text, flair = unescaped(text or ""), text_or_none(record.get("link_flair_text"))
    link = text_or_none(record.get("url")) if record.get("is_self") is False else None
    return (
        post_id,
        "submission",
        post_id,
        xxhash.xxh3_64_intdigest(post_id.encode()),
        None,
        record["subreddit"],
        community,
        int(own, 36),
        title,
        text,
        [unescaped(flair)] if flair else [],
        votes(record.get("score")),
        ratio(record.get("upvote_ratio")),
        votes(record.get("num_comments")),
        *_circumstances(record, text, created, pseudonym),
        _flag(record, "over_18"),
        _flag(record, "is_self"),
        unescaped(link) if link else None,
        permalink(community, own),
        *last,
    )


def _comment(
    record: Record, post_id: str, own: str, community: str, created: int, pseudonym: Pseudonym, last: tuple[Any, ...]
) -> Item | Rejected:
    """The values of a comment for the columns of ITEMS; a Rejected (a defect) if its thread, parent or text is missing
    or ill-formed, or the text is blank. `own`: its id without prefix; `created`: seconds since 1970; `last`: the values
    of the last columns.
    """
    text, parent_id = record.get("body"), record.get("parent_id")
    answers = isinstance(parent_id, str) and parent_id.startswith("t3_")
    thread = bare_id(record.get("link_id"), "t3_") or (bare_id(parent_id, "t3_") if answers else None)
    if thread is None:
        return _defect(post_id, "missing or ill-formed link_id")
    parent = parent_of(parent_id, thread)
    if parent is None:
        return _defect(post_id, "missing or ill-formed parent_id")
    if not isinstance(text, str):
        return _defect(post_id, "missing or ill-formed body")
    text, question_id = unescaped(text), f"{GROUP}/t3_{thread}"
    if not text or text.isspace():
        return _defect(post_id, "empty comment")
    return (
        post_id,
        "comment",
        question_id,
        xxhash.xxh3_64_intdigest(question_id.encode()),
        parent,
        record["subreddit"],
        community,
        int(own, 36),
        None,
        text,
        (),
        votes(record.get("score")),
        None,
        None,
        *_circumstances(record, text, created, pseudonym),
        None,
        None,
        None,
        permalink(community, thread, own),
        *last,
    )


def _circumstances(record: Record, text: str, created: int, pseudonym: Pseudonym) -> tuple[Any, ...]:
    """The values of the columns of ITEMS from `created` to `locked`, which submissions and comments have alike.
    `created`: seconds since 1970 (the columns' times are in milliseconds). A deleted author has no pseudonym.
    """
    author, edited, seen = record.get("author"), record.get("edited"), seen_at(record)
    name = author if isinstance(author, str) and author and author[0] != "[" else None
    return (
        1_000 * created,
        bool(edited),
        1_000 * when if edited and (when := seconds(edited)) is not None else None,
        None if seen is None else 1_000 * seen,
        None if seen is None else seen - created,
        pseudonym(name) if name else None,
        author == "[deleted]",
        text_or_none(record.get("distinguished")),
        record.get("stickied") is True,
        (name is not None and name.endswith(_BOT_NAMES)) or _SAYS_BOT in text,
        record.get("locked") is True,
    )


def _flag(record: Record, name: str) -> bool | None:
    """The field `name` of the record if it is true or false, else None."""
    value = record.get(name)
    return value if isinstance(value, bool) else None


def parent_of(value: Any, thread: str) -> str | None:
    """The id of what a comment replies to, reddit/t3_<id> or reddit/t1_<id>, from its `parent_id`; None if that is
    ill-formed. Without prefix it is the id of the submission if equal to `thread`, the submission's id without prefix,
    else of a comment; null means the submission.
    """
    if isinstance(value, str) and value.startswith(("t1_", "t3_")):
        return f"{GROUP}/{value}" if _ID(value, 3) else None
    if value is None:
        return f"{GROUP}/t3_{thread}"
    parent = bare_id(value, "t1_")
    return parent and f"{GROUP}/{'t3_' if parent == thread else 't1_'}{parent}"


# ---------------------------------------------------------------- the stage


COUNTED = ("read", "of other subreddits", "blank lines", "repaired")


def parse_items(
    lines: Iterable[bytes], wanted: Iterable[str], pseudonym: Pseudonym, retrieved: int | None, counts: Counter[str]
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of ITEMS in the lines' order, and a Rejected for each item that was deleted or removed, is an
    advertisement or on a user's own page, or cannot be read. `wanted`: names of subreddits, in any case; all if empty.
    `pseudonym`: name of an author -> pseudonym; `retrieved`: milliseconds since 1970.

    `counts` is increased under the names of COUNTED: lines read, of other subreddits, blank, and items with repaired
    characters.
    """
    names = frozenset(name.lower() for name in wanted)
    items = _items(lines, names, lru_cache(1 << 16)(pseudonym), retrieved, counts)
    yield from batched(items, lambda some: batch_of(some, ITEMS), rows=BATCH_ROWS, size=BATCH_BYTES + 1)


def _items(
    lines: Iterable[bytes], wanted: frozenset[str], pseudonym: Pseudonym, retrieved: int | None, counts: Counter[str]
) -> Iterator[tuple[Item, int] | Rejected]:
    """(values for the columns of ITEMS, bytes of the line) or a Rejected for each line of the wanted subreddits (names
    in lower case; all if empty). `counts` is increased under the names of COUNTED.
    """
    for line in lines:
        counts["read"] += 1
        if wanted and is_elsewhere(line, wanted):
            counts["of other subreddits"] += 1
        elif found := record_of(line):
            item = item_of(found[0], pseudonym, wanted, retrieved, repairs=found[1])
            if item is None:
                counts["of other subreddits"] += 1
            elif isinstance(item, Rejected):
                yield _completed(item, line)
            else:
                counts["repaired"] += bool(found[1])
                yield item, len(line)
        elif line.strip():
            yield _completed(_defect("", "no JSON object"), line)
        else:
            counts["blank lines"] += 1


def _completed(item: Rejected, line: bytes) -> Rejected:
    """The Rejected with a key (a hash of the line if it has none) and, for a defect, with the beginning of the line as
    `raw`, without names of authors. No `raw` for a filtered one, and if the line says that it was deleted later.
    """
    key = item.key or f"{GROUP}/?{xxhash.xxh3_64_hexdigest(line)}"
    raw = (
        None
        if item.kind == "filtered" or _GONE_LATER.search(line)
        else raw_text(_AUTHOR.sub(rb"\1?", line[: 4 * RAW_CHARS]))
    )
    return Rejected(key, item.kind, item.reason, item.detail, raw)


@stage(ITEMS, revision=1)
def read_items(
    context: StageContext, dumps: Shard, *, subreddits: list[str], authors: Pseudonyms | NoAuthors
) -> Iterator[pa.RecordBatch | Rejected]:
    """Submissions and comments of these subreddits (none named: of all), in the order of the dump; a Rejected for what
    was deleted or removed, is an advertisement or on a user's own page, or cannot be read. SourceError if the dump is
    damaged.

    Lines of other subreddits and blank ones are only counted. `authors`: makes the pseudonyms of authors.
    """
    counts = Counter(dict.fromkeys(COUNTED, 0))
    yield from parse_items(dump_lines(dumps), subreddits, authors.of, retrieved_at(dumps.source), counts)
    for name, number in counts.items():
        context.count(name, number)
