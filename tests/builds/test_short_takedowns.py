"""Taking down a record of few words: requests that no row names are found by their fenced text, as all calls fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from axioms_builds import Silent, build_axioms
from standin_server import Server, serve

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from flows.cli.shared import takedown_effects as effects
from flows.expertqa import ExpertqaConfig
from longform.artifacts.takedowns import add
from longform.engine.build import Build
from longform.engine.thread_tasks import SequentialStages
from longform.errors import NothingToPublish
from longform.llm.ask.fence import fenced
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.expertqa.answers.answers import QUESTION_CHARACTERS
from tasks.publishing.responses_made_from import WINDOW, words_of
from tasks.sources.permalinks import record_of

pytestmark = pytest.mark.check

DAY = "2026-11-21"
DRAWN = "\n".join(["- | -" * 20] * 100)  # a drawing: longer than any limit, and no letter


@pytest.fixture
def refusing() -> Iterator[Server]:
    with serve(faults={"refusal": 1.0}) as server:
        yield server


def endpoints(server: Server) -> dict[str, Any]:
    return {
        "model": "mine",
        "endpoints": {"mine": {"base_url": server.url, "model": "m", "capabilities": ["json_schema"]}},
    }


def requests(home: Path) -> dict[str, dict[str, Any]]:
    with closing(open_responses(responses(home), read_only=True)) as store:
        return {key: json.loads(record.request) for key, record in store.scan()}


def showing(stored: dict[str, dict[str, Any]], *texts: str) -> set[str]:
    """Keys of requests in which one of the texts is the whole of a fence, or of an embedded text."""
    return {
        key
        for key, asked in stored.items()
        for text in texts
        if any(fenced(text) in output["content"] for output in asked.get("messages", [])) or asked.get("input") == text
    }


def taken_down(home: Path, record: str) -> set[str]:
    """Take the records down, and return the keys of the purged responses."""
    before = requests(home)
    add(home, [(record_of(record), DAY, "asked")])
    purged = effects.purge_responses(home, [record_of(record)])
    gone = before.keys() - requests(home).keys()
    assert len(gone) == purged
    return gone


# ---------------------------------------------------------------- axioms

SITE = "tea.example"
ASKED = {1: ("Is tea bitter?", "I like it mild."), 2: ("Is tea bitter? And is coffee?", "I like it mild."),
         3: ("Is tea a drink?", DRAWN), 4: ("How long does tea keep?", "Write to me@tea.example.")}  # fmt: skip
ANSWERED = {11: (1, 9, "Tea is bitter if hot."), 12: (1, 3, "No."), 21: (2, 9, "Tea is bitter if hot. Coffee is."),
            22: (2, 3, "Never tea."), 31: (3, 9, "Tea is."), 32: (3, 2, f"{'Such and so on ' * 100}\n\nTea ends."),
            41: (4, 9, "Long, tea at me@tea.example does."), 42: (4, 2, "A year.")}  # fmt: skip


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump of questions and answers that all but one have fewer letters than a search window."""
    asked = [post(number, 1, 5, text, Title=title) for number, (title, text) in ASKED.items()]
    expected_message = [
        post(number, 2, votes, text, ParentId=str(of)) for number, (of, votes, text) in ANSWERED.items()
    ]
    folder = tmp_path / SITE
    folder.mkdir()
    rows = "\n".join([*asked, *expected_message])
    (folder / "Posts.xml").write_text(f'<?xml version="1.0" encoding="utf-8"?>\n<posts>\n{rows}\n</posts>\n')
    return folder


def post(number: int, kind: int, votes: int, text: str, **given: str) -> str:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in text.split("\n\n"))
    body = f"<pre><code>{DRAWN}</code></pre>" if text == DRAWN else body
    day = {"CreationDate": "2020-01-01T00:00:00.000", "OwnerUserId": str(number), "Tags": "|tea|" if kind == 1 else ""}
    fields = {"Id": str(number), "PostTypeId": str(kind), "Score": str(votes), "Body": body, **day, **given}
    return "<row " + " ".join(f"{name}={quoteattr(value)}" for name, value in fields.items()) + " />"


