"""Tables 2, 4 to 9 and 14 of ExpertQA: question types, abstentions, AutoAIS and FActScore against people, predictions.

Shares are in percent. The paper's figures stand beside ours.

Frames of claims have a row for each published claim: claim_id, answer_id, system, the labels of people (missing where
nobody gave one), `autoais` (true or false) and `fact_score`, both missing where nothing was scored. Claims that are not
scored are counted as `unscored` and enter no other figure. A figure that is not defined is NaN: nothing scored, or a
division by zero. Intervals (95 %) are by bootstrap over answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.expertqa.estimates.autoais import SYSTEMS
from tasks.expertqa.estimates.factscore import CORRECT
from tasks.expertqa.estimates.predictions import CONFIGS
from tasks.expertqa.tables.calibration import SUPPORT
from tasks.expertqa.tables.rules import OWN, PARITY, factual, of_table_5, of_table_6, of_table_8, tested
from tasks.expertqa.vocabulary import type_texts
from tasks.metrics.intervals import ratio_interval
from tasks.metrics.rouge import KINDS
from tasks.publishing.printed import beside, printed

TOTAL = "all"
PRINTED = Path(__file__).with_name("printed.toml")
SCORES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "qafacteval": "QAFactEval"}
OF_A_PREDICTION = ["config", "model", "zero_shot"]
Selection = Callable[[pd.DataFrame], "pd.Series[bool]"]


def _complete(claims: pd.DataFrame) -> pd.Series[bool]:
    """For each claim whether people call its support `Complete`; False without a label."""
    return claims.support == "Complete"


def _worthy(claims: pd.DataFrame) -> pd.Series[bool]:
    """For each claim whether people call it worth a citation; False without a label."""
    return claims.worthiness == "Yes"


SELECTIONS: dict[str, Selection] = {
    "complete support": _complete,
    "complete support, cite-worthy": lambda claims: _complete(claims) & _worthy(claims),
    "cite-worthy": _worthy,
    "all claims": lambda claims: claims.claim_id.notna(),
}
HEADLINE = "complete support, cite-worthy"
OF_THE_PAPER = ("complete support", HEADLINE)
BY_PARITY = "test, not unworthy"
JUDGED: dict[str, Selection] = {
    "labelled": lambda claims: claims.support.notna(),
    "labelled, cite-worthy": lambda claims: claims.support.notna() & _worthy(claims),
}


def table_2_question_types(questions: pd.DataFrame) -> pd.DataFrame:
    """Table 2 (Question Type, Count): how many questions have each type, and their share of all questions, in percent.

    `questions`: a frame with `question_types`, lists of I to VII. A question may have several types, so that shares
    sum to more than 100. The last row counts all questions, the one before those without a type, if there are any.
    """
    types = questions.question_types.explode()
    named = pd.DataFrame({"type": list(type_texts()), "meaning": list(type_texts().values())})
    named["questions"] = types.value_counts().reindex(named.type, fill_value=0).to_numpy()
    others = pd.DataFrame({
        "type": "", "meaning": ["no type", "all questions"], "questions": [types.isna().sum(), len(questions)]
    })  # fmt: skip
    rows = pd.concat([named, others.drop(index=[] if types.isna().any() else [0])], ignore_index=True)
    rows["questions %"] = 100 * rows.questions / len(questions) if len(questions) else None
    return beside(rows, printed(PRINTED, "table_2"), on=["type"])


def table_4_abstentions(answers: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Table 4 (Count, Abstention Rate): for each system how many of its answers are sampled, how many generated ones
    there are, and how many of these abstain, with the rate in percent.

    `answers`: system, kind, abstention (missing if it does not abstain); `samples`: system. Released answers were
    chosen among those that do not abstain, so they count as sampled only. The rate of a system without generated
    answers is NaN, not 0.
    """
    generated = answers[answers.kind != "released"]
    counts = pd.DataFrame({
        "sampled": samples.system.value_counts(),
        "generated": generated.system.value_counts(),
        "abstaining": generated.system[generated.abstention.notna()].value_counts(),
    })  # fmt: skip
    rows = counts.reindex(in_order(counts.index)).rename_axis("system").fillna(0).astype(int).reset_index()
    rows["abstention rate, %"] = 100 * rows.abstaining / rows.generated
    return beside(rows, printed(PRINTED, "table_4"), on=["system"])


