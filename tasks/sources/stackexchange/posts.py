"""Stack Exchange data dumps: Posts.xml, one <row/> a line, everything in attributes.

    <?xml version="1.0" encoding="utf-8"?>
    <posts>
      <row Id="3" PostTypeId="1" AcceptedAnswerId="4" CreationDate="2014-01-21T20:26:05.383" Score="18"
           Body="&lt;p&gt;Why &lt;code&gt;a&lt;/code&gt;?&lt;/p&gt;&#xA;" OwnerUserId="7" Title="Why a?"
           Tags="&lt;hops&gt;&lt;ale&gt;" ContentLicense="CC BY-SA 4.0" />
      <row Id="4" PostTypeId="2" ParentId="3" CreationDate="..." Score="-1" Body="..." OwnerDisplayName="user9" />
    </posts>

PostTypeId 1 is a question, 2 an answer, whose question may come later in the file, or never. An absent attribute is
null. Body is escaped HTML. Before 2024 tags are <a><b>, after |a|b|. Since 2024-06-30 a comment of several lines
stands before the root. Deleted users have a display name instead of an id. Some rows hold characters that XML 1.0
forbids: such a row would end a parser of the whole file, so each row is parsed by itself, and repaired where that
helps. The dumps of 2025-06-30 hold two fabricated posts on every site; user -2 is a bot that answers. Files are
named by a site's first host (beer), links need its host of today (alcohol).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from lxml import etree

from longform.artifacts.rows import Rejected, Shard, Source
from longform.engine.stage import AtMost, Rows, StageContext, stage
from longform.errors import SourceError, UsageError
from schemas.sources.stackexchange import POSTS
from tasks.sources.files.batches import batch_of, batched, counted
from tasks.sources.files.inputs import check_file, fetched_at, moment, raw_text
from tasks.sources.stackexchange.tables import (
    PIECE_BYTES,
    file_name,
    milliseconds,
    moment_of,
    parse_row,
    pieces_of,
    read_rows,
    row_parser,
    table_bytes,
)
from tasks.text.html_to_markdown import STAND_IN, to_markdown
from tasks.text.scrub import SUSPECT, Scrubbed, scrub

TABLE = "posts"
SHORTEST_ROW = '<row Id="1" PostTypeId="1" Score="0" CreationDate="2014W01" Title="a" Body="a"/>'
POSTS_XML = file_name(TABLE)
BATCH_ROWS = 2_000
BATCH_BYTES = 16 << 20

RENAMED = {
    "beer": "alcohol",
    "materials": "mattermodeling",
    "moderators": "communitybuilding",
    "health": "medicalsciences",
    "cogsci": "psychology",
    "writers": "writing",
    "avp": "video",
}
_HOST = re.compile(
    r"((?:[a-z0-9-]+\.)*(?:stackexchange|stackoverflow|superuser|serverfault|askubuntu|stackapps)\.com"
    r"|(?:[a-z0-9-]+\.)?mathoverflow\.net|[a-z0-9-]+\.example)(?![a-z0-9.])"
)
_ANY_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")
_META_OF_LANGUAGE = re.compile(r"meta\.(es|ja|pt|ru)\.stackoverflow\.com")

_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_SCORE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_ROW_ID = re.compile(rb'\sId="([1-9][0-9]{0,17})"')
_BETWEEN_TAGS = re.compile(r"\||><")

_LICENCES = (
    (datetime(2011, 4, 8), "CC BY-SA 2.5"),
    (datetime(2018, 5, 2), "CC BY-SA 3.0"),
)
_LICENCE_SINCE = "CC BY-SA 4.0"
_ANSWER_BOT = "-2"
_COMMUNITY = "-1"
_FABRICATED_FROM = 1_000_000_000

Post = list[Any]
_TEXT = POSTS.get_field_index("text")
Attribute = Callable[..., Any]


# ---------------------------------------------------------------- opening


def open_dump(
    path: Path,
    *,
    site: str | None,
    retrieved_at: str | None,
    digest: Callable[[Path], str],
    piece_bytes: int = PIECE_BYTES,
) -> Source:
    """The source of one site's posts: a .7z, a bare Posts.xml, or a folder that holds one of them.

    `site`: its host; None: as the file's name says. `digest` computes the SHA-256 of a file; `retrieved_at` is used if
    the fetch noted no time. A bare file is cut at multiples of `piece_bytes`; an archive is one piece. Raises
    SourceError if there is no such file or it holds no posts, UsageError if the site is unknown or the time is no ISO
    8601 date. What only shows while an archive is decompressed (damage inside, a wrong root, no rows) is a SourceError
    of `read_rows`.
    """
    file = _posts_file(Path(path))
    host = _host(Path(path), file, site)
    when = fetched_at(file, retrieved_at)
    facts, pieces = (("site", host), ("retrieved_at", when)), pieces_of(file, TABLE, piece_bytes)
    return Source(host, str(file), digest(file), facts, pieces)


def _posts_file(path: Path) -> Path:
    """The file at `path`, or the file of posts in this folder. Raises SourceError if there is none, or it is empty."""
    if not path.exists():
        raise SourceError(f"{path} does not exist: give a dump's .7z, its Posts.xml or the folder of it.")
    file = _inside(path) if path.is_dir() else path
    check_file(file, "fetch the dump again")
    return file


def _inside(folder: Path) -> Path:
    """The file of posts in a folder: the only Posts.xml, else the only archive *-posts.7z, else the only .7z archive.

    Upper and lower case do not matter. Raises SourceError if there is no such file.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.is_symlink())
    bare = [file for file in files if file.name.lower() == POSTS_XML.lower()]
    zipped = [file for file in files if file.suffix.lower() == ".7z"]
    of_posts = [file for file in zipped if file.stem.lower().endswith("-posts")]
    for found in (bare, of_posts, zipped):
        if len(found) == 1:
            return found[0]
    raise SourceError(f"{folder} holds no {POSTS_XML} and {len(zipped)} .7z archives, not one: give the file itself.")


