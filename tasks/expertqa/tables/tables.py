"""Tables 2, 4, 9 and 14 of ExpertQA: question types, abstentions, predicted answers. Shares are in percent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from tasks.expertqa.estimates.predictions import CONFIGS
from tasks.expertqa.tables.estimates import in_order
from tasks.expertqa.vocabulary import type_texts
from tasks.metrics.rouge import KINDS
from tasks.publishing.printed import beside, printed

PRINTED = Path(__file__).with_name("printed.toml")
SCORES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "qafacteval": "QAFactEval"}
OF_A_PREDICTION = ["config", "model", "zero_shot"]


def table_2_question_types(questions: pd.DataFrame) -> pd.DataFrame:
    """Table 2 (Question Type, Count): how many questions have each type, and their share of all questions.

    `questions`: question_types, a list of I to VII. A question may have several types, so that shares sum to more
    than 100; a row counts those without a type, where there are any, and the last all of them.
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
    """Table 4 (Count, Abstention Rate): by system its sampled answers, and how many of the generated ones abstain.

    `answers`: system, kind, abstention (missing where it does not abstain); `samples`: system. Released answers were
    chosen among those that do not abstain: they count as sampled alone. The rate of a system of which none was
    generated is NaN, not 0.
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


def table_9_predictions(predictions: pd.DataFrame, tests: Mapping[str, int]) -> pd.DataFrame:
    """Table 9 (Split, Model, R1, R2, RL, QFE): predicted answers of tuned models, that is table 14 without zero-shot.

    Llama2-70B stands in the paper's table 9 although it was asked zero-shot; here only in table 14.
    """
    tuned = table_14_predictions(predictions[~predictions.zero_shot.astype(bool)], tests)
    return tuned.drop(columns="zero-shot")


def table_14_predictions(predictions: pd.DataFrame, tests: Mapping[str, int]) -> pd.DataFrame:
    """Table 14 (Split, Model, R1, R2, RL, QFE): means of predicted answers by split and model, ROUGE times 100.

    `predictions`: question_id, model, zero_shot, config and the scores; of those of one question the first counts.
    `tests`: config -> its test questions. Means are over the `predicted` questions: missing ones are no zeros.
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
