"""Builds of all datasets with models that write what is no answer: stopped with one sentence, or left out with a
reason; and with a good one, which loses nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from bad_models import BAD, REFUSALS, SAME, material, replies, said
from endpoint_server import Server, Verdict, server
from model_builds import DATASETS, built, config_of

from flows.builds.building import gate_lines
from flows.cli.shared.verification import check
from flows.expertqa import SAMPLES
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.errors import GateError
from longform.llm.ask.fence import unfenced

pytestmark = pytest.mark.check

__all__ = ["server"]

EMPTY_SAYINGS = "replies are one word, words in no order, the same words over and over, or the prompt"
SAID = {
    "same": "replies repeat that to another question",
    "same-nearly": "replies repeat that to another question",
    "word": EMPTY_SAYINGS,
    "echo-prompt": EMPTY_SAYINGS,
    "echo-question": EMPTY_SAYINGS,
    "source": EMPTY_SAYINGS,
    "loop": EMPTY_SAYINGS,
    "word-loop": EMPTY_SAYINGS,
    "salad": EMPTY_SAYINGS,
    "language": "language: ",
    "fence": "wrapped: ",
    "fence-markdown": "wrapped: ",
    "json": "wrapped: ",
    "fence-json": "wrapped: ",
    "preamble": "wrapped: ",
    "preamble-short": "wrapped: ",
    "preamble-ja": "wrapped: ",
    "plan": "wrapped: ",
    "praise": "wrapped: ",
    "html": "wrapped: ",
}
STAGES = {
    "axioms/corrupt": ("axioms", "corrupt_answers", "same"),
    "axioms/combine": ("axioms", "combine_answers", "loop"),
    "expertqa/closed_book": ("expertqa", "write_closed_book", "word"),
    "expertqa/from_passages": ("expertqa", "write_from_passages", "same"),
    "expertqa/revise": ("expertqa", "revise_answers", "word"),
    "revision_distance/write": ("revision-distance", "write_weak", "echo-question"),
    "revision_distance/recall": ("revision-distance", "recall_knowledge", "same"),
    "revision_distance/segment": ("revision-distance", "write_segments", "word"),
    "revision_distance/related_cot": ("revision-distance", "write_cot", "loop"),
}


def refused(dataset: str, config: Any, home: Path, **options: Any) -> str:
    """The sentence of the build's error; nothing is published."""
    with pytest.raises(GateError) as caught:
        built(dataset, config, home, **options)
    assert caught.value.exit_code == 7
    assert "\n" not in str(caught.value)
    assert not any((home / "datasets").rglob("*.parquet"))
    return str(caught.value)


def rejected(home: Path, version: Version, stage: str) -> dict[str, int]:
    return artifact(Store(home), version, stage).reasons("defect")


def texts(version: Version) -> str:
    files = [path for path in version.folder.rglob("*.parquet") if path.name not in ("audit.parquet",)]
    return json.dumps([pq.read_table(path).to_pylist() for path in files], default=str, ensure_ascii=False)


def gates(version: Version, gate: str) -> list[dict[str, Any]]:
    return [each for each in version.manifest["gates"] if each["gate"] == gate and each["found"]]


# ---------------------------------------------------------------- all replies


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("kind", SAID)
def test_a_model_that_writes_no_answers_at_all_is_stopped(
    kind: str, dataset: str, tmp_path: Path, server: Server
) -> None:
    config = config_of(server, dataset)
    server.fails = replies(server, BAD[kind])
    assert SAID[kind] in refused(dataset, config, tmp_path)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("kind", ["refusal-en", "refusal-ar"])
def test_a_model_that_always_declines_is_stopped(kind: str, dataset: str, tmp_path: Path, server: Server) -> None:
    config = config_of(server, dataset)
    server.fails = replies(server, BAD[kind])
    sentence = refused(dataset, config, tmp_path)
    assert "replies decline" in sentence or "replies of gpt4 abstain (ceiling 80 %)" in sentence
    assert REFUSALS[kind] in sentence


@pytest.mark.parametrize("task", STAGES)
def test_one_stage_that_is_of_no_use_is_enough(task: str, tmp_path: Path, server: Server) -> None:
    dataset, stage, kind = STAGES[task]
    config = config_of(server, dataset)
    server.fails = replies(server, BAD[kind], tasks={task})
    sentence = refused(dataset, config, tmp_path)
    assert sentence.startswith(f"{stage}: ")
    assert SAID[kind] in sentence


