"""Table schemas of axiom 4: queries of MS MARCO, passages that are relevant to them, and passages that are not."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

QUERY = (
    column("text", pa.string(), "the query, as distributed but for what was scrubbed"),
    column("split", pa.string(), "train or test; queries of dev and eval files are always test"),
    column("labelled", pa.list_(pa.string()), "passages that people found the answer in, by id"),
    column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in the query"),
    column("licence", pa.string(), "terms of the collection"),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
)

SELECTED = table(
    "selected_queries",
    column("question_id", pa.string(), "msmarco/q<qid>; parent: queries.query_id"),
    *QUERY,
    key="question_id",
    parents={"query_id": ["question_id"]},
)

FOUND = pa.struct(
    [
        column("passage_id", pa.string(), "msmarco/p<pid>"),
        column("score", pa.float64(), "of the search"),
    ]
)

RETRIEVED = table(
    "retrieved_passages",
    column("question_id", pa.string(), "parent: selected_queries.question_id"),
    column("best", pa.list_(FOUND), "best first"),
    column("far", pa.list_(FOUND), "found, but with less than the share of the best score; in the order of a draw"),
    column("looked_at", pa.int32(), "passages that were found"),
    key="question_id",
)

SHOWN = pa.struct(
    [
        column("passage_id", pa.string(), "msmarco/p<pid>"),
        column("text", pa.string(), "the passage"),
        column("score", pa.float64(), "of the search; null for a labelled passage that it did not find", null=True),
        column("labelled", pa.bool_(), "whether people found the answer in it"),
        column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced"),
        column("first", pa.bool_(), "whether it is shown with no query that comes before this one"),
    ]
)

GROUNDED = table(
    "grounded_queries",
    column("question_id", pa.string(), "parent: selected_queries.question_id"),
    *QUERY,
    column("relevant", pa.list_(SHOWN), "P+: the best found and the labelled ones, numbered from 1 in prompts"),
    column("irrelevant", pa.list_(SHOWN), "P-: found far below the best; none is in P+, or nearly the same"),
    key="question_id",
)
