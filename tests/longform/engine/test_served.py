"""What served a stage, counted from the replies of a real server: chat, several samples, embeddings, stored replies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from endpoint_server import Server, Verdict, server

from longform.artifacts.store import Artifact, Part, Store
from longform.engine.served import MOST, OTHERS, Names, notes_of, served_of, warnings_of
from longform.engine.stage import StageContext
from longform.llm.ask.types import Endpoint, Request
from longform.llm.models import Models

__all__ = ["server"]

MINE = Endpoint("mine", "gpt-x", base_url="http://127.0.0.1:1/v1")
Naming = Callable[[str], dict[str, Any]]


def answering(names: Naming) -> Callable[[dict[str, Any]], Verdict]:
    """A server that names in each reply what `names` says for the question or the text."""

    def answer(body: dict[str, Any]) -> Verdict:
        if "input" in body:
            vectors = [{"index": place, "embedding": [1.0]} for place in range(len(body["input"]))]
            return 200, {}, json.dumps({"data": vectors, **names(body["input"][0])}).encode()
        choice = {"message": {"content": "An answer."}, "finish_reason": "stop"}
        choices = [{"index": place, **choice} for place in range(body.get("n", 1))]
        return 200, {}, json.dumps({"choices": choices, **names(body["messages"][-1]["content"])}).encode()

    return answer


def counted(home: Path, server: Server, work: Callable[[StageContext, Endpoint], Any], *, n: bool = False) -> Part:
    """The part of a unit of work that only asks."""
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    endpoint = Endpoint("mine", "gpt-x", base_url=url, capabilities=frozenset({"n"} if n else ()))
    counts = Counter[str]()
    with Models(home / "responses.sqlite", home=home, offline={}) as models:
        context = StageContext(Store(home), models, "answer", "r", lambda name, number: counts.update({name: number}))
        work(context, endpoint)
    return part(counts)


def part(counts: Counter[str]) -> Part:
    return Part("answer", "tea/0-00000", "id", 1, 1, "", counts=tuple(sorted(counts.items())))


def questions(*texts: str, samples: int = 1) -> Callable[[StageContext, Endpoint], Any]:
    requests = [(text, Request((("user", text),), task="t", samples=samples)) for text in texts]
    return lambda context, endpoint: list(context.ask(endpoint, requests))


def by_first_letter(text: str) -> dict[str, Any]:
    names = {"a": {"model": "gpt-x-2026", "system_fingerprint": "fp_1"}, "b": {"model": "gpt-y"}}
    return names.get(text[0], {})


def test_replies_are_counted_by_what_they_name_also_when_they_come_from_the_store(
    tmp_path: Path, server: Server
) -> None:
    server.fails = answering(by_first_letter)
    asked = questions("a1", "a2", "b1", "a3", "c1")
    first = counted(tmp_path, server, asked)
    (served,) = served_of("answer", [first])
    assert (served.endpoint, served.asked, served.unnamed, served.replies) == ("mine", "gpt-x", 1, 5)
    assert served.models == {"gpt-x-2026": 3, "gpt-y": 1}
    assert served.fingerprints == {"fp_1": 3}
    assert list(warnings_of([served])) == [
        'answer: endpoint "mine", asked for gpt-x, was served by gpt-x-2026 (3 replies), a model that it does not name '
        "(1) and gpt-y (1): look whether that is meant"
    ]
    server.fails = answering(lambda _: {"model": "never asked"})
    assert counted(tmp_path, server, asked) == first
    assert Artifact("f", None, "", {}, [first]).counts() == {"replies": 5}  # type: ignore[arg-type]


def test_samples_of_one_call_count_each(tmp_path: Path, server: Server) -> None:
    server.fails = answering(by_first_letter)
    (served,) = served_of("answer", [counted(tmp_path, server, questions("a", "b", samples=3), n=True)])
    assert len(server.bodies) == 2
    assert served.models == {"gpt-x-2026": 3, "gpt-y": 3}


def test_embeddings_count_once_for_each_text(tmp_path: Path, server: Server) -> None:
    server.fails = answering(by_first_letter)

    def embedding(context: StageContext, endpoint: Endpoint) -> None:
        list(context.embeddings(endpoint, ["a", "aa", "aaa", "a"]))
        context.embed(endpoint, ["b", "bb"])

    first = counted(tmp_path, server, embedding)
    (served,) = served_of("answer", [first])
    assert served.models == {"gpt-x-2026": 3, "gpt-y": 2}
    assert served.fingerprints == {"fp_1": 3}
    server.fails = answering(lambda _: {"model": "never asked"})
    assert counted(tmp_path, server, embedding) == first


def test_what_a_server_does_not_name_is_no_change_and_a_fingerprint_is_only_noted(
    tmp_path: Path, server: Server
) -> None:
    server.fails = answering(lambda text: {"model": "gpt-x"} if text < "b" else {})
    (served,) = served_of("answer", [counted(tmp_path, server, questions("a", "b", "c"))])
    assert list(warnings_of([served])) == list(notes_of([served])) == []
    server.fails = answering(lambda text: {"model": "gpt-x", "system_fingerprint": f"fp_{text[-1]}"})
    (served,) = served_of("answer", [counted(tmp_path, server, questions("d1", "e1", "f2"))])
    assert list(warnings_of([served])) == []
    assert list(notes_of([served])) == [
        'answer: endpoint "mine", asked for gpt-x, had the fingerprints fp_1 (2 replies) and fp_2 (1)'
    ]


def test_a_server_that_invents_names_fills_neither_parts_nor_sentences() -> None:
    names, counts = Names(), Counter[str]()
    for n in range(1_000):
        counts[names.counter(MINE, f"model-{n}", f"{n:0>5000}")] += 1
    counts[names.counter(MINE, "gpt\x1b[31m\nx\ud800", None)] += 1
    assert sum(map(len, counts)) < 50_000
    assert all(name.isprintable() for name in counts)
    others = Counter({names.counter(MINE, f"other-{n}", None): 2 for names in [Names()] for n in range(30)})
    (served,) = served_of("answer", [part(counts), part(others)])
    assert served.replies == 1_001 + 2 * 21  # twenty names, and the rest as one
    assert len(served.models) <= MOST + 1
    assert served.models[OTHERS] > 900
    assert len(served.sentence) < 400


def test_parts_of_earlier_releases_tell_nothing() -> None:
    assert served_of("answer", [part(Counter({"replies": 30}))]) == []