# ---------------------------------------------------------------- some replies


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("kind", ["same", "word", "loop", "salad", "language", "preamble-ja"])
def test_a_third_of_bad_replies_is_too_much(kind: str, dataset: str, tmp_path: Path, server: Server) -> None:
    config = config_of(server, dataset)
    server.fails = replies(server, BAD[kind], share=0.35)
    assert re.search(r"^\w+: \d+ of its|was not published", refused(dataset, config, tmp_path))


def test_a_few_bad_replies_are_rejected_rows_and_card_and_verification_say_the_same(
    tmp_path: Path, server: Server
) -> None:
    config = config_of(server, "axioms")
    server.fails = replies(server, BAD["loop"], tasks={"axioms/closed_book"}, share=0.06)
    version = built("axioms", config, tmp_path)
    number = rejected(tmp_path, version, "answer_closed_book")["model: degenerate"]
    assert number >= 1
    assert "It is important to consider" not in texts(version)
    (gate,) = gates(version, "answer_closed_book")
    assert (gate["found"], gate["checked"]) == (number, 33)
    sentence = f"answer_closed_book: {number} of 33 {EMPTY_SAYINGS}"
    assert sentence in (version.folder / "README.md").read_text()
    assert any(line.startswith(sentence) for line in gate_lines(tmp_path, version))
    assert list(check(Store(tmp_path), version)) == []


@pytest.mark.parametrize("dataset", ["expertqa", "revision-distance"])
@pytest.mark.parametrize("kind", ["fence", "json", "preamble"])
def test_wrapped_texts_of_other_datasets_are_left_out_before_anything_is_bought_for_them(
    kind: str, dataset: str, tmp_path: Path, server: Server
) -> None:
    task, stage = {
        "expertqa": ("expertqa/from_passages", "collect_answers"),
        "revision-distance": ("revision_distance/related_vanilla", "collect_drafts"),
    }[dataset]
    config = config_of(server, dataset)
    server.fails = replies(server, BAD[kind], tasks={task})
    assert "wrapped: " in refused(dataset, config, tmp_path)
    version = built(dataset, config, tmp_path, accept=["wrapped", "missing_kinds"])
    left_out = rejected(tmp_path, version, stage)
    assert left_out == {"audit: wrapped": sum(each["found"] for each in gates(version, "wrapped"))}
    assert list(check(Store(tmp_path), version)) == []


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_server_that_calls_itself_the_offline_model_is_audited_like_any_other(
    dataset: str, tmp_path: Path, server: Server
) -> None:
    config = config_of(server, dataset)
    spoil = replies(server, BAD["preamble"])

    def fails(body: dict[str, Any]) -> Verdict | None:
        verdict = spoil(body)
        return verdict and (*verdict[:2], verdict[2].replace(b'"model": "m"', b'"model": "offline-rules-1"'))

    server.fails = fails
    server.names = lambda body: {"model": "offline-rules-1"}
    assert "wrapped: " in refused(dataset, config, tmp_path)


@pytest.mark.parametrize("dataset", ["expertqa", "revision-distance"])
def test_answers_that_break_off_though_the_server_says_they_ended_are_stopped(
    dataset: str, tmp_path: Path, server: Server
) -> None:
    config = config_of(server, dataset)
    server.fails = replies(server, BAD["cut"], share=0.4)
    assert "unfinished: " in refused(dataset, config, tmp_path)


def test_a_draft_that_repeats_its_reference_is_left_out(tmp_path: Path, server: Server) -> None:
    config = config_of(server, "revision-distance")
    references = {
        row["request"]: row["reference"] for row in drafts(built("revision-distance", config, tmp_path / "a"))
    }

    def fails(body: dict[str, Any]) -> Verdict | None:
        task = server.tasks.get(body["messages"][0]["content"].strip())
        request = dict(unfenced(body["messages"][-1]["content"])).get("Writing task", "")
        return said(f"{references[request]}\n=====") if task == "revision_distance/write" else None

    server.fails = fails
    sentence = refused("revision-distance", config, tmp_path / "b")
    assert re.search(r"equal_texts: 26 of (?:39|40) rows", sentence)
    assert '"the draft is the reference"' in sentence


def drafts(version: Version) -> list[dict[str, Any]]:
    return [row for of in version.configs["drafts"] for path in version.files("drafts", of)
            for row in pq.read_table(path).to_pylist()]  # fmt: skip


# ---------------------------------------------------------------- what a method counts


