"""A headline for each question of a site."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.headlines import HEADLINES, SOURCES

from longform.engine.at_most import longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure
from tasks.answers import made_by, unanswered

CHARACTERS = 4_000


@stage(
    HEADLINES,
    revision=1,
    split_by="split",
    at_most=AtMost(questions=lambda of: [of["prompt"].request(of["model"], question=longest(CHARACTERS))]),
)
def write_headlines(context: StageContext, posts: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """One headline a question; answers have none."""
    questions = []
    for post in posts:
        if post["title"] is None:
            yield Rejected(post["post_id"], "filtered", "an answer")
        else:
            text = f"{post['title']}\n\n{post['text']}"[:CHARACTERS]
            questions.append(
                (post, prompt.request(model, question=text, copies=True))
            )  # a title may be a good headline
    for post, answer in context.ask(model, iter(questions)):
        yield _headline(post, answer, model, prompt)


def _headline(post: Row, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    key = post["post_id"]
    if isinstance(answer, Failure):
        return unanswered(key, answer)
    return {
        "headline_id": f"headline/{key}",
        "post_id": key,
        "site": post["site"],
        "licence": post["licence"],
        "text": " ".join(answer.value.split()),
        "split": "test" if int(post["post_id"].rsplit("/", 1)[1]) % 5 == 0 else "train",
        **made_by(answer, model, prompt),
    }


@stage(SOURCES, revision=1)
def name_posts(context: StageContext, posts: Rows) -> Iterator[Row]:
    """Who wrote each post."""
    for post in posts:
        yield {name: post[name] for name in ("post_id", "site", "author", "licence")}
