"""Tables 2, 4 to 9 and 14 of ExpertQA, and figures 4, 5, 8, 9 and 10 as tables, from plain rows.

Shares are in percent. Rows of claims are those of the published table of claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from longform.artifacts.rows import Row
from longform.settings import qafacteval_models
from tasks.expertqa.answers.sampling import abstention_rates
from tasks.expertqa.estimates.autoais import RELEASED, autoais_against_people, autoais_table, by_system
from tasks.expertqa.estimates.factscore import factscore_table
from tasks.expertqa.estimates.predictions import missing, predictions_table
from tasks.expertqa.tables.agreement import agreement, both_labelled
from tasks.expertqa.tables.distributions import (
    By,
    Counts,
    Distribution,
    by_property,
    cite_worthy,
    distribution,
    types_by_field,
)
from tasks.expertqa.vocabulary import type_texts
from tasks.publishing.card import Cell, ReportTable

TEST = "test"
SHOWN = 5
LONGEST = 400
GROUPS = {"system": "system", "field": "field", "question_types": "question type"}
NOTHING_JUDGED = (
    "Nothing was judged: FActScore was left out, or no passage was found to judge by, or the released file holds no "
    "estimates (`fact_score`)."
)
NONE_RELEASED = "The released file holds no estimates (`autoais_label`), so nothing is scored."
FIGURES = {"system": 5, "field": 9, "question_types": 10}


def question_types(questions: Iterable[Row]) -> ReportTable:
    """Table 2: how many questions have each type."""
    asked, without = 0, 0
    types: Counter[str] = Counter()
    for row in questions:
        asked += 1
        without += not row["question_types"]
        types.update(row["question_types"])
    rows: list[tuple[Cell, ...]] = [
        (numeral, text, types[numeral], percent(types[numeral], asked)) for numeral, text in type_texts().items()
    ]
    rows += [("", "no type", without, percent(without, asked))] if without else []
    rows.append(("", "all questions", asked, percent(asked, asked)))
    note = "A question may have several types: the shares sum to more than 100."
    return ReportTable("Question types (table 2)", note, ("type", "meaning", "questions", "%"), rows)


def systems(answers: Iterable[Row], samples: Iterable[Row]) -> ReportTable:
    """Table 4: answers of each system that were sampled, and how often it abstains."""
    found = [row for _, rows in _in_order(abstention_rates(answers, samples)) for row in rows]
    rows = [
        (row["system"], row["sampled"], row["generated"], row["abstaining"], _hundredfold(row["abstention_rate"]))
        for row in found
    ]
    note = (
        "Sampled answers are shown to experts; released ones all were. The abstention rate is of the generated "
        "answers: released ones were chosen among those that do not abstain."
    )
    columns = ("system", "sampled", "generated", "abstaining", "abstention rate, %")
    return ReportTable("Answers by system, and how many abstain (table 4)", note, columns, rows)


def _in_order(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return by_system(rows, of=rows)[:-1]


def attribution(claims: Iterable[Row], backends: Iterable[str]) -> ReportTable:
    """Table 5: AutoAIS by system."""
    said, given = set(backends), list(claims)
    unreleased = said == {RELEASED} and all(row["autoais"] is None for row in given)
    by = NONE_RELEASED if unreleased else _said_by(said)
    rows = [
        (
            *(row[name] for name in ("selection", "system")),
            *(_hundredfold(row[name]) for name in ("macro", "macro_low", "macro_high")),
            *(_hundredfold(row[name]) for name in ("micro", "micro_low", "micro_high")),
            *(row[name] for name in ("claims", "answers", "unscored")),
        )
        for row in autoais_table(given)
    ]
    note = (
        f"{by} Of claims with complete support, as the paper has it; other selections beside. Macro: "
        "mean over answers of the share of their claims that are attributable; micro: share of the claims. Intervals "
        "(95 %) by bootstrap over answers. Unscored claims (no text of evidence, or no estimate) count nowhere."
    )
    columns = (
        "claims with",
        "system",
        "macro, %",
        "from",
        "to",
        "micro, %",
        "from",
        "to",
        "claims",
        "answers",
        "unscored",
    )
    return ReportTable("AutoAIS (table 5)", note, columns, rows)


def attribution_against_people(claims: Iterable[Row], backends: Iterable[str]) -> ReportTable:
    """Table 6: precision, recall and F1 of AutoAIS."""
    rows = [
        (
            *(row[name] for name in ("selection", "system")),
            *(_hundredfold(row[name]) for name in ("precision", "recall", "f1", "f1_low", "f1_high")),
            *(row[name] for name in ("claims", "attributable", "complete", "unscored")),
        )
        for row in autoais_against_people(claims)
    ]
    note = (
        f"{_said_by(backends)} People: support is complete. Only claims count that are both scored and labelled; "
        "unscored: labelled, but without a score. Interval of F1 (95 %) by bootstrap over answers."
    )
    columns = (
        *("claims", "system", "precision, %", "recall, %", "F1, %", "from", "to"),
        *("scored", "attributable", "complete", "unscored"),
    )
    return ReportTable("AutoAIS against people (table 6)", note, columns, rows)


def imported_against_people(claims: Iterable[Row], entailed: Iterable[Row]) -> ReportTable:
    """Table 6, second half: as the first, of predictions that were imported; of all claims, and of test questions."""
    given = list(claims)
    predicted: dict[str, dict[str, bool]] = {}
    for row in entailed:
        predicted.setdefault(row["model"], {})[row["claim_id"]] = row["attributable"]
    chosen = {"all": given, "test": [row for row in given if row["random_split"] == TEST]}
    rows = [
        (model, which, *cells)
        for model, labels in sorted(predicted.items())
        for which, of in chosen.items()
        for cells in attribution_against_people(
            ({**row, "autoais": labels.get(row["claim_id"])} for row in of), ()
        ).rows
    ]
    note = (
        "Predictions of entailment models that were imported (`entailments`). A model that was fine-tuned on claims of "
        "train (`longform export`) is told by those of the random split's test questions. Unscored: labelled claims "
        "that are not predicted."
    )
    columns = ("model", "questions", *attribution_against_people((), ()).columns)
    return ReportTable("Imported entailment models against people (table 6)", note, columns, rows)


def attribution_disagreements(claims: Iterable[Row], backends: Iterable[str]) -> ReportTable:
    """Table 7: claims on which AutoAIS and people disagree most, as `disagreements` chose them, with their texts.

    `shared` is the share of the claim's content words that its evidence has: near 1 they differ in its finer wording.
    """
    rows = [
        (
            *(row[name] for name in ("kind", "system", "claim_id")),
            *(shortened(row[name]) for name in ("claim", "evidence")),
            *(row[name] for name in ("support", "worthiness", "score")),
            "several" if row["sources"] > 1 else "one",
            _hundredfold(row["shared"]),
        )
        for row in claims
    ]
    note = (
        f"{_said_by(backends)} Of each kind at most {SHOWN}, cite-worthy claims first, then those of which AutoAIS was "
        "surest. Sources: texts of evidence, of which an entailment model may miss what they say together. Shared "
        "words: the share of the claim's content words that its evidence has; where that is nearly all, the two differ "
        "over fine-grained wording."
    )
    columns = (
        *("kind", "system", "claim_id", "claim", "evidence that was read"),
        *("support", "cite-worthy", "score", "sources", "shared words, %"),
    )
    return ReportTable("Disagreements of AutoAIS and people (table 7)", note, columns, rows)


def factuality(claims: Iterable[Row], judges: Iterable[str]) -> ReportTable:
    """Table 8: FActScore against people."""
    names = ("f1_true", "f1_false", "f1_overall", "score")
    rows = [
        (
            row["system"],
            *(_hundredfold(row[f"{name}{end}"]) for name in names for end in ("", "_low", "_high")),
            *(row[name] for name in ("claims", "scored", "unscored")),
        )
        for row in factscore_table(claims)
    ]
    note = (
        f"{_judged_by(judges)} Factual: FActScore above 0.5; for people: definitely or probably correct. F1 of the "
        "claims that are scored and labelled; the mean FActScore of all scored ones. Intervals (95 %) by bootstrap "
        "over answers. Unscored (no atomic claim was judged) is not zero: such claims count nowhere."
    )
    columns = (
        "system",
        *(
            cell
            for name in ("F1 true, %", "F1 false, %", "F1 overall, %", "FActScore, %")
            for cell in (name, "from", "to")
        ),
        *("labelled and scored", "scored", "unscored"),
    )
    return ReportTable("FActScore against people (table 8)", note, columns, rows)


def predictions(rows: Iterable[Row], tests: Mapping[str, int], *, zero_shot: bool) -> ReportTable:
    """Table 9, or with `zero_shot` table 14; `tests`: config -> its test questions."""
    found = predictions_table(rows, tests, zero_shot=zero_shot)
    cells = [
        (
            *(row[name] for name in ("config", "model")),
            *(("yes" if row["zero_shot"] else "no",) if zero_shot else ()),
            *(_hundredfold(row[name]) for name in ("rouge1", "rouge2", "rougeL")),
            *(row[name] for name in ("qafacteval", "predicted", "questions")),
        )
        for row in found
    ]
    note = "ROUGE: F measure against the revised answer, times 100, of the predicted test questions."
    if found and all(row["qafacteval"] is None for row in found):
        note += f" QAFactEval is left out: {missing(qafacteval_models()) or 'no prediction has words'}."
    columns = (
        *("split", "model"),
        *(("zero-shot",) if zero_shot else ()),
        *("ROUGE-1", "ROUGE-2", "ROUGE-L", "QAFactEval", "predicted", "test questions"),
    )
    what = "Predicted answers, zero-shot ones too (table 14)" if zero_shot else "Predicted answers (table 9)"
    return ReportTable(what, note, columns, cells)


def second_labelling(labels: Iterable[Row], second: Iterable[Row], fields: Mapping[str, str]) -> ReportTable:
    """Figure 4: agreement of a second labelling with the reference labels."""
    first, again = list(labels), list(second)
    own = sum(one["annotator_id"] == other["annotator_id"] for one, other in both_labelled(first, again))
    rows = [
        (row["field"] or "all", row["property"], row["labelled"], _hundredfold(row["agreement"]), _shown(row["kappa"]))
        for row in agreement(first, again, fields)
        if row["labelled"] or row["field"] is None
    ]
    note = (
        "Labelled by both; claims, of usefulness answers. Of several second labellings of an answer each counts. "
        "Kappa: agreement beyond chance, 1 at most."
    )
    note += f" By the annotator of the first: {own:,} second labellings." if own else ""
    columns = ("field", "property", "labelled", "agreement, %", "Cohen's kappa")
    return ReportTable("Agreement with a second labelling (figure 4)", note, columns, rows)


# ---------------------------------------------------------------- distributions


def by_systems(answers: Sequence[Row], claims: Sequence[Row]) -> Iterator[ReportTable]:
    """Figure 5: usefulness of answers, then each property of claims; support first of cite-worthy claims alone."""
    yield labels_table(distribution(answers, "usefulness", "system"), "system", "answers")
    worthy = distribution(cite_worthy(claims), "support", "system")
    yield labels_table(worthy, "system", "claims", "cite-worthy claims")
    for found in by_property(claims, "system"):
        yield labels_table(found, "system", "claims", "all claims" if found.property == "support" else "")


def by_fields_or_types(claims: Sequence[Row], by: By) -> Iterator[ReportTable]:
    """Figure 9 or 10: each property of claims."""
    for found in by_property(claims, by):
        yield labels_table(found, by, "claims")


def labels_table(found: Distribution, by: By, what: str, which: str = "") -> ReportTable:
    """A row a group and one for all: each label's count and share of the labelled."""
    labels = (cell for label in found.labels for cell in (label, "%"))
    title = f"{found.property.capitalize()} by {GROUPS[by]}{f', {which}' if which else ''} (figure {FIGURES[by]})"
    note = f"Shares are of the labelled {what}."
    if by == "question_types":
        note += " A claim counts in every type of its question."
    columns = (GROUPS[by], *labels, f"{what} labelled", "without a label")
    rows = [_labels_row(group, found.labels) for group in (*found.groups, found.total)]
    return ReportTable(title, note, columns, rows)


