"""The audits of the axioms dataset: pairs with equal texts, and generated answers that are no answers.

    equal_texts    a generated answer is the other answer of its pair, or an answer that it was made from
    equal_posts    two people wrote the same: no preference, so the pair is left out, however many there are
    refusal, language, wrapped    of generated answers, see tasks/publishing/generated.py
    text_on_both_sides, question_on_both_sides, memorised    of the splits, see tasks/publishing/leaks.py
    critic_same_scores, critic_order    of the critic, see tasks/axioms/judging/audits.py
    contaminated    training texts that evaluation sets hold, see tasks/axioms/evaluation/audit.py

Each compares texts as `tasks/text/audits` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from longform.artifacts.rows import Rejected, Row
from tasks.axioms.evaluation.audit import CONTAMINATED, contaminated
from tasks.axioms.judging.audits import CRITIC_AUDITS
from tasks.publishing.audits import Audit, Audits, Kinds, VersionAudit, rejected_by
from tasks.publishing.generated import CEILING, audits_of_texts, generated, is_generated
from tasks.publishing.leaks import Memorised, SharedQuestions, SharedTexts
from tasks.text.audits.equality import begin_alike, equal_texts

SIDES = ("preferred", "rejected")
ASSEMBLED_BY = ("assemble_pairs", "assemble_pairs_across_sites")
PEOPLE = "preferred_source = 'human' AND rejected_source = 'human'"
BY_MODEL = " OR ".join(generated(f"{side}_model", f"{side}_response") for side in SIDES)
PAIRED_BY = ("pair_by_votes", "pair_with_related", "pair_generated", "pair_by_evidence", "pair_combined")
OF_PAIRS = ("pair_id", "question_id", *(f"{side}_{name}" for side in SIDES for name in ("id", "source")))


def _by_people(row: Row) -> bool:
    """Whether both answers of a pair are people's."""
    return all(row[f"{side}_source"] == "human" for side in SIDES)


def _equal_posts(row: Row) -> str | None:
    return "both answers are the same" if _by_people(row) and equal_texts(row["preferred"], row["rejected"]) else None


def _equal_texts(row: Row) -> str | None:
    """What a generated answer of a pair repeats. `made_of`, where the row has it: side -> texts the answer was made
    from; published rows have none. The offline model may repeat these.
    """
    if _by_people(row):
        return None
    if equal_texts(row["preferred"], row["rejected"]):
        return "both answers are the same"
    for side, texts in row.get("made_of", {}).items():
        if is_generated(row[f"{side}_response"], row[f"{side}_model"]) and any(
            equal_texts(row[side], text) for text in texts
        ):
            return f"{side}: the same as a text it was made from"
    return None


def _generated_texts(row: Row) -> Iterator[tuple[str, str, str]]:
    for side in SIDES:
        if is_generated(row[f"{side}_response"], row[f"{side}_model"]):
            yield side, row["question"], row[side]


OF_ROWS = (
    Audit("equal_texts", CEILING, _equal_texts, f"NOT ({PEOPLE})"),
    Audit("equal_posts", 1.0, _equal_posts, PEOPLE),
    *audits_of_texts(_generated_texts, BY_MODEL, answers=False),
)
OF_RESEARCH = audits_of_texts(lambda row: [("text", row["question"], row["text"])], generated(), answers=False)
AUDITS = Audits(
    rows={"pairs": OF_ROWS, "research": OF_RESEARCH},
    version=(
        VersionAudit(
            "text_on_both_sides",
            0.0,
            SharedTexts("pairs", "pair_id", ("question", *SIDES), ("evidence",)),
            ("pairs",),
        ),
        VersionAudit("question_on_both_sides", 0.0, SharedQuestions("pairs", "question_id", "question"), ("pairs",)),
        VersionAudit(CONTAMINATED, 0.0, contaminated, ("pairs",)),
        VersionAudit("memorised", 0.0, Memorised("pairs", "axiom"), ("pairs",)),
        *CRITIC_AUDITS,
    ),
    kinds=tuple(Kinds("pair_type", PAIRED_BY, assembled) for assembled in ASSEMBLED_BY),
    applied={"pairs": ASSEMBLED_BY},
)


def audited_pairs(
    pairs: pa.Table, questions: dict[str, str], answers: dict[str, Row], made_of: dict[str, list[str]]
) -> list[Rejected]:
    """A Rejected for each pair that an audit finds, in the order of the pairs.

    `questions`: question id -> its text. `answers`: answer id -> text, response and model. `made_of`: id of a generated
    answer -> ids of the answers that it may not repeat.
    """
    found: list[Rejected] = []
    for values in zip(*(pairs[name].to_pylist() for name in OF_PAIRS), strict=True):
        pair = dict(zip(OF_PAIRS, values, strict=True))
        sides = {side: answers[pair[f"{side}_id"]] for side in SIDES}
        if _by_people(pair) and not begin_alike(*(answer["text"] for answer in sides.values())):
            continue  # most pairs
        row = pair | {"question": questions[pair["question_id"]]}
        for side, answer in sides.items():
            row |= {
                side: answer["text"],
                f"{side}_response": answer.get("response"),
                f"{side}_model": answer.get("model"),
            }
        repeated = {side: made_of.get(pair[f"{side}_id"], ()) for side in SIDES}
        row["made_of"] = {side: [answers[key]["text"] for key in keys] for side, keys in repeated.items()}
        if rejected := rejected_by(row, OF_ROWS, "pair_id"):
            found.append(rejected)
    return found


def may_not_repeat(corrupted: Iterable[Row], combined: Iterable[Row]) -> dict[str, list[str]]:
    """id of a corrupted or combined answer -> ids of the answers that it was made from."""
    return {row["corrupted_id"]: [row["answer_id"]] for row in corrupted} | {
        row["combined_id"]: [row["first_id"], row["second_id"]] for row in combined
    }
