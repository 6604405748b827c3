"""FActScore: claims broken into atomic claims, each judged true or false by a model that reads retrieved passages.

Section 5.2 of ExpertQA (Min et al. 2023); table 8. Atomic claims without a verdict are unscored, not false.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter

from longform.artifacts.rows import grouped
from longform.engine.at_most import Sizes, longest, unbounded
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Flaw, Request
from longform.llm.read.refusals import DECLINES, refusal_in
from schemas.expertqa import FACTS, JUDGED
from schemas.replies import AtomicClaims, Judgement
from tasks.answers import NO_MODEL, made_by, unanswered
from tasks.expertqa.estimates.autoais import CLAIM_CHARACTERS, judged_text
from tasks.metrics.entailment import content_words, lexical_entailment
from tasks.text.audits.equality import equal_texts
from tasks.text.audits.language import other_language
from tasks.text.audits.wrapping import wrapped

PASSAGE_CHARACTERS = 12_000
LONG, CLAUSE = 16, 4  # words of a claim that surely says several things, and of each of these
_JOINT = re.compile(r"(?:;|,\s(?:and|but|so|while|whereas))\s+")
FACTUAL_ABOVE = 0.5
CORRECT = frozenset(("Definitely correct", "Probably correct"))


def _longest_claim(of: Sizes) -> list[Request]:
    """The longest request that `break_claims` can send, in a list of one, for the token bound of a plan. `of`: the
    sizes and arguments of the stage.
    """
    return [of["prompt"].request(of["model"], reply=AtomicClaims, claim=longest(CLAIM_CHARACTERS))]


@stage(FACTS, revision=3, at_most=AtMost(rows=unbounded, questions=_longest_claim))
def break_claims(context: StageContext, claims: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """The atomic claims of each claim, in the model's order, each once. A Rejected for each claim without a usable
    reply, or whose reply has no atomic claim. Whether a reply leaves the claim as it is counts for claims that
    surely say several things (`joined_clauses`).
    """
    requests = ((claim, _breaking(judged_text(claim), model, prompt)) for claim in claims)
    for claim, reply in context.ask(model, requests):
        yield from _facts(claim, reply, model, prompt)


def _breaking(claim: str, model: Endpoint, prompt: Prompt) -> Request:
    """The request to break up the text of a claim."""
    return prompt.request(
        model,
        reply=AtomicClaims,
        check=partial(flaw_of, claim),
        unchanged=partial(is_whole, claim) if joined_clauses(claim) else None,
        claim=claim,
    )


def flaw_of(claim: str, reply: AtomicClaims) -> Flaw | None:
    """What is wrong with a reply as the atomic claims of this claim: it declines, has none although the claim has
    words, is in another language, wraps a claim in a fence, JSON or a preamble, or has no word of the claim. None if
    nothing is.
    """
    texts = atomic_claims(reply)
    if not texts:
        return ("empty", "no atomic claim") if content_words(claim) else None
    if refusal_in(texts[0]) is not None and (len(texts) == 1 or not lexical_entailment(claim, texts[0])):
        return "refusal", DECLINES
    if found := other_language(claim, " ".join(texts)):
        return "invalid", f"atomic claims in another language than the claim: {found}"
    fenced = "a code fence" if any(text.lstrip().startswith(("```", "~~~")) for text in reply.atomic_claim) else None
    if found := fenced or next(filter(None, map(wrapped, reply.atomic_claim)), None):
        return "invalid", f"an atomic claim is wrapped: {found}"
    if not any(lexical_entailment(claim, text) for text in texts):
        return "invalid", "atomic claims without a word of the claim"
    return None


def joined_clauses(claim: str) -> tuple[str, str] | None:
    """The two clauses of a long claim that joins them by a semicolon, or by a comma and a word such as `and`; None for
    any other claim.
    """
    if len(claim.split()) < LONG:
        return None
    halves = ((claim[: joint.start()], claim[joint.end() :]) for joint in _JOINT.finditer(claim))
    return next((both for both in halves if min(len(half.split()) for half in both) >= CLAUSE), None)


def is_whole(claim: str, reply: AtomicClaims) -> bool:
    """Whether the only atomic claim of a reply is the claim itself."""
    texts = atomic_claims(reply)
    return len(texts) == 1 and equal_texts(claim, texts[0])


def _facts(claim: Row, reply: Answer | Failure, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """Rows of FACTS of one claim from the model's reply, in its order; a Rejected if the reply is unusable or
    has no atomic claim.
    """
    if isinstance(reply, Failure):
        yield unanswered(claim["claim_id"], reply)
        return
    texts = atomic_claims(reply.value)
    if not texts:
        yield Rejected(claim["claim_id"], "filtered", "no atomic claim", raw=reply.text)
    for position, text in enumerate(texts):
        yield {
            "fact_id": f"{claim['claim_id']}.{position}",
            **{name: claim[name] for name in ("claim_id", "answer_id", "question_id", "system")},
            "position": position,
            "text": text,
            **made_by(reply, model, prompt),
        }


@stage(FACTS, revision=1, at_most=AtMost(rows=lambda of: 0))
def leave_facts(context: StageContext, claims: Rows) -> Iterator[Row | Rejected]:
    """A Rejected for every claim and no rows: in place of `break_claims`, for builds without FActScore."""
    for claim in claims:
        yield Rejected(claim["claim_id"], "filtered", "FActScore not asked for")


def atomic_claims(reply: AtomicClaims) -> list[str]:
    """The distinct atomic claims of a model's reply, in order, each on one line without the list mark "- "; those
    without a letter or digit left out.
    """
    folded = (" ".join(text.split()).removeprefix("- ") for text in reply.atomic_claim)
    return list(dict.fromkeys(text for text in folded if any(map(str.isalnum, text))))


@stage(JUDGED, revision=2)
def judge_facts(
    context: StageContext, facts: Rows, found: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """For each atomic claim, in order, whether it is true, as a model judges that reads the passages found for it;
    null, without a request, if none was found.

    A Rejected for each atomic claim without a usable reply. In a plan, where no model replies, only atomic claims
    without a passage have rows.
    """
    by_id = {fact["fact_id"]: fact for fact in facts}
    read = {row["fact_id"]: best_passages(row["passages"]) for row in found}
    texts = ((key, [passage["text"][:PASSAGE_CHARACTERS] for passage in read[key]]) for key in by_id)
    requests = (
        (key, prompt.request(model, reply=Judgement, fact=by_id[key]["text"], passages=passages))
        for key, passages in texts
        if passages
    )
    replies = dict(context.ask(model, requests))
    for key, fact in by_id.items():
        if not read[key]:
            yield _judged(fact, None, []) | NO_MODEL
        elif isinstance(reply := replies.get(key), Failure):
            yield unanswered(key, reply)
        elif reply is not None:  # a plan gets no replies
            yield _judged(fact, reply.value.verdict == "true", read[key]) | made_by(reply, model, prompt)


def best_passages(passages: Sequence[Row]) -> list[Row]:
    """The passages in the order in which the judge reads them: the best of each corpus, then the second best of each,
    and so on; a passage with the text of an earlier one is left out.

    Passages of one corpus must come best first. Scores of different corpora are not comparable, ranks are.
    """
    ranked = [(rank, passage) for own in grouped(passages, "corpus").values() for rank, passage in enumerate(own)]
    distinct: dict[str, Row] = {}
    for _, passage in sorted(ranked, key=itemgetter(0)):
        distinct.setdefault(passage["text"], passage)
    return list(distinct.values())


def _judged(fact: Row, is_true: bool | None, read: Sequence[Row]) -> Row:
    """The columns of JUDGED without those of MADE_BY. `fact`: a row of FACTS. `is_true`: the verdict, None without
    one. `read`: the passages that the model read.
    """
    kept = {name: fact[name] for name in ("fact_id", "claim_id", "answer_id", "question_id", "system", "text")}
    return {**kept, "is_true": is_true, "passages": [passage["passage_id"] for passage in read]}


# ---------------------------------------------------------------- figures


def fact_score(judgements: Iterable[bool | None]) -> float | None:
    """The share of the judged atomic claims of a claim that are true, in [0, 1]; None if none is judged. None in
    `judgements` is an atomic claim without a verdict.
    """
    judged = [value for value in judgements if value is not None]
    return sum(judged) / len(judged) if judged else None


def judgements_of(facts: Iterable[Row], judged: Iterable[Row]) -> dict[str, list[Row]]:
    """Claim id -> its atomic claims in the model's order: rows of FACTS with three more columns. A claim without
    atomic claims has no key.

    `is_true` is the verdict, `judge` the model that gave it, `passages` the ids of those it read; all None for an
    atomic claim that is not in `judged`. `passages` is None, too, if the rows of `judged` lack that column.
    """
    verdicts = {
        row["fact_id"]: {"is_true": row["is_true"], "judge": row["model"], "passages": row.get("passages")}
        for row in judged
    }
    ordered = sorted(facts, key=itemgetter("claim_id", "position"))
    none = dict.fromkeys(("is_true", "judge", "passages"))
    return dict(grouped(({**fact, **verdicts.get(fact["fact_id"], none)} for fact in ordered), "claim_id"))
