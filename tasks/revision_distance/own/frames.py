"""Drafts measured from Python: a DataFrame in, a DataFrame out, or lists as the library `evaluate` has them.

    from tasks.revision_distance import compute, measure

    scored = measure(frame)                                   # columns draft, reference; offline, without a model
    found = compute(predictions=drafts, references=references)
    print(found["corrected"], found["signature"])

A model is asked through a client (longform/llm/models.py), whose store keeps its replies: asked again, they cost
nothing. `longform measure` does the same for files, and in worker processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.artifacts.rows import Rejected, Row
from longform.errors import UsageError
from longform.llm.ask.prompts import Prompt, load_prompt
from longform.llm.models import Models
from longform.llm.offline import ENDPOINT
from tasks.revision_distance.drafts.measure import PROMPTS, checked_weights
from tasks.revision_distance.faults import CEILINGS
from tasks.revision_distance.own.measuring import Editor, lists_of, measured, requests_of
from tasks.revision_distance.own.records import COLUMNS, Reader, has_reference, readable

if TYPE_CHECKING:
    import pandas as pd

    from longform.llm.client import Client

OUT = (
    "id", "system", "editor", "repeat", "distance", "corrected", "normalised", "valid", "coverage", "aligned",
    "residual", "no_ops",
    "duplicates", "silent", "wholesale", "lost_edits", "not_placed", "not_applied", "reproduces", "weighted",
    "ter", "ter_left_out", "reference_number", "references_failed", "edits", "revised", "model", "response",
    "signature",
)  # fmt: skip
MEANS = ("corrected", "normalised", "distance", "coverage", "ter")


def measure(
    drafts: pd.DataFrame,
    client: Client | None = None,
    *,
    repeats: int = 1,
    weights: Mapping[str, float] | None = None,
    to_reference: Prompt | None = None,
    freely: Prompt | None = None,
) -> pd.DataFrame:
    """A row for each draft, or for each of `repeats` lists of edits, with the columns OUT and `rejected`: why a draft
    could not be measured (then the others are missing but for `id` and `system`), else None. The index is that of
    `drafts`.

    `drafts`: columns `draft`, and `reference` (a text) or `references` (a list of texts), perhaps `id`, `system` and
    `request`; see records.py. `client`: of the model that lists the edits; None: the offline editor, a lexical
    baseline. The other arguments are those of `distance`. UsageError for what is no DataFrame, and without one column
    of drafts; errors as of the client's `ask`.
    """
    import pandas as pd

    _check(drafts)
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}: ask for one list of edits or more.")
    records = [_record(row) for row in drafts.to_dict("records")]
    with _client_of(client) as asked:
        editor = Editor(
            asked.endpoint, to_reference or _prompt("edit_to_reference"), freely or _prompt("edit_freely"), repeats
        )
        found = [*_measured(records, asked, editor, checked_weights(weights or {}))]
    rows = [row for _, row in found]
    index = drafts.index.take([place for place, _ in found])
    return pd.DataFrame(rows, index=index, columns=[*OUT, "rejected"])


def compute(
    *,
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]] | None = None,
    client: Client | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The revision distance of predictions, as the library `evaluate` calls its metrics: means over those that could be
    measured of `corrected`, `normalised` (per 100 words), `distance` (the paper's count), `coverage` and `ter`, None
    without any; `valid`: the share of which the edits give the reference; `scores`: the corrected distance of each
    prediction, None where it could not be measured; `unusable`: how many these are; `reasons`: why -> how many;
    `faults`: what speaks against a list of edits (see faults.py) -> of how many predictions; `warnings`: a sentence
    where that is so often that `longform measure` would rank nothing by these numbers; `signatures`.

    `references`: a text for each prediction, or a list of texts, of which the nearest counts; None: none. `options`: as
    of `measure`. UsageError if they are not as many as the predictions, or one of the two is no list.
    """
    import pandas as pd

    from tasks.revision_distance.tables.ranking import faults, why_unranked

    predictions = _listed("predictions", predictions)
    references = None if references is None else _listed("references", references)
    if references is not None and len(references) != len(predictions):
        raise UsageError(
            f"There are {len(predictions):,} predictions and {len(references):,} references: give as many."
        )
    frame = pd.DataFrame({"draft": pd.Series(predictions, dtype=object)})
    frame["id"] = [str(number) for number in range(len(frame))]
    if references is not None:
        several = [[*each] if _is_list(each) else [each] for each in references]
        frame["references"] = pd.Series(several, dtype=object)
    found = measure(frame, client, **options)
    usable = found[found.corrected.notna()]
    by_draft = usable.astype({"corrected": float}).groupby(level=0).corrected.mean()
    known = usable.valid.dropna()
    told = faults(found)
    why = why_unranked(found, CEILINGS) if len(found) else None
    means = {name: float(usable[name].astype(float).mean()) if usable[name].notna().any() else None for name in MEANS}
    return {
        **means,
        "valid": float(known.astype(bool).mean()) if len(known) else None,
        "scores": [float(by_draft[number]) if number in by_draft else None for number in range(len(frame))],
        "unusable": len(frame) - len(by_draft),
        "faults": {name: int(told[name].dropna().astype(bool).groupby(level=0).any().sum()) for name in told},
        "warnings": [f"{why}: do not compare these numbers."] if why else [],
        "reasons": found.rejected.dropna().value_counts().to_dict(),
        "signatures": sorted(usable.signature.unique()),
    }