def table_5_autoais(claims: pd.DataFrame, preset: str = OWN) -> pd.DataFrame:
    """Table 5 (AutoAIS, Num. Claims): the share of claims that AutoAIS calls attributable, in percent, by system and
    over all.

    `macro` is the mean over answers of the share within an answer, `micro` the share over claims; `claims` and
    `answers` count those scored. First come the claims with complete support, as the paper's text has it, then those
    of them worth a citation, as its authors' scoring has it: the printed figures stand beside both. Then all claims
    worth a citation, and all claims. By PARITY those of the authors come first, and the printed figures stand beside
    them alone (`claims` has FLAGS then).
    """
    first = {HEADLINE: SELECTIONS[HEADLINE]} if preset == PARITY else {}
    chosen = of_table_5(claims) if preset == PARITY else claims
    rows = _selected(chosen, first | SELECTIONS, "claims with", _attributable, systems=claims.system)
    of_paper = (HEADLINE,) if preset == PARITY else OF_THE_PAPER
    paper = printed(PRINTED, "table_5").merge(pd.DataFrame({"claims with": of_paper}), how="cross")
    return beside(rows, paper, on=["claims with", "system"])


def _attributable(claims: pd.DataFrame) -> dict[str, Any]:
    """The figures of table 5 of these claims: column -> number; NaN for shares if no claim is scored."""
    scored = claims.dropna(subset="autoais")
    answers = scored.autoais.astype(float).groupby(scored.answer_id)
    shares = answers.mean()
    return {
        "macro, %": 100 * shares.mean(),
        **_bounds("macro, %", shares, np.ones(len(shares))),
        "micro, %": 100 * scored.autoais.astype(float).mean(),
        **_bounds("micro, %", answers.sum(), answers.size()),
        "claims": len(scored),
        "answers": len(shares),
        "unscored": len(claims) - len(scored),
    }


def table_6_autoais_against_people(claims: pd.DataFrame, preset: str = OWN) -> pd.DataFrame:
    """Table 6, zero-shot (P, R, F1): AutoAIS against people, in percent, by system and over all.

    People's label is positive if support is `Complete`; `Partial`, `Incomplete`, `Missing` and `N/A` are negatives.
    First all claims that are both scored and labelled, then those of them worth a citation. By PARITY the claims that
    the authors score come first, with the printed figures beside them (`claims` has FLAGS then).
    """
    rows = _selected(claims, JUDGED, "claims", _against_people)
    if preset != PARITY:
        return beside(rows, _of_all_claims("table_6_zero_shot"), on=["claims", "system"])
    chosen = of_table_6(claims)
    own = [
        {"claims": BY_PARITY, "system": system, **_against_people(of[of.support.notna()])}
        for system, of in by_system(chosen, systems=claims.system)
    ]
    paper = printed(PRINTED, "table_6_zero_shot").assign(claims=BY_PARITY)
    return beside(pd.concat([pd.DataFrame(own), rows], ignore_index=True), paper, on=["claims", "system"])


