"""Table schemas of ExpertQA: questions, answers of attributing systems, claims, evidence, labels, estimates.

All tables have a column `question_id` and are divided into the same parts as QUESTIONS; rows are in the order of the
rows they derive from. Released records are kept unchanged in `original`; `said_as` keeps the released spelling of a
label where it differs.
"""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY
from schemas.sources.stackexchange import MOMENT

QUESTIONS = table(
    "questions",
    column("question_id", pa.string(), "expertqa/<hash of asker and question>, with #2 or #file2 for repetitions"),
    column("question", pa.string(), "as the expert wrote it"),
    column("annotator_id", pa.string(), "pseudonymous id of the asker, as released; never a name", null=True),
    column("field", pa.string(), "one of 32 fields of study in one spelling, or another as written in the record"),
    column("specific_field", pa.string(), "narrower field of study, as written in the record", null=True),
    column("question_types", pa.list_(pa.string()), "numerals of the question types, I to VII, in order, each once"),
    column("source", pa.string(), "form of the record: released, csv or own (a user's JSONL)"),
    column("position", pa.int32(), "position of the record in its file, from 0"),
    column("licence", pa.string(), "licence of the file, e.g. MIT", null=True),
    column("original", pa.string(), "released only: the record as JSON, without its answers", null=True),
    column("answers", pa.string(), "released only: its answers as JSON, system -> answer", null=True),
    key="question_id",
)

RELEASED_SIDES = table(
    "released_sides",
    column("side_id", pa.string(), "hash of config, split and question"),
    column("config", pa.string(), "random or domain"),
    column("split", pa.string(), "train, validation or test"),
    column("question", pa.string(), "the question in lower case, with single blanks"),
    key="side_id",
)

SIDES = table(
    "sides",
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("random", pa.string(), "side in the random split: train, validation, test or overlap"),
    column("domain", pa.string(), "side in the split by field, likewise"),
    column("random_from", pa.string(), "what decided `random`: released, near-duplicate or hash"),
    column("domain_from", pa.string(), "what decided `domain`, likewise"),
    column("like", pa.list_(pa.string()), "ids of the bank's other questions that are near-duplicates"),
    key="question_id",
    cut="question_id",
)

CITED = pa.struct(
    [
        column("number", pa.int32(), "number by which the answer cites it, from 1"),
        column("url", pa.string(), "address of the source", null=True),
        column("passage_id", pa.string(), "id of the passage, if it is from our corpus or web pages", null=True),
        column("title", pa.string(), "title of the page", null=True),
        column("text", pa.string(), "the passage; null where only an address is known", null=True),
    ]
)

ANSWER = (
    column("answer_id", pa.string(), "hash of question, system and text"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("system", pa.string(), "system that answers: gpt4, rr_sphere_gpt4, rr_gs_gpt4, post_hoc_sphere_gpt4, …"),
    column("kind", pa.string(), "closed_book, retrieve_and_read, post_hoc, imported or released"),
    column("text", pa.string(), "the answer, without its end mark; released ones unchanged"),
    column("abstention", pa.string(), "the words by which it declines to answer; null if it answers", null=True),
    column("attribution", pa.list_(pa.string()), "list of sources in the released form, '[1] https://…'"),
    column("cited", pa.list_(CITED), "the sources it may cite, by number"),
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
        column("number", pa.int32(), "number by which the claim cites it; null for evidence found later", null=True),
        column("url", pa.string(), "address of the source", null=True),
        column("passage_id", pa.string(), "id of the passage, if it is from our corpus or web pages", null=True),
        column("text", pa.string(), "the passage; null where only an address is known", null=True),
        column("given", pa.string(), "released only: the evidence unchanged", null=True),
    ]
)

