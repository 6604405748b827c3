"""The stages of an evaluation: scores of the groups of a version, by any scorer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from longform.artifacts.rows import PerGroup
from longform.engine.at_most import UNKNOWN, Sizes
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint
from longform.llm.retry import MODEL_REASON
from schemas.axioms.scoring import SCORES, WORD_COUNTS
from tasks.axioms.scoring.groups import Found, Group, Missing
from tasks.axioms.scoring.reading import group_of
from tasks.axioms.scoring.scorers import Scorer, score_with_reasons
from tasks.axioms.scoring.words import Statistics, count_texts
from tasks.retrieval.cross_encoder import CrossEncoderSetting

Kind = Literal["filtered", "defect"]
ASKED = ("set", "question")
TEXTS = ("set", "answers.list.element.answer_id", "answers.list.element.text")


def _calls_at_most(sizes: Sizes) -> float:
    """As many calls as groups for a listwise judge; for another one as many as answers, which are not known here."""
    return float(sizes["groups"]) if sizes["scorer"].kind == "judge-listwise" else UNKNOWN


@stage(SCORES, revision=1, at_most=AtMost(calls=_calls_at_most))
def score_answers(
    context: StageContext,
    groups: Rows,
    *,
    scorer: Scorer,
    model: Endpoint | None,
    prompt: Prompt | None,
    encoder: CrossEncoderSetting | None,
    characters: int,
    seed: int,
) -> Iterator[Row | Rejected]:
    """The scores of each group's answers by a scorer, any but BM25. A Rejected for a group of which no answer has a
    score. `model`, `prompt` and `encoder` are those of the scorer. `characters`: of longer texts a judge reads the
    beginning. `seed`: of the order in which a listwise judge reads the answers.
    """
    scored = score_with_reasons(context, scorer, map(group_of, groups), characters=characters, seed=seed)
    yield from (_scores(group, found) for group, found in scored)


@stage(WORD_COUNTS, revision=1)
def count_words(context: StageContext, groups: PerGroup) -> Iterator[Row]:
    """For each set, in how many different answers each word of its questions stands, for BM25."""
    names = {row["set"] for row in groups.as_dicts("set")}
    for name in sorted(names):
        known = count_texts(_texts(groups, name), _questions(groups, name))
        counts = [{"word": word, "texts": texts} for word, texts in known.counts.items()]
        yield {"set": name, "texts": known.texts, "words": known.words, "counts": counts}


def _questions(groups: Rows, name: str) -> Iterator[str]:
    """The questions of a set, also more than once."""
    yield from (row["question"] for row in groups.as_dicts(*ASKED) if row["set"] == name)


def _texts(groups: Rows, name: str) -> Iterator[Group]:
    """The groups of a set with nothing but their answers."""
    for row in groups.as_dicts(*TEXTS):
        if row["set"] == name:
            yield Group("", "", (), [(each["answer_id"], each["text"]) for each in row["answers"]])


@stage(SCORES, revision=1)
def score_by_bm25(context: StageContext, groups: Rows, counts: PerGroup, *, scorer: Scorer) -> Iterator[Row | Rejected]:
    """The BM25 scores of each group's answers. `counts`: what is known of the words of its set."""
    known = {
        row["set"]: Statistics(row["texts"], row["words"], {each["word"]: each["texts"] for each in row["counts"]})
        for row in counts
    }
    for row in groups:
        for group, found in score_with_reasons(context, scorer, [group_of(row)], statistics=known[row["set"]]):
            yield _scores(group, found)


def _scores(group: Group, found: Sequence[Found]) -> Row | Rejected:
    """A row of SCORES; a Rejected if no answer has a score."""
    missing = [each for each in found if isinstance(each, Missing)]
    if missing and len(missing) == len(found):
        reason, detail = missing[0]
        kind: Kind = "defect" if reason.startswith(MODEL_REASON) else "filtered"
        return Rejected(group.key, kind, reason, detail or None)
    return {
        "group_id": group.key,
        "set": group.set,
        "question_id": group.question_id,
        "evidence_id": group.evidence_id,
        "scores": [_score(answer, each) for (answer, _), each in zip(group.answers, found, strict=True)],
    }


def _score(answer: str, found: Found) -> Row:
    """A struct of SCORE."""
    missing = isinstance(found, Missing)
    return {
        "answer_id": answer,
        "score": None if missing else found,
        "reason": found.reason if isinstance(found, Missing) else None,
    }


def score_rows(rows: Iterable[Row], scorer: str) -> Iterator[Row]:
    """The scores of rows of SCORES, one for each answer that has one: scorer, set, question_id, answer_id, evidence
    (the id, "" without) and score.
    """
    for row in rows:
        for each in row["scores"]:
            if each["score"] is not None:
                yield {
                    "scorer": scorer,
                    "set": row["set"],
                    "question_id": row["question_id"],
                    "answer_id": each["answer_id"],
                    "evidence": row["evidence_id"],
                    "score": each["score"],
                }
