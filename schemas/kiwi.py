"""Table schemas of KIWI: questions with the papers that answer them, sessions of turns, and what is said of the turns.

Tables that have a column `question_id` are divided into the same parts as QUESTIONS.
"""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY
from schemas.sources.stackexchange import MOMENT

DOCUMENT = pa.struct(
    [
        column("paper_id", pa.string(), "the cited paper: <group>/<upstream id>, or title/<hash> of an imported one"),
        column("title", pa.string(), "title of the paper"),
    ]
)
PASSAGE = pa.struct(
    [
        column("passage_id", pa.string(), "passages.passage_id; null where it was imported with the turn", null=True),
        column("title", pa.string(), "title of its paper"),
        column("text", pa.string(), "the passage as it was shown"),
    ]
)
_FROM = (
    column("licence", pa.string(), "of the source paper, or of the imported file", null=True),
    column("url", pa.string(), "permalink of the source paper", null=True),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
)

DOCUMENT_SETS = table(
    "document_sets",
    column("related_id", pa.string(), "<paper_id>#<position>: parent, related.related_id"),
    column("paper_id", pa.string(), "the source paper"),
    column("title", pa.string(), "of the source paper", null=True),
    column("venue", pa.string(), "of the source paper", null=True),
    column("text", pa.string(), "the related-work paragraph"),
    column("documents", pa.list_(DOCUMENT), "the cited papers whose texts are at hand, in the order of the citations"),
    column("cited", pa.int32(), "papers that the paragraph cites"),
    column("missing", pa.int32(), "of these, papers without a text at hand"),
    *_FROM,
    key="related_id",
    cut="paper_id",
)

QUESTIONS = table(
    "questions",
    column("question_id", pa.string(), "hash of question and paragraph, or the id in the imported file"),
    column("question", pa.string(), "the question"),
    column("origin", pa.string(), "people (written by a person) or generated (by a model)"),
    column("topic", pa.string(), "as the file or the form says", null=True),
    column("source_paper", pa.string(), "title of the paper whose related work implies the question", null=True),
    column("source_id", pa.string(), "paper_id of that paper, where it is known", null=True),
    column("paragraph", pa.string(), "the related-work paragraph", null=True),
    column("documents", pa.list_(DOCUMENT), "the evidence papers whose texts are at hand"),
    column("cited", pa.int32(), "evidence papers in all"),
    column("missing", pa.int32(), "of these, papers without a text at hand"),
    column("answerable", pa.string(), "filter 2: yes, no or partially; null where nobody was asked", null=True),
    *_FROM,
    *MADE_BY,
    key="question_id",
)

ASKED = table(
    "asked",
    *(QUESTIONS.field(name) for name in ("question_id", "question", "topic", "source_paper", "source_id", "paragraph")),
    column("evidence", pa.list_(DOCUMENT), "the evidence papers as the file names them; ids may be empty"),
    column(
        "given",
        pa.list_(
            pa.struct(
                [
                    column("paper", pa.int32(), "position in `evidence`"),
                    column("text", pa.string(), "a paragraph of this paper"),
                ]
            )
        ),
        "paragraphs of these papers that the file brings; may be empty",
    ),
    *_FROM,
    key="question_id",
)

