"""The validation gate: a pair type that is preferred less often than asked leaves the split train, on the evidence of
people, or else of a judge; a type that nobody judged stays and is called unvalidated.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import read_parquet
from longform.engine.health import Gate, percent
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import PAIRS
from schemas.axioms.validation import DECISIONS, JUDGEMENTS
from tasks.axioms.people.judgements import collected
from tasks.axioms.validation.rates import JUDGE, PEOPLE, UNVALIDATED, Counted, counted, evidence_of
from tasks.axioms.validation.sample import TYPES_AT_MOST

NAME = "validation"
OF_JUDGEMENT = ("who", "pair_id", "pair_type", "axiom", "better")
NOT_PREFERRED = "its pair type is not preferred often enough"
WHO = {PEOPLE: "people", JUDGE: "the judge"}


@stage(JUDGEMENTS, revision=1, split_by="who")
def collect_judgements(context: StageContext, people: AllRows) -> Iterator[Row | Rejected]:
    """What people say, of all files: the first judgement of each person on each pair; a Rejected for each further
    one.
    """
    yield from collected(people)


@stage(JUDGEMENTS, revision=1, split_by="who", at_most=AtMost(rows=lambda of: of["people"] + of["judge"]))
def collect_both_judgements(context: StageContext, people: AllRows, judge: AllRows) -> Iterator[Row | Rejected]:
    """What people and a judge say, as parts of their own: as `collect_judgements`, of a judge the first judgement of
    each pair in each order.
    """
    yield from collected(chain(people, judge))


@stage(DECISIONS, revision=1, at_most=AtMost(rows=lambda of: TYPES_AT_MOST))
def decide_pair_types(
    context: StageContext, pairs: AllRows, judgements: AllRows, *, at_least: float, least_pairs: int
) -> Iterator[Row]:
    """A row for each pair type of `pairs` and of `judgements`: on whose evidence it is decided (`evidence_of`), the
    figures of that, and whether it leaves training: a type of train that is preferred in a smaller share than
    `at_least`.
    """
    rows = list(judgements.as_dicts(*OF_JUDGEMENT))
    trained = _trained(pairs)
    axioms = {kind: axiom for kind, (axiom, _) in trained.items()} | {row["pair_type"]: row["axiom"] for row in rows}
    for kind in sorted(axioms):
        own = [row for row in rows if row["pair_type"] == kind]
        of = {who: counted(row for row in own if row["who"] == who) for who in (PEOPLE, JUDGE)}
        number = trained.get(kind, (0, 0))[1]
        yield {
            "pair_type": kind,
            "axiom": axioms[kind],
            "trained": number,
            **_decision(of, number, at_least, least_pairs),
        }


def _trained(pairs: Rows) -> dict[str, tuple[int, int]]:
    """pair type -> (its axiom, its pairs of train), of all types."""
    if not pairs.paths:
        return {}
    query = f"""
        SELECT pair_type, min(axiom), count_if(split = 'train') FROM {read_parquet(pairs.paths)} GROUP BY 1 ORDER BY 1
    """
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        return {kind: (axiom, number) for kind, axiom, number in database.execute(query).fetchall()}


def _decision(of: dict[str, Counted], trained: int, at_least: float, least_pairs: int) -> Row:
    who = evidence_of(of, least_pairs)
    found = of.get(who, Counted())
    low, high = found.bounds
    return {
        "evidence": who,
        "judged": found.judged,
        "preferred": found.preferred,
        "rejected": found.rejected,
        "undecided": found.undecided,
        "least_raters": found.raters[0],
        "most_raters": found.raters[1],
        "rate": found.rate,
        "low": low,
        "high": high,
        "p_value": found.p_value,
        "left_out": trained > 0 and found.is_under(at_least),
    }


@stage(PAIRS, revision=1, at_most=AtMost(keeps=True))
def leave_out_pair_types(context: StageContext, pairs: Rows, decisions: AllRows) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs without those of train whose type is left out, each of which is a Rejected; those of other splits
    stay.
    """
    why = {row["pair_type"]: f"{row['pair_type']}: {found(row)}" for row in decisions if row["left_out"]}
    kinds = pa.array(sorted(why), pa.string())
    for batch in pairs.batches():
        train = pc.equal(batch.column("split"), "train")
        gone = pc.and_(train, pc.is_in(batch.column("pair_type"), value_set=kinds))
        if (kept := batch.filter(pc.invert(gone))).num_rows:
            yield kept
        for row in batch.filter(gone).select(["pair_id", "pair_type"]).to_pylist():
            yield Rejected(row["pair_id"], "filtered", NOT_PREFERRED, why[row["pair_type"]])


def found(decision: Row) -> str:
    """What was found of a decided pair type, in brackets what it is of: `preferred by people in 55 % of 20 pairs (95 %
    interval 34.2 % to 74.2 %; 3 judgements a pair)`.
    """
    decided = decision["preferred"] + decision["rejected"]
    least, most = decision["least_raters"], decision["most_raters"]
    number = f"{least}" if least == most else f"{least} to {most}"
    facts = [
        f"95 % interval {percent(decision['low'])} to {percent(decision['high'])}",
        *([f"{decision['undecided']} more undecided"] if decision["undecided"] else []),
        f"{number} judgement{'s' * (most > 1)} a pair",
    ]
    rate = f"{percent(decision['rate'])} of {decided} pairs"
    return f"preferred by {WHO[decision['evidence']]} in {rate} ({'; '.join(facts)})"


def gates(pairs: Rows, decisions: Rows | None) -> list[Gate]:
    """What card, console and manifest say of the pair types of train, as gates that let everything through: one for
    each that is left out, with its evidence, and one of those that are unvalidated. `decisions`: None if nobody judges.
    """
    rows = [row for row in decisions or () if row["trained"]]
    kinds = {kind for kind, (_, number) in _trained(pairs).items() if number}
    unvalidated = len(kinds) - sum(row["evidence"] != UNVALIDATED for row in rows)
    return [
        *(_left_out(row) for row in rows if row["left_out"]),
        Gate(NAME, "version", f"pair types of train are {UNVALIDATED}", unvalidated, len(kinds), 1.0),
    ]


def _left_out(row: Row) -> Gate:
    what = f"pairs of {row['pair_type']} are not preferred, so that the type is left out of training: {found(row)}"
    return Gate(NAME, "version", what, row["rejected"], row["preferred"] + row["rejected"], 1.0)
