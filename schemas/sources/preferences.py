"""Table schemas of preferences between answers, stated by people or by models."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

QUOTE = pa.struct(
    [
        column("title", pa.string(), "title and host of the page"),
        column("extract", pa.string(), "the quoted part of the page"),
    ]
)

COMPARED = pa.struct(
    [
        column("text", pa.string(), "the answer, with its citations in square brackets; never empty"),
        column("quotes", pa.list_(QUOTE), "quotations that the answer was written from; citation 1 is the first"),
        column("cites", pa.list_(pa.int32()), "numbers in square brackets, each once, in their order; 1-based"),
        column(
            "score", pa.float64(), "strength of the preference for this answer, in [-1, 1]; negative of the other's"
        ),
    ]
)

COMPARISONS = table(
    "comparisons",
    column("comparison_id", pa.string(), "<group>/<hash of the content>, -2 and so on for repeated ones"),
    column("question", pa.string(), "as asked; never empty"),
    column("question_dataset", pa.string(), "where it was taken from, as written: eli5, triviaqa, ..."),
    column("question_id", pa.string(), "upstream id in that dataset", null=True),
    column(
        "eli5",
        pa.bool_(),
        "whether it is from ELI5, whose questions are in the Reddit data too: splits of the two may overlap",
    ),
    column("first", COMPARED, "answer 0"),
    column("second", COMPARED, "answer 1"),
    column("preferred", pa.string(), "first, second or tie"),
    column("licence", pa.string(), "null where the source names none", null=True),
    column("url", pa.string(), "of the file: a comparison has none", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="comparison_id",
)

RATED = pa.struct(
    [
        column("model", pa.string(), "that wrote it, as written"),
        column("response", pa.string(), "never empty"),
        column("principle", pa.string(), "what it was told to mind: helpfulness, honesty, ...", null=True),
        column("overall_score", pa.float64(), "1 to 10; null where it is missing or known to be wrong", null=True),
        column("doubt", pa.string(), "why a score is null or not to be trusted; reasons are joined by '; '", null=True),
        column("fine_grained_score", pa.float64(), "mean of the ratings, 1 to 5; null where it is none", null=True),
        column("instruction_following", pa.float64(), "1 to 5; null where not rated", null=True),
        column("honesty", pa.float64(), "1 to 5; null where not rated", null=True),
        column("truthfulness", pa.float64(), "1 to 5; null where not rated", null=True),
        column("helpfulness", pa.float64(), "1 to 5; null where not rated", null=True),
        column("critique", pa.string(), "explanation by the model that judged", null=True),
    ]
)

COMPLETIONS = table(
    "completions",
    column("instruction_id", pa.string(), "<group>/<hash of the content>"),
    column("source", pa.string(), "where the instruction was taken from: evol_instruct, flan, sharegpt, ..."),
    column("instruction", pa.string(), "never empty"),
    column("completions", pa.list_(RATED), "two or more, in their order; ties of overall_score are frequent"),
    column("left_out", pa.int32(), "completions that were empty"),
    column("correct_answers", pa.list_(pa.string()), "where the source has them; may be empty"),
    column("incorrect_answers", pa.list_(pa.string()), "where the source has them; may be empty"),
    column("licence", pa.string(), "of the set; the texts are outputs of models, whose terms may say more"),
    column("revision", pa.string(), "commit of the repository that the file is of, where known", null=True),
    column("url", pa.string(), "of the set at this revision, where known", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="instruction_id",
)
