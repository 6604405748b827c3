"""What of a published version is scored, and against what the scores are held.

    stackexchange, eli5, msmarco   config ranking       answers to rank, with gains
    pairs                          config pairs, test   preferred and rejected answers, with and without evidence
    webgpt                         config comparisons   two answers that people compared, each with its own evidence
    people                         configs validation   pairs of which a majority of people prefers one answer
                                   and judgements

A set is read by one shard, as all pairs of a question make one group, so that each answer is scored once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row, Shard, Source, read_batches, read_parquet
from longform.artifacts.versions import Version
from longform.engine.stage import AtMost, StageContext, stage
from schemas.axioms.scoring import GROUPS
from tasks.axioms.scoring.groups import Group

if TYPE_CHECKING:
    import pandas as pd

RANKING, PAIRS, COMPARISONS, VALIDATION, JUDGEMENTS = "ranking", "pairs", "comparisons", "validation", "judgements"
RANKED_SETS = ("stackexchange", "eli5", "msmarco")
OF_PAIRS, OF_COMPARISONS, OF_PEOPLE = "pairs", "webgpt", "people"
SETS = (*RANKED_SETS, OF_PAIRS, OF_COMPARISONS, OF_PEOPLE)
CONFIGS = {**dict.fromkeys(RANKED_SETS, RANKING), OF_PAIRS: PAIRS, OF_COMPARISONS: COMPARISONS, OF_PEOPLE: JUDGEMENTS}
ROWS_AT_ONCE = 100
PREFERRED, REJECTED = "preferred", "rejected"
MEMORY: dict[str, Any] = {"memory_limit": "1GB", "threads": 2}


def sets_in(version: Version) -> dict[str, list[Path]]:
    """set -> the files that hold it, of those sets of the version that have a row, in the order of SETS; of `pairs` the
    split test.
    """
    found: dict[str, list[Path]] = {}
    tables = version.tables()
    ranked = tables.get(RANKING, [])
    names = {name for path in ranked for name in pc.unique(pq.read_table(path, columns=["set"])["set"]).to_pylist()}
    found |= {name: ranked for name in RANKED_SETS if name in names}
    found |= {OF_PAIRS: version.files(PAIRS, "test")}
    found |= {OF_COMPARISONS: tables.get(COMPARISONS, [])}
    judged = (tables.get(VALIDATION, []), tables.get(JUDGEMENTS, []))
    if all(judged) and _decided(paths := [*judged[0], *judged[1]]):
        found |= {OF_PEOPLE: paths}
    return {name: paths for name, paths in found.items() if any(pq.read_metadata(path).num_rows for path in paths)}


def _decided(paths: list[Path]) -> bool:
    """Whether people have decided a pair."""
    query = f"SELECT count(*) FROM ({_pairs_of(OF_PEOPLE, paths)})"
    with duckdb.connect(config=MEMORY) as database:
        ((decided,),) = database.execute(query).fetchall()
    return bool(decided)


def _pairs_of(name: str, paths: list[Path]) -> str:
    """SQL for the pairs of a set, with the columns of PAIRS: those of the files; of `people` those of the validation
    that a majority of people decided, what they prefer as the preferred answer.
    """
    if name != OF_PEOPLE:
        return f"FROM {read_parquet(paths)}"
    judgements = [path for path in paths if "better" in pq.read_schema(path).names]
    validation = [path for path in paths if path not in judgements]
    sides = [
        f"CASE WHEN balance > 0 THEN {one}{end} ELSE {other}{end} END AS {one}{end}"
        for end in ("", "_id")
        for one, other in ((PREFERRED, REJECTED), (REJECTED, PREFERRED))
    ]
    return f"""
        SELECT axiom, pair_type, question_id, question, evidence, {", ".join(sides)}
        FROM {read_parquet(validation)} JOIN (
            SELECT pair_id, sum(CASE better WHEN '{PREFERRED}' THEN 1 ELSE -1 END) AS balance
            FROM {read_parquet(judgements)} WHERE who = 'people' GROUP BY pair_id
        ) USING (pair_id) WHERE balance <> 0
    """


def sources_of(version: Version, sets: dict[str, list[Path]], limit: int | None) -> list[Source]:
    """A source for each of these sets (as from `sets_in`), by the hashes of its files. `limit`: at most so many of its
    questions, drawn by a hash of their ids, so that a larger limit adds to them.
    """
    known = version.manifest["files"]
    facts = (("limit", None if limit is None else str(limit)),)
    return [
        Source(
            name,
            "\n".join(map(str, paths)),
            fingerprint([known[str(path.relative_to(version.folder))]["sha256"] for path in paths]),
            facts,
            ((0, -1),),
        )
        for name, paths in sets.items()
    ]


@stage(GROUPS, revision=1, at_most=AtMost(rows=lambda sizes: float("inf")), max_rows_per_part=500)
def read_groups(context: StageContext, version: Shard) -> Iterator[Row]:
    """The groups of answers that one set of a published version asks to score, by question."""
    name, paths = version.source.group, [Path(path) for path in version.source.path.split("\n")]
    limit = dict(version.source.facts)["limit"]
    chosen = _chosen(name, paths, None if limit is None else int(limit))
    read = {**dict.fromkeys(RANKED_SETS, _of_ranking), OF_COMPARISONS: _of_comparisons}.get(name, _of_pairs)
    for group in read(name, paths, chosen):
        yield _row(group)


Choice = Callable[[str], bool]


def _chosen(name: str, paths: list[Path], limit: int | None) -> Choice:
    """Whether a question of the set is among the `limit` ones with the least hashes of their ids; all are for None."""
    if limit is None:
        return lambda question: True
    key = "comparison_id" if name == OF_COMPARISONS else "question_id"
    columns = [key, "set"] if name in RANKED_SETS else [key]
    shown = [path for path in paths if key in pq.read_schema(path).names]
    rows = (row for path in shown for batch in read_batches(path, 10_000, columns) for row in batch.to_pylist())
    ids = {row[key] for row in rows if name not in RANKED_SETS or row["set"] == name}
    least = set(heapq.nsmallest(limit, ids, key=lambda each: (xxhash.xxh3_64_intdigest(each.encode()), each)))
    return least.__contains__


def _row(group: Group) -> Row:
    """A row of GROUPS."""
    return {
        "group_id": group.key,
        "set": group.set,
        "question_id": group.question_id,
        "question": group.question,
        "evidence_id": group.evidence_id,
        "evidence": list(group.evidence),
        "answers": [{"answer_id": answer, "text": text} for answer, text in group.answers],
    }


def group_of(row: Row) -> Group:
    """The group in a row of GROUPS."""
    return Group(
        row["group_id"],
        row["question"],
        tuple(row["evidence"]),
        [(each["answer_id"], each["text"]) for each in row["answers"]],
        row["question_id"],
        row["set"],
        row["evidence_id"],
    )


def _group(name: str, question: Row, answers: dict[str, str], evidence: list[str]) -> Group:
    """A group of the set `name`. `question`: with question_id and question; `answers`: id -> text."""
    key, shown_with = question["question_id"], evidence_id(evidence)
    return Group(
        " ".join(filter(None, (name, key, shown_with))),
        question["question"],
        tuple(evidence),
        sorted(answers.items()),
        key,
        name,
        shown_with,
    )


def evidence_id(evidence: list[str]) -> str:
    """A hash of the passages in their order; "" if there are none."""
    return f"e_{fingerprint(evidence)}" if evidence else ""


def _of_ranking(name: str, paths: list[Path], chosen: Choice) -> Iterator[Group]:
    columns = ["set", "question_id", "question", *(f"answers.list.element.{each}" for each in ("answer_id", "text"))]
    for path in paths:
        for batch in read_batches(path, ROWS_AT_ONCE, columns):
            for row in batch.to_pylist():
                if row["set"] == name and chosen(row["question_id"]):
                    yield _group(name, row, {each["answer_id"]: each["text"] for each in row["answers"]}, [])


def _of_pairs(name: str, paths: list[Path], chosen: Choice) -> Iterator[Group]:
    """By question a group of all answers without evidence, and one for each evidence that pairs of it have."""
    side = "SELECT question_id, question, evidence, {0}_id AS id, {0} AS text FROM pairs"
    query = f"""
        WITH pairs AS ({_pairs_of(name, paths)}),
        sides AS ({side.format(PREFERRED)} UNION ALL {side.format(REJECTED)}),
        shown AS (SELECT * REPLACE ([]::VARCHAR[] AS evidence) FROM sides UNION ALL FROM sides WHERE len(evidence) > 0)
        SELECT question_id, any_value(question) AS question, evidence, list(DISTINCT {{'id': id, 'text': text}}) AS own
        FROM shown GROUP BY question_id, evidence ORDER BY question_id, evidence
    """
    with duckdb.connect(config=MEMORY) as database:
        for batch in database.sql(query).to_arrow_reader(ROWS_AT_ONCE):
            for row in batch.to_pylist():
                if chosen(row["question_id"]):
                    yield _group(name, row, {each["id"]: each["text"] for each in row["own"]}, row["evidence"])


def _of_comparisons(name: str, paths: list[Path], chosen: Choice) -> Iterator[Group]:
    """For each comparison a group of both answers without evidence, and one of each answer with its own evidence."""
    for path in paths:
        for batch in read_batches(path, ROWS_AT_ONCE, ["comparison_id", "question", PREFERRED, REJECTED]):
            for row in batch.to_pylist():
                question = {"question_id": row["comparison_id"], "question": row["question"]}
                sides = {side: row[side] for side in (PREFERRED, REJECTED)}
                if not chosen(row["comparison_id"]):
                    continue
                yield _group(name, question, {side: each["text"] for side, each in sides.items()}, [])
                shown: dict[str, dict[str, str]] = {}
                passages = {evidence_id(each["evidence"]): each["evidence"] for each in sides.values()}
                for side, each in sides.items():
                    shown.setdefault(evidence_id(each["evidence"]), {})[side] = each["text"]
                for name_of, answers in shown.items():
                    if name_of:
                        yield _group(name, question, answers, passages[name_of])


# against what scores are held


def ranking_items(paths: list[Path]) -> pd.DataFrame:
    """A row for each answer to rank: set, subset (the site), question_id, answer_id, gain."""
    columns = ["set", "site", "question_id", *(f"answers.list.element.{each}" for each in ("answer_id", "gain"))]
    tables = [_flat(pq.ParquetFile(path).read(columns)) for path in paths]
    found: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    return found


def _flat(rows: pa.Table) -> pa.Table:
    """The answers of rows of RANKING, a row each."""
    answers = rows["answers"].combine_chunks()
    parents = pc.list_parent_indices(answers)
    own = {name: rows[name].take(parents) for name in ("set", "site", "question_id")}
    inner = answers.flatten()
    return pa.table(
        {
            "set": own["set"],
            "subset": own["site"],
            "question_id": own["question_id"],
            "answer_id": inner.field("answer_id"),
            "gain": inner.field("gain"),
        }
    )


def items_of(name: str, paths: list[Path]) -> pd.DataFrame:
    """What the scores of a set are held against: `ranking_items` of the set, `comparison_items` or `pair_items`."""
    if name in RANKED_SETS:
        found = ranking_items(paths)
        return found[found["set"] == name]
    return comparison_items(paths) if name == OF_COMPARISONS else pair_items(name, paths)


def pair_items(name: str, paths: list[Path]) -> pd.DataFrame:
    """A row for each pair of the set `name`: set, axiom, pair_type, parent, question_id, preferred_id, rejected_id,
    preferred_evidence and rejected_evidence, the id of the evidence that each is read with, "" if there is none.
    `parent`: of a combined answer's two parents, which one is rejected: "first" (with more votes) or "second".
    """
    parent = _PARENT if name == OF_PAIRS else "NULL"
    query = f"""
        WITH pairs AS ({_pairs_of(name, paths)})
        SELECT axiom, pair_type, {parent} AS parent, question_id, preferred_id, rejected_id, evidence FROM pairs
        WINDOW own AS (PARTITION BY question_id, pair_type, preferred_id)
        ORDER BY question_id, pair_type, preferred_id, rejected_id
    """
    with duckdb.connect(config=MEMORY) as database:
        batches = database.sql(query).to_arrow_reader(10_000)
        rows = (row for batch in batches for row in batch.to_pylist())
        return _pairs({**row, "set": name, **_evidences(row["evidence"], row["evidence"])} for row in rows)


def comparison_items(paths: list[Path]) -> pd.DataFrame:
    """A row for each comparison, with the columns of `pair_items`; without axiom and pair type."""
    columns = ["comparison_id", *(f"{side}.evidence.list.element" for side in (PREFERRED, REJECTED))]
    rows = (row for path in paths for batch in read_batches(path, 10_000, columns) for row in batch.to_pylist())
    return _pairs(
        {
            "set": OF_COMPARISONS,
            "axiom": None,
            "pair_type": None,
            "parent": None,
            "question_id": row["comparison_id"],
            "preferred_id": PREFERRED,
            "rejected_id": REJECTED,
            **_evidences(row[PREFERRED]["evidence"], row[REJECTED]["evidence"]),
        }
        for row in rows
    )


_PARENT = """CASE WHEN axiom = 5 AND count(*) OVER own = 2 THEN
    CASE row_number() OVER (own ORDER BY rejected_votes DESC, rejected_id) WHEN 1 THEN 'first' ELSE 'second' END END"""
PAIR_COLUMNS = {
    "set": str,
    "axiom": object,
    "pair_type": object,
    "parent": object,
    "question_id": str,
    "preferred_id": str,
    "rejected_id": str,
    "preferred_evidence": str,
    "rejected_evidence": str,
}


def _evidences(preferred: list[str], rejected: list[str]) -> dict[str, str]:
    return {"preferred_evidence": evidence_id(preferred), "rejected_evidence": evidence_id(rejected)}


def _pairs(rows: Iterator[dict[str, Any]]) -> pd.DataFrame:
    """The rows as a frame of PAIR_COLUMNS, also without rows."""
    import pandas as pd

    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS)).astype(PAIR_COLUMNS)