def axioms(home: Path, server: Server, dump: Path) -> None:
    accept = [*AxiomsConfig.MODEL_STAGES, "missing_kinds"]
    build_axioms(home, dump=str(dump), embedding="mine", passage_words=100, accept=accept, **endpoints(server))


def drawn() -> str:
    return f"{ASKED[3][0]}\n\n" + "\n".join(["```", DRAWN, "```"])


QUESTIONS_SHOWN = {
    1: ("Is tea bitter?\n\nI like it mild.", "Is tea bitter?\nI like it mild."),
    3: (drawn(), drawn().replace("\n\n", "\n", 1)[: len(ASKED[3][0]) + 1 + 400]),
    4: ("How long does tea keep?\n\nWrite to [mail].", "How long does tea keep?\nWrite to [mail]."),
}


@pytest.mark.parametrize("number", QUESTIONS_SHOWN)
def test_a_question_of_a_few_words_goes_with_its_refused_answers_and_no_others(
    number: int, tmp_path: Path, dump: Path, refusing: Server
) -> None:
    """Also where the question is cut or scrubbed before it is asked."""
    axioms(tmp_path / "home", refusing, dump)
    shown = showing(requests(tmp_path / "home"), *QUESTIONS_SHOWN[number])
    assert len(shown) >= 4  # open-book, closed-book, combined, embedded
    assert taken_down(tmp_path / "home", f"{SITE}/{number}") == shown


ANSWERS_SHOWN = {
    11: ("Tea is bitter if hot.",),
    12: ("No.",),
    41: ("Long, tea at [mail] does.",),
}


@pytest.mark.parametrize("number", ANSWERS_SHOWN)
def test_an_answer_of_a_few_words_goes_where_it_was_combined_or_a_passage(
    number: int, tmp_path: Path, dump: Path, refusing: Server
) -> None:
    axioms(tmp_path / "home", refusing, dump)
    shown = showing(requests(tmp_path / "home"), *ANSWERS_SHOWN[number])
    assert shown
    assert taken_down(tmp_path / "home", f"{SITE}/{number}") == shown
    assert all(len(words_of(text)) < WINDOW for text in ANSWERS_SHOWN[number])


def test_a_short_passage_of_a_long_answer_goes_too(tmp_path: Path, dump: Path, refusing: Server) -> None:
    axioms(tmp_path / "home", refusing, dump)
    shown = showing(requests(tmp_path / "home"), "Tea ends.")
    assert shown
    assert shown <= taken_down(tmp_path / "home", f"{SITE}/32")


# ---------------------------------------------------------------- expertqa

TEA = "Why does tea turn bitter?"
BANK = [TEA, f"{TEA} And why coffee?", f"Is this tea?\n{DRAWN}"]
CORPUS = {"tea": "Tea turns bitter if hot.", "tea/cold": "Tea turns bitter if hot. Not if it is cold.",
          "coffee": "Coffee turns bitter in time."}  # fmt: skip
SAID = {TEA: "It turns bitter by heat[^1^]. So take your time[^1^].",
        BANK[1]: "Both turn bitter by heat[^1^]. It is so by itself[^2^]."}  # fmt: skip


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    """Questions, a corpus and imported answers of few words each."""
    documents = [{"url": f"https://corpus.example/{name}", "text": text} for name, text in CORPUS.items()]
    kinds = {"field": "Culinary Arts", "question_types": ["I"]}
    answers = [
        {"question": question, "answer_string": text, "attribution": [f"[{n}] https://x.example/{n}" for n in (1, 2)]}
        for question, text in SAID.items()
    ]
    tables: dict[str, list[dict[str, Any]]] = {
        "questions": [{"question": text, **kinds} for text in BANK],
        "corpus": documents,
        "pages": documents[2:],
        "commercial": answers,
    }
    files = {name: tmp_path / f"{name}.jsonl" for name in tables}
    for name, rows in tables.items():
        files[name].write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {name: str(path) for name, path in files.items()}