def table_6_imported_against_people(claims: pd.DataFrame, entailed: pd.DataFrame) -> pd.DataFrame:
    """Table 6, finetuned (P, R, F1): as `table_6_autoais_against_people`, for imported predictions of entailment
    models.

    `entailed`: claim_id, model, attributable; of a model's several predictions for a claim the last counts. For each
    model first all claims, then those of the random split's test questions (the released ones, if there are any),
    beside which the printed figures stand.
    """
    last = entailed.drop_duplicates(["model", "claim_id"], keep="last")
    chosen = {TOTAL: claims, "test": tested(claims, "random")}
    frames = [
        _selected(own.drop(columns="autoais").merge(rows, on="claim_id", how="left"), JUDGED, "claims", _against_people)
        .assign(model=model, questions=questions)
        for model, rows in last.rename(columns={"attributable": "autoais"}).groupby("model")[["claim_id", "autoais"]]
        for questions, own in chosen.items()
    ] or [_selected(claims[:0], JUDGED, "claims", _against_people).assign(model="", questions="")[:0]]  # fmt: skip
    rows = pd.concat(frames, ignore_index=True)
    named = rows[["model", "questions", *rows.columns.drop(["model", "questions"])]]
    paper = _of_all_claims("table_6_finetuned").assign(questions="test")
    return beside(named, paper, on=["questions", "claims", "system"])


def _of_all_claims(table: str) -> pd.DataFrame:
    """The printed figures of a table, with a column `claims` that is "labelled", so that they stand beside our figures
    of all labelled claims.
    """
    return printed(PRINTED, table).assign(claims="labelled")


def _against_people(claims: pd.DataFrame) -> dict[str, Any]:
    """The figures of table 6 of these claims, which must be labelled: column -> number. Claims without `autoais` count
    as unscored only.
    """
    scored = claims.dropna(subset="autoais")
    predicted, true = scored.autoais.astype(bool), _complete(scored)
    precision, recall, f1 = _precision_recall_f1(true, predicted)
    return {
        "precision, %": 100 * precision,
        "recall, %": 100 * recall,
        "F1, %": 100 * f1,
        **_f1_bounds("F1, %", true, predicted, scored.answer_id),
        "scored": len(scored),
        "attributable": predicted.sum(),
        "complete": true.sum(),
        "unscored": len(claims) - len(scored),
    }


def table_7_disagreements(claims: pd.DataFrame, k: int) -> pd.DataFrame:
    """Table 7: at most `k` claims that people call `Complete` and AutoAIS does not, then at most `k` the other way
    round. Claims labelled N/A, of which nothing is to be supported, are left out.

    The rows are those of `claims`, with a column `kind` and others by which they are sorted. `claims` must have
    `score`, the score of AutoAIS in [0, 1]. Claims worth a citation come first, then those of which AutoAIS was
    surest, ties by claim_id.
    """
    both = claims[claims.autoais.notna() & claims.support.isin(SUPPORT)]
    both = both.assign(predicted=both.autoais.astype(bool), unworthy=~_worthy(both), sure=both.score.fillna(0.0))
    missed, granted = both[_complete(both) & ~both.predicted], both[~_complete(both) & both.predicted]
    order = ["unworthy", "sure", "claim_id"]
    kinds = {
        "people: Complete, AutoAIS: 0": missed.sort_values(order),
        "people: not Complete, AutoAIS: 1": granted.sort_values(order, ascending=[True, False, True]),
    }
    return pd.concat([found[:k].assign(kind=kind) for kind, found in kinds.items()], ignore_index=True)


def table_8_factscore(claims: pd.DataFrame, preset: str = OWN) -> pd.DataFrame:
    """Table 8 (F1 (T), F1 (F), F1 (overall)): FActScore against people on which claims are factual, in percent, by
    system and over all.

    A claim is factual for FActScore above 0.5 (by PARITY also at 0.5), for people if it is definitely or probably
    correct. By PARITY answers that abstain and small talk are left out (`claims` has FLAGS then). The three F1 are of
    claims both scored and labelled; overall is micro-averaged, the share of claims on which both agree. `FActScore` is
    the mean over all scored claims, labelled or not.
    """
    chosen = of_table_8(claims) if preset == PARITY else claims
    rows = [{"system": system, **_factual(own, preset)} for system, own in by_system(chosen, systems=claims.system)]
    return beside(pd.DataFrame(rows), printed(PRINTED, "table_8"), on=["system"])


