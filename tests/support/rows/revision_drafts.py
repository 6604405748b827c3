"""Cases of one related-work section, drafted and edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
from expertqa_tables import Home, filled
from offline_rules import RULES
from replied import replied
from standin_server import Server

from longform.artifacts.rows import Row, Rows
from longform.engine.jobs import execute, jobs_of
from longform.engine.stage import Stage
from longform.llm.ask.fence import unfenced
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.offline import MODEL
from schemas.revision_distance import CASES, CITED, DRAFTS, GIVEN

OFFLINE = Endpoint("offline", MODEL)


SAID = Endpoint("somewhere", "a-model", base_url="http://127.0.0.1:1/v1")


def cited(number: int, **given: Any) -> Row:
    given = {"title": f"Paper {number}", "abstract": f"It is about {number} things.", "by": "link", **given}
    return filled(CITED, paper_id=f"acl/{number}", **given)


def draft_given(system: str, text: str, **given: Any) -> Row:
    return filled(GIVEN, system=system, text=text, **given)


def case(key: str, **given: Any) -> Row:
    task = key.partition("/")[0]
    own: dict[str, Row] = {
        "easy": {
            "kind": "email",
            "request": f"Write an e-mail about {key} to the members of the garden club.",
            "reference": f"Dear members, this is about {key}. Kind regards",
        },
        "hard": {
            "kind": "related_work",
            "title": f"On {key}",
            "abstract": f"We sort {key}.",
            "cited": [cited(1), cited(2)],
            "reference": "Paper 1 and Paper 2 came before.",
        },
        "free": {
            "kind": "other",
            "request": f"Write a poem about {key}.",
            "given": [draft_given("chosen", "Roses.", writer="a"), draft_given("rejected", "Weeds.", writer="b")],
        },
        "structure": {"reference": "A. B.", "given": [draft_given("reordered", "B. A.")]},
    }
    return filled(CASES, case_id=key, task=task, source_id=key, **{**own[task], **given})


class Scripted:
    """A stage context whose model replies what `say` returns for a question; it records the questions."""

    def __init__(self, say: Callable[[Request], str | Failure]) -> None:
        self.say = say
        self.requests: list[Request] = []

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Any, Request]]) -> Iterator[tuple[Any, Answer | Failure]]:
        for number, (item, request) in enumerate(items):
            self.requests.append(request)
            output = self.say(request)
            yield item, output if isinstance(output, Failure) else replied(request, output, f"key-{number}")


def texts(request: Request) -> dict[str, str]:
    return dict(unfenced(request.messages[1][1]))


def run(home: Home, work: Stage, *given: Any, **arguments: Any) -> Rows:
    """The rows of a stage as a build makes them: units, parts, conservation; its models are closed."""
    inputs = dict(zip(work.inputs, given, strict=True))
    recipe = work.recipe(inputs, arguments)
    jobs = jobs_of(home.store, work.called(home.store, inputs, arguments))
    parts = [part for job in jobs for part in execute(replace(job, offline=RULES))]
    return Rows(home.store, work.schema, work.name, recipe.fingerprint, parts)


def rejected(home: Home, rows: Rows) -> dict[str, Row]:
    paths = [home.store.rejected_path(part) for part in rows.parts or () if part.rejected_sha256]
    return {row["key"]: row for path in paths for row in pq.read_table(path).to_pylist()}


def draft(key: str, system: str, text: str = "So.") -> Row:
    return filled(DRAFTS, draft_id=f"d_{key}/{system}", case_id=key, task=key[:4], system=system, text=text)


def over_http(server: Server, **settings: Any) -> Endpoint:
    return Endpoint("mine", "m", base_url=server.url, **settings)
