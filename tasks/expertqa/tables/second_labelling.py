"""How far a second labelling agrees with the reference labels: the share of equal labels, and Cohen's kappa (figure 4,
section 4.2 of the paper).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from longform.artifacts.rows import Row, grouped
from tasks.annotation.agreement import kappa, pairwise_share
from tasks.expertqa.annotators import majority
from tasks.expertqa.tables.label_counts import NO_LABEL, with_total
from tasks.expertqa.vocabulary import LABELLED

SAME, ANOTHER = "the same label", "another label"
PROPERTIES = ("usefulness", *LABELLED)
Pair = tuple[str, str]


def agreement_with_second(reference: Iterable[Row], second: Iterable[Row], fields: Mapping[str, str]) -> list[Row]:
    """How far a second labelling agrees with the reference: a row for each field, first None for all fields, and each
    property of table 3.

    `reference`, `second`: rows of LABELS; each second row is compared with what more than half of the reference's
    annotators of its answer say, where both have a label. `fields`: question id -> field. `labelled` is the number of
    labels compared: of claims, or for usefulness of answers; `agreed` how many are equal. `agreement` (a share, 0 to 1)
    and `kappa` are None if nothing is compared; `kappa` also if both gave one and the same label throughout.
    """
    compared = both_labelled(reference, second)
    of_field: dict[str | None, list[tuple[Row, Row]]] = {None: compared}
    for row, other in sorted(compared, key=lambda both: fields[both[0]["question_id"]]):
        of_field.setdefault(fields[row["question_id"]], []).append((row, other))
    return [
        _agreed(field, name, [pair for row, other in own for pair in pairs(row, other, name)])
        for field, own in of_field.items()
        for name in PROPERTIES
    ]


def both_labelled(reference: Iterable[Row], second: Iterable[Row]) -> list[tuple[Row, Row]]:
    """(the reference's labels by majority, second row) for each row of the second labelling whose answer the reference
    has.
    """
    of_answer = {answer: _by_majority(rows) for answer, rows in grouped(reference, "answer_id").items()}
    return [(of_answer[row["answer_id"]], row) for row in second if row["answer_id"] in of_answer]


def _by_majority(rows: Sequence[Row]) -> Row:
    """question_id, `annotators` (their ids), `usefulness` and `claims` of rows of LABELS of one answer: of each label
    what more than half of those say who gave one, else None.
    """
    said = [{claim["claim_id"]: claim for claim in row["claims"]} for row in rows]
    claims = [
        {"claim_id": key, **{name: majority(own[key][name] for own in said if key in own)[0] for name in LABELLED}}
        for key in dict.fromkeys(key for own in said for key in own)
    ]
    return {
        "question_id": rows[0]["question_id"],
        "annotators": {row["annotator_id"] for row in rows},
        "usefulness": majority(row["usefulness"] for row in rows)[0],
        "claims": claims,
    }


def pairs(first: Row, second: Row, name: str) -> Iterator[Pair]:
    """(label in `first`, label in `second`) of a property, of the answer or of each claim; left out where either has no
    label.
    """
    if name == "usefulness":
        both = [(first[name], second[name])]
    else:
        others = {claim["claim_id"]: claim[name] for claim in second["claims"]}
        both = [(claim[name], others.get(claim["claim_id"])) for claim in first["claims"]]
    yield from ((one, other) for one, other in both if one is not None and other is not None)


def _agreed(field: str | None, name: str, both: list[Pair]) -> Row:
    """A row of `agreement_with_second`. `both`: the pairs of labels."""
    return {
        "field": field,
        "property": name,
        "labelled": len(both),
        "agreed": sum(one == other for one, other in both),
        "agreement": pairwise_share(both),
        "kappa": kappa(both).value,
    }


def agreement_counts(rows: Iterable[Row]) -> dict[str, pd.DataFrame]:
    """Figure 4: field, or "all fields" -> how many labels of each property are the same in two labellings, and how many
    are not.

    `rows`: those of `agreement_with_second`. A frame has a row for each property with labels and a last row TOTAL;
    its columns are SAME, ANOTHER and NO_LABEL, which is 0. Fields without labels have no key.
    """
    labelled = pd.DataFrame(
        [row for row in rows if row["labelled"]], columns=["field", "property", "labelled", "agreed"]
    )
    labelled["field"] = labelled.field.fillna("all fields")
    labelled[SAME], labelled[ANOTHER], labelled[NO_LABEL] = labelled.agreed, labelled.labelled - labelled.agreed, 0
    return {
        str(field): with_total(own.set_index("property")[[SAME, ANOTHER, NO_LABEL]])
        for field, own in labelled.groupby("field", sort=False)
    }
