"""AutoAIS: an entailment model's judgement of whether the evidence supports a claim (ExpertQA, section 5.1).

Tables 5, 6 and 7 report it. A claim whose evidence has no text is not scored and enters no average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from longform.engine.stage import Rejected, Row, Rows, StageContext, stage
from longform.errors import UsageError
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Failure
from schemas.expertqa import ATTRIBUTIONS
from schemas.replies import Entailment
from tasks.answers import NO_MODEL, made_by, unanswered
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.exact import read_exact
from tasks.metrics import entailment
from tasks.metrics.entailment import Evidence, Fits, NliSetting, Precision, Score
from tasks.text.sentences import sentence_spans
from tasks.text.windows import SPACY, check_tokenizer

NLI = "nli:"
CLAIM_CHARACTERS = 4_000
EVIDENCE_CHARACTERS = 100_000
SENTENCE_CHARACTERS = 4_000
RELEASED = "released"

SYSTEMS = ("gpt4", "bing_chat", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4")


@stage(ATTRIBUTIONS, revision=2)
def estimate_attribution(
    context: StageContext,
    claims: Rows,
    *,
    backend: str,
    nli: NliSetting | None,
    model: Endpoint | None,
    prompt: Prompt | None,
) -> Iterator[Row | Rejected]:
    """A row of ATTRIBUTIONS for each claim: whether its evidence supports it, as `backend` judges: lexical, nli, model
    (a language model) or released.

    `released` copies the claim's released label (`autoais_label`), whatever its evidence, and calls no model. The
    others judge a claim once, against all its evidence in order, and do not score one whose evidence has no text. A
    Rejected if a language model gives no usable reply. UsageError if a language model is needed and not set, or the
    `nli` model cannot be loaded.
    """
    rows = list(claims)
    context.count("claims without the text of any evidence", sum(not source_count(claim) for claim in rows))
    context.count("claims with several sources", sum(source_count(claim) > 1 for claim in rows))
    if backend == "lexical":
        yield from _by_lexical(rows)
    elif nli:
        yield from _by_nli(rows, nli)
    elif backend == RELEASED:
        labels = [released_claim(claim).get("autoais_label") for claim in rows]
        context.count(
            "released labels that are neither Y nor N", sum(label not in (None, "", "Y", "N") for label in labels)
        )
        yield from map(_as_released, rows, labels)
    elif model and prompt:
        yield from _by_model(context, rows, model, prompt)
    else:
        raise UsageError("The AutoAIS backend model has no model to ask: set one, or set the backend to lexical.")


def opened_backend(
    backend: str, digest: Callable[[Path], str], *, precision: Precision = "float32", batch: int = 1
) -> tuple[str, NliSetting | None]:
    """(backend, entailment model) of a setting: ("nli", model) of `nli:<model>`, else (the setting, None). Weights are
    not loaded yet. `digest`: the hash of a file. `precision`, `batch`: of an entailment model.

    UsageError for an unknown backend, a missing package, or a model that is no entailment model.
    """
    named = backend.startswith(NLI) and backend.removeprefix(NLI).strip()
    if backend not in ("lexical", "model", RELEASED) and not named:
        raise UsageError(
            f'There is no AutoAIS backend "{backend}": '
            "set lexical, model, released, or nli:<a Hugging Face model or folder>."
        )
    if not named:
        return backend, None
    return NLI.rstrip(":"), entailment.nli_model(named, digest, precision=precision, batch=batch)


def evidence_texts(claim: Row) -> list[str]:
    """The distinct texts of a claim's evidence, in order; blank ones are left out, and evidence that is only an
    address has none.
    """
    texts = (each["text"] for each in claim["evidence"])
    return list(dict.fromkeys(text for text in texts if text is not None and text.strip()))


def source_count(claim: Row) -> int:
    """The number of distinct texts of a claim's evidence; more than 1 is a multi-source attribution (table 7)."""
    return len(evidence_texts(claim))


def judged_text(claim: Row) -> str:
    """The claim without citation marks, on one line, cut to CLAIM_CHARACTERS: the hypothesis of the entailment."""
    return " ".join(without_marks(claim["text"]).split())[:CLAIM_CHARACTERS]


