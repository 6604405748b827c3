"""The stage that gives each query its passages, P+ and P-, so that the two sides of the split share none.

A passage that a query of test shows, or that is labelled for a query of a dev or eval file, is shown with no query of
train. One that is labelled for a query of train, and for
none of test, is shown with none of test. What stands on a side of the community sites stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from longform.artifacts.parts import open_parquet
from longform.artifacts.rows import Rejected, Row, Rows, read_parquet
from longform.engine.stage import AllRows, PerGroup, StageContext, stage
from schemas.axioms.grounding import GROUNDED
from tasks.axioms.grounding.choice import Choice, Text, choose
from tasks.axioms.grounding.queries import held_out
from tasks.axioms.sealed.sealing import text_hash

TEXTS = pa.schema([
    ("id", pa.string()), ("text", pa.string()), ("scrubbed", pa.int32()), ("hash", pa.uint64()),
])  # fmt: skip
SETTINGS: dict[str, Any] = {"memory_limit": "512MB", "threads": 2}
AT_ONCE = 256
OTHER_SIDE = {"train": "test", "test": "train"}
Asked = tuple[Row, Row]  # the query, what was found for it


@stage(GROUNDED, revision=2)
def choose_passages(
    context: StageContext,
    queries: PerGroup,
    retrieved: PerGroup,
    passages: PerGroup,
    qrels: PerGroup,
    texts: AllRows,
    *,
    k: int,
    irrelevant: int,
    similarity: float,
    regions: list[str],
) -> Iterator[Row | Rejected]:
    """Each query with its passages in P+ and P- (see `choose`); a Rejected for a query that has too few.

    `qrels`: all judgements, also of queries that are not asked. `texts`: those of community sites, by hash, with their
    side. `regions`: as for `scrub`; nothing is scrubbed without
    one. Memory: the ids and hashes of what is shown; texts are in a temporary file.
    """
    with _opened(context, retrieved, queries, passages, texts, regions) as database:
        sides = _Sides(queries, qrels, database)
        arguments: dict[str, Any] = {"k": k, "irrelevant": irrelevant, "similarity": similarity}
        chosen: dict[str, Choice | str] = {}
        for split in ("test", "train"):  # test first: what it shows, train does not
            of_side = ((query, found) for query, found in _asked(queries, retrieved) if query["split"] == split)
            for (query, found), known in _with_texts(database, of_side):
                best, far = ([hit["passage_id"] for hit in found[name]] for name in ("best", "far"))
                may_show = sides.may_show(query, known)
                choice = choose(query["labelled"], best, far, known, may_show, **arguments)
                chosen[query["question_id"]] = choice
                if not isinstance(choice, str):
                    sides.shows(split, (known[name].hash for names in choice for name in names))
        seen: set[str] = set()
        for (query, found), known in _with_texts(database, _asked(queries, retrieved), chosen):
            choice = chosen[query["question_id"]]
            if isinstance(choice, str):
                yield Rejected(query["question_id"], "filtered", choice)
                continue
            yield query | _shown(query, found, choice, known, seen)
            seen.update(*choice)


class _Sides:
    """Which passages the queries of a side may show."""

    def __init__(self, queries: Rows, qrels: Rows, database: duckdb.DuckDBPyConnection) -> None:
        self._elsewhere: dict[str, set[int]] = {side: set() for side in OTHER_SIDE}
        for side, hash in database.sql("SELECT side, hash FROM elsewhere").fetchall():
            self._elsewhere[side].add(hash)
        self._hashes = {side: set(hashes) for side, hashes in self._elsewhere.items()}  # what a side shows, or owns
        labelled: set[str] = set()
        for row in queries.as_dicts("split", "text", "labelled"):
            self._hashes[row["split"]].add(text_hash(row["text"]))
            labelled.update(row["labelled"] if row["split"] == "train" else ())
        for side, ids in (("train", labelled), ("test", held_out(qrels))):
            database.register("labelled", pa.table({"id": pa.array(sorted(ids), pa.string())}))
            found = database.sql("SELECT DISTINCT hash FROM texts SEMI JOIN labelled USING (id)").fetchall()
            self._hashes[side].update(hash for (hash,) in found)
            database.unregister("labelled")

    def may_show(self, query: Row, known: dict[str, Text]) -> Callable[[str], bool]:
        """Whether the query may show a passage. `known`: id -> text. A query of test may show what is labelled for it,
        unless a community site has it on the side of train.
        """
        other = OTHER_SIDE[query["split"]]
        hidden, elsewhere = self._hashes[other], self._elsewhere[other]
        own = set(query["labelled"]) if query["split"] == "test" else set[str]()
        return lambda name: known[name].hash not in (elsewhere if name in own else hidden)

    def shows(self, split: str, hashes: Iterable[int]) -> None:
        """Note what a query of this side shows."""
        self._hashes[split].update(hashes)


def _asked(queries: Rows, retrieved: Rows) -> Iterator[Asked]:
    """Each query with what was found for it, in order."""
    for query, found in zip(queries, retrieved, strict=True):
        assert query["question_id"] == found["question_id"]
        yield query, found


def _opened(
    context: StageContext, retrieved: Rows, queries: Rows, passages: Rows, texts: Rows, regions: Sequence[str]
) -> duckdb.DuckDBPyConnection:
    """A database in a temporary folder: `texts`, of the passages that were found or labelled, by id; `elsewhere`, the
    hashes of those that stand on a side of a community site, with that side.
    """
    folder = context.scratch()
    database = duckdb.connect(str(folder / "passages.duckdb"), config={**SETTINGS, "temp_directory": str(folder)})
    lists = [f"SELECT unnest({name}).passage_id AS id FROM {{found}}" for name in ("best", "far")]
    wanted = " UNION ".join([*lists, "SELECT unnest(labelled) AS id FROM {queries}"])
    files = {"found": retrieved.paths, "queries": queries.paths}
    if all((*files.values(), passages.paths)):
        query = f"""
            SELECT passage_id AS id, text FROM {read_parquet(passages.paths)}
            WHERE passage_id IN ({wanted.format(**{name: read_parquet(paths) for name, paths in files.items()})})
        """
        _write_hashed(database, query, folder / "texts.parquet", regions)
        first = f"SELECT DISTINCT ON (id) * FROM {read_parquet([folder / 'texts.parquet'])} ORDER BY id, hash"
        database.execute(f"CREATE TABLE texts AS {first}")
    else:
        database.register("none", TEXTS.empty_table())
        database.execute("CREATE TABLE texts AS FROM none")
    sides = "SELECT NULL AS hash, NULL AS split LIMIT 0" if not texts.paths else f"FROM {read_parquet(texts.paths)}"
    database.execute(f"""
        CREATE TABLE elsewhere AS SELECT DISTINCT split AS side, hash FROM ({sides})
        WHERE split IN ('train', 'test') AND hash IN (SELECT hash FROM texts)
    """)
    return database


def _write_hashed(database: duckdb.DuckDBPyConnection, query: str, path: Path, regions: Sequence[str]) -> None:
    """Write the rows (id, text) of a query to a Parquet file, scrubbed, with their hashes (TEXTS)."""
    from tasks.text.scrub import scrub

    with open_parquet(path, TEXTS) as writer:
        for batch in database.sql(query).to_arrow_reader(1_000):
            rows = []
            for row in batch.to_pylist():
                clean = scrub(row["text"], regions) if regions else None
                text = clean.text if clean else row["text"]
                rows.append(
                    {"id": row["id"], "text": text, "scrubbed": clean.marks if clean else 0, "hash": text_hash(text)}
                )
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=TEXTS))


def _with_texts(
    database: duckdb.DuckDBPyConnection, asked: Iterable[Asked], chosen: dict[str, Choice | str] | None = None
) -> Iterator[tuple[Asked, dict[str, Text]]]:
    """Each query with the texts (id -> text) of the passages found and labelled, or, with `chosen` (query id ->
    choice), of those that were chosen.
    """
    asked = iter(asked)
    while some := list(islice(asked, AT_ONCE)):
        names = [_names(*both) if chosen is None else _chosen(chosen[both[0]["question_id"]]) for both in some]
        wanted = pa.table({"id": pa.array(sorted(set().union(*names)), pa.string())})
        database.register("wanted", wanted)
        found = database.sql("SELECT texts.* FROM texts SEMI JOIN wanted USING (id)").to_arrow_table().to_pylist()
        database.unregister("wanted")
        known = {row["id"]: Text(row["text"], row["hash"], row["scrubbed"]) for row in found}
        for both, own in zip(some, names, strict=True):
            yield both, {name: known[name] for name in own if name in known}


def _names(query: Row, found: Row) -> set[str]:
    return {*query["labelled"], *(hit["passage_id"] for name in ("best", "far") for hit in found[name])}


def _chosen(choice: Choice | str) -> set[str]:
    return set() if isinstance(choice, str) else set().union(*choice)


def _shown(query: Row, found: Row, choice: Choice, known: dict[str, Text], seen: set[str]) -> Row:
    """The columns `relevant` and `irrelevant` of a query. `seen`: passages that queries before it show."""
    scores = {hit["passage_id"]: hit["score"] for name in ("best", "far") for hit in found[name]}
    return {
        column: [
            {
                "passage_id": name,
                "text": known[name].text,
                "score": scores.get(name),
                "labelled": name in query["labelled"],
                "scrubbed": known[name].scrubbed,
                "first": name not in seen,
            }
            for name in names
        ]
        for column, names in zip(("relevant", "irrelevant"), choice, strict=True)
    }