def _host(path: Path, file: Path, site: str | None) -> str:
    """The host of the site: `site` in lower case if it is given, else the present host that a name begins with.

    That name is the one of `file`, else of its folder. Raises UsageError if `site` is no host, or neither name begins
    with a host of Stack Exchange. `path`: the dump as given, for the message.
    """
    if site is not None:
        if not _ANY_HOST.fullmatch(site.lower()):
            raise UsageError(f'site "{site}" of dump {path} is no host: set site to e.g. coffee.stackexchange.com.')
        return site.lower()
    for name in (file.name, file.absolute().parent.name):
        if match := _HOST.match(name.lower().removesuffix(".7z").removesuffix(".xml")):
            return host_of_today(match[1])
    raise UsageError(f"The name of dump {path} does not say which site it is: set site, e.g. coffee.stackexchange.com.")


def host_of_today(host: str) -> str:
    """The present host of a site, as some have been renamed: beer.stackexchange.com -> alcohol.stackexchange.com.

    Any other host is returned unchanged.
    """
    if match := _META_OF_LANGUAGE.fullmatch(host):
        return f"{match[1]}.meta.stackoverflow.com"
    first, _, rest = host.partition(".")
    return f"{RENAMED.get(first, first)}.{rest}" if rest in ("stackexchange.com", "meta.stackexchange.com") else host


def open_dumps(
    dump: str | list[str], site: str | list[str] | None, retrieved_at: str | None, digest: Callable[[Path], str]
) -> list[Source]:
    """The sources of all dumps of a build, in their order.

    `site`: one host for all dumps, or a list with one for each; None, or "" in the list: the file's name says it.
    `retrieved_at` is used where the fetch noted no time. Raises UsageError if there is no dump, the list of hosts has
    another length, or two dumps are of the same site, and what `open_dump` raises.
    """
    paths = [dump] if isinstance(dump, str) else dump
    if not paths:
        raise UsageError("dump is an empty list: name at least one Stack Exchange dump.")
    hosts = site if isinstance(site, list) else [site] * len(paths)
    if len(hosts) != len(paths):
        raise UsageError(
            f"site names {len(hosts)} hosts for {len(paths)} dumps: give one host for each, in their order."
        )
    found = [
        open_dump(Path(path), site=host or None, retrieved_at=retrieved_at, digest=digest)
        for path, host in zip(paths, hosts, strict=True)
    ]
    for other, source in combinations(found, 2):
        if other.group == source.group:
            raise UsageError(
                f"{other.path} and {source.path} are both of {source.group}: keep one, or set site for each of them."
            )
    return found


# ---------------------------------------------------------------- parsing


