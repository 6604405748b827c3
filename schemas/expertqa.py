"""Tables of ExpertQA: questions, answers of attributing systems, claims, evidence, labels, estimates.

Parts are those of the questions: every table from QUESTIONS on carries `question_id`, and rows come in the order of
their parents. What was released with labels keeps its own words beside ours: `original` and `said_as`.
"""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY
from schemas.sources.stackexchange import MOMENT

QUESTIONS = table(
    "questions",
    column("question_id", pa.string(), "expertqa/<hash of asker and question>, with #2 or #file2 where it comes again"),
    column("question", pa.string(), "as the expert wrote it"),
    column("annotator_id", pa.string(), "the asker, as released; never a name", null=True),
    column("field", pa.string(), "one of 32 fields in one spelling, or as given where it is none of them"),
    column("specific_field", pa.string(), "as given", null=True),
    column("question_types", pa.list_(pa.string()), "I to VII, in order, each once"),
    column("source", pa.string(), "released, csv or own"),
    column("position", pa.int32(), "of the record in its file, from 0"),
    column("licence", pa.string(), "e.g. MIT", null=True),
    column("original", pa.string(), "released only: the record as JSON, without its answers", null=True),
    column("answers", pa.string(), "released only: its answers as JSON, system -> answer", null=True),
    key="question_id",
)

CITED = pa.struct(
    [
        column("number", pa.int32(), "as the answer cites it, from 1"),
        column("url", pa.string(), "where it is from", null=True),
        column("passage_id", pa.string(), "of our corpus or web pages", null=True),
        column("title", pa.string(), "of the page", null=True),
        column("text", pa.string(), "the passage; null where only an address is known", null=True),
    ]
)

