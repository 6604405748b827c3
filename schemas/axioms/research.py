"""Table schemas of research-analysis questions: the questions, pages to search, answers, how they were made, and pairs
of them (Axiomatic Preference Modeling, sections 4.3, B.1, D and E).
"""

import pyarrow as pa

from schemas import column, table
from schemas.axioms import GENERATED
from schemas.sources.stackexchange import MOMENT

MADE_BY = [field for field in GENERATED if field.name != "cut"]

RESEARCH_QUESTIONS = table(
    "research_questions",
    column("research_question_id", pa.string(), "as the file says, else a hash of the question"),
    column("question", pa.string(), "as asked"),
    column("metadata", pa.string(), "the record's other fields, as JSON", null=True),
    column("licence", pa.string(), "of the question, where known", null=True),
    column("url", pa.string(), "where it is from, where known", null=True),
    key="research_question_id",
)

RESEARCH_PAGES = table(
    "research_pages",
    column("page_id", pa.string(), "p_<hash of address and text>"),
    column("url", pa.string(), "address; of a file of one's own its name"),
    column("title", pa.string(), "of the page; empty if it has none"),
    column("text", pa.string(), "whole text, with marks in place of personal data"),
    column("licence", pa.string(), "of the page, where known", null=True),
    column("retrieved_at", MOMENT, "when it was fetched, where known", null=True),
    key="page_id",
)

EVIDENCE = pa.struct(
    [
        column("number", pa.int32(), "from 1, by which the answer cites it"),
        column("page_id", pa.string(), "of an indexed page research_pages.page_id, else web/<hash of url>"),
        column("url", pa.string(), "address of the page"),
        column("title", pa.string(), "of the page; may be empty"),
        column("text", pa.string(), "the passage, as it was shown"),
        column("licence", pa.string(), "of the page, where known", null=True),
    ]
)

STEP = pa.struct(
    [
        column("position", pa.int32(), "from 1"),
        column("kind", pa.string(), "draft, query, result, page, passage, update, answer, review or repair"),
        column("text", pa.string(), "the query, snippet, passage, problem or answer; empty where there is none"),
        column("url", pa.string(), "of the page that it is from", null=True),
        column("title", pa.string(), "of that page", null=True),
        column("score", pa.float64(), "the scorer's, where it was scored", null=True),
        column("score_before", pa.float64(), "of the answer that an update was to better", null=True),
        column("kept", pa.bool_(), "whether it was used further"),
        column("reason", pa.string(), "why not", null=True),
        column("detail", pa.string(), "what was said of it", null=True),
        column("response", pa.string(), "key of the model's response", null=True),
    ]
)

SCORED = pa.struct(
    [
        column("scorer", pa.string(), "as in the setting research_scorers"),
        column("score", pa.float64(), "null: none that can be used", null=True),
    ]
)

_ANSWER = (
    column("research_answer_id", pa.string(), "hash of question, condition, endpoint and response"),
    column("research_question_id", pa.string(), "the question it answers"),
    column("question", pa.string(), "as asked"),
    column("condition", pa.string(), "closed_book, assistant_naive, assistant_guided, plan_search or repair"),
    column("kind", pa.string(), "<endpoint> <condition>: what answers are compared by"),
    column("text", pa.string(), "the answer, without its end mark"),
    column("cites", pa.list_(pa.int32()), "numbers of the passages it cites, from 1, in order, each once"),
    column("evidence", pa.list_(EVIDENCE), "passages that it was written from; empty for closed_book"),
    column("score", pa.float64(), "what the assistant's scorer gave it, where it was scored", null=True),
    column("scorer", pa.string(), "which scorer that was", null=True),
    column("made_from", pa.string(), "the answer that it repairs", null=True),
    *MADE_BY,
)

RESEARCH_RUNS = table(
    "research_runs",
    *_ANSWER,
    column("steps", pa.list_(STEP), "how it was made, in order"),
    key="research_answer_id",
    cut="research_question_id",
    parents={"research_answer_id": ["made_from"]},
)

RESEARCH = table(
    "research",
    *_ANSWER,
    column("scores", pa.list_(SCORED), "what scorers of the report gave it"),
    column("words", pa.int32(), "runs between white space"),
    column("question_licence", pa.string(), "of the question, where known", null=True),
    column("split", pa.string(), "always test: nothing is trained on them"),
    key="research_answer_id",
    cut="research_question_id",
)

RESEARCH_STEPS = table(
    "research_steps",
    column("step_id", pa.string(), "<research_answer_id>#<position>"),
    column("research_answer_id", pa.string(), "the answer on whose way it was"),
    column("research_question_id", pa.string(), "the question"),
    column("condition", pa.string(), "of the answer"),
    *STEP,
    column("split", pa.string(), "always test"),
    key="step_id",
    cut="research_question_id",
)

_SIDES = (
    column("kind_a", pa.string(), "kind of the first answer"),
    column("kind_b", pa.string(), "kind of the second answer"),
)

RESEARCH_PAIRS = table(
    "research_pairs",
    column("research_pair_id", pa.string(), "hash of the ids of both answers"),
    column("research_question_id", pa.string(), "the question that both answer"),
    column("question", pa.string(), "as asked"),
    *_SIDES,
    column("answer_a_id", pa.string(), "the first answer"),
    column("answer_b_id", pa.string(), "the second answer"),
    column("text_a", pa.string(), "the first answer, and the pages that it cites"),
    column("text_b", pa.string(), "the second answer, and the pages that it cites"),
    column("split", pa.string(), "always test"),
    key="research_pair_id",
    cut="research_question_id",
    parents={"research_answer_id": ["answer_a_id", "answer_b_id"]},
)

RESEARCH_JUDGEMENTS = table(
    "research_judgements",
    column("research_judgement_id", pa.string(), "hash of pair and annotator"),
    column("research_pair_id", pa.string(), "the pair that was judged"),
    column("research_question_id", pa.string(), "of the pair"),
    *_SIDES,
    column("answer_a_id", pa.string(), "the first answer of the pair, however it was shown"),
    column("answer_b_id", pa.string(), "the second answer of the pair"),
    column("annotator_id", pa.string(), "a number or a pseudonym"),
    column("shown_first", pa.string(), "a or b"),
    column("better", pa.string(), "a or b; there is no tie"),
    column("strength", pa.string(), "slightly, moderately or strongly"),
    column("score_a", pa.float64(), "1 to 10", null=True),
    column("score_b", pa.float64(), "1 to 10", null=True),
    column("flaws_a", pa.list_(pa.string()), "flaws of the first answer"),
    column("flaws_b", pa.list_(pa.string()), "flaws of the second answer"),
    column("seconds", pa.float64(), "time taken, where noted", null=True),
    column("split", pa.string(), "always test"),
    key="research_judgement_id",
    cut="research_question_id",
    parents={"research_pair_id": []},
)
