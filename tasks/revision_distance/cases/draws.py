"""Which cases are taken: so many of each task, drawn by hash.

The order of a task's cases is that of the hash of the seed and case_id: another case more changes nothing but whom it
pushes out. What a model is to look at is drawn first, with a reserve, in the same order, so that those it confirms are
the first of all cases that it would confirm, and the check costs little. Where people ask for the same thing in the
same words again, the first in that order stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from longform.artifacts.rows import AllRows, Rejected, Row, Rows
from longform.engine.at_most import Sizes, bound_by
from longform.engine.stage import AtMost, StageContext, stage
from schemas.revision_distance import CANDIDATES, CASES

CHECKED_TASKS = ("easy", "free")
ROWS_AT_ONCE = 500
SOURCE_ID = {"easy": "conversation_id", "free": "instruction_id", "hard": "paper_id", "structure": "case_id"}
NOT_DRAWN, REPEATED = "not drawn", "same request again"
NO_REQUEST, OTHER_KIND = "model: no writing request", "model: another kind of writing"
NOT_CHECKED = "model: no usable reply"

Numbers = Mapping[str, int | None]


def order(case_id: str, seed: int) -> tuple[int, str]:
    """By what cases of a task are sorted: the first ones are drawn."""
    return xxh3_64_intdigest(f"{seed}\x1f{case_id}".encode()), case_id


def drawn(case_ids: Iterable[str], number: int | None, seed: int) -> set[str]:
    """The first so many in the order of the draw; all where no number is set."""
    if number is None:
        return set(case_ids)
    return set(sorted(case_ids, key=lambda case_id: order(case_id, seed))[: max(0, number)])


def with_reserve(number: int | None, spare: float) -> int | None:
    """How many candidates there are for so many cases."""
    return None if number is None else ceil(round(number * max(1.0, spare), 6))


# ---------------------------------------------------------------- candidates


def _candidates_at_most(of: Sizes) -> float:
    found = (candidates_of(task, of["numbers"], of["spare"]) for task in ("easy", "free", "hard"))
    return float(sum(min(of[task], most) for task, most in zip(("easy", "free", "hard"), found, strict=True)))


def candidates_of(task: str, numbers: Numbers, spare: float) -> float:
    """How many candidates there are of a task at most."""
    asked = numbers.get(task)
    return bound_by(with_reserve(asked, spare) if task in CHECKED_TASKS else asked)


@stage(CANDIDATES, revision=1, at_most=AtMost(rows=_candidates_at_most, keeps=True))
def draw_candidates(
    context: StageContext,
    easy: AllRows,
    free: AllRows,
    hard: AllRows,
    *,
    numbers: dict[str, int | None],
    spare: float,
    seed: int,
) -> Iterator[Row | Rejected]:
    """So many cases of each task, `spare` times as many of those that a model looks at; None takes all."""
    for task, rows in (("easy", easy), ("free", free), ("hard", hard)):
        again = repeated(rows, seed) if task in CHECKED_TASKS else set()
        number = with_reserve(numbers[task], spare) if task in CHECKED_TASKS else numbers[task]
        chosen = drawn((case_id for case_id in _ids(rows) if case_id not in again), number, seed)
        for case in _cases(rows):
            if case["case_id"] in chosen:
                yield candidate(case)
            else:
                yield Rejected(case["case_id"], "filtered", REPEATED if case["case_id"] in again else NOT_DRAWN)


def candidate(case: Mapping[str, Any]) -> Row:
    """The row of CANDIDATES of a case of any task."""
    source_id = case[SOURCE_ID[case["task"]]]
    return {name: source_id if name == "source_id" else case[name] for name in CANDIDATES.names}


def repeated(rows: Rows, seed: int) -> set[str]:
    """The cases whose request another one asks in the same words, case and white space aside."""
    first: dict[bytes, str] = {}
    again: set[str] = set()
    for batch in rows.batches(["case_id", "request"], size=ROWS_AT_ONCE):
        for case_id, request in zip(batch["case_id"].to_pylist(), batch["request"].to_pylist(), strict=True):
            words = xxh3_128_digest(" ".join((request or "").lower().split()).encode())
            other = first.setdefault(words, case_id)
            if other != case_id:
                kept, lost = sorted((other, case_id), key=lambda one: order(one, seed))
                first[words] = kept
                again.add(lost)
    return again


def _ids(rows: Rows) -> Iterator[str]:
    for batch in rows.batches(["case_id"]):
        yield from batch["case_id"].to_pylist()


def _cases(rows: Rows) -> Iterator[Row]:
    for batch in rows.batches(size=ROWS_AT_ONCE):
        yield from batch.to_pylist()


# ---------------------------------------------------------------- cases


def _cases_at_most(of: Sizes) -> float:
    wanted = sum(min(of["candidates"], bound_by(most)) for most in of["numbers"].values())
    return float(min(of["candidates"], wanted) + of["structure"])


@stage(CASES, revision=1, at_most=AtMost(rows=_cases_at_most, keeps=True))
def take_cases(
    context: StageContext,
    candidates: AllRows,
    checked: AllRows,
    structure: AllRows,
    *,
    numbers: dict[str, int | None],
    seed: int,
) -> Iterator[Row | Rejected]:
    """The candidates that a model confirmed, or that none was asked of, in the number asked for; all of `structure`."""
    checks = {row["case_id"]: row for row in checked.table(list(_CHECK)).to_pylist()}
    why = {case_id: why_not(case_id, task, checks) for case_id, task in _tasks(candidates)}
    chosen: set[str] = set()
    for task in ("easy", "free", "hard"):
        fit = (case_id for case_id in why if why[case_id] is None and case_id.startswith(f"{task}/"))
        chosen |= drawn(fit, numbers[task], seed)
    for case in _cases(candidates):
        if case["case_id"] in chosen:
            yield {**case, **_said(checks[case["case_id"]])}
        else:
            yield Rejected(case["case_id"], "filtered", why[case["case_id"]] or NOT_DRAWN)
    for case in _cases(structure):
        yield {**candidate(case), **_said({})}


_CHECK = ("case_id", "checked", "checked_kind", "response", "model")


def why_not(case_id: str, task: str, checks: Mapping[str, Row]) -> str | None:
    """Why a model's check leaves a candidate out; None where it does not, or no model was asked."""
    check = checks.get(case_id)
    if check is None:
        return NOT_CHECKED
    if check["checked"] == "no":
        return NO_REQUEST
    return OTHER_KIND if task == "easy" and check["checked_kind"] == "other" else None


def _said(check: Mapping[str, Any]) -> Row:
    return {
        "checked": check.get("checked"),
        "checked_kind": check.get("checked_kind"),
        "check_response": check.get("response"),
        "check_model": check.get("model"),
    }


def _tasks(rows: Rows) -> Iterator[tuple[str, str]]:
    for batch in rows.batches(["case_id", "task"]):
        yield from zip(batch["case_id"].to_pylist(), batch["task"].to_pylist(), strict=True)
