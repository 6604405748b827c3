"""The draw of cases: a number for each task, by hash.

The cases of a task are ordered by a hash of the seed and case_id, so that an additional case replaces at most one
other. Where a model checks cases, more are drawn in this order than are wanted; the accepted ones are then the same as
if the model had checked all cases. Of cases with the same request, the first in this order is kept. Between the two
draws a model checks, optionally, the writing requests that the rules selected (appendix A).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, bound_by, longest
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Failure
from schemas.replies import WritingCheck
from schemas.revision_distance import CANDIDATES, CASES, CHECKED
from tasks.answers import NO_MODEL, made_by, unanswered

TASKS, CHECKED_TASKS = ("easy", "free", "hard"), ("easy", "free")
ROWS_AT_ONCE = 500
MESSAGE_CHARACTERS = 20_000
SOURCE_ID = {"easy": "conversation_id", "free": "instruction_id", "hard": "paper_id", "structure": "case_id"}
NOT_DRAWN, REPEATED = "not drawn", "same request again"
NO_REQUEST, OTHER_KIND = "model: no writing request", "model: another kind of writing"
NOT_CHECKED = "model: no usable reply"

Numbers = Mapping[str, int | None]


def order(case_id: str, seed: int) -> tuple[int, str]:
    """The sort key of a case in the draw, (hash, case_id): the cases with the lowest keys are drawn."""
    return xxh3_64_intdigest(f"{seed}\x1f{case_id}".encode()), case_id


def drawn(case_ids: Iterable[str], number: int | None, seed: int) -> set[str]:
    """The `number` case ids that come first in the order of the draw (fewer if there are fewer); all if it is None."""
    return set(sorted(case_ids, key=lambda case_id: order(case_id, seed))[:number])


def with_reserve(number: int | None, spare: float) -> int | None:
    """The number of candidates to draw for `number` cases: `spare` times as many, rounded up.

    At least `number`; None if `number` is None.
    """
    return None if number is None else ceil(round(number * max(1.0, spare), 6))


# ---------------------------------------------------------------- candidates


def candidates_of(task: str, numbers: Numbers, spare: float) -> float:
    """Upper bound of the number of candidates of a task; infinite if its number of cases is None or missing.

    `numbers`: task -> number of cases; `spare`: how many times as many are drawn of the tasks that a model checks.
    """
    number = numbers.get(task)
    return bound_by(with_reserve(number, spare) if task in CHECKED_TASKS else number)


@stage(
    CANDIDATES,
    revision=1,
    at_most=AtMost(
        rows=lambda of: sum(min(of[task], candidates_of(task, of["numbers"], of["spare"])) for task in TASKS),
        keeps=True,
    ),
)
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
    """Candidates for cases, drawn at random by `seed`: `numbers[task]` of each of the tasks easy, free and hard.

    None draws all. Of easy and free, whose requests a model may check, `spare` times as many are drawn. A Rejected for
    a case that is not drawn, and in easy and free for one that repeats the request of another.
    """
    for task, rows in (("easy", easy), ("free", free), ("hard", hard)):
        repeats = repeated(rows, seed) if task in CHECKED_TASKS else set()
        number = with_reserve(numbers[task], spare) if task in CHECKED_TASKS else numbers[task]
        case_ids = (row["case_id"] for row in rows.as_dicts("case_id"))
        chosen = drawn((case_id for case_id in case_ids if case_id not in repeats), number, seed)
        for case in _cases(rows):
            if case["case_id"] in chosen:
                yield candidate(case)
            else:
                yield Rejected(case["case_id"], "filtered", REPEATED if case["case_id"] in repeats else NOT_DRAWN)


def candidate(case: Mapping[str, Any]) -> Row:
    """The row of CANDIDATES for a case of any task.

    Its `source_id` is the id of the record that the case was made from; the other columns are those of the case,
    and null where its table has none.
    """
    source_id = case[SOURCE_ID[case["task"]]]
    return {name: source_id if name == "source_id" else case.get(name) for name in CANDIDATES.names}


def repeated(rows: Rows, seed: int) -> set[str]:
    """Ids of the cases whose request is that of another case that comes earlier in the draw.

    Requests are compared in lower case, with any white space as one blank; a missing request counts as empty.
    """
    first: dict[bytes, str] = {}
    repeats: set[str] = set()
    for case in _cases(rows, ["case_id", "request"]):
        words = xxh3_128_digest(" ".join((case["request"] or "").lower().split()).encode())
        other = first.setdefault(words, case["case_id"])
        if other != case["case_id"]:
            first[words], dropped = sorted((other, case["case_id"]), key=lambda one: order(one, seed))
            repeats.add(dropped)
    return repeats


def _cases(rows: Rows, columns: list[str] | None = None) -> Iterator[Row]:
    """The rows as dicts, read in batches of ROWS_AT_ONCE. `columns`: None for all."""
    return (case for batch in rows.batches(columns, size=ROWS_AT_ONCE) for case in batch.to_pylist())


# ---------------------------------------------------------------- checks


def _checks_at_most(of: Sizes) -> float:
    """Upper bound of the number of questions to the model: one for each candidate of the tasks easy and free."""
    drawn = of.arguments_of("candidates")
    most = (candidates_of(task, drawn.get("numbers", {}), drawn.get("spare", 1.0)) for task in CHECKED_TASKS)
    return float(min(of["candidates"], sum(most)))


@stage(
    CHECKED,
    revision=1,
    at_most=AtMost(
        rows=lambda of: of["candidates"],
        calls=_checks_at_most,
        questions=lambda of: [
            of["prompt"].request(of["model"], reply=WritingCheck, message=longest(MESSAGE_CHARACTERS))
        ],
    ),
)
def check_requests(
    context: StageContext, candidates: Rows, *, model: Endpoint | None, prompt: Prompt | None
) -> Iterator[Row | Rejected]:
    """For each candidate, whether its request asks for a new text, and the kind of text, as a model says.

    The verdict is "yes" or "no". Both are null without a model, and for the task hard, whose candidates have no
    request. Of a request the first MESSAGE_CHARACTERS characters are sent. A Rejected for a candidate without a usable
    reply.
    """
    asked = []
    for candidate in candidates:
        if model is not None and candidate["task"] in CHECKED_TASKS:
            asked.append(candidate)
        else:
            yield _checked(candidate, None, None, NO_MODEL)
    if model is None or prompt is None:
        return
    requests = (
        (
            candidate,
            prompt.request(model, reply=WritingCheck, message=(candidate["request"] or "")[:MESSAGE_CHARACTERS]),
        )
        for candidate in asked
    )
    for candidate, answer in context.ask(model, requests):
        if isinstance(answer, Failure):
            yield unanswered(candidate["case_id"], answer)
        else:
            yield _checked(candidate, answer.value.verdict, answer.value.kind, made_by(answer, model, prompt))


def _checked(candidate: Row, verdict: str | None, kind: str | None, origin: Row) -> Row:
    """The row of CHECKED of a candidate. `verdict`: "yes", "no" or None; `origin`: columns of MADE_BY of the reply."""
    key = candidate["case_id"]
    return {"check_id": f"c_{fingerprint(key)}", "case_id": key, "checked": verdict, "checked_kind": kind, **origin}


# ---------------------------------------------------------------- cases


def _cases_at_most(of: Sizes) -> float:
    """Upper bound of the number of cases: those wanted of each task, at most all candidates, and the given pairs."""
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
    """`numbers[task]` candidates of each task (None: all) that no model check excludes, and all cases of `structure`.

    Drawn by `seed` in the same order as the candidates. A Rejected for every other candidate, with the reason of the
    check or as not drawn.
    """
    checks = {row["case_id"]: row for row in checked.as_dicts(*_CHECK)}
    reasons = {
        row["case_id"]: reason_against(row["case_id"], row["task"], checks)
        for row in candidates.as_dicts("case_id", "task")
    }
    chosen: set[str] = set()
    for task in TASKS:
        fit = (case_id for case_id in reasons if reasons[case_id] is None and case_id.startswith(f"{task}/"))
        chosen |= drawn(fit, numbers[task], seed)
    for case in _cases(candidates):
        if case["case_id"] in chosen:
            yield {**case, **_check_columns(checks[case["case_id"]])}
        else:
            yield Rejected(case["case_id"], "filtered", reasons[case["case_id"]] or NOT_DRAWN)
    for case in _cases(structure):
        yield {**candidate(case), **_check_columns({})}


_CHECK = ("case_id", "checked", "checked_kind", "response", "model")


def reason_against(case_id: str, task: str, checks: Mapping[str, Row]) -> str | None:
    """The reason why the model's check excludes a candidate; None if it does not, or if no model was used.

    Excluded: a request that is no writing request; for the task easy also one for another kind than email, letter or
    article. `checks`: case id -> row of CHECKED; a candidate without one had no usable reply and is excluded, too.
    """
    check = checks.get(case_id)
    if check is None:
        return NOT_CHECKED
    if check["checked"] == "no":
        return NO_REQUEST
    return OTHER_KIND if task == "easy" and check["checked_kind"] == "other" else None


def _check_columns(check: Mapping[str, Any]) -> Row:
    """The four columns of CASES on a check, from a row of CHECKED; all null for {}."""
    return {
        "checked": check.get("checked"),
        "checked_kind": check.get("checked_kind"),
        "check_response": check.get("response"),
        "check_model": check.get("model"),
    }
