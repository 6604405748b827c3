"""Table schemas of what scorers of answers are evaluated on: answers to rank, and pairs that people compared."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

RANKED = pa.struct(
    [
        column("answer_id", pa.string(), "<site>/<upstream id>, id of a generated answer, or of a passage"),
        column("text", pa.string(), "Markdown"),
        column("source", pa.string(), "human, related (an answer to a related question), passage, or as in pairs"),
        column("votes", pa.int32(), "raw votes; human answers only", null=True),
        column("gain", pa.float64(), "relevance: votes, below 0 as 0; 0 for hard negatives; judged relevance"),
        column("negative", pa.bool_(), "whether it is a hard negative"),
        column("author", pa.string(), "display name, where known", null=True),
        column("url", pa.string(), "permalink, where there is one", null=True),
        column("licence", pa.string(), "of the answer"),
    ]
)

RANKING = table(
    "ranking",
    column("ranking_id", pa.string(), "<set> <question id>"),
    column("set", pa.string(), "stackexchange (held out), eli5 or msmarco"),
    column("question_id", pa.string(), "<site>/<upstream id>"),
    column("question", pa.string(), "title, blank line, body as Markdown; a query of MS MARCO"),
    column("answers", pa.list_(RANKED), "answers to rank, by id; those of the greatest gain are the best"),
    column("site", pa.string(), "host of the site; msmarco"),
    column("url", pa.string(), "permalink of the question", null=True),
    column("author", pa.string(), "display name of the asker, where known", null=True),
    column("licence", pa.string(), "of the question"),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
    column("split", pa.string(), "always test: these are for evaluation only"),
    key="ranking_id",
    cut="question_id",
    parents={"question_id": []},
)

COMPARED = pa.struct(
    [
        column("text", pa.string(), "the answer"),
        column("evidence", pa.list_(pa.string()), "what it was written from, by number; may be empty"),
        column("score", pa.float64(), "what people gave it, in [-1, 1]"),
    ]
)

COMPARISONS = table(
    "comparisons",
    column("comparison_id", pa.string(), "of the source"),
    column("set", pa.string(), "webgpt"),
    column("question", pa.string(), "as asked"),
    column("preferred", COMPARED, "the answer that people preferred"),
    column("rejected", COMPARED, "the other one"),
    column("question_dataset", pa.string(), "where the question is from, as the source says, e.g. eli5"),
    column("licence", pa.string(), "null: the source names none", null=True),
    column("url", pa.string(), "address of the source"),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
    column("split", pa.string(), "always test: these are for evaluation only"),
    key="comparison_id",
)

EVALUATION_TEXTS = table(
    "evaluation_texts",
    column("text_id", pa.string(), "<set> <id of the question, answer or passage>"),
    column("set", pa.string(), "stackexchange, eli5, msmarco, webgpt, research, or the name of a file of one's own"),
    column("of", pa.string(), "the post or comparison it is of; what is common to many texts of one counts once"),
    column("asks", pa.bool_(), "whether it is a question, whose first line is its title"),
    column("text", pa.string(), "what no training text may hold"),
    key="text_id",
    parents={"text_id": []},
)
