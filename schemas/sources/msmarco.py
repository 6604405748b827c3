"""Table schemas of MS MARCO passage ranking: passages, queries and relevance judgements."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

PASSAGES = table(
    "passages",
    column("passage_id", pa.string(), "msmarco/p<pid>"),
    column("text", pa.string(), "an extract of a web page, often cut off; never empty"),
    column(
        "text_held",
        pa.string(),
        "whether text is `repaired` or `as distributed`; repaired text differs from other copies of the collection",
    ),
    column("repairs", pa.int32(), "repaired characters: UTF-8 that had been read as Latin-1"),
    column("licence", pa.string(), "terms of the collection"),
    column("url", pa.string(), "null: the collection does not say which page", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="passage_id",
    level=1,
)

REPEATED = table(
    "repeated",
    column("repeated_id", pa.string(), "a passage_id that more than one row has"),
    column("rows", pa.int64(), "number of rows that have it"),
    key="repeated_id",
)

QUERY_LINES = table(
    "query_lines",
    column("query_id", pa.string(), "msmarco/q<qid>; a query may occur in more than one file"),
    column("query_hash", pa.uint64(), "xxh3 of query_id: the order of parts and rows from here on"),
    column("text", pa.string(), "as distributed; never empty"),
    column("split", pa.string(), "of the file's name: train, dev, dev.small, eval, ..."),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="query_id",
)

QUERIES = table(
    "queries",
    column("query_id", pa.string(), "msmarco/q<qid>"),
    column("text", pa.string(), "as distributed; never empty"),
    column("splits", pa.list_(pa.string()), "names of the files that have it: dev.small is a part of dev"),
    column("licence", pa.string(), "terms of the collection"),
    column("url", pa.string(), "null: there is none", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="query_id",
)

QREL_LINES = table(
    "qrel_lines",
    column("judgement_id", pa.string(), "msmarco/q<qid>-p<pid>; a judgement may occur in more than one file"),
    column("query_id", pa.string(), "msmarco/q<qid>"),
    column("query_hash", pa.uint64(), "xxh3 of query_id: the order of parts and rows from here on"),
    column("passage_id", pa.string(), "msmarco/p<pid>"),
    column("relevance", pa.int32(), "1 in the collection itself; 0 to 3 in files of TREC"),
    column("split", pa.string(), "of the file's name: train, dev, dev.small, ..."),
    key="judgement_id",
    cut="query_id",
)

QRELS = table(
    "qrels",
    column("judgement_id", pa.string(), "msmarco/q<qid>-p<pid>"),
    column("query_id", pa.string(), "queries.query_id"),
    column("passage_id", pa.string(), "passages.passage_id"),
    column("relevance", pa.int32(), "1: a person found the answer in it. What has no judgement is unknown, not wrong"),
    column("splits", pa.list_(pa.string()), "names of the files that have it"),
    key="judgement_id",
    cut="query_id",
)
