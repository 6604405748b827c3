"""Table schema of submissions to conferences on OpenReview."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

DECISIONS = (
    "accept_oral",
    "accept_spotlight",
    "accept_poster",
    "accept",
    "invite_to_workshop",
    "reject",
    "desk_rejected",
    "withdrawn",
    "unknown",
)

SUBMISSIONS = table(
    "submissions",
    column("submission_id", pa.string(), "openreview/<note id>"),
    column("forum", pa.string(), "note id of the forum, which has the reviews and comments"),
    column("year", pa.int32(), "of the conference"),
    column("number", pa.int32(), "of the submission within its year", null=True),
    column("title", pa.string(), "title", null=True),
    column("abstract", pa.string(), "as submitted", null=True),
    column("authors", pa.list_(pa.string()), "full names in order; empty while the submission is anonymous"),
    column("author_ids", pa.list_(pa.string()), "ids of the authors' profiles, as the note says; may be empty"),
    column("keywords", pa.list_(pa.string()), "as the authors gave them"),
    column(
        "decision",
        pa.string(),
        "accept_oral (2023: top 5%; 2020: talk), accept_spotlight (2023: top 25%), accept_poster, accept (kind not "
        "said), invite_to_workshop, reject, desk_rejected, withdrawn; unknown (never reject) where nothing says it",
    ),
    column("decision_raw", pa.string(), "the decision as written in the source; null where there is none", null=True),
    column(
        "decision_source",
        pa.string(),
        "source of the decision: decision_note, meta_review, invitation, venueid, venue, or disagreement (two sources "
        "of a kind differ)",
        null=True,
    ),
    column("ratings", pa.list_(pa.int32()), "one for each official review, oldest first; null where it cannot be read"),
    column("venue", pa.string(), "as the note says", null=True),
    column("venueid", pa.string(), "as the note says; in API v1 rejected papers have the conference's too", null=True),
    column("pdf", pa.string(), "path of the PDF on OpenReview; null where there is none", null=True),
    column("created", MOMENT, "of the note", null=True),
    column("modified", MOMENT, "of the note", null=True),
    column("licence", pa.string(), "of the submission, as API v2 says; null in API v1", null=True),
    column("url", pa.string(), "permalink of the forum"),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="submission_id",
)
