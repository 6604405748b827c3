"""Table schemas of search results: passages of a corpus, results of a web search, and the web pages they link to."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

RESULT = pa.struct(
    [
        column("passage_id", pa.string(), "the key of the passages' table"),
        column("score", pa.float64(), "score of the backend: BM25, cosine, or the sum of reciprocal ranks"),
        column("rank", pa.int32(), "from 1"),
    ]
)

RESULTS = table(
    "results",
    column("query_id", pa.string(), "parent: the key of the questions' table, whatever its name there"),
    column("results", pa.list_(RESULT), "best first, equal scores by id; may be empty"),
    key="query_id",
    parents={name: ["query_id"] for name in ("question_id", "claim_id", "answer_id", "turn_id", "paragraph_id")},
)

WEB_RESULTS = table(
    "web_results",
    column("result_id", pa.string(), "<query_id>#<rank>"),
    column("query_id", pa.string(), "parent: the key of the questions' table, whatever its name there"),
    column("rank", pa.int32(), "from 1, of the results that are left"),
    column("url", pa.string(), "without fragment and tracking parameters"),
    column("title", pa.string(), "as the search engine shows it; may be empty"),
    column("snippet", pa.string(), "as the search engine shows it, without markup; may be empty"),
    column("engine", pa.string(), "search engine; for a meta search the engine that it names"),
    column("fetched_at", MOMENT, "when the search was answered"),
    key="result_id",
    cut="query_id",
    parents={name: ["query_id"] for name in ("question_id", "claim_id", "answer_id", "turn_id", "paragraph_id")},
)

FOUND_BY = pa.struct(
    [
        column("result_id", pa.string(), "parent: web_results.result_id"),
        column("query_id", pa.string(), "of that result"),
        column("rank", pa.int32(), "of that result"),
    ]
)

WEB_PAGES = table(
    "web_pages",
    column("page_id", pa.string(), "web/<hash of url>"),
    column("url", pa.string(), "as it was asked for"),
    column("final_url", pa.string(), "address after redirects"),
    column("status", pa.int32(), "HTTP status of the reply"),
    column("title", pa.string(), "of the page", null=True),
    column("text", pa.string(), "main text, without menus, advertisements and comments; never empty"),
    column("language", pa.string(), "as the page or its server says, lower case, e.g. en", null=True),
    column("licence", pa.string(), "always null: unknown for web pages", null=True),
    column("media", pa.string(), "html, text or pdf"),
    column("extractor", pa.string(), "program that extracted the text, with its version"),
    column("retrieved_at", MOMENT, "when the page was fetched"),
    column("found_by", pa.list_(FOUND_BY), "search results of this part that link to the page, in their order"),
    key="page_id",
    parents={"result_id": ["found_by.result_id"]},
)