def _labels_row(group: Counts, labels: Iterable[str]) -> tuple[Cell, ...]:
    cells = (cell for label in labels for cell in (group.labels[label], percent(group.labels[label], group.labelled)))
    return (group.group, *cells, group.labelled, group.unlabelled)


def types_table(questions: Sequence[Row]) -> ReportTable:
    """Figure 8: question types by field."""
    asked = Counter(row["field"] for row in questions)
    found = types_by_field(questions)
    rows = [
        (
            group.group,
            number,
            *(cell for name in found.labels for cell in (group.labels[name], percent(group.labels[name], number))),
        )
        for group, number in [*((one, asked[one.group]) for one in found.groups), (found.total, asked.total())]
    ]
    note = "Shares are of the field's questions, of which one may have several types."
    columns = ("field", "questions", *(cell for name in found.labels for cell in (name, "%")))
    return ReportTable("Question types by field (figure 8)", note, columns, rows)


# ---------------------------------------------------------------- cells


def percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _hundredfold(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _shown(number: float | None) -> float | None:
    """Without the sign of a zero, which sums of fractions leave."""
    return None if number is None else round(number, 9) + 0.0


def shortened(text: str | None) -> str | None:
    """At most 400 characters of it, on one line."""
    words = " ".join((text or "").split())
    return (words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…") or None


def _said_by(backends: Iterable[str]) -> str:
    return f"By {names}." if (names := ", ".join(sorted(backends))) else "Nothing was estimated."


def _judged_by(judges: Iterable[str]) -> str:
    return f"Judged by {names}." if (names := ", ".join(sorted(judges))) else NOTHING_JUDGED