def test_a_system_that_only_abstains_is_stopped_and_published_only_by_a_ceiling_or_if_accepted(
    tmp_path: Path, server: Server
) -> None:
    systems = ["gpt4", "rr_sphere_gpt4", "rr_gs_gpt4"]
    corpora = [json.loads(line)["text"][:40] for line in (SAMPLES / "pages.jsonl").read_text().splitlines()]

    def fails(body: dict[str, Any]) -> Verdict | None:
        of_gs = any(start in text for _, text in unfenced(body["messages"][-1]["content"]) for start in corpora)
        task = server.tasks.get(body["messages"][0]["content"].strip())
        return said("I don't know.\n=====") if of_gs and task == "expertqa/from_passages" else None

    config = config_of(server, "expertqa", systems=systems)
    server.fails = fails
    sentence = refused("expertqa", config, tmp_path)
    assert re.match(
        r"write_from_passages: \d+ of its (?:first )?\d+ replies of rr_gs_gpt4 abstain \(ceiling 80 %\)", sentence
    )
    lenient = config_of(server, "expertqa", systems=systems, ceilings={"abstained": 1.0})
    for version in (
        built("expertqa", lenient, tmp_path, version="v1"),
        built("expertqa", config, tmp_path / "other", accept=["write_from_passages"]),
    ):
        (gate,) = gates(version, "write_from_passages")
        assert gate["found"] == gate["checked"] > 5
        assert gate["what"] == "replies of rr_gs_gpt4 abstain"
        assert (
            f"{gate['found']} of {gate['found']} replies of rr_gs_gpt4 abstain (100 %)"
            in (version.folder / "README.md").read_text()
        )
    assert list(check(Store(tmp_path / "other"), version)) == []


def test_a_reviser_that_leaves_each_answer_as_it_is_is_stopped(tmp_path: Path, server: Server) -> None:
    config = config_of(server, "expertqa")
    server.fails = replies(server, lambda good, prompt: material(prompt), tasks={"expertqa/revise"})
    sentence = refused("expertqa", config, tmp_path)
    assert re.match(
        r"revise_answers: (\d+) of its (?:first )?\1 replies leave the text as it was \(ceiling 90 %\)", sentence
    )


NO_EDIT = {"action_name": "keep", "revision_description": "", "revision_level": "text", "revision_intention": "other"}
EDITS = {
    "none": lambda draft: [],
    "same": lambda draft: [{"original_snippet": draft[:30], "revised_snippet": draft[:30], "preceding_snippet": None}],
    "elsewhere": lambda draft: [
        {"original_snippet": "zeugma quixotic", "revised_snippet": "plain", "preceding_snippet": None}
    ],
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_editor_whose_edits_change_nothing_is_stopped(kind: str, tmp_path: Path, server: Server) -> None:
    config = config_of(server, "revision-distance")

    def fails(body: dict[str, Any]) -> Verdict | None:
        if not server.tasks.get(body["messages"][0]["content"].strip(), "").startswith("revision_distance/edit_"):
            return None
        draft = dict(unfenced(body["messages"][-1]["content"]))["Draft"]
        return said(json.dumps({"edits": [{**NO_EDIT, **each} for each in EDITS[kind](draft)]}) + "\n=====")

    server.fails = fails
    sentence = refused("revision-distance", config, tmp_path)
    assert re.match(r"propose_edits: 2\d of its first 2\d replies leave the text as it was \(ceiling 90 %\)", sentence)


def test_a_system_of_which_no_reply_can_be_used_is_missing(tmp_path: Path, server: Server) -> None:
    config = config_of(server, "expertqa", systems=["gpt4", "rr_gs_gpt4"], ceilings={"unreadable": 1.0})
    server.fails = replies(server, lambda good, prompt: "", tasks={"expertqa/from_passages"})
    assert "missing_kinds: 1 of 2 kinds of rows is gone" in refused("expertqa", config, tmp_path)
    version = built("expertqa", config, tmp_path, accept=["missing_kinds"])
    missing = pq.read_table(version.folder / "audit.parquet").to_pylist()
    assert ("write_from_passages", "rr_gs_gpt4") in {(row["config"], row["key"]) for row in missing}


# ---------------------------------------------------------------- a good model


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_model_that_follows_the_rules_passes_all_gates(dataset: str, tmp_path: Path, server: Server) -> None:
    version = built(dataset, config_of(server, dataset), tmp_path)
    assert not any(gate["share"] > gate["ceiling"] for gate in version.manifest["gates"])
    assert not any(
        reason.startswith("audit: ")
        and reason != "audit: off_topic"  # some passages of the samples are on other things
        for name in version.stages
        for reason in rejected(tmp_path, version, name)
    )
    assert SAME not in texts(version)
    assert list(check(Store(tmp_path), version)) == []
