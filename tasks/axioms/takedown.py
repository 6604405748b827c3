"""Which stored model responses were made from a taken-down post: from its own text, or from texts made from it.

    a question   every answer to it, and rows made from those answers; verdicts on its hard negatives
    a query      answers to it from passages
    a passage    answers to a query that had it as relevant or irrelevant passage
    an answer    answers combined from it; open-book answers that had it as evidence, and their corruptions; verdicts on
                 it as a hard negative
    either       what a critic, or a judge of pairs, said where it, or an answer that was made from it, was shown

Responses are found by the ids in the rows of all model stages in the home folder, whichever build made these rows.
Responses that no row names (the reply of a rejected row, of an interrupted build, of stages that `gc` removed;
embeddings) are found by the post's words in the request, where a text of a few words must be a whole text of the
request (tasks/publishing/responses_made_from.py). In doubt a response is included, since it can be requested again.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.axioms.sealed.same import HEAD_CHARACTERS as EMBEDDED_CHARACTERS
from tasks.publishing.responses_made_from import Queries, by_words, first_values, register
from tasks.sources.permalinks import ids_of_address

FROM_PASSAGES = ("answer_from_relevant", "answer_from_irrelevant")
FROM_EVIDENCE = ("answer_open_book", "corrupt_answers", *FROM_PASSAGES)
CRITIC, JUDGE = "criticise_answers", "judge_validation"
MODEL_STAGES = (*FROM_EVIDENCE, "answer_closed_book", "combine_answers", "judge_negatives", CRITIC, JUDGE)
PASSAGES = ("retrieve_passages",)
CHOSEN = ("choose_passages",)
LISTED = "IN (SELECT id FROM listed)"
RESPONSES = "SELECT DISTINCT response FROM {}"
REQUEST_TEXTS = (
    "title || chr(10) || chr(10) || text",
    f"title || chr(10) || left(text, {EMBEDDED_CHARACTERS})",
    "if(title IS NULL, text, NULL)",
    "coalesce(title, '') || ' ' || text",
)
READING: Queries = [  # questions with a listed post as evidence
    (
        PASSAGES,
        f"SELECT question_id FROM (SELECT question_id, unnest(passages).answer_id AS id FROM {{}}) WHERE id {LISTED}",
    ),
    (
        CHOSEN,
        "SELECT question_id FROM (SELECT question_id, unnest(relevant || irrelevant).passage_id AS id FROM {}) "
        f"WHERE id {LISTED}",
    ),
]
NAMED: Queries = [  # responses of rows that name a listed post as question, parent or evidence
    (MODEL_STAGES, f"{RESPONSES} WHERE question_id {LISTED}"),
    (["combine_answers"], f"{RESPONSES} WHERE first_id {LISTED} OR second_id {LISTED}"),
    (["judge_negatives"], f"{RESPONSES} WHERE answer_id {LISTED}"),
    ([JUDGE], f"{RESPONSES} WHERE preferred_id {LISTED} OR rejected_id {LISTED}"),
    (FROM_EVIDENCE, f"{RESPONSES} WHERE question_id IN (SELECT id FROM readers)"),
    (
        [CRITIC, JUDGE],
        f"SELECT DISTINCT response FROM (SELECT response, unnest(parent_ids) AS id FROM {{}}) WHERE id {LISTED}",
    ),
]
TEXTS: Queries = [  # that requests contain of the listed posts and their passages
    (
        ("read_posts", "admit_posts", "scrub_posts"),
        f"SELECT unnest([{', '.join(REQUEST_TEXTS)}]) FROM {{}} WHERE post_id {LISTED}",
    ),
    (
        PASSAGES,
        f"SELECT DISTINCT one.text FROM (SELECT unnest(passages) AS one FROM {{}}) WHERE one.answer_id {LISTED}",
    ),
    (
        CHOSEN,
        "SELECT DISTINCT one.text FROM (SELECT unnest(relevant || irrelevant) AS one FROM {}) "
        f"WHERE one.passage_id {LISTED}",
    ),
    (CHOSEN, f"SELECT text FROM {{}} WHERE question_id {LISTED}"),
]

RESEARCH = ("answer_research_closed", "assist_research", "plan_research", "repair_research")
OF_ANSWERS = (
    "WITH steps AS (SELECT research_answer_id AS answer, response AS own, unnest(steps) AS step FROM {0}), "
    "evidence AS (SELECT research_answer_id AS answer, unnest(evidence).url AS url FROM {0}) "
)
FROM_PAGES = (
    "answer IN (SELECT answer FROM steps WHERE step.url IN (SELECT id FROM pages) "
    "UNION SELECT answer FROM evidence WHERE url IN (SELECT id FROM pages))"
)
ADDRESSES: Queries = [  # of pages that research answers were made with
    (RESEARCH, "SELECT DISTINCT unnest(steps).url FROM {}"),
    (RESEARCH, "SELECT DISTINCT unnest(evidence).url FROM {}"),
]
NAMED_BY_PAGE: Queries = [  # responses on the way to an answer for which a listed page was read
    (RESEARCH, f"{OF_ANSWERS} SELECT DISTINCT unnest([own, step.response]) FROM steps WHERE {FROM_PAGES}"),
]
TEXTS_OF_PAGES: Queries = [  # that requests contain of the listed pages
    (
        RESEARCH,
        "SELECT DISTINCT step.text FROM (SELECT unnest(steps) AS step FROM {}) "
        "WHERE step.url IN (SELECT id FROM pages) AND step.kind IN ('passage', 'result')",
    ),
    (("read_research_pages",), "SELECT text FROM {} WHERE url IN (SELECT id FROM pages)"),
]


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the model responses that were made from the posts and pages `ids`, or from texts made from these: those
    that rows of model stages in `store` name, and those in `responses` whose request shows words of these.
    """
    listed = set(ids)
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(database, "readers", first_values(database, store, READING))
        by_id, texts = set(first_values(database, store, NAMED)), set(first_values(database, store, TEXTS))
        addresses = {url for url in first_values(database, store, ADDRESSES) if url}
        register(database, "pages", [url for url in addresses if listed.intersection(ids_of_address(url))])
        by_id |= {key for key in first_values(database, store, NAMED_BY_PAGE) if key}
        texts |= set(first_values(database, store, TEXTS_OF_PAGES))
        known = set(first_values(database, store, [((*MODEL_STAGES, *RESEARCH), RESPONSES)]))
    return by_id | set(by_words(responses, texts, known))
