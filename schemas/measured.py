"""Table schemas of drafts of one's own that are measured (`longform measure`): what is read, and what each is worth.

A draft belongs to a case: what several systems wrote drafts for. Offsets count Unicode code points.
"""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY
from schemas.revision_distance import NUMBERS, PLACED

OWN_DRAFTS = table(
    "own_drafts",
    column("draft_id", pa.string(), "hash of case and system"),
    column("id", pa.string(), "id of the case: as in the file, else the hash of its references"),
    column("system", pa.string(), "system that wrote the draft"),
    column("row", pa.int64(), "place in the file, from 1: its line, or its row of a table"),
    column("draft", pa.string(), "the text, which may be empty"),
    column("references", pa.list_(pa.string()), "the texts it may become; empty: measured without one"),
    column("request", pa.string(), "what the draft was to be, for drafts without a reference", null=True),
    key="draft_id",
)

MEASURED = table(
    "measured",
    column("measure_id", pa.string(), "hash of draft_id, editor and repeat"),
    column("draft_id", pa.string(), "parent: own_drafts.draft_id"),
    column("id", pa.string(), "id of the case"),
    column("system", pa.string(), "system that wrote the draft"),
    column("row", pa.int64(), "place in the file, from 1"),
    column("editor", pa.string(), "endpoint that listed the edits"),
    column("repeat", pa.int32(), "number of the list, from 0, of those that the editor was asked for"),
    column("distance", pa.int32(), "number of edits, as the paper counts"),
    column("weighted", pa.float64(), "sum of the weights of their intentions"),
    column("not_placed", pa.int32(), "edits whose snippet is not in the draft"),
    column("not_applied", pa.int32(), "edits without a place or an effect, twice, or in another's way"),
    column("reproduces", pa.string(), "whether the revised draft is the reference: exactly, words, no", null=True),
    *NUMBERS,
    column(
        "reference_number",
        pa.int32(),
        "which reference the numbers are for, from 0: that of the least corrected distance; null: no reference",
        null=True,
    ),
    column("references_failed", pa.int32(), "references for which the editor's reply could not be used"),
    column("edits", pa.list_(PLACED), "in the editor's order"),
    column("revised", pa.string(), "the draft with the edits applied"),
    column("signature", pa.string(), "what the distance depends on: editor, prompt, settings, version"),
    *MADE_BY,
    key="measure_id",
    cut="draft_id",
)