ANSWER = (
    column("answer_id", pa.string(), "hash of question, system and text"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("system", pa.string(), "gpt4, rr_sphere_gpt4, rr_gs_gpt4, post_hoc_sphere_gpt4, …"),
    column("kind", pa.string(), "closed_book, retrieve_and_read, post_hoc, imported or released"),
    column("text", pa.string(), "the answer, without its end mark; released ones to the letter"),
    column("abstention", pa.string(), "the words by which it declines to answer", null=True),
    column("attribution", pa.list_(pa.string()), "as released: '[1] https://…', one each source"),
    column("cited", pa.list_(CITED), "the sources it could cite, by number"),
    column("original", pa.string(), "released only: the answer as JSON, without its claims", null=True),
    column("claims", pa.string(), "released only: its claims as JSON", null=True),
    *MADE_BY,
)

ANSWERS = table("answers", *ANSWER, key="answer_id", cut="question_id")

POST_HOC = table(
    "post_hoc",
    *ANSWER,
    column("closed_id", pa.string(), "parent: answer_id of the closed-book answer whose text this is"),
    key="answer_id",
    cut="question_id",
    parents={"answer_id": ["closed_id"]},
)

EVIDENCE = pa.struct(
    [
        column("number", pa.int32(), "as the claim cites it; null for evidence found afterwards", null=True),
        column("url", pa.string(), "where it is from", null=True),
        column("passage_id", pa.string(), "of our corpus or web pages", null=True),
        column("text", pa.string(), "the passage; null where only an address is known", null=True),
        column("given", pa.string(), "released only: the evidence to the letter", null=True),
    ]
)

CLAIMS = table(
    "claims",
    column("claim_id", pa.string(), "<answer_id>#<position>"),
    column("answer_id", pa.string(), "parent: answers.answer_id"),
    column("question_id", pa.string(), "of that answer"),
    column("system", pa.string(), "of that answer"),
    column("position", pa.int32(), "in the answer, from 0"),
    column("text", pa.string(), "white space folded, marks kept; released ones to the letter"),
    column("start", pa.int32(), "where it begins in answers.text; null where released text is not found", null=True),
    column("end", pa.int32(), "where it ends in answers.text", null=True),
    column("marks", pa.list_(pa.int32()), "numbers it cites, in order, each once"),
    column("unmatched", pa.list_(pa.int32()), "of these, numbers that no source has"),
    column("evidence", pa.list_(EVIDENCE), "what it cites, or what was found for it"),
    column("original", pa.string(), "released only: the claim as JSON", null=True),
    key="claim_id",
    cut="question_id",
)

DOCUMENTS = table(
    "documents",
    column("passage_id", pa.string(), "<hash of url and text>#<window>"),
    column("url", pa.string(), "where it is from"),
    column("title", pa.string(), "of the document", null=True),
    column("text", pa.string(), "a window of the document; never empty"),
    column("start", pa.int32(), "where it begins in the document, in characters"),
    column("licence", pa.string(), "where the corpus says it", null=True),
    column("retrieved_at", MOMENT, "when it was fetched, where known", null=True),
    key="passage_id",
)

PASSAGE = pa.struct(
    [
        column("corpus", pa.string(), "sphere (a local corpus) or gs (a web search)"),
        column("passage_id", pa.string(), "of the corpus, or of a web page"),
        column("url", pa.string(), "where it is from"),
        column("title", pa.string(), "of the document", null=True),
        column("text", pa.string(), "the passage"),
        column("score", pa.float64(), "of the ranking"),
    ]
)


def found(name: str, key: str, doc: str) -> pa.Schema:
    """What retrieval found for each row of a table: best first within each corpus, sphere before gs."""
    question = () if key == "question_id" else (column("question_id", pa.string(), "of that row"),)
    return table(
        name,
        column(key, pa.string(), doc),
        *question,
        column("passages", pa.list_(PASSAGE), "at most k of each corpus; may be empty"),
        key=key,
        cut="question_id",
    )


FOUND_FOR_QUESTIONS = found("found_for_questions", "question_id", "parent: questions.question_id")
FOUND_FOR_CLAIMS = found("found_for_claims", "claim_id", "parent: claims.claim_id")
FOUND_FOR_FACTS = found("found_for_facts", "fact_id", "parent: facts.fact_id")

SAMPLES = table(
    "samples",
    column("answer_id", pa.string(), "an answer that is shown to the expert"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("system", pa.string(), "of that answer"),
    column("eligible", pa.list_(pa.string()), "systems whose answers could have been drawn; released: its own alone"),
    key="answer_id",
    cut="question_id",
)

CLAIM_LABELS = pa.struct(
    [
        column("claim_id", pa.string(), "parent: claims.claim_id"),
        column("support", pa.string(), "Complete, Partial, Incomplete, Missing or N/A", null=True),
        column("reason_missing_support", pa.string(), "in the expert's words", null=True),
        column("informativeness", pa.string(), "Very relevant … Uninformative", null=True),
        column("worthiness", pa.string(), "Yes or No", null=True),
        column("correctness", pa.string(), "Definitely correct … Definitely incorrect", null=True),
        column("reliability", pa.string(), "Reliable, Somewhat reliable, Not reliable at all, Missing, N/A", null=True),
        column("revised_claim", pa.string(), "as the expert would have it; empty: to be left out", null=True),
        column("revised_evidence", pa.list_(pa.string()), "as the expert would have it", null=True),
        column("said_as", pa.string(), "JSON: property -> the word it came with, where that is not ours", null=True),
    ]
)

LABELS = table(
    "labels",
    column("label_id", pa.string(), "<answer_id>/<annotator>"),
    column("answer_id", pa.string(), "parent: answers.answer_id"),
    column("question_id", pa.string(), "of that answer"),
    column("system", pa.string(), "of that answer"),
    column("annotator_id", pa.string(), "who labelled, as released or given"),
    column("usefulness", pa.string(), "Useful, Partially useful or Not useful at all", null=True),
    column("usefulness_said_as", pa.string(), "the word it came with, where that is not ours", null=True),
    column("revised_answer", pa.string(), "as the expert would have it", null=True),
    column("annotation_time", pa.float64(), "in the unit it came in; released files: milliseconds", null=True),
    column("labelled_at", MOMENT, "when, where a file of labels says it", null=True),
    column("claims", pa.list_(CLAIM_LABELS), "in the order of the answer's claims"),
    column("source", pa.string(), "released, jsonl, label-studio or argilla"),
    key="label_id",
    cut="question_id",
)

SCORED_SENTENCE = pa.struct(
    [column("text", pa.string(), "a sentence of the evidence"), column("score", pa.float64(), "of entailment")]
)

ATTRIBUTIONS = table(
    "attributions",
    column("claim_id", pa.string(), "parent: claims.claim_id"),
    column("answer_id", pa.string(), "of that claim"),
    column("question_id", pa.string(), "of that claim"),
    column("system", pa.string(), "of that claim"),
    column("backend", pa.string(), "who says so: lexical-1, an endpoint's model, nli:<model>"),
    column("attributable", pa.bool_(), "the evidence entails the claim; null where there is none", null=True),
    column("score", pa.float64(), "in [0, 1]; null where there is no evidence", null=True),
    column("evidence", pa.string(), "what was read: whole, or its two best sentences", null=True),
    column("sentences", pa.list_(SCORED_SENTENCE), "the two best, where the evidence was too long to be read whole"),
    *MADE_BY,
    key="claim_id",
    cut="question_id",
)

FACTS = table(
    "facts",
    column("fact_id", pa.string(), "<claim_id>.<position>"),
    column("claim_id", pa.string(), "parent: claims.claim_id"),
    column("answer_id", pa.string(), "of that claim"),
    column("question_id", pa.string(), "of that claim"),
    column("system", pa.string(), "of that claim"),
    column("position", pa.int32(), "in the claim, from 0"),
    column("text", pa.string(), "an atomic claim"),
    *MADE_BY,
    key="fact_id",
    cut="question_id",
)

JUDGED = table(
    "judged",
    column("fact_id", pa.string(), "parent: facts.fact_id"),
    column("claim_id", pa.string(), "of that atomic claim"),
    column("answer_id", pa.string(), "of that atomic claim"),
    column("question_id", pa.string(), "of that atomic claim"),
    column("system", pa.string(), "of that atomic claim"),
    column("text", pa.string(), "the atomic claim"),
    column("is_true", pa.bool_(), "what the model says; null where no passage was found", null=True),
    column("passages", pa.list_(pa.string()), "ids of the passages it was given"),
    *MADE_BY,
    key="fact_id",
    cut="question_id",
)

REVISED = table(
    "revised",
    column("revised_id", pa.string(), "hash of answer and revised text"),
    column("answer_id", pa.string(), "parent: answers.answer_id"),
    column("question_id", pa.string(), "of that answer"),
    column("system", pa.string(), "of that answer"),
    column("text", pa.string(), "the revised answer"),
    column("revised_by", pa.string(), "person (to the letter), claims (a person's claims put together) or model"),
    column("annotator_id", pa.string(), "of a person", null=True),
    *MADE_BY,
    key="revised_id",
    cut="question_id",
)

LONG_FORM = (
    column("row_id", pa.string(), "hash of the revised answer's id and of random or domain"),
    column("question_id", pa.string(), "expertqa/<hash>"),
    column("question", pa.string(), "as the expert wrote it"),
    column("answer", pa.string(), "the revised answer"),
    column("field", pa.string(), "of the question"),
    column("specific_field", pa.string(), "as given", null=True),
    column("question_types", pa.list_(pa.string()), "I to VII"),
    column("system", pa.string(), "whose answer was revised"),
    column("original_answer", pa.string(), "that answer"),
    column("revised_by", pa.string(), "person, claims or model"),
    column("annotator_id", pa.string(), "of a person", null=True),
    column("licence", pa.string(), "of the question, where known", null=True),
    column("model", pa.string(), "that wrote the original answer, or revised it", null=True),
    column("response", pa.string(), "key of that response", null=True),
    column("answer_id", pa.string(), "of the original answer"),
    column("revised_id", pa.string(), "parent: revised.revised_id"),
    column("split", pa.string(), "train, validation or test"),
)

RANDOM_SPLIT = table("random", *LONG_FORM, key="row_id", cut="question_id")
DOMAIN_SPLIT = table("domain", *LONG_FORM, key="row_id", cut="question_id")

PUBLISHED_CLAIMS = table(
    "published_claims",
    column("claim_id", pa.string(), "<answer_id>#<position>"),
    column("answer_id", pa.string(), "hash of question, system and text"),
    column("question_id", pa.string(), "expertqa/<hash>"),
    column("question", pa.string(), "as the expert wrote it"),
    column("field", pa.string(), "of the question"),
    column("question_types", pa.list_(pa.string()), "I to VII"),
    column("system", pa.string(), "whose answer it is from"),
    column("answer", pa.string(), "that answer"),
    column("usefulness", pa.string(), "of that answer", null=True),
    column("position", pa.int32(), "in the answer, from 0"),
    column("claim", pa.string(), "the claim, citation marks kept"),
    column("start", pa.int32(), "where it begins in answer", null=True),
    column("end", pa.int32(), "where it ends in answer", null=True),
    column("evidence", pa.list_(pa.string()), "texts, or addresses where only these are known"),
    column("evidence_urls", pa.list_(pa.string()), "of each evidence; empty where unknown"),
    column("support", pa.string(), "a person's label", null=True),
    column("reason_missing_support", pa.string(), "in the expert's words", null=True),
    column("informativeness", pa.string(), "a person's label", null=True),
    column("worthiness", pa.string(), "a person's label", null=True),
    column("correctness", pa.string(), "a person's label", null=True),
    column("reliability", pa.string(), "a person's label", null=True),
    column("revised_claim", pa.string(), "as the expert would have it", null=True),
    column("revised_evidence", pa.list_(pa.string()), "as the expert would have it; empty where none was given"),
    column("annotator_id", pa.string(), "who labelled", null=True),
    column("autoais", pa.bool_(), "the evidence entails the claim; null: no evidence", null=True),
    column("autoais_backend", pa.string(), "who says so", null=True),
    column("atomic_claims", pa.list_(pa.string()), "of FActScore, judged or not"),
    column("atomic_claims_model", pa.string(), "that wrote these", null=True),
    column("atomic_judgements", pa.list_(pa.bool_()), "true, false, or null: no passage found, or no verdict read"),
    column("fact_score", pa.float64(), "share of the judged atomic claims that are true; null: not scored", null=True),
    column("fact_score_model", pa.string(), "the judge", null=True),
    column("licence", pa.string(), "of the question, where known", null=True),
    column("model", pa.string(), "that wrote the answer", null=True),
    column("response", pa.string(), "key of that response", null=True),
    column("random_split", pa.string(), "of its question; null where that has no revised answer", null=True),
    column("domain_split", pa.string(), "likewise, in the split by field", null=True),
    column("split", pa.string(), "full; `datasets` keeps `all` for itself"),
    key="claim_id",
    cut="question_id",
)

SOURCES = table(
    "sources",
    column("source_id", pa.string(), "hash of question and address"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("kind", pa.string(), "question (the set it is from), corpus, web, or cited (an address an answer names)"),
    column("url", pa.string(), "where it is from", null=True),
    column("title", pa.string(), "of the page", null=True),
    column("licence", pa.string(), "where known", null=True),
    column("retrieved_at", MOMENT, "when it was fetched, where known", null=True),
    key="source_id",
    cut="question_id",
)

PREDICTIONS = table(
    "predictions",
    column("prediction_id", pa.string(), "hash of model, split, question and text"),
    column("question_id", pa.string(), "of the predicted answer"),
    column("model", pa.string(), "who predicts, as the file says"),
    column("zero_shot", pa.bool_(), "without fine-tuning (table 14)"),
    column("config", pa.string(), "random or domain"),
    column("text", pa.string(), "the predicted answer"),
    column("rouge1", pa.float64(), "F measure against the revised answer"),
    column("rouge2", pa.float64(), "F measure"),
    column("rougeL", pa.float64(), "F measure"),
    column("qafacteval", pa.float64(), "by its own package; null where it is not installed", null=True),
    key="prediction_id",
)

ENTAILED = table(
    "entailed",
    column("entailed_id", pa.string(), "hash of model and claim"),
    column("claim_id", pa.string(), "of the published claim"),
    column("model", pa.string(), "who predicts, as the file says"),
    column("attributable", pa.bool_(), "the evidence entails the claim"),
    key="entailed_id",
)