def parse_posts(rows: Iterable[bytes], *, site: str, retrieved_at: str | None) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of POSTS in the order of the XML rows, text in Markdown, and a Rejected for every other row.

    It is filtered if a rule leaves it out, a defect if it is unreadable, ill-formed or empty; those of a batch are
    yielded before it. `rows`: one `<row/>` element each; `retrieved_at`: when the dump was fetched (ISO 8601;
    UsageError if it is not).
    """
    retrieved = None if retrieved_at is None else moment(retrieved_at)
    weighed = ((row, len(row)) for row in rows)
    made = batched(weighed, lambda some: _posts(some, site, retrieved), rows=BATCH_ROWS, size=BATCH_BYTES + 1)
    for items in made:
        yield from [items] if isinstance(items, Rejected) else items


def _posts(rows: list[bytes], site: str, retrieved: int | None) -> Iterator[pa.RecordBatch | Rejected]:
    """A Rejected for every row that is left out, then one batch of POSTS with the others, if any, in Markdown.

    All rows are parsed before any is converted: parser and converter in turns take a tenth more time. `retrieved`:
    when the dump was fetched, in milliseconds since 1970.
    """
    parser, posts = row_parser(), []
    for row, post in zip(rows, [_post(row, site, retrieved, parser) for row in rows], strict=True):
        if isinstance(post, Rejected):
            yield post
        elif text := to_markdown(post[_TEXT]):
            post[_TEXT] = text
            posts.append(post)
        else:
            yield _defect(row, site, "empty post")
    if posts:
        yield batch_of(posts, POSTS)


def _post(row: bytes, site: str, retrieved: int | None, parser: etree.XMLParser) -> Post | Rejected:
    """The values of one post in the order of the columns of POSTS, with text still in HTML; or a Rejected.

    It is filtered if a rule leaves the post out, a defect if the row is unreadable or an attribute missing or
    ill-formed. `retrieved`: when the dump was fetched, in milliseconds since 1970.
    """
    try:
        element, repairs = parse_row(row, parser)
    except etree.XMLSyntaxError as error:
        return _defect(row, site, "unreadable row", str(error))
    get = element.get
    if reason := _left_out(get):
        return Rejected(_key(row, site), "filtered", reason, f"PostTypeId {get('PostTypeId')}")
    number, score, accepted = get("Id", ""), get("Score", ""), get("AcceptedAnswerId", "")
    created, title, body = moment_of(get("CreationDate", "")), " ".join(get("Title", "").split()), get("Body", "")
    attribute = _ill_formed(get, title)
    if attribute or created is None:
        return _defect(row, site, f"missing or ill-formed {attribute or 'CreationDate'}")
    asks = get("PostTypeId") == "1"
    question_id = f"{site}/{number if asks else get('ParentId')}"
    return [
        f"{site}/{number}",
        "question" if asks else "answer",
        question_id,
        xxhash.xxh3_64_intdigest(question_id.encode()),
        site,
        int(number),
        title if asks else None,
        body,
        [tag for tag in _BETWEEN_TAGS.split(get("Tags", "")[1:-1]) if tag] if asks else [],
        int(score),
        milliseconds(created),
        f"{site}/{accepted}" if asks and _ID.fullmatch(accepted) else None,
        bool(get("ClosedDate")),
        bool(get("CommunityOwnedDate")),
        get("OwnerUserId") or None,
        get("OwnerDisplayName") or None,
        get("ContentLicense") or next((licence for until, licence in _LICENCES if created < until), _LICENCE_SINCE),
        retrieved,
        repairs + body.count(STAND_IN),
        0,
    ]


def _left_out(get: Attribute) -> str | None:
    """Why a rule leaves a post out; None: it is kept. `get`: the `get` of the row's XML element.

    Left out is what has another number as PostTypeId than a question or answer, is written by the bot that answers, or
    was fabricated for the dump (of user -1, with an Id of _FABRICATED_FROM or more).
    """
    kind, owner, number = get("PostTypeId", ""), get("OwnerUserId"), get("Id", "")
    fabricated = owner == _COMMUNITY and _ID.fullmatch(number) and int(number) >= _FABRICATED_FROM
    rules = (
        ("not a question or answer", kind not in ("1", "2") and kind.isdecimal()),
        ("answer bot", owner == _ANSWER_BOT),
        ("fabricated post", fabricated),
    )
    return next((reason for reason, holds in rules if holds), None)


def _ill_formed(get: Attribute, title: str) -> str | None:
    """The name of the first attribute that is required and missing or malformed; None if all are fine.

    `get`: the `get` of the row's XML element; `title`: the attribute Title, with single blanks.
    """
    kind = get("PostTypeId")
    checks = (
        ("PostTypeId", kind in ("1", "2")),
        ("Id", _ID.fullmatch(get("Id", ""))),
        ("Score", _SCORE.fullmatch(get("Score", ""))),
        ("Title", kind != "1" or title),
        ("ParentId", kind != "2" or _ID.fullmatch(get("ParentId", ""))),
    )
    return next((name for name, fine in checks if not fine), None)


def _defect(row: bytes, site: str, reason: str, detail: str | None = None) -> Rejected:
    """The Rejected of a row that is broken, with the beginning of the row as raw text."""
    return Rejected(_key(row, site), "defect", reason, detail, raw_text(row))


def _key(row: bytes, site: str) -> str:
    """The post's id (<site>/<number>) if the row shows one, else <site>/? and a hash of the row."""
    match = _ROW_ID.search(row)
    return f"{site}/{match[1].decode()}" if match else f"{site}/?{xxhash.xxh3_64_hexdigest(row)}"