CLAIMS = table(
    "claims",
    column("claim_id", pa.string(), "<answer_id>#<position>"),
    column("answer_id", pa.string(), "parent: answers.answer_id"),
    column("question_id", pa.string(), "of that answer"),
    column("system", pa.string(), "of that answer"),
    column("position", pa.int32(), "position among the answer's claims, from 0"),
    column(
        "text", pa.string(), "the claim with its citation marks, runs of white space as one blank; released ones as is"
    ),
    column("start", pa.int32(), "where it begins in answers.text; null where released text is not found", null=True),
    column("end", pa.int32(), "where it ends in answers.text", null=True),
    column("marks", pa.list_(pa.int32()), "numbers it cites, in order, each once"),
    column("unmatched", pa.list_(pa.int32()), "those of `marks` that no source has"),
    column("evidence", pa.list_(EVIDENCE), "sources that it cites, or passages found for it"),
    column("original", pa.string(), "released only: the claim as JSON", null=True),
    key="claim_id",
    cut="question_id",
)

DOCUMENTS = table(
    "documents",
    column("passage_id", pa.string(), "<hash of url and text>#<window>"),
    column("url", pa.string(), "address of the document"),
    column("title", pa.string(), "title of the document", null=True),
    column("text", pa.string(), "a window of the document; never empty"),
    column("start", pa.int32(), "offset of the window in the document, in characters"),
    column("licence", pa.string(), "licence of the document, where the corpus says it", null=True),
    column("retrieved_at", MOMENT, "when the document was fetched, where known", null=True),
    key="passage_id",
)

PASSAGE = pa.struct(
    [
        column(
            "corpus", pa.string(), "sphere (a local corpus), gs (a web search) or cited (a page that the answer cites)"
        ),
        column("passage_id", pa.string(), "id of the passage in its corpus or web page"),
        column("url", pa.string(), "address of the document"),
        column("title", pa.string(), "title of the document", null=True),
        column("text", pa.string(), "the passage"),
        column("score", pa.float64(), "score of the ranking; comparable within a corpus"),
    ]
)


def found(name: str, key: str, doc: str) -> pa.Schema:
    """The schema of the table `name`: the passages retrieved for each row of an earlier table. Passages of the corpus
    sphere stand before those of gs, the best of each corpus first. `key`: the id column of the earlier table; `doc`:
    its documentation.
    """
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

CITED_PAGE = pa.struct(
    [
        column("url", pa.string(), "address as the claim cites it"),
        column("state", pa.string(), "read, dead, unreadable, taken down, or not among the pages"),
        column("reason", pa.string(), "why it is not read", null=True),
        column("month", pa.string(), "year and month of the snapshot or of the failure, UTC; null: unknown", null=True),
        column("title", pa.string(), "title of the page", null=True),
        column("windows", pa.list_(PASSAGE), "the windows of the page that fit the claim best, best first"),
    ]
)

CITED_PAGES = table(
    "cited_pages",
    column("claim_id", pa.string(), "parent: claims.claim_id"),
    column("answer_id", pa.string(), "of that claim"),
    column("question_id", pa.string(), "of that claim"),
    column("system", pa.string(), "of that claim"),
    column("pages", pa.list_(CITED_PAGE), "pages that it cites by address alone, in their order; may be empty"),
    key="claim_id",
    cut="question_id",
)

