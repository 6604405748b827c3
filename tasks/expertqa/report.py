"""The report of the expertqa dataset: the paper's tables and figures from its stages, of which only the columns needed
are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import pyarrow.parquet as pq

from longform.artifacts.rows import Row, Rows
from longform.settings import qafacteval_models
from tasks.expertqa.annotators import agreement_of_annotators, usefulness_of
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.estimates.autoais import RELEASED
from tasks.expertqa.estimates.predictions import scored_rows, why_no_qafacteval
from tasks.expertqa.tables import label_counts as counted
from tasks.expertqa.tables import paper_tables as made
from tasks.expertqa.tables import second_labelling as second
from tasks.expertqa.tables.calibration import calibration, compared, trust
from tasks.expertqa.tables.figures import plots
from tasks.expertqa.tables.reasons import Facts, facts_of, with_reasons
from tasks.expertqa.tables.rules import CLAIMS, MARKS, OWN, PARITY, flagged
from tasks.expertqa.vocabulary import LABELLED
from tasks.metrics.entailment import lexical_entailment
from tasks.metrics.rouge import WORDS
from tasks.publishing.card import Figure, ReportTable

QUESTIONS = ["question_id", "field", "question_types"]
PREDICTIONS = ["question_id", "model", "zero_shot", "config", "rouge1", "rouge2", "rougeL", "qafacteval"]
LABELS = ("label_id", "answer_id", "question_id", "system", "annotator_id", "usefulness")
CLAIMS_OF_LABELS = tuple(f"claims.list.element.{name}" for name in ("claim_id", *LABELLED))
SHOWN = 5
LONGEST = 400
FIGURES = {"system": 5, "field": 9, "question_types": 10}
NOTHING_JUDGED = (
    "Nothing was judged: FActScore was left out, or no passage was found to judge by, or the released file holds no "
    "estimates (`fact_score`)."
)
BY_PRESET: dict[str, dict[str, str]] = {
    OWN: {},
    PARITY: {
        "table_5": " First by the authors' scoring: complete, cite-worthy, with evidence that has a text; released "
        "claims without a label are not attributable.",
        "table_6": " First by the authors' scoring: claims of the domain split's test questions that nobody called "
        "unworthy of a citation.",
    },
}
NONE_RELEASED = "The released file holds no estimates (`autoais_label`), so nothing is scored."


def tables(
    questions: Rows,
    answers: Rows,
    samples: Rows,
    cited: Rows,
    claims: Rows,
    attributions: Rows,
    labels: Rows,
    second_labels: Rows,
    entailed: Rows,
    predictions: Rows,
    random: Rows,
    domain: Rows,
    preset: str = OWN,
) -> list[ReportTable]:
    """The report's tables, in this order: the paper's tables 2, 4 to 9 and 14, then figures 4, 5 and 8 to 10 as
    tables. `cited`: the pages that claims cite. `claims` are the published ones, `random` and `domain` the published
    splits. `preset`: by whose rules claims are chosen and counted (tables/rules.py).
    """
    asked, judged = questions.to_pandas(QUESTIONS), claims.to_pandas(CLAIMS)
    if preset == PARITY:
        judged = judged.merge(flagged(claims.as_dicts(*MARKS)), on="claim_id")
    facts = facts_of(judged, len(asked))
    sampled, given = samples.to_pandas(["answer_id", "system"]), _labels(labels)
    predicted, tests = predictions.to_pandas(PREDICTIONS), {"random": _tests(random), "domain": _tests(domain)}
    used = answers_of([sampled, judged], given)
    return [
        ReportTable(
            "Question types (table 2)",
            "A question may have several types: the shares sum to more than 100.",
            with_reasons(made.table_2_question_types(asked), "table_2", facts),
        ),
        ReportTable(
            "Answers by system, and how many abstain (table 4)",
            "Sampled answers are shown to experts; released ones all were. The abstention rate is of the generated "
            "answers: released ones were chosen among those that do not abstain.",
            with_reasons(
                made.table_4_abstentions(answers.to_pandas(["system", "kind", "abstention"]), sampled), "table_4", facts
            ),
        ),
        *estimates(
            judged, claims, attributions, entailed.to_pandas(["claim_id", "model", "attributable"]), facts, preset
        ),
        ReportTable(
            "Cited pages by system and month",
            "Pages that answers cite by address alone, each once an answer; month of the snapshot, or of the failure. "
            "Dead: it could not be had; unreadable: without text that can be read.",
            made.cited_pages(cited.to_pandas(["answer_id", "system", "pages"])),
        ),
        ReportTable(
            "Predicted answers (table 9)",
            _of_predictions(predicted),
            with_reasons(made.table_9_predictions(predicted, tests), "table_14", facts),
        ),
        ReportTable(
            "Predicted answers, zero-shot ones too (table 14)",
            _of_predictions(predicted),
            with_reasons(made.table_14_predictions(predicted, tests), "table_14", facts),
        ),
        second_labelling(given, _labels(second_labels), dict(zip(asked.question_id, asked.field, strict=True))),
        ReportTable(
            "Agreement of the annotators",
            "Of answers (usefulness) and claims that two or more annotators labelled. Alpha: Krippendorff's, nominal: "
            "1 for full agreement, 0 for chance; its 95 % interval by bootstrap. The tables count the label "
            "of more than half of them; without one the claim counts as not labelled. All labels are in the config "
            "`labels`.",
            agreement_of_annotators(labels),
        ),
        *map(labels_table, counted.figure_5_by_system(used, judged)),
        ReportTable(
            "Question types by field (figure 8)",
            "Shares are of the field's questions, of which one may have several types.",
            counted.types_table(counted.figure_8_types_by_field(asked)),
        ),
        *map(labels_table, counted.figures_9_and_10(judged, "field")),
        *map(labels_table, counted.figures_9_and_10(judged, "question_types")),
    ]


def figures(questions: Rows, claims: Rows, labels: Rows, second_labels: Rows) -> list[Figure]:
    """The paper's figures 4, 5 and 8 to 10 as plots; those without a single label are left out. `claims` are the
    published ones.
    """
    asked, judged, given = questions.to_pandas(QUESTIONS), claims.to_pandas(CLAIMS), _labels(labels)
    fields = dict(zip(asked.question_id, asked.field, strict=True))
    return plots(
        asked, answers_of([judged], given), judged, second.agreement_with_second(given, _labels(second_labels), fields)
    )


# ---------------------------------------------------------------- tables with notes


def estimates(
    judged: pd.DataFrame,
    claims: Rows,
    attributions: Rows,
    entailed: pd.DataFrame,
    facts: Facts,
    preset: str = OWN,
) -> list[ReportTable]:
    """Tables 5 to 8: AutoAIS, imported predictions and FActScore, and how they agree with people.

    `judged`: the columns CLAIMS of the published `claims`, by PARITY with FLAGS. `entailed`: imported predictions of
    entailment models, with claim_id, model and attributable. `facts`: of the claims. `preset`: as in `tables`.
    """
    backends, judges = (set(judged[name].dropna()) for name in ("autoais_backend", "fact_score_model"))
    by = _said_by(backends)
    found = compared(judged, attributions.to_pandas(["claim_id", "backend", "attributable", "score"]))
    return [
        ReportTable(
            "AutoAIS (table 5)",
            f"{attribution_note(judged)} {trust(found)}" + BY_PRESET[preset].get("table_5", ""),
            with_reasons(made.table_5_autoais(judged, preset), "table_5", facts),
        ),
        ReportTable(
            "AutoAIS against people (table 6)",
            f"{by} People: support is complete. Only claims count that are both scored and labelled; unscored: "
            "labelled, but without a score. Interval of F1 (95 %) by bootstrap over answers."
            + BY_PRESET[preset].get("table_6", ""),
            with_reasons(made.table_6_autoais_against_people(judged, preset), "table_6_zero_shot", facts),
        ),
        ReportTable(
            "Calibration of AutoAIS",
            "Of claims that are scored and that people labelled complete, partial, incomplete or missing: what share "
            "of them people call complete, by the judge's score. Brier: mean squared difference of score and label; "
            "ECE: mean difference of score and share, weighted by claims; both 0 at best.",
            calibration(found),
        ),
        ReportTable(
            "Imported entailment models against people (table 6)",
            "Predictions of entailment models that were imported (`entailments`). A model that was fine-tuned on "
            "claims of train (`longform export`) is told by those of the random split's test questions. Unscored: "
            "labelled claims that are not predicted.",
            with_reasons(made.table_6_imported_against_people(judged, entailed), "table_6_finetuned", facts),
        ),
        ReportTable(
            "Disagreements of AutoAIS and people (table 7)",
            f"{by} Of each kind at most {SHOWN}, cite-worthy claims first, then those of which AutoAIS was surest. "
            "Sources: texts of evidence, of which an entailment model may miss what they say together. Shared words: "
            "the share of the claim's content words that its evidence has; where that is nearly all, the two differ "
            "over fine-grained wording.",
            disagreements(judged, claims, attributions),
        ),
        ReportTable(
            "FActScore against people (table 8)",
            factscore_note(judges, preset),
            with_reasons(made.table_8_factscore(judged, preset), "table_8", facts),
        ),
    ]


def attribution_note(judged: pd.DataFrame) -> str:
    """The note under table 5: who judged, of which claims, and what macro and micro mean. `judged`: published claims,
    of which `autoais_backend` and `autoais` are read.
    """
    backends = set(judged.autoais_backend.dropna())
    unreleased = backends == {RELEASED} and bool(judged.autoais.isna().all())
    return (
        f"{NONE_RELEASED if unreleased else _said_by(backends)} Of claims with complete support, as the paper has it; "
        "other selections beside. Macro: mean over answers of the share of their claims that are attributable; micro: "
        "share of the claims. Intervals (95 %) by bootstrap over answers. Unscored claims (no text of evidence, or no "
        "estimate) count nowhere."
    )


def factscore_note(judges: Iterable[str], preset: str = OWN) -> str:
    """The note under table 8: who judged, or that nothing was judged, and what counts as factual. `judges`: names of
    models.
    """
    by = f"Judged by {names}." if (names := ", ".join(sorted(judges))) else NOTHING_JUDGED
    limit = "of 0.5 or more, without answers that abstain and small talk" if preset == PARITY else "above 0.5"
    return (
        f"{by} Factual: FActScore {limit}; for people: definitely or probably correct. F1 of the claims that are "
        "scored and labelled; the mean FActScore of all scored ones. Intervals (95 %) by bootstrap over answers. "
        "Unscored (no atomic claim was judged) is not zero: such claims count nowhere."
    )


def _said_by(backends: Iterable[str]) -> str:
    """The sentence "By <backends>.", in order of their names, or one that says that nothing was estimated."""
    return f"By {names}." if (names := ", ".join(sorted(backends))) else "Nothing was estimated."


def _of_predictions(predicted: pd.DataFrame) -> str:
    """The note under tables 9 and 14: what the scores are, and why QAFactEval is missing, if it is."""
    note = f"ROUGE: F measure against the revised answer, times 100, of the predicted test questions. {WORDS}"
    if len(predicted) and predicted.qafacteval.isna().all():
        note += f" QAFactEval is left out: {why_no_qafacteval(qafacteval_models()) or 'no prediction has words'}."
    return note


def second_labelling(first: Sequence[Row], again: Sequence[Row], fields: dict[str, str]) -> ReportTable:
    """Figure 4 as a table: agreement of a second labelling (`again`) with the reference labels (`first`), in percent,
    and Cohen's kappa, for each field and property with such labels, and over all fields.

    `first`, `again`: rows of LABELS. `fields`: question id -> field.
    """
    own = sum(other["annotator_id"] in one["annotators"] for one, other in second.both_labelled(first, again))
    note = (
        "Labelled by both; claims, of usefulness answers. Of several second labellings of an answer each counts, "
        "of several first ones what more than half say. "
        "Kappa: agreement beyond chance, 1 at most."
    )
    note += f" By an annotator of the first: {own:,} second labellings." if own else ""
    columns = ["field", "property", "labelled", "agreement", "kappa"]
    rows = pd.DataFrame(second.agreement_with_second(first, again, fields), columns=columns)
    rows = rows[(rows.labelled > 0) | rows.field.isna()].fillna({"field": made.TOTAL})
    rows["agreement"] *= 100
    rows["kappa"] = rows.kappa.astype(float).round(9) + 0.0  # without the sign of a zero
    named = rows.rename(columns={"agreement": "agreement, %", "kappa": "Cohen's kappa"})
    return ReportTable("Agreement with a second labelling (figure 4)", note, named)


def labels_table(labels: counted.Labels) -> ReportTable:
    """The table of counts and shares of the labels of one property by system, field or question type, with title and
    note.
    """
    which = f", {labels.which}" if labels.which else ""
    title = f"{labels.property.capitalize()} by {counted.GROUPS[labels.by]}{which} (figure {FIGURES[labels.by]})"
    note = f"Shares are of the labelled {labels.what}."
    if labels.by == "question_types":
        note += " A claim counts in every type of its question."
    return ReportTable(title, note, counted.labels_table(labels))


# ---------------------------------------------------------------- table 7, the only one that shows texts


def disagreements(judged: pd.DataFrame, claims: Rows, attributions: Rows) -> pd.DataFrame:
    """Table 7: at most SHOWN claims of each kind of disagreement, with the texts of claims and evidence. Texts are
    read for the chosen claims alone, since evidence is long.

    `judged`: the columns CLAIMS of the published `claims`.
    """
    scored = judged.merge(attributions.to_pandas(["claim_id", "score"]), on="claim_id", how="left")
    chosen = made.table_7_disagreements(scored, SHOWN)
    evidence = _of(claims, ["claim_id", "claim", "evidence", "evidence_urls"], chosen.claim_id)
    was_read = _of(attributions, ["claim_id", "evidence"], chosen.claim_id)
    texts = [sources_of(evidence[key]) for key in chosen.claim_id]
    rows = chosen[["kind", "system", "claim_id"]].copy()
    rows["claim"] = [shortened(evidence[key]["claim"]) for key in chosen.claim_id]
    rows["evidence that was read"] = [shortened(was_read.get(key, {}).get("evidence")) for key in chosen.claim_id]
    rows["support"], rows["cite-worthy"], rows["score"] = chosen.support, chosen.worthiness, chosen.score
    rows["sources"] = ["several" if len(found) > 1 else "one" for found in texts]
    rows["shared words, %"] = [
        100 * lexical_entailment("\n".join(found), without_marks(evidence[key]["claim"])) if found else None
        for key, found in zip(chosen.claim_id, texts, strict=True)
    ]  # the share of the claim's content words that its evidence has: near 100 they differ in wording
    return rows


def sources_of(claim: Row) -> list[str]:
    """The texts of a published claim's evidence, in order, each once. Blank ones, and evidence of which only the
    address is known, are left out.
    """
    pairs = zip(claim["evidence"], claim["evidence_urls"], strict=True)
    return list(dict.fromkeys(text for text, url in pairs if text.strip() and text != url))


def shortened(text: str | None) -> str | None:
    """The text on one line, cut to LONGEST characters with a final `…`; None if it is None or blank."""
    words = " ".join((text or "").split())
    return (words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…") or None


# ---------------------------------------------------------------- reading


def answers_of(rows: Iterable[pd.DataFrame], labels: Sequence[Row]) -> pd.DataFrame:
    """A frame with a row for each answer in `rows` (frames of answers or of their claims) or `labels` (rows of
    LABELS): answer_id, system, usefulness. Answers in `labels` come first.

    Usefulness is that of the majority of the answer's rows in `labels`, missing without one.
    """
    columns = ["answer_id", "system", "usefulness"]
    said = [(answer, *found) for answer, found in usefulness_of(labels).items()]
    every = [pd.DataFrame(said, columns=columns), *(own[["answer_id", "system"]] for own in rows)]
    return pd.concat(every, ignore_index=True).drop_duplicates("answer_id", ignore_index=True)


def _labels(rows: Rows) -> list[Row]:
    """Rows of LABELS, as far as the report needs their columns, ordered by label_id."""
    return sorted(rows.as_dicts(*LABELS, *CLAIMS_OF_LABELS), key=lambda row: str(row["label_id"]))


def _tests(split: Rows) -> int:
    """The number of test questions of a published split on which models are scored."""
    rows = split.as_dicts("question_id", "split", "split_from")
    return len({row["question_id"] for row in scored_rows(rows)})


def _of(rows: Rows, columns: list[str], claim_ids: Iterable[str]) -> dict[str, Row]:
    """Claim id -> these columns of its row, read from the files for these claims alone; a claim without a row has no
    key. `columns` must have claim_id.
    """
    if not (wanted := list(claim_ids)):
        return {}
    found = pq.read_table(rows.paths, columns=columns, filters=[("claim_id", "in", wanted)])
    return {row["claim_id"]: row for row in found.to_pylist()}
