"""What several annotators say of the same claims: every label published, a majority for the tables, their agreement.

The released data has one labelling an answer; sheets may bring more. A property's label is the one that more than half
of those who labelled it gave, as in `longform labels`; without one it stays null and is named in `undecided`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from longform.engine.stage import PerGroup, Rejected, Row, Rows, StageContext, stage
from schemas.expertqa import PUBLISHED_LABELS
from tasks.annotation.agreement import alpha, pairwise_share
from tasks.expertqa.vocabulary import LABELLED

OF_A_CLAIM = ("support", "informativeness", "worthiness", "correctness", "reliability")
TEXTS = ("reason_missing_support", "revised_claim", "revised_evidence")
COUNTED = ("usefulness", *LABELLED)


def majority(values: Iterable[Any]) -> tuple[Any, bool]:
    """(the value of more than half of those that are not None, False); (None, True) if no value is; (None, False) if
    all are None.
    """
    given = Counter(value for value in values if value is not None)
    if not given:
        return None, False
    value, votes = given.most_common(1)[0]
    return (value, False) if 2 * votes > given.total() else (None, True)


def decided(claim_id: str, labels: Sequence[Row]) -> Row:
    """The label columns of a published claim: of usefulness and each property the majority, with `annotators` (number
    of those who labelled the answer) and `undecided` (properties that are labelled and have none).

    Texts (reason, revised claim and evidence) are those of the first annotator who gave any, who is `annotator_id`;
    else that is the first. `labels`: rows of LABELS of the claim's answer, by annotator; may be empty.
    """
    said: list[Row] = [next((one for one in row["claims"] if one["claim_id"] == claim_id), {}) for row in labels]
    values = {"usefulness": [row["usefulness"] for row in labels]}
    values |= {name: [one.get(name) for one in said] for name in OF_A_CLAIM}
    found = {name: majority(own) for name, own in values.items()}
    writer = next((place for place, one in enumerate(said) if any(one.get(name) is not None for name in TEXTS)), 0)
    written = said[writer] if said else {}
    return {
        **{name: value for name, (value, _) in found.items()},
        "reason_missing_support": written.get("reason_missing_support"),
        "revised_claim": written.get("revised_claim"),
        "revised_evidence": written.get("revised_evidence") or [],
        "annotator_id": labels[writer]["annotator_id"] if labels else None,
        "annotators": len(labels),
        "undecided": [name for name, (_, split) in found.items() if split],
    }


def usefulness_of(labels: Iterable[Row]) -> dict[str, tuple[str, str | None]]:
    """Answer id -> (system, usefulness by majority, None if nobody or no majority says it). `labels`: rows of
    LABELS.
    """
    said: dict[str, tuple[str, list[str | None]]] = {}
    for row in labels:
        said.setdefault(row["answer_id"], (row["system"], []))[1].append(row["usefulness"])
    return {answer: (system, majority(values)[0]) for answer, (system, values) in said.items()}


@stage(PUBLISHED_LABELS, revision=1, split_by="split")
def publish_labels(context: StageContext, labels: PerGroup) -> Iterator[Row | Rejected]:
    """Every annotator's labels of every claim, as they were given in the paper's vocabulary: a row for each claim and
    annotator, by answer and annotator; claims that an annotator left unlabelled too, with nulls. A Rejected for a
    labelling of an answer without claims.
    """
    for row in sorted(labels, key=lambda row: (str(row["question_id"]), str(row["label_id"]))):
        if not row["claims"]:
            yield Rejected(row["label_id"], "filtered", "no claim")
        for claim in row["claims"]:
            yield {
                "label_id": f"{row['label_id']}/{claim['claim_id'].rpartition('#')[2]}",
                "labelling_id": row["label_id"],
                **{name: row[name] for name in ("answer_id", "question_id", "system", "annotator_id", "usefulness")},
                **{name: claim[name] for name in ("claim_id", *OF_A_CLAIM, *TEXTS[:2], "said_as")},
                "revised_evidence": claim["revised_evidence"] or [],
                **{name: row[name] for name in ("annotation_time", "labelled_at", "source")},
                "split": "full",
            }


def agreement_of_annotators(labels: Rows) -> pd.DataFrame:
    """Agreement of the annotators, a row for each property: how many answers or claims two or more of them labelled,
    the share of equal pairs in percent, Krippendorff's nominal alpha with its 95 % bootstrap interval, and how many
    have no majority. Without two labels of one thing, figures are missing. `labels`: rows of LABELS.
    """
    rows = sorted(
        labels.as_dicts("label_id", "answer_id", "usefulness", "claims"), key=lambda row: str(row["label_id"])
    )
    units: dict[str, dict[str, list[Any]]] = {name: {} for name in COUNTED}
    for row in rows:
        units["usefulness"].setdefault(row["answer_id"], []).append(row["usefulness"])
        for claim in row["claims"]:
            for name in LABELLED:
                units[name].setdefault(claim["claim_id"], []).append(claim[name])
    return pd.DataFrame([_agreed(name, own.values()) for name, own in units.items()])


def _agreed(name: str, units: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """The row of `agreement_of_annotators` of one property."""
    given = [[label for label in labels if label is not None] for labels in units]
    several = [labels for labels in given if len(labels) > 1]
    measure, share = alpha(several), pairwise_share(several)
    low, high = measure.bounds() if several else (float("nan"), float("nan"))
    return {
        "property": name,
        "labelled twice or more": len(several),
        "agreement, %": None if share is None else 100 * share,
        "alpha": measure.value if several else None,
        "alpha from": low,
        "alpha to": high,
        "no majority": sum(majority(labels)[1] for labels in several),
    }