PASSAGES = table(
    "passages",
    column("passage_id", pa.string(), "<question_id>/<paper_id>#<position of the paragraph>"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("paper_id", pa.string(), "the paper"),
    column("title", pa.string(), "of the paper"),
    column("text", pa.string(), "the paragraph"),
    column("licence", pa.string(), "of the paper", null=True),
    column("url", pa.string(), "permalink of the paper", null=True),
    key="passage_id",
    cut="question_id",
    level=1,
)

EVIDENCE = table(
    "evidence",
    column("paragraph_id", pa.string(), "<paper_id>#<position>"),
    *(PASSAGES.field(name) for name in ("paper_id", "title", "text", "licence", "url")),
    key="paragraph_id",
    cut="paper_id",
    level=1,
)

ANSWERS = table(
    "answers",
    column("session_id", pa.string(), "hash of question and writer: the session that begins with this answer"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("question", pa.string(), "the question"),
    column("system", pa.string(), "endpoint that writes in this session"),
    column("passages", pa.list_(PASSAGE), "the passages shown, [0] first"),
    column("answer", pa.string(), "the initial answer"),
    *MADE_BY,
    key="session_id",
    cut="question_id",
)

TURN = pa.struct(
    [
        column("position", pa.int32(), "from 1"),
        column("instruction", pa.string(), "what the reader asks for"),
        column("kind", pa.string(), "information (information-seeking) or style (stylistic)", null=True),
        column("before", pa.string(), "the answer that was to be revised"),
        column("passages", pa.list_(PASSAGE), "retrieved with the instruction; may be empty"),
        column("summary", pa.string(), "what the model says of these passages; null for style", null=True),
        column("answer", pa.string(), "the model's revision"),
        column("rating", pa.string(), "good, neutral or bad"),
        column("comment", pa.string(), "the reader's reason; may be empty in imported files"),
        column("edited", pa.string(), "the answer as the reader corrected it", null=True),
        column("seconds", pa.float64(), "time that the reader took, where noted", null=True),
        column("extra", pa.string(), "fields of an imported turn that nobody documented, as JSON", null=True),
        *MADE_BY,
    ]
)

SESSIONS = table(
    "sessions",
    column("session_id", pa.string(), "hash, or the id in the imported file"),
    column("question_id", pa.string(), "questions.question_id, or a hash of the question where it is not there"),
    column("question", pa.string(), "the question"),
    column("origin", pa.string(), "released, page (people on the page) or simulated (a model in the reader's place)"),
    column("system", pa.string(), "the model that answers, as the file or the configuration names it"),
    column("annotator_id", pa.string(), "the reader: a pseudonym; of a simulated one the model's name"),
    column("source_paper", pa.string(), "title of the source paper, where the file says it", null=True),
    column("initial", pa.string(), "the initial answer"),
    column("passages", pa.list_(PASSAGE), "shown for the initial answer; may be empty in imported files"),
    column("turns", pa.list_(TURN), "in their order"),
    column("final", pa.string(), "the answer after the last turn"),
    column("licence", pa.string(), "of the file", null=True),
    column("extra", pa.string(), "fields of an imported session that nobody documented, as JSON", null=True),
    *MADE_BY,
    key="session_id",
    cut="question_id",
)

TURNS = table(
    "turns",
    column("turn_id", pa.string(), "<session_id>#<position>"),
    *(SESSIONS.field(name) for name in ("session_id", "question_id", "question", "origin", "system", "annotator_id")),
    *TURN,
    column("dropped", pa.bool_(), "a bad answer left unedited: the next turn revises the answer before it"),
    column("licence", pa.string(), "of the file", null=True),
    key="turn_id",
    cut="question_id",
)

SIDES = table(
    "sides",
    column("turn_id", pa.string(), "parent: turns.turn_id"),
    column("question_id", pa.string(), "questions.question_id"),
    column("split", pa.string(), "train, validation, test, or simulated"),
    key="turn_id",
    cut="question_id",
)

LABELS = table(
    "turn_labels",
    column("label_id", pa.string(), "<turn_id>/<what>"),
    column("turn_id", pa.string(), "parent: turns.turn_id"),
    column("question_id", pa.string(), "questions.question_id"),
    column("what", pa.string(), "category (of the instruction) or error (of a neutral or bad turn)"),
    column("label", pa.string(), "the category"),
    *MADE_BY,
    key="label_id",
    cut="question_id",
)

MEASURES = table(
    "measures",
    column("turn_id", pa.string(), "parent: turns.turn_id"),
    column("question_id", pa.string(), "questions.question_id"),
    column("target", pa.string(), "answer (a good one) or edited: what the source text became"),
    column("instruction_words", pa.int32(), "words of the instruction"),
    column("source_words", pa.int32(), "words of the answer before"),
    column("target_words", pa.int32(), "words of the target"),
    column("length_ratio", pa.float64(), "target over source words; null without source words", null=True),
    column("edit_distance", pa.int32(), "words to insert, delete or replace"),
    column("edit_ratio", pa.float64(), "edit distance over source words; null without source words", null=True),
    key="turn_id",
    cut="question_id",
)

PREDICTIONS = table(
    "predictions",
    column("prediction_id", pa.string(), "<turn_id>/<system>"),
    column("turn_id", pa.string(), "parent: turns.turn_id"),
    column("system", pa.string(), "zero-shot, few-shot, or the name in an imported file"),
    column("predicted", pa.string(), "good or bad"),
    *MADE_BY,
    key="prediction_id",
)

SAID = table(
    "said",
    column("said_id", pa.string(), "hash of form, item and annotator"),
    column("form", pa.string(), "categories, errors, ratings or failures"),
    column("turn_id", pa.string(), "turns.turn_id"),
    column("annotator_id", pa.string(), "a number or a pseudonym"),
    column("label", pa.string(), "what the person says"),
    column("known", pa.string(), "what the model, or the first reader, says of the same turn", null=True),
    column("comment", pa.string(), "the person's reason", null=True),
    column("seconds", pa.float64(), "time taken, where noted", null=True),
    key="said_id",
)

PUBLISHED_TURNS = table(
    "published_turns",
    *TURNS,
    column("label", pa.string(), "good, or bad for neutral and bad: what a judge is to say"),
    column("category", pa.string(), "of the instruction", null=True),
    column("error", pa.string(), "of a neutral or bad turn", null=True),
    column("target", pa.string(), "the answer (a good one) or the edited answer; null for other turns", null=True),
    *(MEASURES.field(name).with_nullable(True) for name in MEASURES.names[3:]),
    column("split", pa.string(), "train, validation or test by question; simulated"),
    key="turn_id",
    cut="question_id",
)

PUBLISHED_SESSIONS = table(
    "published_sessions",
    *(field for field in SESSIONS if field.name != "turns"),
    column("turns", pa.int32(), "number of turns"),
    column("good", pa.int32(), "of these, good"),
    column("neutral", pa.int32(), "of these, neutral"),
    column("bad", pa.int32(), "of these, bad"),
    column("edits", pa.int32(), "of these, edited by the reader"),
    column("split", pa.string(), "as of its turns"),
    key="session_id",
    cut="question_id",
)

PUBLISHED_QUESTIONS = table(
    "published_questions",
    *QUESTIONS,
    column("split", pa.string(), "as of its turns"),
    key="question_id",
)

ORIGINS = table(
    "kiwi_origins",
    column("origin_id", pa.string(), "hash of question or session, and record"),
    column("question_id", pa.string(), "the question"),
    column("kind", pa.string(), "source (its related work implies the question), evidence, or session"),
    column("record_id", pa.string(), "paper_id, title/<hash> where only a title is known, or session_id"),
    column("title", pa.string(), "of the paper", null=True),
    column("licence", pa.string(), "as the source says", null=True),
    column("url", pa.string(), "permalink", null=True),
    key="origin_id",
    cut="question_id",
    parents={"question_id": []},  # a session's question need not be one of the questions
)