SAMPLES = table(
    "samples",
    column("answer_id", pa.string(), "an answer for the expert to label"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("system", pa.string(), "system of that answer"),
    column(
        "eligible", pa.list_(pa.string()), "systems whose answers could be drawn; for released answers its own alone"
    ),
    key="answer_id",
    cut="question_id",
)

CLAIM_LABELS = pa.struct(
    [
        column("claim_id", pa.string(), "parent: claims.claim_id"),
        column("support", pa.string(), "Complete, Partial, Incomplete, Missing or N/A", null=True),
        column("reason_missing_support", pa.string(), "in the expert's words", null=True),
        column("informativeness", pa.string(), "from Very relevant to Uninformative", null=True),
        column("worthiness", pa.string(), "whether it needs a citation: Yes or No", null=True),
        column("correctness", pa.string(), "from Definitely correct to Definitely incorrect", null=True),
        column("reliability", pa.string(), "Reliable, Somewhat reliable, Not reliable at all, Missing, N/A", null=True),
        column("revised_claim", pa.string(), "the expert's revision; empty: to be left out", null=True),
        column("revised_evidence", pa.list_(pa.string()), "the expert's revision of the evidence", null=True),
        column("said_as", pa.string(), "JSON: property -> its label as read, where spelled otherwise", null=True),
    ]
)

LABELS = table(
    "labels",
    column("label_id", pa.string(), "<answer_id>/<annotator>"),
    column("answer_id", pa.string(), "parent: answers.answer_id"),
    column("question_id", pa.string(), "of that answer"),
    column("system", pa.string(), "of that answer"),
    column("annotator_id", pa.string(), "pseudonymous id of the annotator, as in the file"),
    column("usefulness", pa.string(), "Useful, Partially useful or Not useful at all", null=True),
    column("usefulness_said_as", pa.string(), "the label as read, where spelled otherwise", null=True),
    column("revised_answer", pa.string(), "the expert's revision of the answer", null=True),
    column("annotation_time", pa.float64(), "milliseconds in released files, else seconds", null=True),
    column("labelled_at", MOMENT, "when the labels were given, where the file says it", null=True),
    column("claims", pa.list_(CLAIM_LABELS), "in the order of the answer's claims"),
    column("source", pa.string(), "released, jsonl, label-studio or argilla"),
    key="label_id",
    cut="question_id",
)

SCORED_SENTENCE = pa.struct(
    [
        column("text", pa.string(), "a sentence of the evidence"),
        column("score", pa.float64(), "entailment of the claim by it, in [0, 1]"),
    ]
)

ATTRIBUTIONS = table(
    "attributions",
    column("claim_id", pa.string(), "parent: claims.claim_id"),
    column("answer_id", pa.string(), "of that claim"),
    column("question_id", pa.string(), "of that claim"),
    column("system", pa.string(), "of that claim"),
    column("backend", pa.string(), "judge of the entailment: lexical-1, an endpoint's model, nli:<model>, released"),
    column("attributable", pa.bool_(), "whether the evidence entails the claim; null without evidence", null=True),
    column("score", pa.float64(), "score of the entailment in [0, 1]; null without evidence", null=True),
    column("evidence", pa.string(), "the evidence as judged: whole, or its two best sentences", null=True),
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
    column("position", pa.int32(), "position among the claim's atomic claims, from 0"),
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
    column("is_true", pa.bool_(), "the model's verdict; null where no passage was found", null=True),
    column("passages", pa.list_(pa.string()), "ids of the passages that the model read"),
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
    column("revised_by", pa.string(), "person (a person's text), claims (a person's revised claims joined) or model"),
    column("annotator_id", pa.string(), "id of the person who revised; null for a model", null=True),
    *MADE_BY,
    key="revised_id",
    cut="question_id",
)

NUMBERED_SOURCE = pa.struct(
    [
        column("number", pa.int32(), "number of its marks; null for evidence that was found later", null=True),
        column("url", pa.string(), "address of the source", null=True),
        column("title", pa.string(), "title of the page", null=True),
        column("text", pa.string(), "the passage; null where only an address is known", null=True),
    ]
)

LONG_FORM = (
    column("row_id", pa.string(), "hash of the revised answer's id and of random or domain"),
    column("question_id", pa.string(), "expertqa/<hash>"),
    column("question", pa.string(), "as the expert wrote it"),
    column("answer", pa.string(), "the revised answer without citation marks and references: the text to train on"),
    column("cited_answer", pa.string(), "the revised answer with its marks, as the reviser left it"),
    column("sources", pa.list_(NUMBERED_SOURCE), "what the marks of cited_answer mean, by number; may be empty"),
    column("field", pa.string(), "field of study of the question"),
    column("specific_field", pa.string(), "narrower field of study, as in the source", null=True),
    column("question_types", pa.list_(pa.string()), "numerals of the question types, I to VII"),
    column("system", pa.string(), "system whose answer was revised"),
    column("original_answer", pa.string(), "the answer before the revision"),
    column("revised_by", pa.string(), "person (a person's text), claims (a person's revised claims joined) or model"),
    column("annotator_id", pa.string(), "id of the person who revised; null for a model", null=True),
    column("licence", pa.string(), "licence of the question, where known", null=True),
    column("model", pa.string(), "model that revised the answer, or wrote it if a person revised it", null=True),
    column("response", pa.string(), "key of that model's response", null=True),
    column("answer_id", pa.string(), "id of the original answer"),
    column("revised_id", pa.string(), "parent: revised.revised_id"),
    column(
        "split_from",
        pa.string(),
        "what decided the split: released (by the paper's authors), near-duplicate (of a question there), hash",
        null=True,
    ),
    column("split", pa.string(), "train, validation or test; overlap: between two of them, for none"),
)

RANDOM_SPLIT = table("random", *LONG_FORM, key="row_id", cut="question_id")
DOMAIN_SPLIT = table("domain", *LONG_FORM, key="row_id", cut="question_id")

PUBLISHED_CLAIMS = table(
    "published_claims",
    column("claim_id", pa.string(), "<answer_id>#<position>"),
    column("answer_id", pa.string(), "hash of question, system and text"),
    column("question_id", pa.string(), "expertqa/<hash>"),
    column("question", pa.string(), "as the expert wrote it"),
    column("field", pa.string(), "field of study of the question"),
    column("question_types", pa.list_(pa.string()), "numerals of the question types, I to VII"),
    column("system", pa.string(), "system whose answer the claim is from"),
    column("answer", pa.string(), "the whole answer"),
    column("usefulness", pa.string(), "label of the answer, by majority of its annotators", null=True),
    column("position", pa.int32(), "position among the answer's claims, from 0"),
    column("claim", pa.string(), "the claim with its citation marks"),
    column("start", pa.int32(), "character offset in answer where the claim begins", null=True),
    column("end", pa.int32(), "character offset in answer where the claim ends", null=True),
    column("evidence", pa.list_(pa.string()), "texts, or addresses where only these are known"),
    column("evidence_urls", pa.list_(pa.string()), "address of each piece of evidence; empty where unknown"),
    column("support", pa.string(), "label by majority: Complete, Partial, Incomplete, Missing or N/A", null=True),
    column("reason_missing_support", pa.string(), "in the words of annotator_id", null=True),
    column("informativeness", pa.string(), "label by majority, from Very relevant to Uninformative", null=True),
    column("worthiness", pa.string(), "label by majority: whether it needs a citation, Yes or No", null=True),
    column("correctness", pa.string(), "label by majority, from Definitely correct to Definitely incorrect", null=True),
    column("reliability", pa.string(), "label by majority of the evidence's sources", null=True),
    column("revised_claim", pa.string(), "the expert's revision; empty: to be left out", null=True),
    column("revised_evidence", pa.list_(pa.string()), "the expert's revision of the evidence; may be empty"),
    column("annotator_id", pa.string(), "pseudonymous id of the annotator whose texts these are", null=True),
    column("annotators", pa.int32(), "number of annotators of the answer; all their labels are in the config labels"),
    column("undecided", pa.list_(pa.string()), "labelled properties of which no label has more than half"),
    column("autoais", pa.bool_(), "AutoAIS: whether the evidence entails the claim; null: no evidence", null=True),
    column("autoais_backend", pa.string(), "judge of AutoAIS: lexical-1, a model, nli:<model> or released", null=True),
    column("atomic_claims", pa.list_(pa.string()), "atomic claims of FActScore, judged or not"),
    column("atomic_claims_model", pa.string(), "model that wrote the atomic claims", null=True),
    column("atomic_judgements", pa.list_(pa.bool_()), "true, false, or null: no passage found, or no verdict read"),
    column("fact_score", pa.float64(), "share of the judged atomic claims that are true; null: not scored", null=True),
    column("fact_score_model", pa.string(), "model that judged the atomic claims, or released", null=True),
    column("licence", pa.string(), "licence of the question, where known", null=True),
    column("model", pa.string(), "model that wrote the answer", null=True),
    column("response", pa.string(), "key of that model's response", null=True),
    column("random_split", pa.string(), "its question's side: train, validation, test or overlap, published or not"),
    column("domain_split", pa.string(), "likewise in the split by field"),
    column("random_split_from", pa.string(), "what decided random_split: released, near-duplicate or hash"),
    column("domain_split_from", pa.string(), "likewise of domain_split"),
    column("split", pa.string(), "always full (`all` is a reserved name in `datasets`)"),
    key="claim_id",
    cut="question_id",
)

PUBLISHED_LABELS = table(
    "published_labels",
    column("label_id", pa.string(), "<answer_id>/<annotator>/<position of the claim>"),
    column("labelling_id", pa.string(), "parent: labels.label_id"),
    column("claim_id", pa.string(), "claim that is labelled"),
    column("answer_id", pa.string(), "of that claim"),
    column("question_id", pa.string(), "of that claim"),
    column("system", pa.string(), "of that claim"),
    column("annotator_id", pa.string(), "pseudonymous id of the annotator, as in the file"),
    column("usefulness", pa.string(), "this annotator's label of the answer", null=True),
    column("support", pa.string(), "Complete, Partial, Incomplete, Missing or N/A", null=True),
    column("reason_missing_support", pa.string(), "in the annotator's words", null=True),
    column("informativeness", pa.string(), "from Very relevant to Uninformative", null=True),
    column("worthiness", pa.string(), "whether it needs a citation: Yes or No", null=True),
    column("correctness", pa.string(), "from Definitely correct to Definitely incorrect", null=True),
    column("reliability", pa.string(), "Reliable, Somewhat reliable, Not reliable at all, Missing, N/A", null=True),
    column("revised_claim", pa.string(), "the annotator's revision; empty: to be left out", null=True),
    column("revised_evidence", pa.list_(pa.string()), "the annotator's revision of the evidence; may be empty"),
    column("said_as", pa.string(), "JSON: property -> its label as read, where spelled otherwise", null=True),
    column("annotation_time", pa.float64(), "milliseconds in released files, else seconds", null=True),
    column("labelled_at", MOMENT, "when the labels were given, where the file says it", null=True),
    column("source", pa.string(), "released, jsonl, label-studio or argilla"),
    column("split", pa.string(), "always full"),
    key="label_id",
    cut="question_id",
    parents={"label_id": ["labelling_id"]},
)

SOURCES = table(
    "sources",
    column("source_id", pa.string(), "hash of question and address"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("kind", pa.string(), "question (the data set it is from), corpus, web, or cited (an address in an answer)"),
    column("url", pa.string(), "address of the source; null for a question", null=True),
    column("title", pa.string(), "title of the page", null=True),
    column("licence", pa.string(), "licence of the source, where known", null=True),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
    key="source_id",
    cut="question_id",
)

PREDICTIONS = table(
    "predictions",
    column("prediction_id", pa.string(), "hash of model, split, question and text"),
    column("question_id", pa.string(), "question that the prediction answers"),
    column("model", pa.string(), "model that predicts, as the file says"),
    column("zero_shot", pa.bool_(), "whether the model was not fine-tuned (table 14)"),
    column("config", pa.string(), "split of the question: random or domain"),
    column("text", pa.string(), "the predicted answer"),
    column("rouge1", pa.float64(), "ROUGE-1 F measure against the revised answer, in [0, 1]; words as rouge_score"),
    column("rouge2", pa.float64(), "ROUGE-2 F measure, likewise"),
    column("rougeL", pa.float64(), "ROUGE-L F measure, likewise"),
    column("qafacteval", pa.float64(), "QAFactEval score; null where its package is not installed", null=True),
    key="prediction_id",
)

ENTAILED = table(
    "entailed",
    column("entailed_id", pa.string(), "hash of model and claim"),
    column("claim_id", pa.string(), "id of the published claim"),
    column("model", pa.string(), "model that predicts, as the file says"),
    column("attributable", pa.bool_(), "whether the model says that the evidence entails the claim"),
    key="entailed_id",
)