def expertqa(home: Path, server: Server, sources: dict[str, str], **settings: Any) -> Build | None:
    config = ExpertqaConfig.model_validate({**sources, **endpoints(server), **settings})
    try:
        options = Options(home, "v1", accept=[*ExpertqaConfig.MODEL_STAGES, "missing_kinds"])
        return build("expertqa", config, options, tasks=SequentialStages(), progress=Silent())[1]
    except NothingToPublish:
        return None


def test_a_question_to_experts_goes_with_its_refused_answers_and_no_others(
    tmp_path: Path, sources: dict[str, str], refusing: Server
) -> None:
    home = tmp_path / "home"
    expertqa(home, refusing, sources, commercial=[], backend="dense", embedding="mine")
    (gone,) = [one for one in questions(home) if one["question"] == TEA]
    shown = showing(requests(home), TEA)
    assert len(shown) >= 4  # from memory, from each of two corpora, embedded
    assert taken_down(home, gone["question_id"]) == shown


def test_a_question_that_is_cut_goes_too(tmp_path: Path, sources: dict[str, str], refusing: Server) -> None:
    home = tmp_path / "home"
    expertqa(home, refusing, sources, commercial=[])
    (gone,) = [one for one in questions(home) if one["question"] == BANK[2]]
    shown = showing(requests(home), BANK[2][:QUESTION_CHARACTERS])
    assert shown
    assert not showing(requests(home), BANK[2])
    assert taken_down(home, gone["question_id"]) == shown


def test_the_refused_claims_of_an_answer_go_with_its_question(
    tmp_path: Path, sources: dict[str, str], refusing: Server
) -> None:
    home = tmp_path / "home"
    expertqa(home, refusing, sources, systems=[])
    (gone,) = [one for one in questions(home) if one["question"] == TEA]
    claims = ("It turns bitter by heat.", "So take your time.")
    shown = showing(requests(home), TEA, *claims)
    assert len(shown) >= len(claims)
    assert taken_down(home, gone["question_id"]) == shown
    assert showing(requests(home), "Both turn bitter by heat.")


def test_a_page_of_a_few_words_goes_with_the_refused_answers_that_read_it_and_no_others(
    tmp_path: Path, sources: dict[str, str], refusing: Server
) -> None:
    home = tmp_path / "home"
    expertqa(home, refusing, sources, commercial=[], backend="dense", embedding="mine", passages=1)
    shown = showing(requests(home), CORPUS["tea"])
    assert len(shown) >= 2  # embedded and read
    assert taken_down(home, "https://corpus.example/tea") == shown
    assert showing(requests(home), CORPUS["tea/cold"])


def test_a_claim_goes_whose_evidence_is_of_several_pages_asked_as_one(
    tmp_path: Path, sources: dict[str, str], refusing: Server
) -> None:
    home, first, second = tmp_path / "home", "[1] https://x.example/1\n\nBy heat.", "[2] https://x.example/2\n\nNo."
    claims = [
        {"claim_string": "It turns bitter by heat [1][2].", "evidence": [first, second]},
        {"claim_string": "It is cold [2].", "evidence": [second]},
    ]
    answer = {"answer_string": "It turns bitter by heat [1][2]. It is cold [2].", "attribution": [], "claims": claims}
    Path(sources["questions"]).write_text(json.dumps({"question": TEA, "answers": {"bing_chat": answer}}))
    expertqa(home, refusing, sources, commercial=[], systems=[], autoais="model")
    stored = requests(home)
    shown, alone = showing(stored, "By heat.\n\nNo."), showing(stored, "No.")
    assert len(shown) == len(alone) == 1
    gone = taken_down(home, "https://x.example/1")
    assert gone == showing(stored, "It turns bitter by heat.", "It turns bitter by heat [1][2].") >= shown
    assert not alone & gone


def questions(home: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    files = sorted(home.glob("stages/read_questions/parts/[!.]*/rows.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]
