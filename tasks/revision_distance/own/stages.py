"""The stages of `longform measure`: the drafts of a file, and what an editor's lists of edits make of each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from longform.engine.at_most import Sizes, longest
from longform.engine.offload import in_workers
from longform.engine.stage import AtMost, Rejected, Row, Rows, Shard, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Request
from schemas.measured import MEASURED, OWN_DRAFTS
from tasks.revision_distance.drafts.measure import REQUEST_CHARACTERS, edit_request
from tasks.revision_distance.own.files import kept_records
from tasks.revision_distance.own.measuring import Editor, lists_of, measured_lists, requests_of
from tasks.revision_distance.own.records import LONGEST, Bad, Reader, rejected
from tasks.sources.files.lines import read_lines

ROWS_A_PART = 500


@stage(OWN_DRAFTS, revision=1, max_rows_per_part=ROWS_A_PART)
def read_own_drafts(context: StageContext, files: Shard, *, with_references: bool) -> Iterator[Row | Rejected]:
    """The drafts in a file that `keep` wrote; a Rejected for each record that is none.

    `with_references`: a draft without a reference is left out.
    """
    reader = Reader(with_references)
    for row, record in kept_records(read_lines(files)):
        yield rejected(record, row) if isinstance(record, Bad) else reader.read(record, row)


def _longest(of: Sizes) -> list[Request]:
    """The longest requests, with a reference and without one, for a plan."""
    text, request = longest(LONGEST), longest(REQUEST_CHARACTERS)
    prompts = of["to_reference"], of["freely"]
    return [edit_request(text, reference, request, of["model"], *prompts) for reference in ("", None)]


@stage(MEASURED, revision=3, at_most=AtMost(questions=_longest, calls=lambda _: float("inf")))
def measure_drafts(
    context: StageContext,
    drafts: Rows,
    *,
    model: Endpoint,
    to_reference: Prompt,
    freely: Prompt,
    repeats: int,
    weights: dict[str, float],
) -> Iterator[Row | Rejected]:
    """The rows of each draft by the lists of edits of one editor: `repeats` lists, each for the nearest reference.

    A Rejected, with the reply, for a draft of which no list can be used. What lists are worth is computed in worker
    processes.
    """
    editor = Editor(model, to_reference, freely, repeats)
    replies = context.ask(model, chain.from_iterable(requests_of(draft, editor) for draft in drafts))
    for rows in in_workers(measured_lists, lists_of(replies, editor, weights)):
        yield from rows