def read_evidence(claim: Row, fits: Fits, score: Score) -> Evidence | None:
    """The evidence to judge a claim by: all its texts if they fit the judge, else their two best sentences; None if
    the evidence has no text.

    Each text is cut to its first EVIDENCE_CHARACTERS. `fits`: whether the judge can read evidence and claim whole.
    `score`: how far each sentence entails the claim; the highest scores are chosen.
    """
    texts = [text[:EVIDENCE_CHARACTERS] for text in evidence_texts(claim)]
    if not texts:
        return None
    return entailment.whole_or_best_sentences(texts, judged_text(claim), sentences=_sentences, fits=fits, score=score)


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line and cut to SENTENCE_CHARACTERS."""
    found = (" ".join(text[start:end].split())[:SENTENCE_CHARACTERS] for start, end in sentence_spans(text))
    return [sentence for sentence in found if sentence]


def _is_short(evidence: str, claim: str) -> bool:
    """Whether the evidence has at most 512 tokens (MOST_TOKENS) of spaCy's English tokenizer; the claim does not
    count.
    """
    if len(evidence) <= entailment.MOST_TOKENS:
        return True
    return next(islice(check_tokenizer(SPACY)(evidence), entailment.MOST_TOKENS, None), None) is None


def _by_lexical(claims: Sequence[Row]) -> Iterator[Row]:
    """Rows of ATTRIBUTIONS by the lexical score, the share of the claim's content words that its evidence has; in the
    order of the claims.
    """
    for claim in claims:
        read = read_evidence(claim, _is_short, entailment.lexical_scores)
        score = entailment.lexical_entailment(read.text, judged_text(claim)) if read else None
        yield _attribution(claim, entailment.LEXICAL, read, score, entailment.LEXICAL_THRESHOLD)


def _as_released(claim: Row, label: Any) -> Row:
    """The row of ATTRIBUTIONS for a released label: `Y` is attributable with score 1, `N` not with score 0; any other
    label leaves the claim unscored.
    """
    return _attribution(claim, RELEASED, None, {"Y": 1.0, "N": 0.0}.get(str(label)), 1.0)


def released_claim(claim: Row) -> Row:
    """The released JSON object of a claim; an empty dict if the claim was not released."""
    released: Row = read_exact(claim["original"]) if claim["original"] else {}
    return released


def _by_nli(claims: Sequence[Row], model: NliSetting) -> Iterator[Row]:
    """Rows of ATTRIBUTIONS by an NLI model, in the order of the claims, `model.batch` of which are read at once.

    By default they are judged one at a time, since batches change the last decimals of scores.
    """
    judge = entailment.load_nli(model.place, model.precision, model.batch)
    for start in range(0, len(claims), model.batch):
        own = claims[start : start + model.batch]
        found = [read_evidence(claim, judge.fits, judge.score) for claim in own]
        pairs = [(read.text, judged_text(claim)) for claim, read in zip(own, found, strict=True) if read]
        scores = iter(judge.scores(pairs))
        for claim, read in zip(own, found, strict=True):
            score = next(scores) if read else None
            yield _attribution(claim, f"{NLI}{model.name}", read, score, entailment.NLI_THRESHOLD)


def _by_model(
    context: StageContext, claims: Sequence[Row], model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """A row of ATTRIBUTIONS for each claim, in order, judged by a language model; unscored, without a request, if the
    evidence has no text; a Rejected if there is no usable reply.

    Of long evidence only the two sentences with the best lexical score are sent. In a plan, where no model replies,
    only claims without evidence have rows.
    """
    read = {claim["claim_id"]: read_evidence(claim, _is_short, entailment.lexical_scores) for claim in claims}
    requests = (
        (
            claim["claim_id"],
            prompt.request(model, reply=Entailment, claim=judged_text(claim), evidence=found.text),
        )
        for claim in claims
        if (found := read[claim["claim_id"]])
    )
    replies = dict(context.ask(model, requests))
    for claim in claims:
        found, answer = read[claim["claim_id"]], replies.get(claim["claim_id"])
        if found is None:
            yield _attribution(claim, model.model, None, None, 1.0)
        elif isinstance(answer, Failure):
            yield unanswered(claim["claim_id"], answer)
        elif answer is not None:  # a plan gets no replies
            score = float(answer.value.verdict == "supported")
            yield _attribution(claim, model.model, found, score, 1.0) | made_by(answer, model, prompt)


def _attribution(claim: Row, backend: str, read: Evidence | None, score: float | None, threshold: float) -> Row:
    """A row of ATTRIBUTIONS; the columns of MADE_BY are null. `read`: the evidence that was judged. `score`: in [0,
    1], None if the claim was not scored. `threshold`: the score from which a claim is attributable.
    """
    return {
        **{name: claim[name] for name in ("claim_id", "answer_id", "question_id", "system")},
        "backend": backend,
        "attributable": None if score is None else score >= threshold,
        "score": score,
        "evidence": read.text if read else None,
        "sentences": [{"text": text, "score": best} for text, best in read.best] if read else [],
        **NO_MODEL,
    }
