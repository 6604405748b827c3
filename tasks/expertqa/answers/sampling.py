"""One answer of each question for the expert to label, drawn uniformly over the eligible systems (section 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Rejected, Row, Rows, grouped
from longform.engine.at_most import Sizes, bound_by
from longform.engine.stage import AtMost, StageContext, stage
from schemas.expertqa import CLAIMS, SAMPLES
from tasks.expertqa.answers.released import LEAST_CLAIM, released_at_most
from tasks.expertqa.bank import first_fault

ABSTAINS, NO_CLAIM, TOO_MANY = "abstains", "no claim", "too many claims"
WHY_NONE = {ABSTAINS: "all abstain", TOO_MANY: "all have too many claims"}
NONE_CAN = "no answer can be drawn"
NOT_DRAWN, RELEASED_INSTEAD = "not drawn", "its question has released answers"


def draw(question_id: str, systems: Iterable[str], seed: int) -> str:
    """The system whose answer is drawn for a question, all equally likely: that with the lowest hash of seed, question
    and system. ValueError if there are no systems.

    Adding questions changes no draw; adding a system changes only those draws in which the new system is drawn.
    """
    return min(sorted(systems), key=lambda system: xxh3_64_intdigest(f"{seed}\x1f{question_id}\x1f{system}".encode()))


def sample(
    question_id: str, answers: list[Row], claims: Mapping[str, int], *, most_claims: int, seed: int
) -> Iterator[Row | Rejected]:
    """A row of SAMPLES for each answer of a question that is to be labelled; a Rejected with the reason for every
    other answer, and, if there is no answer to label, for the question.

    `claims`: answer id -> number of claims. Released answers were drawn by the authors of ExpertQA: if a question has
    some, all of them are kept, of any length, and no other answer is. Else one answer is drawn, of those that do not
    abstain and have 1 to `most_claims` claims; of a system with several the first counts.
    """
    released = [answer for answer in answers if answer["kind"] == "released"]
    if released:
        yield from (_sample(answer, [answer["system"]]) for answer in released)
        yield from (_left_out(answer, RELEASED_INSTEAD) for answer in answers if answer["kind"] != "released")
        return
    reasons: dict[str, str | None] = {}
    eligible: dict[str, Row] = {}
    for answer in reversed(answers):
        number = claims.get(answer["answer_id"], 0)
        faults = {ABSTAINS: answer["abstention"] is not None, NO_CLAIM: not number, TOO_MANY: number > most_claims}
        reasons[answer["answer_id"]] = first_fault(faults)
        eligible |= {} if any(faults.values()) else {answer["system"]: answer}
    drawn = eligible[draw(question_id, eligible, seed)]["answer_id"] if eligible else None
    for answer in answers:
        key = answer["answer_id"]
        if key == drawn:
            yield _sample(answer, sorted(eligible))
        else:
            yield _left_out(answer, reasons[key] or NOT_DRAWN, claims.get(key, 0))
    if drawn is None:
        whys = {WHY_NONE.get(str(reason), "no answer has a claim") for reason in reasons.values()}
        yield Rejected(question_id, "filtered", "no answer" if not whys else min(whys) if len(whys) == 1 else NONE_CAN)


def _sample(answer: Row, eligible: list[str]) -> Row:
    """A row of SAMPLES for this answer. `eligible`: the systems whose answers could be drawn."""
    return {**{name: answer[name] for name in ("answer_id", "question_id", "system")}, "eligible": eligible}


def _left_out(answer: Row, reason: str, claims: int = 0) -> Rejected:
    """The Rejected of an answer that is not sampled. `claims`: its number of claims, named if these are too many."""
    return Rejected(answer["answer_id"], "filtered", reason, f"{claims} claims" if reason == TOO_MANY else None)


@stage(
    SAMPLES,
    revision=1,
    at_most=AtMost(rows=lambda of: min(of["answers"], of["questions"] + released_at_most(of.bytes))),
)
def sample_answers(
    context: StageContext, questions: Rows, answers: Rows, claims: Rows, *, most_claims: int, seed: int
) -> Iterator[Row | Rejected]:
    """For each question its released answers, else one answer, drawn by `seed`, that does not abstain and has 1 to
    `most_claims` claims. A Rejected for every other answer, and for a question without an answer to label.
    """
    counts = Counter(row["answer_id"] for row in claims.as_dicts("answer_id"))
    columns = ("answer_id", "question_id", "system", "kind", "abstention")
    by_question = grouped(answers.as_dicts(*columns), "question_id")
    for row in questions.as_dicts("question_id"):
        key = row["question_id"]
        yield from sample(key, by_question[key], counts, most_claims=most_claims, seed=seed)


def _taken_at_most(of: Sizes) -> float:
    """Upper bound of the number of claims of the sampled answers: `most_claims` for each drawn answer, and for
    released answers as many claims as their bytes can hold; at most all claims.
    """
    drawn = of["samples"] * bound_by(of.arguments_of("samples").get("most_claims"))
    least = min(len(LEAST_CLAIM), of.arguments_of("claims").get("least_characters", 1))
    return float(min(of["claims"], drawn + of.bytes / least))


@stage(CLAIMS, revision=1, at_most=AtMost(rows=_taken_at_most, keeps=True))
def take_claims(context: StageContext, claims: Rows, samples: Rows) -> Iterator[Row | Rejected]:
    """The claims of the sampled answers; a Rejected for every other claim."""
    sampled = {row["answer_id"] for row in samples}
    for claim in claims:
        if claim["answer_id"] in sampled:
            yield claim
        else:
            yield Rejected(claim["claim_id"], "filtered", "answer not sampled")
