"""MS MARCO passage ranking: one record a line, columns parted by a tab.

    collection.tsv       7	The cafÃ© opens at nine; the old café next door at ten.
    queries.dev.tsv      1048	how long does a sourdough starter keep
    qrels.dev.tsv        1048	0	7	1

Together in collectionandqueries.tar.gz. In passages some characters are UTF-8 that was read as Latin-1 and written
again, beside others that are right, in the same passage; these are repaired one by one, and each row says how many.
Mangled characters contain U+0085, at which Python's splitlines and text readers cut a line in two. Quotes have no
meaning and are often unpaired. In judgements the second column, 0, and the fourth, 1, are filler of TREC's format; in
TREC's own files the fourth is a grade. What is not judged is unknown, not wrong. Some copies end their lines with a
carriage return and a line feed. dev.small is a part of dev: a query or judgement that several files list becomes one
row that names all their splits. The files triples.* and top1000.* are not read: their texts are mangled in other ways,
and ids say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from longform.artifacts.rows import Rejected, Shard, Source, read_parquet
from longform.engine.stage import AllRows, PerGroup, StageContext, stage
from longform.errors import UsageError
from schemas.sources.msmarco import PASSAGES, QREL_LINES, QRELS, QUERIES, QUERY_LINES, REPEATED
from tasks.sources.files.archives import tar_members
from tasks.sources.files.batches import batch_of, batched, counted
from tasks.sources.files.inputs import RAW_CHARS, WHOLE, raw_text, retrieved_at
from tasks.sources.files.lines import read_lines, split_lines

GROUP = "msmarco"
LICENCE = "MS MARCO terms: non-commercial research"
PIECE_BYTES = 64 << 20
BATCH_ROWS = 1_000
LONGEST_TEXT = 64 << 10
LONGEST_LINE = LONGEST_TEXT + 16
PIDS = 100_000_000
MEMORY_LIMIT = "512MB"

COLLECTION, ASKED, JUDGED = "collection", "queries", "qrels"
_NOT_READ = ("triples", "top1000", "qidpidtriples")
_PACKING = re.compile(r"(\.(tsv|txt|trec|gz|zst|bz2|xz|tar))+$")
_TAR = (".tar", ".tar.gz", ".tar.zst", ".tar.bz2", ".tar.xz", ".tgz")
ENDINGS = tuple(
    f"{name}{packing}"
    for name in ("collection", "collectionandqueries", "queries", "qrels")
    for packing in (".tsv", ".tsv.gz", ".tar.gz", ".tar")
) + tuple(
    f"{kind}.{split}{packing}"
    for kind in ("queries", "qrels")
    for split in ("train", "dev", "dev.small", "eval", "eval.small")
    for packing in (".tsv", ".tsv.gz")
)
_MANGLED = re.compile("[\u00c2-\u00f4][\u0080-\u00bf]{1,3}")


# ---------------------------------------------------------------- files


def check_names(paths: Iterable[Path]) -> None:
    """UsageError unless each file's name says that it is a collection, queries, qrels, or a tar archive. A folder may
    have any name. Nothing may be named like what is never read (triples, top1000), not even a folder or an archive.
    """
    for path in paths:
        if path.name.lower().startswith(_NOT_READ):
            raise UsageError(f"{path} is not read, as its texts are mangled: give collection, queries and qrels.")
        if not path.is_dir() and not is_tar(path.name) and kind_of(path.name) is None:
            raise UsageError(
                f"The name of {path} does not say what it holds: call it collection*.tsv, *queries*.tsv or *qrels*.tsv."
            )


def is_tar(name: str) -> bool:
    """Whether a file's name ends as that of a tar archive, packed or not."""
    return name.lower().endswith(_TAR)


def kind_of(name: str) -> str | None:
    """What a file of this name holds: "qrels" or "queries", if the name has this word, or "collection", if it begins
    with it; None for any other name, and for files that are never read, such as triples.
    """
    stem = _PACKING.sub("", name.lower())
    if stem.startswith(_NOT_READ):
        return None
    if "qrels" in stem:
        return JUDGED
    return ASKED if "queries" in stem else COLLECTION if stem.startswith(COLLECTION) else None


