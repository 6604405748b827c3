"""The distance of one text: by the offline editor, by one that says what it is told, and beside ROUGE."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paths
import pytest
from http_server import Answer, Asked, document, serve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offline_rules import RULES

from longform.errors import Incomplete, LongformError, UsageError
from longform.llm.ask.types import Endpoint, Price
from longform.llm.client import Client
from longform.llm.models import Models
from longform.llm.offline import ENDPOINT, MODEL
from tasks.revision_distance import distance
from tasks.revision_distance.drafts.categories import category
from tasks.text.words import UNSEEN

ROOT = paths.ROOT
ORIGINAL = "First, Marten et al. (2014) proposed a parser. Second, Brook et al. (2016) proposed a tagger."
REORDERED = "First, Brook et al. (2016) proposed a tagger. Second, Marten et al. (2014) proposed a parser."


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    with Models(tmp_path_factory.mktemp("models") / "responses.sqlite", offline=RULES) as opened:
        yield opened


@pytest.fixture(scope="module")
def offline(models: Models) -> Client:
    return models.client(Endpoint(name="offline", model=MODEL))


def rouge(draft: str, reference: str) -> dict[str, float]:
    from rouge_score.rouge_scorer import RougeScorer

    scores = RougeScorer(["rouge1", "rouge2"]).score(reference, draft)
    return {kind: 100 * score.fmeasure for kind, score in scores.items()}


def test_a_reordered_paragraph_costs_edits_although_rouge_sees_none(offline: Client):
    found = distance(REORDERED, ORIGINAL, offline)
    assert rouge(REORDERED, ORIGINAL)["rouge1"] == 100.0
    assert found.distance == len(found.edits) >= 1
    assert "order" in {category(each.edit) for each in found.edits}
    assert found.reproduces == "exactly"
    assert found.revised == ORIGINAL


def test_all_pairs_that_differ_in_order_only(offline: Client):
    lines = (ROOT / "data/samples/revision_distance/structure.jsonl").read_text().splitlines()
    for pair in map(json.loads, lines):
        found = distance(pair["reordered"], pair["original"], offline)
        assert rouge(pair["reordered"], pair["original"])["rouge1"] == 100.0
        assert found.distance > 0
        assert found.reproduces == "exactly"
        assert "order" in {category(each.edit) for each in found.edits}


def test_a_text_that_is_its_reference_is_at_no_distance(offline: Client):
    found = distance(ORIGINAL, ORIGINAL, offline)
    assert (found.distance, found.weighted, found.edits, found.reproduces) == (0, 0.0, [], "exactly")
    assert (found.revised, found.model) == (ORIGINAL, MODEL)


def planted(sentences: list[str], places: list[int]) -> str:
    """A change at each of these places: another word, a sentence more or one less."""
    out = list(sentences)
    for order, at in enumerate(places):
        changes = (out[at].replace("river", "valley"), "", f"{out[at]} Nobody foresaw case {at} of this kind.")
        out[at] = changes[order % 3]
    return " ".join(filter(None, out))


SENTENCES = [f"Report {n} says that the river rose by {n * 7} feet near village {n * 13}." for n in range(40)]


@pytest.mark.parametrize("number", range(11))
def test_so_many_planted_changes_so_great_a_distance(number: int, offline: Client):
    draft = planted(SENTENCES, [3 + 3 * at for at in range(number)])
    found = distance(draft, " ".join(SENTENCES), offline)
    assert (found.distance, found.not_applied, found.reproduces) == (number, 0, "exactly")


WORDS = st.sampled_from(["tea", "milk", "the", "a", "is", "was", "hot", "cup", "2014", "Lee", "et al.", "(2016)"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
TEXT = st.lists(SENTENCE, max_size=7).map(" ".join)


@given(TEXT | st.text(max_size=60), TEXT | st.text(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_offline_editors_edits_make_the_reference(offline: Client, draft: str, reference: str):
    found = distance(draft, reference, offline)
    assert found.reproduces in ("exactly", "words")
    assert found.revised.translate(UNSEEN).split() == reference.translate(UNSEEN).split()
    assert found.not_applied == 0


def test_without_a_reference_the_request_is_what_the_draft_was_to_be(offline: Client):
    found = distance("Dear neighbour, I hope this finds you well. water the tomatos", None, offline, request="A note.")
    assert found.reproduces is None
    assert found.distance == len(found.edits)


def test_five_thousand_words_take_less_than_a_second(offline: Client):
    reference = " ".join(f"In year {n} the {n * 31} boats of harbour {n * 17} went out." for n in range(500))
    draft = planted(reference.split(". "), list(range(5, 495, 10))).replace(" boats", " ships", 40)
    distance("Tea.", "Milk.", offline)
    began = time.process_time()
    found = distance(draft, reference, offline)
    assert time.process_time() - began < 1
    assert found.reproduces in ("exactly", "words")


def test_the_weights_are_by_intention(offline: Client):
    one, two = "Tea is picked by hand.", "Mills grind in autumn."
    told = distance(f"{one} {two}", f"{two} {one}", offline, weights={"coherence": 0.25})
    assert (told.distance, told.weighted) == (1, 0.25)
    with pytest.raises(UsageError, match="no intention coherance"):
        distance(REORDERED, ORIGINAL, offline, weights={"coherance": 1.0})
    with pytest.raises(UsageError, match="weight of style is -1"):
        distance(REORDERED, ORIGINAL, offline, weights={"style": -1.0})


# ---------------------------------------------------------------- a model that says what it is told


@contextmanager
def said(tmp_path: Path, text: str | int, asked: list[str]) -> Iterator[Client]:
    """A client of a server that answers every question with this text, or with this status; `asked` gets the bodies."""

    def reply(request: Asked) -> Answer:
        asked.append(request.body.decode())
        if isinstance(text, int):
            return document({"error": {"message": "no"}}, text)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return document({"choices": [choice], "model": "served-1", "usage": {}})

    with serve() as server, Models(tmp_path / "responses.sqlite", first_pause_seconds=0.0) as models:
        server.on("*", reply)
        yield models.client(Endpoint("mine", "m", base_url=f"{server.url}/v1", price=Price(0, 0)))


EDITS = {
    "edits": [
        {
            "action_name": "reorder",
            "revision_description": "The older work first.",
            "revision_level": "reference",
            "revision_intention": "coherence",
            "original_snippet": "Second, Marten et al. (2014) proposed a parser.",
            "revised_snippet": "First, Marten et al. (2014) proposed a parser.",
            "preceding_snippet": "",
        },
        {
            "action_name": "adjust",
            "revision_description": "It is second now.",
            "revision_level": "word",
            "revision_intention": "fluency",
            "original_snippet": "First",
            "revised_snippet": "Second",
            "preceding_snippet": None,
        },
        {
            "action_name": "add",
            "revision_description": "What the draft does not have.",
            "revision_level": "sentence",
            "revision_intention": "STYLE",
            "original_snippet": "no such words",
            "revised_snippet": "",
            "preceding_snippet": None,
        },
    ]
}


def test_what_a_model_lists(tmp_path: Path):
    asked: list[str] = []
    with said(tmp_path, json.dumps(EDITS) + "\n=====", asked) as client:
        found = distance(REORDERED, ORIGINAL, client)
        again = distance(REORDERED, ORIGINAL, client)
    assert found == again
    assert len(asked) == 1
    assert "Brook et al. (2016)" in asked[0]
    assert (found.distance, found.weighted, found.not_placed, found.not_applied) == (3, 2.0, 1, 1)
    assert found.revised == ORIGINAL
    assert (found.reproduces, found.model, len(found.response)) == ("exactly", "served-1", 64)
    assert [each.edit.model_dump() for each in found.edits][:2] == EDITS["edits"][:2]


def test_a_reply_that_is_no_list_says_so(tmp_path: Path):
    asked: list[str] = []
    with said(tmp_path, "I like this draft.", asked) as client, pytest.raises(LongformError) as raised:
        distance(REORDERED, ORIGINAL, client)
    message = str(raised.value)
    assert "no list of edits: invalid" in message
    assert 'It said: "I like this draft."' in message
    assert "\n" not in message


def test_a_server_that_is_down_is_no_distance(tmp_path: Path):
    with said(tmp_path, 503, []) as client, pytest.raises(Incomplete):
        distance(REORDERED, ORIGINAL, client)


def test_the_offline_endpoint_by_name_is_the_offline_endpoint(models: Models, offline: Client):
    assert distance(REORDERED, ORIGINAL, models.client(ENDPOINT)) == distance(REORDERED, ORIGINAL, offline)