@stage(
    POSTS,
    revision=2,
    at_most=AtMost(bytes=lambda of: table_bytes(of["dumps"], TABLE), rows=lambda of: of.bytes / len(SHORTEST_ROW) + 1),
)
def read_posts(context: StageContext, dumps: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions and answers of a dump, converted to Markdown; a Rejected for every other row.

    Raises SourceError if the file is no dump of posts; of an archive also if it is damaged or truncated, or has no row.
    """
    facts = dict(dumps.source.facts)
    items = parse_posts(read_rows(dumps, TABLE), site=dumps.source.group, retrieved_at=facts["retrieved_at"])
    for item in counted(context, items):
        if isinstance(item, pa.RecordBatch):
            context.count("repaired", int((item.column("repairs").to_numpy() > 0).sum()))
        yield item


# ---------------------------------------------------------------- scrubbing


@stage(POSTS, revision=5)
def scrub_posts(context: StageContext, posts: Rows, *, regions: list[str]) -> Iterator[pa.RecordBatch]:
    """Every post, with personal data in its title and text replaced by marks.

    The column `scrubbed` counts the marks. Prompts and everything else are made of these posts.

    `regions`: countries whose national telephone numbers are known, as ISO 3166 codes.
    """
    for batch in posts.batches():
        yield scrubbed(context, batch.cast(POSTS), ["title", "text"], regions)


def scrubbed(context: StageContext, batch: pa.RecordBatch, columns: list[str], regions: list[str]) -> pa.RecordBatch:
    """The batch with the texts in `columns` scrubbed, and the number of marks put in added to its column `scrubbed`.

    Also counts the marks of each kind in `context`. `regions`: countries whose national telephone numbers are known,
    as ISO 3166 codes.
    """
    marks = np.zeros(len(batch), np.int32)
    for name in columns:
        done = scrubbed_texts(batch.column(name), regions)
        if done:
            for kind in ("mails", "phones", "handles"):
                context.count(f"{kind} scrubbed", sum(getattr(each, kind) for each in done.values()))
            marks[list(done)] += [found.marks for found in done.values()]
            texts = [
                done[place].text if place in done else text for place, text in enumerate(batch.column(name).to_pylist())
            ]
            batch = _with(batch, name, pa.array(texts, batch.schema.field(name).type))
    if not marks.any():
        return batch
    return _with(batch, "scrubbed", pa.array(batch.column("scrubbed").to_numpy() + marks, pa.int32()))


def scrubbed_texts(texts: pa.Array, regions: list[str]) -> dict[int, Scrubbed]:
    """Position -> scrubbed text, for each of `texts` that changes; nulls never do.

    Arrow first picks out the texts that may need it. `regions`: countries whose national telephone numbers are known,
    as ISO 3166 codes.
    """
    suspect = pc.fill_null(pc.match_substring_regex(texts, SUSPECT, ignore_case=True), False)
    places = np.flatnonzero(suspect.to_numpy(zero_copy_only=False))
    found = (
        (int(place), scrub(text, regions)) for place, text in zip(places, texts.take(places).to_pylist(), strict=True)
    )
    return {place: each for place, each in found if each.marks}


def _with(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """The batch with `values` as its column `name`, which it has."""
    columns = [values if field.name == name else batch.column(field.name) for field in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