def _factual(claims: pd.DataFrame, preset: str) -> dict[str, Any]:
    """The figures of table 8 of these claims: column -> number. NaN where nothing is scored, or scored and labelled."""
    scored = claims.dropna(subset="fact_score")
    labelled = scored.dropna(subset="correctness")
    predicted, true = factual(labelled.fact_score.astype(float), preset), labelled.correctness.isin(CORRECT)
    agreed, scores = (predicted == true).groupby(labelled.answer_id), scored.fact_score.astype(float)
    by_answer = scores.groupby(scored.answer_id)
    return {
        "F1 true, %": 100 * _precision_recall_f1(true, predicted)[2],
        **_f1_bounds("F1 true, %", true, predicted, labelled.answer_id),
        "F1 false, %": 100 * _precision_recall_f1(~true, ~predicted)[2],
        **_f1_bounds("F1 false, %", ~true, ~predicted, labelled.answer_id),
        "F1 overall, %": 100 * (predicted == true).mean(),
        **_bounds("F1 overall, %", agreed.sum(), agreed.size()),
        "FActScore, %": 100 * scores.mean(),
        **_bounds("FActScore, %", by_answer.sum(), by_answer.size()),
        "labelled and scored": len(labelled),
        "scored": len(scored),
        "unscored": len(claims) - len(scored),
    }


def table_9_predictions(predictions: pd.DataFrame, tests: Mapping[str, int]) -> pd.DataFrame:
    """Table 9 (Split, Model, R1, R2, RL, QFE): predicted answers of tuned models, that is table 14 without zero-shot
    models.

    The paper has Llama2-70B in table 9 although it was asked zero-shot; here it is in table 14 only.
    """
    tuned = table_14_predictions(predictions[~predictions.zero_shot.astype(bool)], tests)
    return tuned.drop(columns="zero-shot")


def table_14_predictions(predictions: pd.DataFrame, tests: Mapping[str, int]) -> pd.DataFrame:
    """Table 14 (Split, Model, R1, R2, RL, QFE): mean scores of predicted answers by split and model, ROUGE times 100.

    A row for each model in each split; NaN and 0 `predicted` if it predicted nothing there. `predictions`:
    question_id, model, zero_shot, config and the scores; of a model's several predictions for a question the first
    counts. `tests`: config -> number of its test questions. Means are over the questions predicted (`predicted`), not
    over all test questions.
    """
    first = predictions.drop_duplicates([*OF_A_PREDICTION, "question_id"]).astype(dict.fromkeys(SCORES, float))
    means = first.groupby(OF_A_PREDICTION)[list(SCORES)].mean()
    means[list(KINDS)] *= 100
    means["predicted"] = first.groupby(OF_A_PREDICTION).size()
    models = first[["model", "zero_shot"]].drop_duplicates().sort_values(["model", "zero_shot"])
    wanted = pd.MultiIndex.from_frame(pd.DataFrame({"config": CONFIGS}).merge(models, how="cross"))
    rows = means.reindex(wanted).reset_index()
    rows["predicted"] = rows.predicted.fillna(0).astype(int)
    rows["test questions"] = rows.config.map(tests)
    rows["zero_shot"] = rows.zero_shot.map({True: "yes", False: "no"})
    named = rows.rename(columns={"config": "split", "zero_shot": "zero-shot", **SCORES})
    return beside(named, printed(PRINTED, "table_14"), on=["split", "model", "zero-shot"])


# ---------------------------------------------------------------- shared


