"""Builds whose model now and then writes what is no answer: what is left out, refused, accepted, and found again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from bad_models import german
from endpoint_server import Server, server
from model_builds import built, config_of
from offline_rules import respond

from flows.builds.building import gate_lines
from flows.cli.shared.verification import check
from flows.registry import audits_of, config_class
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.errors import GateError
from longform.llm.ask.types import Request
from tasks.publishing.audits import worse_than_published

pytestmark = pytest.mark.check

__all__ = ["server"]

GERMAN = (
    "Die Fässer lagern bei zwölf Grad in einem Keller unter dem Brauhaus, und der Braumeister prüft jeden Morgen, ob "
    "die Hefe noch arbeitet. Wer das Bier zu früh abfüllt, verliert einen großen Teil des Geschmacks."
)
IN_GERMAN = "liegt bei zwölf Grad im"
PREAMBLE = "Sure! Here is the answer:\n\n"
END = "\n====="
BAD: dict[str, tuple[str, Callable[[str], str]]] = {
    "language": ("language", lambda text: in_german(text)),
    "preamble": ("wrapped", lambda text: PREAMBLE + text),
    "fence": ("wrapped", lambda text: f"```markdown\n{text}\n```"),
    "json": ("wrapped", lambda text: json.dumps({"answer": text})),
}


def in_german(text: str) -> str:
    """German prose, another one for each text."""
    return german(text)


def spoils(server: Server, task: str, change: Callable[[str], str], share: float) -> Callable[[dict[str, Any]], Any]:
    """For `fails`: the replies to this share of the questions of a task, changed."""

    def fails(body: dict[str, Any]) -> Any:
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        own = server.tasks.get(messages[0][1].strip())
        if own != task or hashlib.sha256(messages[-1][1].encode()).digest()[0] >= 256 * share:
            return None
        text = respond(Request(messages, task=own))[0].partition(END)[0]
        choice = {"index": 0, "message": {"role": "assistant", "content": change(text) + END}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return 200, {}, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()

    return fails


def build(home: Path, server: Server, **settings: Any) -> Version:
    endpoint = {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m", "concurrency": 8}
    version, _, _ = build_axioms(home, model="mine", endpoints={"mine": endpoint}, **settings)
    assert version is not None
    return version


def findings(version: Version) -> list[dict[str, Any]]:
    """What was found, but for answers that the rules put together from passages on something else."""
    rows = pq.read_table(version.folder / "audit.parquet").to_pylist()
    return [row for row in rows if row["audit"] != "off_topic"]


def gate(version: Version, name: str) -> dict[str, Any]:
    return next(each for each in version.manifest["gates"] if each["gate"] == name)


def pairs(version: Version) -> pa.Table:
    return pa.concat_tables(
        [pq.read_table(path) for of in version.configs["pairs"] for path in version.files("pairs", of)]
    )


def test_what_a_model_writes_by_the_rules_is_found_nowhere(tmp_path: Path, server: Server) -> None:
    version = build(tmp_path, server)
    assert findings(version) == []
    assert gate(version, "language")["checked"] > 100
    assert list(check(Store(tmp_path), version)) == []


@pytest.mark.parametrize("kind", BAD)
def test_a_few_texts_that_are_no_answers_are_left_out(kind: str, tmp_path: Path, server: Server) -> None:
    audit, change = BAD[kind]
    server.fails = spoils(server, "axioms/closed_book", change, 0.05)
    version = build(tmp_path, server)
    found = findings(version)
    assert found
    assert {(row["audit"], row["config"]) for row in found} == {(audit, "pairs")}
    assert gate(version, audit)["found"] == len(found)
    assert 0 < gate(version, audit)["share"] <= 0.05
    left_out = artifact(Store(tmp_path), version, "assemble_pairs").reasons("defect")
    assert left_out[f"audit: {audit}"] == len(found)
    assert not {row["key"] for row in found} & set(pairs(version)["pair_id"].to_pylist())
    sentence = f"{audit}: {len(found)} of {gate(version, audit)['checked']} rows"
    assert sentence in (version.folder / "README.md").read_text()
    assert any(line.startswith(sentence) for line in gate_lines(tmp_path, version))
    assert list(check(Store(tmp_path), version)) == []


@pytest.mark.parametrize("kind", BAD)
def test_many_texts_that_are_no_answers_are_refused_and_published_only_if_accepted(
    kind: str, tmp_path: Path, server: Server
) -> None:
    audit, change = BAD[kind]
    server.fails = spoils(server, "axioms/closed_book", change, 0.6)
    with pytest.raises(GateError, match=rf"axioms was not published: {audit}: .* ceiling 5 %, e\.g\. p_\w+") as caught:
        build(tmp_path, server)
    assert caught.value.exit_code == 7
    assert f"--accept {audit}" in str(caught.value)
    asked = server.bodies.total()
    version = build(tmp_path, server, accept=[audit])
    assert server.bodies.total() == asked
    assert gate(version, audit)["accepted"]
    assert not any(IN_GERMAN in text for side in ("preferred", "rejected") for text in pairs(version)[side].to_pylist())


def test_a_kind_of_pair_that_an_audit_leaves_out_wholly_is_missing(tmp_path: Path, server: Server) -> None:
    server.fails = spoils(server, "axioms/closed_book", in_german, 1.0)
    with pytest.raises(GateError, match="missing_kinds: 2 of 6 kinds of rows are gone"):
        build(tmp_path, server, accept=["language"], msmarco=[])
    version = build(tmp_path, server, accept=["language", "missing_kinds"], msmarco=[])
    missing = {row["key"] for row in findings(version) if row["audit"] == "missing_kinds"}
    assert missing == {"open_book > closed_book", "closed_book > corrupted"}
    assert missing & set(pairs(version)["pair_type"].to_pylist()) == set()
    assert list(check(Store(tmp_path), version)) == []


def test_a_combined_answer_that_is_one_of_its_parents_is_no_pair(tmp_path: Path, server: Server) -> None:
    clean = build(tmp_path / "clean", server)
    human = {}
    for row in pairs(clean).to_pylist():
        for side in ("preferred", "rejected"):
            human[row[f"{side}_id"]] = row[side]
    combined = {
        row["preferred"]: human[row["preferred_parent_ids"][0]].upper()
        for row in pairs(clean).to_pylist()
        if row["preferred_source"] == "combined"
    }
    server.fails = spoils(server, "axioms/combine", lambda text: combined.get(text.strip(), text), 1.0)
    with pytest.raises(GateError, match=r"equal_texts: \d+ of \d+ rows .* the same as a text it was made from"):
        build(tmp_path / "bad", server)


def test_posts_that_repeat_each_other_are_no_pair_and_never_in_the_way(tmp_path: Path) -> None:
    dump = tmp_path / "tea.stackexchange.com" / "Posts.xml"
    dump.parent.mkdir()
    body = "&lt;p&gt;Green tea is steeped at {0} degrees for two minutes.&lt;/p&gt;"
    posts = [
        '<row Id="1" PostTypeId="1" Score="5" Title="How is green tea steeped?" Tags="&lt;tea&gt;" AnswerCount="3" '
        'CreationDate="2012-01-01T00:00:00.000" OwnerUserId="1" Body="&lt;p&gt;I have never done it.&lt;/p&gt;" />'
    ]
    for key, score, text in (
        (2, 9, body.format(70)),
        (3, 4, body.format(70).upper().replace("&LT;P&GT;", "&lt;p&gt;").replace("&LT;/P&GT;", "&lt;/p&gt;")),
        (4, 1, body.format(90)),
    ):
        posts.append(
            f'<row Id="{key}" PostTypeId="2" ParentId="1" Score="{score}" CreationDate="2012-01-02T00:00:00.000" '
            f'OwnerUserId="{key}" Body="{text}" />'
        )
    dump.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n<posts>\n{chr(10).join(posts)}\n</posts>\n')
    version, _, _ = build_axioms(tmp_path / "home", dump=str(dump))
    assert version is not None
    found = [row["audit"] for row in findings(version)]
    assert found == ["equal_posts"]
    by_votes = [row for row in pairs(version).to_pylist() if row["axiom"] == 0]
    assert sorted((row["preferred_votes"], row["rejected_votes"]) for row in by_votes) == [(4, 1), (9, 1)]


def test_what_is_smuggled_into_a_published_version_is_found(tmp_path: Path, server: Server) -> None:
    version = build(tmp_path, server)
    store = Store(tmp_path)
    artifacts = [artifact(store, version, name) for name in version.stages]
    (path, *_) = version.files("pairs", "train")
    kept = path.with_suffix(".kept")
    shutil.copy(path, kept)
    table = pq.read_table(path)
    at = table["pair_type"].to_pylist().index("open_book > closed_book")
    key = table["pair_id"][at].as_py()
    smuggled = {
        "language": GERMAN,
        "wrapped": PREAMBLE + "Tea is steeped at 70 degrees.",
        "equal_texts": table["preferred"][at].as_py(),
        "refusal": "I'm sorry, but I can't help with that request.",
    }
    for audit, text in smuggled.items():
        texts = table["rejected"].to_pylist()
        texts[at] = text
        pq.write_table(table.set_column(table.schema.names.index("rejected"), "rejected", pa.array(texts)), path)
        told = list(worse_than_published(store, version, artifacts, audits_of("axioms")))
        assert any(line.startswith(f"{audit}: {key} of pairs train") for line in told), told
        assert {line.partition(":")[0] for line in told} <= {audit, "off_topic"}, "nor does it answer the question"
    shutil.move(kept, path)
    assert list(worse_than_published(store, version, artifacts, audits_of("axioms"))) == []


# ---------------------------------------------------------------- the other datasets


def expertqa(server: Server) -> Any:
    return config_of(server, "expertqa", limit=6)


def revision(server: Server) -> Any:
    return config_of(server, "revision-distance", limit=3)


def test_answers_to_other_questions_are_refused(tmp_path: Path, server: Server) -> None:
    """A server that gives each answer to the caller after it, as one that mixes up its connections does."""
    kept: dict[str, list[str]] = {}

    def fails(body: dict[str, Any]) -> Any:
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        if server.tasks.get(messages[0][1].strip()) != "expertqa/closed_book":
            return None
        kept.setdefault("texts", []).append(respond(Request(messages, task="expertqa/closed_book"))[0])
        text = kept["texts"][-2 if len(kept["texts"]) > 1 else -1]
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return 200, {}, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()

    server.fails = fails
    with pytest.raises(GateError, match=r"off_topic: \d+ of \d+ rows"):
        built("expertqa", expertqa(server), tmp_path)


CASES = {
    "expertqa": (expertqa, "expertqa/from_passages", "collect_answers"),
    "revision-distance": (revision, "revision_distance/related_vanilla", "collect_drafts"),
}


@pytest.mark.parametrize("dataset", CASES)
def test_the_other_datasets_leave_out_what_is_no_answer(dataset: str, tmp_path: Path, server: Server) -> None:
    settings, task, stage = CASES[dataset]
    config = settings(server)
    clean = built(dataset, config, tmp_path / "clean")
    assert [row for row in findings(clean) if row["audit"] != "missing_kinds"] == []
    assert list(check(Store(tmp_path / "clean"), clean)) == []
    server.fails = spoils(server, task, in_german, 1.0)
    with pytest.raises(GateError, match=r"language: \d+ of \d+ rows") as caught:
        built(dataset, config, tmp_path / "bad")
    assert "missing_kinds: " in str(caught.value)
    version = built(dataset, config, tmp_path / "bad", accept=["language", "missing_kinds"])
    left_out = artifact(Store(tmp_path / "bad"), version, stage).reasons("defect")
    assert left_out["audit: language"] == gate(version, "language")["found"]
    texts = [json.dumps(pq.read_table(path).to_pylist(), default=str) for path in version.folder.rglob("*.parquet")]
    assert not any(IN_GERMAN in text for text in texts)
    assert list(check(Store(tmp_path / "bad"), version)) == []


@pytest.mark.parametrize("dataset", ["axioms", "expertqa", "revision-distance"])
def test_offline_builds_of_the_samples_lose_nothing(dataset: str, tmp_path: Path) -> None:
    version = built(dataset, config_class(dataset)(), tmp_path)
    told = (
        {"silent_editor"} if dataset == "revision-distance" else set()
    )  # of a text that needs no edit, if one says so
    assert {row["audit"] for row in findings(version)} == told
