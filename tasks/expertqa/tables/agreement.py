"""How far a second labelling agrees with the reference labels, property by property (section 4.2, figure 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from longform.artifacts.rows import Row
from tasks.annotation.agreement import kappa, pairwise_share
from tasks.expertqa.vocabulary import LABELLED

PROPERTIES = ("usefulness", *LABELLED)
Pair = tuple[str, str]


def agreement(reference: Iterable[Row], second: Iterable[Row], fields: Mapping[str, str]) -> list[Row]:
    """Of each field, and of all (field None, which comes first), each property of table 3 in its order.

    The rows are of LABELS; `fields`: question_id -> field. Of an answer the first reference row counts, and each
    second row is compared with it. What either of them left empty is not compared. `labelled` counts claims, of
    usefulness answers; `agreement` and `kappa` are None where there is nothing to compare.
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
    """Of each answer the first reference row, with each second row."""
    first_of = {row["answer_id"]: row for row in reversed(list(reference))}
    return [(first_of[row["answer_id"]], row) for row in second if row["answer_id"] in first_of]


def pairs(first: Row, second: Row, name: str) -> Iterator[Pair]:
    """What both rows say of a property: of the answer, or of each claim that both label."""
    if name == "usefulness":
        both = [(first[name], second[name])]
    else:
        said = {claim["claim_id"]: claim[name] for claim in second["claims"]}
        both = [(claim[name], said.get(claim["claim_id"])) for claim in first["claims"]]
    yield from ((one, other) for one, other in both if one is not None and other is not None)


def _agreed(field: str | None, name: str, both: list[Pair]) -> Row:
    return {
        "field": field,
        "property": name,
        "labelled": len(both),
        "agreed": sum(one == other for one, other in both),
        "agreement": pairwise_share(both),
        "kappa": kappa(both).value,
    }