def split_of(name: str) -> str:
    """The split in a file's name: "dev.small" of queries.dev.small.tsv, "2019-pass" of TREC's 2019qrels-pass.txt; "all"
    if it names none.
    """
    return _PACKING.sub("", name.lower()).replace("queries", "").replace("qrels", "").strip(".-_") or "all"


def holding(sources: Sequence[Source], kind: str) -> list[Source]:
    """The sources that are files of this kind (collection, queries or qrels), and all tar archives, which may contain
    one; an archive as one piece.
    """
    whole = [replace(source, pieces=(WHOLE,)) if is_tar(source.path) else source for source in sources]
    return [source for source in whole if is_tar(source.path) or kind_of(Path(source.path).name) == kind]


def lines_of(piece: Shard, kind: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """(file name, its lines) for each file of this kind (collection, queries or qrels): the members of a tar archive
    that are of this kind, by their names; any other piece itself, whatever its kind.
    """
    if not is_tar(piece.source.path):
        yield Path(piece.source.path).name, read_lines(piece)
        return
    for written, _, blocks in tar_members(Path(piece.source.path)):
        name = PurePosixPath(written.replace("\\", "/")).name
        if kind_of(name) == kind:
            yield name, split_lines(blocks, piece.source.path)


# ---------------------------------------------------------------- encoding


def repaired(text: str) -> tuple[str, int]:
    """(the text with every mangled character repaired, how many these were). A mangled character is a run of
    characters that are the bytes of one character's UTF-8, read as Latin-1.

    The rule of ir_datasets (FixEncoding), in one pass: 2 to 4 characters between U+0080 and U+00FF whose bytes decode
    to exactly one. A lead byte says how long its run is, so that runs never overlap.
    """
    repairs = 0

    def one(match: re.Match[str]) -> str:
        nonlocal repairs
        run = match[0].encode("latin-1")
        length = 2 if run[0] < 0xE0 else 3 if run[0] < 0xF0 else 4
        try:
            character = run[:length].decode()
        except UnicodeDecodeError:
            return match[0]
        repairs += 1
        return character + match[0][length:]

    return _MANGLED.sub(one, text), repairs


# ---------------------------------------------------------------- passages


def came_before(ids: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """For each upstream id in the array, whether it came in an earlier call, or earlier in this array. `seen`: true at
    the index of each id that came in earlier calls; this call adds its own.
    """
    again: np.ndarray = seen[ids]
    seen[ids] = True
    if len(ids) > 1 and not (np.diff(ids) > 0).all():
        first = np.zeros(len(ids), bool)
        first[np.unique(ids, return_index=True)[1]] = True
        again |= ~first
    return again


Values = tuple[Any, ...]
Parsed = tuple[Values, int] | Rejected


def _parsed(lines: Iterable[bytes], parse: Callable[[bytes], Values], letter: str) -> Iterator[Parsed]:
    """For each line, in the form that `batched` takes, (what `parse` returns, weight 1); if `parse` raises ValueError,
    a Rejected (a defect) with the error as its reason and a key msmarco/<letter><upstream id or ?hash>. `letter`: p
    (passage) or q (query).
    """
    for line in lines:
        try:
            yield parse(line), 1
        except ValueError as error:
            yield _defect(letter, line, error)


def passages(
    lines: Iterable[bytes], seen: np.ndarray, *, repair: bool, retrieved: int | None
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of PASSAGES in the lines' order, and a Rejected (a defect) for every line that is no passage or
    repeats an id. `seen`: true at the index of each upstream id that came before, updated; `repair`: whether to repair
    mangled characters; `retrieved`: milliseconds since 1970.
    """
    lines = iter(lines)
    while some := [line if len(line) < LONGEST_LINE else line[:LONGEST_LINE] for line in islice(lines, BATCH_ROWS)]:
        pids, texts = plain_columns(some) or (yield from careful_columns(some))
        repairs = pa.repeat(pa.scalar(0, pa.int32()), len(texts))
        if repair:
            texts, repairs = _repaired(texts)
        yield from _first(_batch(pids, texts, repairs, retrieved), came_before(pids.to_numpy(), seen))


Columns = tuple[pa.Array, pa.Array]


def plain_columns(lines: list[bytes]) -> Columns | None:
    """(upstream ids, texts) of the lines, parsed all at once; None if a line is unusual or no passage, so that
    `careful_columns` must be used.
    """
    numbers, rests = [], []
    for line in lines:
        number, _, rest = line.partition(b"\t")
        numbers.append(number)
        rests.append(rest)
    try:
        digits, texts = pa.array(numbers, pa.string()), pa.array(rests, pa.string())
        pids = digits.cast(pa.int64())
    except ValueError:
        return None
    known = pc.and_(pc.ascii_is_decimal(digits), pc.less(pids, PIDS))
    return (pids, texts) if pc.all(known).as_py() and not _any_odd(texts) else None


def _any_odd(texts: pa.StringArray) -> bool:
    """Whether one of the texts is blank, has LONGEST_TEXT bytes or more, ends in a carriage return, or has a tab."""
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    if lengths["min"] == 0 or lengths["max"] >= LONGEST_TEXT or (_content(texts)[0] == 9).any():
        return True
    return bool(pc.any(pc.or_(pc.utf8_is_space(texts), pc.ends_with(texts, "\r"))).as_py())


def careful_columns(lines: list[bytes]) -> Generator[Rejected, None, Columns]:
    """Parse the lines one by one: yield a Rejected for each that is no passage, then return (upstream ids, texts) of
    the others.
    """
    parsed = list(_parsed(lines, _text_of, "p"))
    yield from (item for item in parsed if isinstance(item, Rejected))
    found = [item[0] for item in parsed if not isinstance(item, Rejected)]
    return pa.array([pid for pid, _ in found], pa.int64()), pa.array([text for _, text in found], pa.string())


def _repaired(texts: pa.StringArray) -> tuple[pa.StringArray, pa.Int32Array]:
    """(the texts with their mangled characters repaired, how many were in each text)."""
    rows = suspicious(texts)
    repairs = np.zeros(len(texts), np.int32)
    if len(rows):
        fixed = [repaired(text) for text in texts.take(pa.array(rows)).to_pylist()]
        repairs[rows] = [number for _, number in fixed]
        order = np.arange(len(texts))
        order[rows] = len(texts) + np.arange(len(rows))
        texts = pa.concat_arrays([texts, pa.array([text for text, _ in fixed], pa.string())]).take(pa.array(order))
    return texts, pa.array(repairs)


def suspicious(texts: pa.StringArray) -> np.ndarray:
    """Indices, sorted, of the texts that may contain a mangled character: in UTF-8 they have the byte C3 and, two bytes
    on, C2.
    """
    content, starts = _content(texts)
    places = np.flatnonzero(content[:-2] == 0xC3)
    places = places[content[places + 2] == 0xC2]
    return np.unique(np.searchsorted(starts, places, side="right") - 1)


def _content(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, offsets): the UTF-8 of all texts, one after the other; the offset at which each text starts, and last the
    end of the last text.
    """
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int32)
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", np.uint8)[starts[0] : starts[-1]], starts - starts[0]


def _text_of(line: bytes) -> tuple[int, str]:
    """(upstream id, text as distributed) of a line `<id><tab><text>`, without a carriage return at its end. ValueError
    says what is wrong with it: no id of at most 8 digits, more than two columns, a blank text, one of LONGEST_TEXT
    bytes or more, or (UnicodeDecodeError) no UTF-8.
    """
    number, _, rest = line.partition(b"\t")
    if not number.isdigit() or len(number.lstrip(b"0")) > 8:
        raise ValueError("no upstream id")
    if b"\t" in rest:
        raise ValueError("too many columns")
    if not rest.decode().strip():
        raise ValueError("empty text")
    if len(rest) >= LONGEST_TEXT:
        raise ValueError("text of 64 KiB or more")
    return int(number), rest.removesuffix(b"\r").decode()


def _defect(letter: str, line: bytes, error: ValueError) -> Rejected:
    """A Rejected (a defect) for a line, with the error as its reason. Its key is msmarco/, the letter, and the upstream
    id or else ? and a hash of the line.
    """
    reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    number = line[:64].split(b"\t")[0]
    key = number.decode() if number.isdigit() else f"?{xxhash.xxh3_64_hexdigest(line)}"
    return Rejected(f"{GROUP}/{letter}{key}", "defect", reason, raw=raw_text(line))


def _batch(pids: pa.Array, texts: pa.Array, repairs: pa.Array, retrieved: int | None) -> pa.RecordBatch:
    """A batch of PASSAGES. `pids`: upstream ids; `repairs`: how many characters of each text were repaired;
    `retrieved`: milliseconds since 1970.
    """
    columns = {
        "passage_id": pc.binary_join_element_wise(f"{GROUP}/p", pids.cast(pa.string()), ""),
        "text": texts,
        "text_held": pc.if_else(pc.greater(repairs, 0), "repaired", "as distributed"),
        "repairs": repairs,
        "licence": pa.repeat(LICENCE, len(pids)),
        "url": pa.nulls(len(pids), pa.string()),
        "retrieved_at": pa.repeat(pa.scalar(retrieved, PASSAGES.field("retrieved_at").type), len(pids)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in PASSAGES.names], schema=PASSAGES)


def _first(batch: pa.RecordBatch, again: np.ndarray) -> Iterator[pa.RecordBatch | Rejected]:
    """The batch without the rows whose id came before (`again` is true), then a Rejected (a defect) for each of these
    rows.
    """
    yield batch.filter(pa.array(~again)) if again.any() else batch
    for row in batch.filter(pa.array(again)).to_pylist():
        yield Rejected(row["passage_id"], "defect", "repeated upstream id", raw=row["text"][:RAW_CHARS])


@stage(PASSAGES, revision=1)
def read_passages(context: StageContext, files: Shard, *, repair: bool) -> Iterator[pa.RecordBatch | Rejected]:
    """The passages of the collection, in the order of the lines; a Rejected for a line that is no passage, and for one
    whose id came before in the same piece (for other pieces see `find_repeated`). Counts lines read and passages with
    repaired characters.
    """
    seen = np.zeros(PIDS, bool)
    for _, lines in lines_of(files, COLLECTION):
        for item in counted(context, passages(lines, seen, repair=repair, retrieved=retrieved_at(files.source))):
            if not isinstance(item, Rejected):
                context.count("repaired", pc.sum(pc.greater(item["repairs"], 0)).as_py() or 0)
            yield item


def in_one(sources: Sequence[Source]) -> list[Source]:
    """A list of the first source, as one piece, for a stage that looks at all rows at once; empty if there is none."""
    return [replace(source, pieces=(WHOLE,)) for source in sources[:1]]


@stage(REPEATED, revision=1)
def find_repeated(context: StageContext, one: Shard, passages: AllRows) -> Iterator[pa.RecordBatch]:
    """A row for each passage id that is in more than one row of `passages`, with how many rows have it, sorted by id.
    The published collection has none; if there are any, two copies of it were read. `one`: only makes this one unit.
    """
    query = "SELECT passage_id AS repeated_id, count(*) AS rows FROM {} GROUP BY 1 HAVING count(*) > 1 ORDER BY 1"
    yield from _queried(query, passages, context, REPEATED)


# ---------------------------------------------------------------- queries and judgements


def queries(lines: Iterable[bytes], split: str, retrieved: int | None) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of QUERY_LINES from the lines of a file of queries, and a Rejected (a defect) for every line that
    is no query. `split`: of the file, as from `split_of`; `retrieved`: milliseconds since 1970.
    """

    def parse(line: bytes) -> Values:
        qid, text = _text_of(line)
        query_id = f"{GROUP}/q{qid}"
        return query_id, xxhash.xxh3_64_intdigest(query_id.encode()), text, split, retrieved

    yield from batched(_parsed(lines, parse, "q"), lambda rows: batch_of(rows, QUERY_LINES), rows=BATCH_ROWS)


def qrels(lines: Iterable[bytes], split: str) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of QREL_LINES from the lines of a file of judgements, and a Rejected (a defect) for every line
    that is no judgement: four columns (query id, filler, passage id, grade), separated by tabs or, in TREC's own files,
    spaces. `split`: of the file, as from `split_of`.
    """

    def parse(line: bytes) -> Values:
        columns = line.split()
        if len(columns) != 4:
            raise ValueError("not four columns")
        qid, _, pid, relevance = columns
        if not all(number.isdigit() and len(number) <= 18 for number in (qid, pid)):
            raise ValueError("no upstream id")
        if not re.fullmatch(rb"-?[0-9]{1,4}", relevance):
            raise ValueError("no grade")
        query_id, own = f"{GROUP}/q{int(qid)}", f"p{int(pid)}"
        query_hash = xxhash.xxh3_64_intdigest(query_id.encode())
        return f"{query_id}-{own}", query_id, query_hash, f"{GROUP}/{own}", int(relevance), split

    yield from batched(_parsed(lines, parse, "q"), lambda rows: batch_of(rows, QREL_LINES), rows=BATCH_ROWS)


@stage(QUERY_LINES, revision=1)
def read_queries(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """A row for each line of the files of queries, with the file's split; a Rejected for a line that is no query."""
    for name, lines in lines_of(files, ASKED):
        yield from queries(lines, split_of(name), retrieved_at(files.source))


@stage(QREL_LINES, revision=1)
def read_qrels(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """A row for each line of the files of judgements, with the file's split; a Rejected for a line that is no
    judgement.
    """
    for name, lines in lines_of(files, JUDGED):
        yield from qrels(lines, split_of(name))


_BY_QUERY = """
    SELECT query_id, text, list_sort(list_distinct(list(split))) AS splits, '{licence}' AS licence,
        NULL::VARCHAR AS url, min(retrieved_at) AS retrieved_at
    FROM {{}} GROUP BY query_hash, query_id, text ORDER BY query_hash, query_id, min(split), text
"""
_BY_JUDGEMENT = """
    SELECT judgement_id, query_id, passage_id, relevance, list_sort(list_distinct(list(split))) AS splits
    FROM {} GROUP BY query_hash, judgement_id, query_id, passage_id, relevance
    ORDER BY query_hash, query_id, judgement_id, min(split), relevance
"""


@stage(QUERIES, revision=1)
def join_queries(context: StageContext, lines: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """Each query once, with all splits whose files list it, in order of (query_hash, query_id). Another text for the
    same id is a Rejected (a defect); the text whose first split sorts first is kept.
    """
    found = _queried(_BY_QUERY.format(licence=LICENCE), lines, context, QUERIES)
    yield from _once(found, "another text of this query")


@stage(QRELS, revision=1)
def join_qrels(context: StageContext, lines: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """Each judgement once, with all splits whose files list it, in order of (query_hash, query_id, judgement_id).
    Another grade for the same query and passage is a Rejected (a defect); the grade whose first split sorts first is
    kept.
    """
    yield from _once(_queried(_BY_JUDGEMENT, lines, context, QRELS), "another grade of this pair")


def _once(batches: Iterable[pa.RecordBatch], reason: str) -> Iterator[pa.RecordBatch | Rejected]:
    """The rows, in batches, whose key (the first column) differs from that of the row before; before each batch a
    Rejected (a defect) with this reason for each other row in it. No batch may be empty.
    """
    last: object = None
    for batch in batches:
        keys = batch.column(0)
        again = np.append([keys[0].as_py() == last], pc.equal(keys[1:], keys[:-1]))
        last = keys[-1].as_py()
        for row in batch.filter(pa.array(again)).to_pylist():
            yield Rejected(row[batch.schema.names[0]], "defect", reason, raw=str(row)[:RAW_CHARS])
        yield batch.filter(pa.array(~again))


def _queried(
    query: str, rows: PerGroup | AllRows, context: StageContext, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The result of a SQL query, in which {} stands for the rows' files, in batches of up to BATCH_ROWS rows, cast to
    `schema`; nothing if there are no files. Run by DuckDB, out of core.
    """
    import duckdb

    if not rows.paths:
        return
    settings: Any = {"memory_limit": MEMORY_LIMIT, "threads": 1, "temp_directory": str(context.scratch())}
    with duckdb.connect(config=settings) as database:
        database.execute("SET TimeZone = 'UTC'")
        for batch in database.sql(query.format(read_parquet(rows.paths))).to_arrow_reader(BATCH_ROWS):
            yield batch.cast(schema)