def by_system(rows: pd.DataFrame, *, systems: Iterable[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """(system, its rows) of each of the `systems`, in the paper's order, others by name; last (TOTAL, all rows)."""
    for system in in_order(systems):
        yield system, rows[rows.system == system]
    yield TOTAL, rows


def in_order(systems: Iterable[str]) -> list[str]:
    """The distinct systems in the paper's order, others after them by name."""
    place = {system: at for at, system in enumerate(SYSTEMS)}
    return sorted(set(systems), key=lambda system: (place.get(system, len(place)), system))


def _selected(
    claims: pd.DataFrame,
    selections: dict[str, Selection],
    column: str,
    figures: Callable[[pd.DataFrame], dict[str, Any]],
    systems: Iterable[str] | None = None,
) -> pd.DataFrame:
    """A row for each selection of claims and each system, and for all systems: the result of `figures` for these
    claims.

    `selections`: name -> function that tells which rows of a frame are selected. `column`: the column that names the
    selection. `systems`: those that have a row, by default those of the claims.
    """
    named = list(claims.system if systems is None else systems)
    return pd.DataFrame([
        {column: name, "system": system, **figures(own)}
        for name, keep in selections.items()
        for system, own in by_system(claims[keep(claims)], systems=named)
    ])  # fmt: skip


def _precision_recall_f1(true: pd.Series[bool], predicted: pd.Series[bool]) -> tuple[float, float, float]:
    """(precision, recall, F1), each from 0 to 1. NaN where undefined: precision if nothing is predicted, recall if
    nothing is true, F1 if neither.
    """
    from sklearn.metrics import precision_recall_fscore_support

    if not len(true):
        return np.nan, np.nan, np.nan
    found = precision_recall_fscore_support(true, predicted, pos_label=True, average="binary", zero_division=np.nan)
    return float(found[0]), float(found[1]), float(found[2])


def _f1_bounds(
    name: str, true: pd.Series[bool], predicted: pd.Series[bool], answers: pd.Series[str]
) -> dict[str, float]:
    """The columns `<name> from` and `<name> to`: the interval (95 %) of F1 = 2 TP / (predicted + true) in percent, by
    bootstrap over answers; NaN for fewer than two answers. `answers`: the answer id of each claim.
    """
    parts, wholes = (2 * (true & predicted)).groupby(answers).sum(), (true.astype(int) + predicted.astype(int))
    return _bounds(name, parts, wholes.groupby(answers).sum())


def _bounds(name: str, parts: Any, wholes: Any) -> dict[str, float]:
    """The columns `<name> from` and `<name> to`: the interval (95 %) of sum(parts) / sum(wholes) in percent, by
    bootstrap; NaN for fewer than two answers or if the wholes are 0. Both have an entry for each answer.
    """
    low, high = ratio_interval(parts, wholes)
    return {f"{name} from": 100 * low, f"{name} to": 100 * high}


# ---------------------------------------------------------------- cited pages

STATES = ("read", "dead", "unreadable", "taken down", "not among the pages")


def cited_pages(claims: pd.DataFrame) -> pd.DataFrame:
    """The number of cited pages for each system and month, and of them by state, with the reasons of those not read.

    `claims`: answer_id, system and pages (structs of CITED_PAGE). A page counts once for each answer that cites it.
    """
    rows = claims.explode("pages").dropna(subset=["pages"])
    pages = pd.DataFrame(list(rows.pages), columns=["url", "state", "reason", "month"])
    pages[["answer_id", "system"]] = rows[["answer_id", "system"]].to_numpy()
    pages = pages.drop_duplicates(["answer_id", "url"])
    pages["month"] = pages.month.fillna("unknown")
    found = pd.crosstab([pages.system, pages.month], pages.state).reindex(columns=list(STATES), fill_value=0)
    found.insert(0, "cited", found.sum(axis=1))
    unread = pages[pages.state != "read"].groupby(["system", "month"]).reason
    reasons = unread.agg(lambda own: ", ".join(f"{name} {count}" for name, count in Counter(sorted(own)).most_common()))
    return found.assign(reasons=reasons).fillna({"reasons": ""}).reset_index().rename_axis(columns=None)
