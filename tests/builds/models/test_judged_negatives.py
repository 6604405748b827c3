"""Builds whose hard negatives are judged: what is left out, what it costs, what a takedown takes."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from endpoint_server import Server, Verdict, says, server

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, declare, plan
from flows.cli.shared import takedown_effects as effects
from flows.config.endpoints import EndpointConfig, PriceConfig, endpoints_used
from flows.config.prompts import PROMPTS
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version, artifact
from longform.errors import GateError, UsageError
from longform.llm.ask.fence import fenced, unfenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.responses.store import open_responses
from longform.settings import responses

pytestmark = pytest.mark.check

__all__ = ["server"]

SYSTEM = load_prompt("axioms/judge_negative", PROMPTS).system.strip()
SITE = "community.example"
Judge = Callable[[str, str], str]  # (question, answer) -> what the judge writes


def byte_of(question: str, answer: str) -> int:
    return hashlib.sha256(f"{question}\0{answer}".encode()).digest()[0]


def by_hash(question: str, answer: str) -> str:
    """Yes to a quarter, nothing that can be read on some, no to the others."""
    byte = byte_of(question, answer)
    return "<verdict>yes</verdict>" if byte < 64 else "Perhaps." if byte < 72 else "<verdict>No.</verdict>"


def judging(judge: Judge) -> Callable[[dict[str, Any]], Verdict | None]:
    """For `fails`: the replies to the judge's prompt; the rules answer the others."""

    def reply(body: dict[str, Any]) -> Verdict | None:
        if body["messages"][0]["content"].strip() != SYSTEM:
            return None
        shown = dict(unfenced(body["messages"][1]["content"]))
        return says(f"{judge(shown['Question'], shown['Answer'])}\n=====")(body)

    return reply