def _check(drafts: object) -> None:
    """Raise UsageError for what is no DataFrame with one column of drafts, and one at most of each other name."""
    import pandas as pd

    if not isinstance(drafts, pd.DataFrame):
        raise UsageError(
            f"measure takes a pandas.DataFrame, and this is of type {type(drafts).__name__}: make one of your records, "
            "pandas.DataFrame(records), or use compute(predictions=[...], references=[...]) for lists of texts."
        )
    if "draft" not in drafts.columns:
        has = ", ".join(map(str, drafts.columns)) or "none"
        raise UsageError(f"The frame has no column draft (its columns: {has}): rename that of the texts to measure.")
    for name in COLUMNS:
        if (number := int((drafts.columns == name).sum())) > 1:
            raise UsageError(f"The frame has {number} columns {name}, and one is read: rename or drop the others.")


def _listed(name: str, given: object) -> list[Any]:
    """The values of an argument of `compute`. UsageError for a single text, or what has no values."""
    if not _is_list(given):
        kind = "one text" if isinstance(given, str) else f"of type {type(given).__name__}"
        raise UsageError(f"{name} is {kind}, and a list of texts is measured: give {name}=[...].")
    assert isinstance(given, Iterable)
    return [*given]


def _is_list(value: object) -> bool:
    """Whether a value is a collection of texts, and not a single one."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _measured(
    records: Sequence[Row], client: Client, editor: Editor, weights: Mapping[str, float]
) -> Iterator[tuple[int, Row]]:
    """(place of the record, its row) in the order of the records; a record that is rejected has one row."""
    reader = Reader(any(map(has_reference, records)))
    read = [reader.read(record, number) for number, record in enumerate(records, start=1)]
    drafts = [row for row in read if not isinstance(row, Rejected)]
    replies = client.ask(chain.from_iterable(requests_of(draft, editor) for draft in drafts))
    rows = (list(measured(lists)) for lists in lists_of(replies, editor, weights))
    for place, each in enumerate(read):
        for row in [each] if isinstance(each, Rejected) else next(rows):
            if isinstance(row, Rejected):
                yield place, {**_names(records[place]), "rejected": row.reason}
            else:
                yield place, {**row, "rejected": None}


def _names(record: Row) -> Row:
    """`id` and `system` of a record that is rejected, as texts."""
    found = {name: record.get(name) for name in ("id", "system")}
    return {name: None if value is None else readable(str(value)) for name, value in found.items()}


def _record(row: Mapping[Any, Any]) -> Row:
    """A row of a frame as a record: missing values are left out, numbers as ids are whole."""
    found: Row = {}
    for name in COLUMNS:
        value = row.get(name)
        if name == "references" and value is not None and not isinstance(value, str):
            found[name] = [*value] if isinstance(value, Iterable) else None
        elif value is not None and value == value:
            whole = name in ("id", "system") and hasattr(value, "__int__") and not isinstance(value, str)
            found[name] = int(value) if whole else value
    return found


@contextmanager
def _client_of(client: Client | None) -> Iterator[Client]:
    """The client; None: one of the offline editor."""
    if client is not None:
        yield client
        return
    from tasks.revision_distance.offline import RULES

    with Models(Path("responses.sqlite"), offline=RULES) as models:  # which is not opened
        yield models.client(ENDPOINT)


@cache
def _prompt(name: str) -> Prompt:
    """The project's prompt of this name for the revision distance."""
    return load_prompt(f"revision_distance/{name}", PROMPTS)
