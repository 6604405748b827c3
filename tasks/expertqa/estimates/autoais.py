"""AutoAIS: whether an entailment model says that the evidence supports a claim, and how that agrees with people.

Section 5.1 of ExpertQA; tables 5, 6 and 7. A claim without the text of any evidence is not scored: it is in no average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from longform.engine.stage import Rejected, Row, Rows, StageContext, stage
from longform.errors import UsageError
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure
from schemas.expertqa import ATTRIBUTIONS
from schemas.replies import Entailment
from tasks.answers import NO_MODEL, made_by, refused
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.exact import read_exact
from tasks.metrics import entailment
from tasks.metrics.entailment import Evidence, Fits, NliModel, Score
from tasks.text.sentences import sentence_spans
from tasks.text.windows import SPACY, check_tokenizer

NLI = "nli:"
CLAIM_CHARACTERS = 4_000
EVIDENCE_CHARACTERS = 100_000
SENTENCE_CHARACTERS = 4_000
RELEASED = "released"

SYSTEMS = ("gpt4", "bing_chat", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4")
ALL = "all"


@stage(ATTRIBUTIONS, revision=2)
def estimate_attribution(
    context: StageContext,
    claims: Rows,
    *,
    backend: str,
    nli: NliModel | None,
    model: Endpoint | None,
    prompt: Prompt | None,
) -> Iterator[Row | Rejected]:
    """Whether the evidence of each claim supports it: by `lexical`, `model`, `nli`, `released`.

    `released` takes what a claim came with (`autoais_label`), and asks nobody.

    A claim with several evidences is judged once, against all of them in the order of the claim.
    """
    given = list(claims)
    context.count("claims without the text of any evidence", sum(not sources(claim) for claim in given))
    context.count("claims with several sources", sum(sources(claim) > 1 for claim in given))
    if backend == "lexical":
        yield from _by_lexical(given)
    elif nli:
        yield from _by_nli(given, nli)
    elif backend == RELEASED:
        said = [released_claim(claim).get("autoais_label") for claim in given]
        context.count(
            "released labels that are neither Y nor N", sum(each not in (None, "", "Y", "N") for each in said)
        )
        yield from map(_as_released, given, said)
    elif model and prompt:
        yield from _by_model(context, given, model, prompt)
    else:
        raise UsageError("The AutoAIS backend model has no model to ask: set one, or set the backend to lexical.")


def opened_backend(backend: str, digest: Callable[[Path], str]) -> tuple[str, NliModel | None]:
    """What a setting names: lexical, model, released or nli, and the model of nli, its weights not yet loaded.

    UsageError where there is no such backend, or what it needs is not installed or no entailment model.
    """
    named = backend.startswith(NLI) and backend.removeprefix(NLI).strip()
    if backend not in ("lexical", "model", RELEASED) and not named:
        raise UsageError(
            f'There is no AutoAIS backend "{backend}": '
            "set lexical, model, released, or nli:<a Hugging Face model or folder>."
        )
    if not named:
        return backend, None
    return NLI.rstrip(":"), entailment.nli_model(named, digest)


def evidence_texts(claim: Row) -> list[str]:
    """The texts of its evidence in order, each once; of evidence that is only an address, none."""
    texts = (each["text"] for each in claim["evidence"])
    return list(dict.fromkeys(text for text in texts if text is not None and text.strip()))


def sources(claim: Row) -> int:
    """How many texts its evidence has: more than 1 is a multi-source attribution (table 7)."""
    return len(evidence_texts(claim))


def judged_text(claim: Row) -> str:
    """The claim as it is judged: without citation marks, on one line."""
    return " ".join(without_marks(claim["text"]).split())[:CLAIM_CHARACTERS]


def read_evidence(claim: Row, fits: Fits, score: Score) -> Evidence | None:
    """What of its evidence is read; None where there is no text. Of each text the first 100,000 characters count."""
    texts = [text[:EVIDENCE_CHARACTERS] for text in evidence_texts(claim)]
    if not texts:
        return None
    return entailment.stretched(texts, judged_text(claim), sentences=_sentences, fits=fits, score=score)


def _sentences(text: str) -> list[str]:
    found = (" ".join(text[start:end].split())[:SENTENCE_CHARACTERS] for start, end in sentence_spans(text))
    return [sentence for sentence in found if sentence]


def _is_short(evidence: str, claim: str) -> bool:
    """Whether it has at most 512 tokens of spaCy's English tokenizer."""
    if len(evidence) <= entailment.MOST_TOKENS:
        return True
    return next(islice(check_tokenizer(SPACY)(evidence), entailment.MOST_TOKENS, None), None) is None


def _by_lexical(claims: Sequence[Row]) -> Iterator[Row]:
    for claim in claims:
        read = read_evidence(claim, _is_short, entailment.lexical_scores)
        score = entailment.lexical_entailment(read.text, judged_text(claim)) if read else None
        yield _attribution(claim, entailment.LEXICAL, read, score, entailment.LEXICAL_THRESHOLD)


def _as_released(claim: Row, said: Any) -> Row:
    """What the claim came with: `Y` or `N`, where the released file says it; all else is unscored."""
    row = _attribution(claim, RELEASED, None, None, 1.0)
    return row if said not in ("Y", "N") else {**row, "attributable": said == "Y", "score": float(said == "Y")}


def released_claim(claim: Row) -> Row:
    """The claim as it was released; empty where it was not."""
    came: Row = read_exact(claim["original"]) if claim["original"] else {}
    return came


def _by_nli(claims: Sequence[Row], model: NliModel) -> Iterator[Row]:
    """Each claim by itself: what others stand in its batch would change its last decimal."""
    judge = entailment.load_nli(model.place)
    for claim in claims:
        read = read_evidence(claim, judge.fits, judge.score)
        score = judge.score([read.text], judged_text(claim))[0] if read else None
        yield _attribution(claim, f"{NLI}{model.name}", read, score, entailment.NLI_THRESHOLD)


def _by_model(
    context: StageContext, claims: Sequence[Row], model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """The sentences of long evidence are chosen by the lexical score: asking for each of them would cost too much."""
    read = {claim["claim_id"]: read_evidence(claim, _is_short, entailment.lexical_scores) for claim in claims}
    requests = (
        (
            claim["claim_id"],
            prompt.request(model, reply=Entailment, claim=judged_text(claim), evidence=found.text),
        )
        for claim in claims
        if (found := read[claim["claim_id"]])
    )
    said = dict(context.ask(model, requests))
    for claim in claims:
        found, answer = read[claim["claim_id"]], said.get(claim["claim_id"])
        if found is None:
            yield _attribution(claim, model.model, None, None, 1.0)
        elif answer is not None:  # a plan asks nobody
            yield _by_answer(claim, found, answer, model, prompt)


def _by_answer(claim: Row, read: Evidence, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    if isinstance(answer, Failure):
        return refused(claim["claim_id"], answer)
    score = 1.0 if answer.value.verdict == "supported" else 0.0
    return _attribution(claim, model.model, read, score, 1.0) | made_by(answer, model, prompt)


def _attribution(claim: Row, backend: str, read: Evidence | None, score: float | None, threshold: float) -> Row:
    return {
        **{name: claim[name] for name in ("claim_id", "answer_id", "question_id", "system")},
        "backend": backend,
        "attributable": None if score is None else score >= threshold,
        "score": score,
        "evidence": read.text if read else None,
        "sentences": [{"text": text, "score": best} for text, best in read.best] if read else [],
        **NO_MODEL,
    }