def endpoint(server: Server, **more: Any) -> EndpointConfig:
    return EndpointConfig(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", model="m", **more)


def judged(home: Path, server: Server, version: str = "judged", **settings: Any) -> Version:
    """Built with the judge behind the server; the offline model writes the answers."""
    made, _, _ = build_axioms(home, version, negatives_judge="judge", endpoints={"judge": endpoint(server)}, **settings)
    assert made is not None
    return made


def rows_of(home: Path, version: Version, stage: str, file: str = "rows") -> list[dict[str, Any]]:
    store = Store(home)
    folders = [store.rows_path(part).parent for part in artifact(store, version, stage).parts]
    return [
        row
        for folder in folders
        if (folder / f"{file}.parquet").exists()
        for row in pq.read_table(folder / f"{file}.parquet").to_pylist()
    ]


def related_pairs(version: Version) -> dict[tuple[str, str], tuple[str, str]]:
    """(question, rejected) -> (id, preferred) of each published pair of axiom 1."""
    tables = [pq.read_table(path) for split in version.configs["pairs"] for path in version.files("pairs", split)]
    return {
        (row["question_id"], row["rejected_id"]): (row["pair_id"], row["preferred_id"])
        for table in tables
        for row in table.to_pylist()
        if row["axiom"] == 1
    }


def texts(home: Path, version: Version) -> dict[str, str]:
    """id -> the text of each question as it is asked, and of each answer."""
    posts = rows_of(home, version, "scrub_posts")
    return {
        row["post_id"]: f"{row['title']}\n\n{row['text']}" if row["title"] is not None else row["text"] for row in posts
    }


def drawn(home: Path, version: Version) -> list[tuple[str, str]]:
    """(question, answer) of each hard negative that was drawn."""
    related = rows_of(home, version, "find_related")
    return [(row["question_id"], negative["answer_id"]) for row in related for negative in row["negatives"]]


def reported(version: Version, title: str, site: str) -> list[str]:
    """The cells of the row of a site in a table of the report."""
    report = (version.folder / "report.html").read_text()
    table = report[report.rindex(title) :].partition("</table>")[0]
    row = next(row for row in table.split("<tr")[1:] if site in row)
    return [re.sub("<[^>]*>", " ", cell).split(">", 1)[-1].strip() for cell in re.split("<t[dh]", row)[1:]]


def test_what_answers_after_all_is_in_no_pair_and_all_others_stay_as_they_were(tmp_path: Path, server: Server) -> None:
    plain, _, _ = build_axioms(tmp_path, "plain")
    assert plain is not None
    shown = texts(tmp_path, plain)
    first = min(question for question, _ in drawn(tmp_path, plain))

    def judge(question: str, answer: str) -> str:
        return "<verdict>yes</verdict>" if question == shown[first] else by_hash(question, answer)

    server.fails = judging(judge)
    version = judged(tmp_path, server)
    before = related_pairs(plain)
    said = {pair: judge(shown[pair[0]], shown[pair[1]]) for pair in drawn(tmp_path, version)}
    counts = Counter(re.sub(r"<.*?>|\.", "", text).lower() for text in said.values())
    assert min(counts["yes"], counts["no"], counts["perhaps"]) > 10

    verdicts = rows_of(tmp_path, version, "judge_negatives")
    readable = {pair: "yes" in text for pair, text in said.items() if "verdict" in text}
    assert {(row["question_id"], row["answer_id"]): row["answers"] for row in verdicts} == readable
    related_to = {
        (row["question_id"], each["answer_id"]): each["question_id"]
        for row in rows_of(tmp_path, version, "find_related")
        for each in row["negatives"]
    }
    for row in verdicts:
        assert row["verdict_id"] == f"{row['question_id']} {row['answer_id']}"
        assert row["related_question_id"] == related_to[row["question_id"], row["answer_id"]]
        assert (row["score"], row["endpoint"], row["prompt"]) == (None, "judge", "axioms/judge_negative")
    rejected = rows_of(tmp_path, version, "judge_negatives", "rejected")
    assert {row["key"] for row in rejected} == {" ".join(pair) for pair in said if pair not in readable}
    assert {row["kind"] for row in rejected} == {"defect"}

    kept = {pair for pair, answers in readable.items() if not answers}
    assert related_pairs(version) == {pair: found for pair, found in before.items() if pair in kept}
    assert set(before) == set(said)
    lost = {pair[0] for pair in said} - {pair[0] for pair in kept}
    assert first in lost
    assert artifact(Store(tmp_path), version, "keep_negatives").reasons("filtered") == {
        "each hard negative answers it after all, or was not judged": len(lost)
    }

    share = 100 * counts["yes"] / len(readable)
    numbers = [len(said), len(readable), counts["yes"], None, counts["perhaps"]]
    numbers += [len({pair[0] for pair in said}), len(lost), len(before), len(kept)]
    wanted = [f"{share:.2f}" if number is None else f"{number:,}" for number in numbers]
    assert reported(version, "Judged negatives", SITE) == [SITE, *wanted]
    assert "Judged negatives" not in (version.folder / "README.md").read_text()
    assert set(server.bodies.values()) == {1}


def test_without_a_judge_there_is_no_such_stage_and_no_table(tmp_path: Path) -> None:
    version, _, _ = build_axioms(tmp_path)
    assert version is not None
    assert not {"judge_negatives", "keep_negatives"} & set(version.stages)
    assert "Judged negatives" not in (version.folder / "report.html").read_text()


def test_the_offline_model_judges_and_all_that_does_not_depend_on_it_is_reused(tmp_path: Path) -> None:
    build_axioms(tmp_path, "plain")
    version, progress, _ = build_axioms(tmp_path, "judged", negatives_judge="offline")
    assert version is not None
    assert list(progress.begun) == [
        *("judge_negatives", "keep_negatives", "pair_with_related", "assemble_pairs"),
        *("pair_for_validation", "assemble_validation_pairs", "rank_held_out", "list_evaluation_texts"),
        *("decontaminate", "sample_validation"),
        *("view_as_chats", "draw_one_a_question", "view_as_texts"),
    ]
    verdicts = rows_of(tmp_path, version, "judge_negatives")
    answering = {(row["question_id"], row["answer_id"]) for row in verdicts if row["answers"]}
    assert answering
    assert {row["model"] for row in verdicts} == {"offline-rules-1"}
    assert {(row["question_id"], row["answer_id"]) for row in verdicts} - answering == set(related_pairs(version))


def test_every_negative_with_all_answers_counts_every_pair(tmp_path: Path, server: Server) -> None:
    server.fails = judging(by_hash)
    version = judged(tmp_path, server, negatives_with_all_answers=True)
    answers = {row["question_id"]: len(row["answers"]) for row in rows_of(tmp_path, version, "select_questions")}
    before = sum(answers[question] for question, _ in drawn(tmp_path, version))
    after = len(rows_of(tmp_path, version, "pair_with_related"))
    assert after < before
    assert reported(version, "Judged negatives", SITE)[-2:] == [f"{before:,}", f"{after:,}"]


def test_long_texts_are_cut_and_the_verdict_says_which(tmp_path: Path, server: Server) -> None:
    server.fails = judging(lambda question, answer: "<verdict>no</verdict>")
    version = judged(tmp_path, server, text_characters=1_000)
    shown = texts(tmp_path, version)
    verdicts = rows_of(tmp_path, version, "judge_negatives")
    for row in verdicts:
        assert row["cut"] == [key for key in (row["question_id"], row["answer_id"]) if len(shown[key]) > 1_000]
    assert any(row["cut"] for row in verdicts)
    sent = [dict(unfenced(json.loads(raw)["messages"][1]["content"])) for raw in server.bodies]
    assert max(len(text) for each in sent for text in each.values()) == 1_000


def test_a_judge_that_cannot_be_read_is_stopped_by_the_gate(tmp_path: Path, server: Server) -> None:
    server.fails = judging(lambda question, answer: "Perhaps.")
    with pytest.raises(GateError, match=r"judge_negatives: (\d+) of its first \1 replies cannot be read"):
        judged(tmp_path, server)


# ---------------------------------------------------------------- price


def planned(home: Path, server: Server, **options: Any) -> Any:
    priced = endpoint(server, price=PriceConfig(input=1.0, output=2.0))
    config = AxiomsConfig(negatives_judge="judge", endpoints={"judge": priced})
    chosen = Options(home, **options)
    found, _ = plan(declare("axioms", config, chosen), chosen, priced=True, config=config)
    return next(each for each in found.stages if each.stage == "judge_negatives")


def test_a_plan_bounds_the_price_of_the_judge_and_then_knows_it(tmp_path: Path, server: Server) -> None:
    build_axioms(tmp_path, until="select_questions")
    first = planned(tmp_path, server)
    build_axioms(tmp_path, until="find_related")
    then = planned(tmp_path, server)
    server.fails = judging(lambda question, answer: "<verdict>no</verdict>")
    version = judged(tmp_path, server)
    negatives = len(drawn(tmp_path, version))
    assert then.calls == negatives == server.bodies.total()
    assert negatives <= first.calls <= 40 * len(rows_of(tmp_path, version, "select_questions"))
    assert first.usd_at_most >= then.usd_at_most > 0


# ---------------------------------------------------------------- settings


def test_the_judge_is_an_endpoint_in_use_and_is_named_in_one_place(server: Server) -> None:
    endpoints = {"judge": endpoint(server)}
    assert endpoints_used(AxiomsConfig(endpoints=endpoints)) == ["offline", "tfidf"]
    assert "judge" in endpoints_used(AxiomsConfig(negatives_judge="judge", endpoints=endpoints))
    assert "a/model" not in endpoints_used(AxiomsConfig(negatives_judge="a/model", endpoints=endpoints))
    with pytest.raises(ValueError, match="negatives_judge says who judges: set it there alone"):
        AxiomsConfig(stages={"judge_negatives": {"model": "judge"}}, endpoints=endpoints)


def test_a_judge_in_batch_mode_must_have_batches(tmp_path: Path, server: Server) -> None:
    endpoints = {"able": endpoint(server, capabilities=["batch"]), "judge": endpoint(server)}
    settings: dict[str, Any] = {"mode": "batch", "model": "able", "endpoints": endpoints}
    declare("axioms", AxiomsConfig(**settings), Options(tmp_path))
    declare("axioms", AxiomsConfig(**settings, negatives_judge="able"), Options(tmp_path))
    with pytest.raises(UsageError, match='stage judge_negatives is in batch mode, but the endpoint "judge" does not'):
        declare("axioms", AxiomsConfig(**settings, negatives_judge="judge"), Options(tmp_path))


# ---------------------------------------------------------------- takedowns


def requests(home: Path) -> dict[str, str]:
    """key -> what was asked of the judge."""
    with closing(open_responses(responses(home), read_only=True)) as store:
        asked = {key: json.loads(record.request)["messages"] for key, record in store.scan()}
    return {key: messages[1]["content"] for key, messages in asked.items() if messages[0]["content"].strip() == SYSTEM}


@pytest.mark.parametrize("column", ["question_id", "answer_id"])
def test_a_takedown_takes_every_verdict_that_shows_the_post(column: str, tmp_path: Path, server: Server) -> None:
    """Also those that could not be read, of which there is no row."""
    server.fails = judging(by_hash)
    version = judged(tmp_path, server)
    shown = texts(tmp_path, version)
    unread = [row["key"] for row in rows_of(tmp_path, version, "judge_negatives", "rejected")]
    readable = {row[column] for row in rows_of(tmp_path, version, "judge_negatives")}
    post = next(key for pair in unread for key in [pair.split()[column == "answer_id"]] if key in readable)
    before = requests(tmp_path)
    showing = {key for key, text in before.items() if fenced(shown[post]) in text}
    assert len(showing) > 1
    add(tmp_path, [(post, "2026-11-24", "asked")])
    effects.purge_responses(tmp_path, [post])
    assert before.keys() - requests(tmp_path).keys() == showing
    asked = server.bodies.copy()
    again = judged(tmp_path, server, "again")
    assert set(server.bodies.values()) == {1}
    assert not any(fenced(shown[post]) in json.loads(raw)["messages"][1]["content"] for raw in server.bodies - asked)
    assert post not in {key for pair in related_pairs(again) for key in pair}
