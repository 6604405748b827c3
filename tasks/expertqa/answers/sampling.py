"""Which answers an expert is shown: one a question, uniformly over the systems that may be drawn (section 3.1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.at_most import Sizes, bound_by
from longform.engine.stage import AtMost, StageContext, stage
from schemas.expertqa import CLAIMS, SAMPLES
from tasks.expertqa.answers.released import LEAST_CLAIM, released_at_most

ABSTAINS, NO_CLAIM, TOO_MANY = "abstains", "no claim", "too many claims"
NOT_DRAWN, RELEASED_INSTEAD = "not drawn", "its question has released answers"


def why_not(answer: Row, claims: int, most_claims: int) -> str | None:
    """Why an answer with so many claims cannot be drawn; None where it can."""
    if answer["abstention"] is not None:
        return ABSTAINS
    if not claims:
        return NO_CLAIM
    return TOO_MANY if claims > most_claims else None


def draw(question_id: str, systems: Iterable[str], seed: int) -> str:
    """One of the systems, each as likely as the others.

    The least hash of seed, question and system: other questions change nothing, and one more system only the
    questions that it wins.
    """
    return min(sorted(systems), key=lambda system: xxh3_64_intdigest(f"{seed}\x1f{question_id}\x1f{system}".encode()))


def sample(
    question_id: str, answers: list[Row], claims: Mapping[str, int], *, most_claims: int, seed: int
) -> Iterator[Row | Rejected]:
    """What is shown of a question's answers, and why the others are not; `claims`: how many each answer has.

    Released answers were drawn by those who released them: all are kept, whatever their length, and no other is.
    """
    released = [answer for answer in answers if answer["kind"] == "released"]
    if released:
        yield from (_sample(answer, [answer["system"]]) for answer in released)
        yield from (_left_out(answer, RELEASED_INSTEAD) for answer in answers if answer["kind"] != "released")
        return
    reasons = {
        answer["answer_id"]: why_not(answer, claims.get(answer["answer_id"], 0), most_claims) for answer in answers
    }
    eligible = {answer["system"]: answer for answer in reversed(answers) if not reasons[answer["answer_id"]]}
    drawn = eligible[draw(question_id, eligible, seed)]["answer_id"] if eligible else None
    for answer in answers:
        if answer["answer_id"] == drawn:
            yield _sample(answer, sorted(eligible))
        else:
            yield _left_out(answer, reasons[answer["answer_id"]] or NOT_DRAWN, claims.get(answer["answer_id"], 0))
    if drawn is None:
        yield Rejected(question_id, "filtered", _why_none([*reasons.values()]))


def _why_none(reasons: list[str | None]) -> str:
    if not reasons:
        return "no answer"
    if len(set(reasons)) > 1:
        return "no answer can be drawn"
    return {ABSTAINS: "all abstain", TOO_MANY: "all have too many claims"}.get(str(reasons[0]), "no answer has a claim")


def _sample(answer: Row, eligible: list[str]) -> Row:
    return {**{name: answer[name] for name in ("answer_id", "question_id", "system")}, "eligible": eligible}


def _left_out(answer: Row, reason: str, claims: int = 0) -> Rejected:
    return Rejected(answer["answer_id"], "filtered", reason, f"{claims} claims" if reason == TOO_MANY else None)


@stage(
    SAMPLES,
    revision=1,
    at_most=AtMost(rows=lambda of: min(of["answers"], of["questions"] + released_at_most(of.bytes))),
)
def sample_answers(
    context: StageContext, questions: Rows, answers: Rows, claims: Rows, *, most_claims: int, seed: int
) -> Iterator[Row | Rejected]:
    """Of each question one answer of at most `most_claims` claims that does not abstain, or its released answers."""
    counts: Counter[str] = Counter()
    for batch in claims.batches(["answer_id"]):
        counts.update(batch["answer_id"].to_pylist())
    given = _by_question(answers)
    for batch in questions.batches(["question_id"]):
        for question in batch["question_id"].to_pylist():
            yield from sample(question, given[question], counts, most_claims=most_claims, seed=seed)


def _by_question(answers: Rows) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for batch in answers.batches(["answer_id", "question_id", "system", "kind", "abstention"]):
        for answer in batch.to_pylist():
            found[answer["question_id"]].append(answer)
    return found


def _taken_at_most(of: Sizes) -> float:
    """Those of answers that were drawn, which have so many at most, and of released ones, as many as they came with."""
    drawn = of["samples"] * bound_by(of.arguments_of("samples").get("most_claims"))
    least = min(len(LEAST_CLAIM), of.arguments_of("claims").get("least_characters", 1))
    return float(min(of["claims"], drawn + of.bytes / least))


@stage(CLAIMS, revision=1, at_most=AtMost(rows=_taken_at_most, keeps=True))
def take_claims(context: StageContext, claims: Rows, samples: Rows) -> Iterator[Row | Rejected]:
    """The claims of the sampled answers."""
    sampled = {row["answer_id"] for row in samples}
    for claim in claims:
        if claim["answer_id"] in sampled:
            yield claim
        else:
            yield Rejected(claim["claim_id"], "filtered", "answer not sampled")
