"""The whole ExpertQA flow offline: builds are equal byte by byte, and released examples are reproduced exactly."""

from __future__ import annotations

import json
import math
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pandas
import paths
import psutil
import pytest
from axioms_builds import Silent
from http_server import Answer, Asked, Server, document, serve

import longform
from flows.builds.building import Options, build, declare, plan
from flows.builds.plan_table import plan_foot
from flows.cli.sheets import show_labels, write_sheets
from flows.config.configuration import read
from flows.expertqa import OF_SAMPLES, SAMPLES, SYSTEMS, ExpertqaConfig
from longform.artifacts.versions import Version
from longform.engine.build import Build, StageRun
from longform.engine.thread_tasks import SequentialStages
from longform.errors import Incomplete, SourceError, UsageError
from longform.files import sha256_of
from tasks.expertqa.bank import QUESTIONS_A_PART

RELEASED = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
SIX = {*SYSTEMS, "bing_chat"}


ASKING = [*ExpertqaConfig.MODEL_STAGES, "missing_kinds"]


def make(home: Path, **settings: Any) -> tuple[Version, Silent, Build]:
    progress, options = Silent(), Options(home, "v1", accept=settings.pop("accept", None))
    published, run = build("expertqa", ExpertqaConfig(**settings), options, tasks=SequentialStages(), progress=progress)
    assert published is not None
    return published.version, progress, run


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version, Build]:
    home = tmp_path_factory.mktemp("expertqa") / "home"
    version, _, run = make(home)
    return home, version, run


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    """A build of the imported released examples, which asks no model for answers."""
    if not RELEASED.exists():
        pytest.skip("the released examples are not beside the project")
    home = tmp_path_factory.mktemp("released") / "home"
    version, _, _ = make(home, questions=str(RELEASED), licence="MIT", systems=[], commercial=[], factscore="none")
    return home, version


def rows_of(builder: Build, stage: str) -> pandas.DataFrame:
    (entry,) = [entry for entry in builder.done if entry.stage == stage]
    paths = [builder.store.rows_path(part) for part in entry.artifact.parts]
    return pandas.concat([pandas.read_parquet(path) for path in paths]).reset_index(drop=True)


def hashes(version: Version) -> dict[str, str]:
    left = {
        path
        for path in version.folder.rglob("*")
        if path.is_file() and path.suffix in (".parquet", ".svg", ".json", ".md")
    }
    return {str(path.relative_to(version.folder)): sha256_of(path) for path in left if path.name != "manifest.json"}


@pytest.mark.check
def test_all_six_systems_answer_and_a_repetition_is_equal_byte_by_byte(
    sample: tuple[Path, Version, Build], tmp_path: Path
) -> None:
    _, version, run = sample
    answers = rows_of(run, "collect_answers")
    assert set(answers["system"]) == SIX
    assert answers[answers["kind"] != "released"].groupby("system").size()["gpt4"] == 20
    again, _, _ = make(tmp_path / "home")
    assert hashes(again) == hashes(version)


def bank(path: Path, questions: Iterable[int]) -> dict[str, str]:
    """A bank of these many different questions, made of the samples', and the files that go with it."""
    samples = [json.loads(line) for line in (SAMPLES / "questions.jsonl").read_text().splitlines()]
    chosen = [(number, samples[number % len(samples)]) for number in questions]
    lines = [{**row, "question": f"{row['question']} Answer it for kitchen {number}."} for number, row in chosen]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"questions": str(path), **{name: str(SAMPLES / f"{file}.jsonl") for name, file in OF_SAMPLES.items()}}


def build_until_revised(home: Path, files: dict[str, str]) -> Build:
    """A build of these files, as far as the revised answers."""
    config = ExpertqaConfig(**files)  # type: ignore[arg-type]
    _, run = build(
        "expertqa", config, Options(home, until="revise_answers"), tasks=SequentialStages(), progress=Silent()
    )
    return run


@pytest.mark.check
def test_in_which_part_of_a_bank_a_question_stands_changes_no_row(tmp_path: Path) -> None:
    numbers = range(QUESTIONS_A_PART + 4)
    forward = build_until_revised(tmp_path / "forward", bank(tmp_path / "bank.jsonl", numbers))
    backward = build_until_revised(tmp_path / "backward", bank(tmp_path / "bank.jsonl", reversed(numbers)))
    (entry,) = [entry for entry in forward.done if entry.stage == "link_cited_pages"]
    assert [part.key.split(".") for part in entry.artifact.parts] == [
        ["expertqa/part000"],
        ["expertqa/part000", "00001"],
    ]
    for stage in ("take_questions", "collect_answers", "link_cited_pages", "judge_facts", "revise_answers"):
        tables = [rows_of(run, stage).drop(columns="position", errors="ignore") for run in (forward, backward)]
        one, other = (sorted(table.astype(str).to_numpy().tolist()) for table in tables)
        assert one == other, stage


@pytest.mark.check
def test_a_question_more_at_the_end_of_a_bank_changes_its_last_part_alone(tmp_path: Path) -> None:
    first, second = (
        {entry.stage: entry.units_run for entry in build_until_revised(tmp_path / "home", given).done}
        for number in (QUESTIONS_A_PART + 1, QUESTIONS_A_PART + 2)
        for given in [bank(tmp_path / "bank.jsonl", range(number))]
    )
    parted = (
        "find_for_questions",
        "write_closed_book",
        "split_claims",
        "link_cited_pages",
        "judge_facts",
        "revise_answers",
    )
    assert [first[stage] for stage in parted] == [2] * len(parted)
    assert [second[stage] for stage in parted] == [1] * len(parted)


def test_a_second_build_has_nothing_to_do(sample: tuple[Path, Version, Build]) -> None:
    home, version, _ = sample
    again, progress, _ = make(home)
    assert again.folder == version.folder
    assert not any(progress.begun.values())


def test_files_without_a_label_are_an_error_and_labels_of_one_annotator_need_no_agreement(
    sample: tuple[Path, Version, Build], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, version, _ = sample
    address = f"expertqa@{version.name}"
    write_sheets(address, tmp_path / "sheets.jsonl", home=home)
    blank = tmp_path / "sheets.jsonl"
    first, *others = map(json.loads, blank.read_text().splitlines())
    filled_in = {**first, "annotator_id": "e7", "usefulness": "Useful"}
    (tmp_path / "ann.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (filled_in, *others)))
    capsys.readouterr()
    show_labels(address, [str(tmp_path / "ann.jsonl")], home=home)
    shown = capsys.readouterr().out
    assert re.search(r"^usefulness +\d+ +1 +0 +1$", shown, re.MULTILINE)
    assert "agreement\nnothing that two or more annotators labelled" in shown
    with pytest.raises(SourceError, match=r"sheets\.jsonl yields no label \(not labelled: \d+\)"):
        show_labels(address, [str(tmp_path / "ann.jsonl"), str(blank)], home=home, as_json=True)
    assert {"progress", "agreement", "rejected"} <= json.loads(capsys.readouterr().out).keys()


def test_claims_stand_where_they_say(sample: tuple[Path, Version, Build]) -> None:
    _, version, _ = sample
    claims = pandas.read_parquet(version.folder / "claims")
    assert len(claims) > 50
    for claim in claims.itertuples():
        cut = re.sub(r"\[\^\d+\^\]", "", claim.answer[int(claim.start) : int(claim.end)])  # cleaned of these alone
        assert "".join(cut.split()) == "".join(claim.claim.split())


def test_splits_share_no_question(sample: tuple[Path, Version, Build]) -> None:
    _, version, _ = sample
    sides = {
        split: set(pandas.read_parquet(version.folder / split)["question_id"])
        for split in ("train", "validation", "test")
    }
    assert all(sides.values())
    assert sum(map(len, sides.values())) == len(set().union(*sides.values()))


def test_released_sides_are_kept_and_others_stay_where_they_were_as_the_bank_grows(tmp_path: Path) -> None:
    """Of two released questions, one is on the authors' test side; a question like it follows it there."""
    known = [json.loads(line) for line in (SAMPLES / "released.jsonl").read_text().splitlines()]
    (tmp_path / "splits").mkdir()
    for config, split, place in (("rand", "test", 0), ("domain", "train", 0), ("rand", "val", 1)):
        lines = {"example_id": 0, "context": "", "question": known[place]["question"], "answer": "A."}
        (tmp_path / "splits" / f"{config}_lfqa_{split}.json").write_text(json.dumps(lines) + "\n")
    mine = tmp_path / "mine.jsonl"
    mine.write_text(json.dumps({**known[0], "question": f"Please: {known[0]['question']}"}) + "\n")
    settings = {"systems": [], "commercial": [], "factscore": "none", "released_splits": str(tmp_path / "splits")}
    files = [str(SAMPLES / "released.jsonl"), str(mine)]
    found = []
    for number in (1, 2):
        version, _, _ = make(tmp_path / f"home{number}", questions=files[:number], **settings)
        rows = [pandas.read_parquet(path) for path in sorted(version.folder.glob("*/*.parquet"))]
        random = pandas.concat(each for each in rows if "split_from" in each)
        found.append({row.question: (row.split, row.split_from) for row in random.itertuples()})
        domain = pandas.read_parquet(version.folder / "domain")
        placed = domain[domain.question == known[0]["question"]].iloc[0]
        assert (placed.split, placed.split_from) == ("train", "released")
    before, after = found
    assert before[known[0]["question"]] == ("test", "released")
    assert before[known[1]["question"]] == ("validation", "released")
    assert {key: after[key] for key in before} == before
    assert after[f"Please: {known[0]['question']}"] == ("test", "near-duplicate")


@pytest.mark.check
def test_the_command_line_takes_less_than_a_minute_of_the_processor(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "longform"), "build", "expertqa", "--home", str(tmp_path / "home")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=600, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "expertqa" in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60


# ---------------------------------------------------------------- released examples


@pytest.mark.check
def test_released_examples_come_back_equal(released: tuple[Path, Version], tmp_path: Path) -> None:
    home, _ = released
    out = tmp_path / "back.jsonl"
    command = [str(Path(sys.executable).parent / "longform"), "export", "expertqa", "--format", "expertqa-jsonl"]
    done = subprocess.run([*command, "--to", str(out), "--home", str(home)], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    given = [json.loads(line) for line in RELEASED.read_text().splitlines()]
    assert [json.loads(line) for line in out.read_text().splitlines()] == given


@pytest.mark.check
def test_labels_and_estimates_recomputed_from_the_released_file(released: tuple[Path, Version]) -> None:
    """Distributions of labels from the file itself, and AutoAIS's tables 5 and 6 from the published rows."""
    _, version = released
    claims = pandas.read_parquet(version.folder / "claims")
    counted: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    for line in RELEASED.read_text().splitlines():
        for answer in json.loads(line)["answers"].values():
            for claim in answer["claims"]:
                for name in ("support", "informativeness", "worthiness", "correctness"):
                    counted[name][claim[name]] += 1
    for name, numbers in counted.items():
        found = claims[name].value_counts(dropna=False)
        assert {None if isinstance(key, float) and math.isnan(key) else key: n for key, n in found.items()} == numbers


@pytest.mark.check
def test_estimates_may_be_those_that_were_released(tmp_path: Path) -> None:
    """As the file has them; nobody is asked, and what it does not have is unscored."""
    file = SAMPLES / "released.jsonl"
    home = tmp_path / "home"
    version, _, _ = make(home, questions=str(file), systems=[], autoais="released", factscore="released")
    claims = [
        claim
        for line in file.read_text().splitlines()
        for answer in json.loads(line)["answers"].values()
        for claim in answer["claims"]
    ]
    published = pandas.read_parquet(version.folder / "claims")
    assert sorted(published["fact_score"].dropna()) == sorted(
        claim["fact_score"] for claim in claims if claim.get("fact_score") is not None
    )
    said = [claim.get("autoais_label") for claim in claims]
    assert published["autoais"].value_counts(dropna=False).to_dict() == {
        True: said.count("Y"),
        False: said.count("N"),
        None: len(said) - said.count("Y") - said.count("N"),
    }
    assert set(published["autoais_backend"]) == {"released"}


def test_the_samples_are_those_of_this_project() -> None:
    assert len((SAMPLES / "questions.jsonl").read_text().splitlines()) == 20


# ---------------------------------------------------------------- the web

SENTENCE = "Water for {0} is heated until it boils, and then it is poured over the leaves of {0}, which stay in it. "


def article(word: str) -> Answer:
    body = f"<html><head><title>Of {word}</title></head><body><article><p>{SENTENCE.format(word) * 4}</p>"
    return Answer(body=body.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def engine(server: Server, *paths: str) -> Callable[[Asked], Answer]:
    """A SearXNG server that returns the same pages for every query."""

    def answer(asked: Asked) -> Answer:
        shown = paths if asked.query["pageno"] == "1" else ()
        results = [{"url": server.url + path, "title": path, "content": "c"} for path in shown]
        return document({"results": results, "unresponsive_engines": []})

    return answer


def on_the_web(folder: Path, server: Server) -> dict[str, Any]:
    (folder / "questions.jsonl").write_text('{"question": "How is tea made with hot water?", "field": "Tea"}\n')
    web = {"kind": "searxng", "url": server.url, "private_hosts": True}
    quick = {"searches_per_second": 500.0, "pages_per_second": 500.0}
    systems = ["gpt4", "rr_gs_gpt4", "post_hoc_gs_gpt4"]
    asked = {"questions": str(folder / "questions.jsonl"), "systems": systems, "factscore": "none"}
    return {**asked, "web": {**web, **quick}}


def test_a_search_engine_has_an_address() -> None:
    with pytest.raises(ValueError, match="searxng needs its address"):
        ExpertqaConfig(web={"kind": "searxng"})  # type: ignore[arg-type]


def test_a_plan_says_which_stages_search_the_web(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"question": "How is tea made with hot water?", "field": "Tea"}\n')
    web = {"kind": "searxng", "url": "http://127.0.0.1:9"}
    config = ExpertqaConfig(questions=str(tmp_path / "questions.jsonl"), web=web)  # type: ignore[arg-type]
    options = Options(tmp_path / "home", "v1")
    found, _ = plan(declare("expertqa", config, options), options)
    *_, line = plan_foot(found.stages)
    assert line.startswith("find_for_questions, find_for_claims, read_cited_pages, find_for_facts: up to one")
    without = ExpertqaConfig(questions=str(tmp_path / "questions.jsonl"))
    found, _ = plan(declare("expertqa", without, options), options)
    assert not any("web" in line for line in plan_foot(found.stages))


def test_none_is_a_word_where_it_is_a_choice() -> None:
    given = read("expertqa", ExpertqaConfig, None, ["factscore=none", "corpus=none"])
    assert (given.factscore, given.corpus) == ("none", None)


@pytest.mark.check
def test_answers_alone_are_asked_for_with_the_temperature_of_the_paper(tmp_path: Path) -> None:
    def temperatures(**endpoint: Any) -> Counter[float | None]:
        known = {"base_url": server.url, "model": "m", "price": {"input": 1.0, "output": 1.0}, **endpoint}
        make(tmp_path / str(len(endpoint)), model="one", endpoints={"one": known}, limit=2, accept=ASKING)
        bodies = [json.loads(each.body) for each in server.asked if each.body]
        server.asked.clear()
        return Counter(body.get("temperature") for body in bodies)

    with serve() as server:
        server.on("/chat/completions", document(_reply("Tea is a drink.")))
        expected_message = temperatures()
        assert expected_message[1.0] == 2 * 3, "two questions, of three systems that are asked"
        assert set(expected_message) == {1.0, None}
        assert set(temperatures(parameters={"temperature": 0.2})) == {0.2}


def test_the_preset_asks_judges_at_temperature_0_and_takes_its_own_prompts(tmp_path: Path) -> None:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "price": {"input": 1.0, "output": 1.0}}
    settings: dict[str, Any] = {"model": "one", "endpoints": {"one": endpoint}, "autoais": "model", "splitter": "lists"}
    options = Options(tmp_path / "home", "v1")
    calls = {
        preset: {
            call.name: call.arguments
            for call in declare("expertqa", ExpertqaConfig(preset=preset, **settings), options).calls
        }
        for preset in ("own", "parity")
    }
    judges = ("estimate_attribution", "break_claims", "judge_facts")
    temperatures = {
        preset: [dict(of[stage]["model"].parameters).get("temperature") for stage in (*judges, "write_closed_book")]
        for preset, of in calls.items()
    }
    assert temperatures == {"own": [None, None, None, 1.0], "parity": [0.0, 0.0, 0.0, 1.0]}
    assert [of["split_claims"]["splitter"] for of in calls.values()] == ["lists", "sentences"]
    prompts = [calls["parity"][stage]["prompt"].name for stage in ("write_closed_book", "judge_facts", "break_claims")]
    assert prompts == ["expertqa/closed_book_as_in_paper", "expertqa/judge_fact_as_in_paper", "expertqa/break_claim"]


def _reply(text: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


@pytest.mark.check
def test_answers_from_the_web_are_made_again_without_it(tmp_path: Path) -> None:
    """A page that failed for a passing reason is asked for again by the next build, and a third build sends
    no request.
    """
    with serve() as server:
        server.on("/search", engine(server, "/tea", "/moved", "/hidden", "/image", "/later"))
        server.on("/tea", article("tea"))
        server.on("/moved", Answer(302, headers={"Location": "/mead"}))
        server.on("/mead", article("mead"))
        server.on("/robots.txt", Answer(body=b"User-agent: *\nDisallow: /hidden\n"))
        server.on("/image", Answer(body=bytes(range(256)) * 90, headers={"Content-Type": "text/html"}))
        server.on("/later", Answer(503))
        settings = on_the_web(tmp_path, server)
        with pytest.raises(Incomplete, match="/later answered 503"):
            make(tmp_path / "home", **settings)
        before = len(server.asked)
        server.on("/later", article("maté"))
        version, _, run = make(tmp_path / "home", **settings)
        assert [path for path in server.paths()[before:] if path != "/search"] == ["/later"]
        assert "/hidden" not in server.paths()
        read = {f"{server.url}{path}" for path in ("/tea", "/moved", "/later")}
    answers = rows_of(run, "collect_answers").set_index("system")
    assert {source["url"] for source in answers.loc["rr_gs_gpt4", "cited"]} == read
    shutil.copytree(tmp_path / "home" / "web", tmp_path / "again" / "web")
    again, _, _ = make(tmp_path / "again", **settings)
    assert hashes(again) == hashes(version)


# ---------------------------------------------------------------- what nobody expects

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;{{7*7}}"
BIDI = "\u202e\u05e9\u05dc\u05d5\u05dd \u2066😀👩‍👩‍👧 مرحبا"
BROKEN = (
    b'{"question": "' + b"a" * 300_000 + b'", "text": 1}',
    b"[" * 50_000,
    b'{"question":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
    b'{"question": "raw nul \x00 in?"}',
    b'{"question": "half \\ud800 pair?"}',
    b'\xff\xfe{"question": "x"}',
    '{"question": "café?"}'.encode("latin-1"),
    b'{"question": "a?", "question": "b?"}',
    b"null",
    b"{}",
)


def hostile(text: str, *claims: str, sources: int = 0) -> dict[str, Any]:
    attribution = [f"[{number}] https://e.example/{number}" for number in range(1, sources + 1)]
    rated = {"support": "Complete", "worthiness": "Yes", "revised_claim": MARKUP}
    said = [{"claim_string": claim, "evidence": [MARKUP], **rated} for claim in claims]
    return {"answer_string": text, "attribution": attribution, "claims": said}


def hostile_records() -> Iterator[dict[str, Any]]:
    metadata = {"question_type": MARKUP, "field": MARKUP, "specific_field": "s" * 2_000}
    marks = " ".join(f"[{number}]" for number in range(1, 5_001))
    answers = [
        {f"system {number}": hostile(f"It is {number}.", f"It is {number}.") for number in range(100)},
        {MARKUP: hostile(MARKUP, MARKUP)},
        {"empty": hostile(""), "references": hostile("[1] https://a.example\n[2] https://b.example")},
        {"marks": hostile(f"All. {marks}", f"All. {marks}", sources=5_000)},
        {"range": hostile("Much [1-99999999].", "Much [1-99999999].", "c" * 10_000, "", sources=3)},
        {"bidi": hostile(BIDI, BIDI), "number": 3},
    ]
    for number, systems in enumerate(answers):
        yield {"question": f"{BIDI} {number}?", "annotator_id": MARKUP, "answers": systems, "metadata": metadata}


@pytest.mark.check
def test_hostile_files_become_rows_or_rejected_rows(tmp_path: Path) -> None:
    """Hostile texts are kept exactly, and nothing in them is treated as markup."""
    given = list(hostile_records())
    lines = [*BROKEN, json.dumps({"question": MARKUP, "field": MARKUP}).encode()]
    released = [json.dumps(record).encode() for record in given]
    passage = json.dumps({"url": f"https://e.example/{MARKUP}", "title": MARKUP, "text": f"{MARKUP} tea"}).encode()
    bomb = json.dumps({"question": MARKUP, "answer_string": "[1" * 30_000 + " is 1. " * 5_000}).encode()
    contents = {"questions": [*lines, *released], "corpus": [*BROKEN, passage], "commercial": [*BROKEN, bomb]}
    for name, own in {**contents, "predictions": BROKEN}.items():
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(own))
    settings = {name: str(tmp_path / f"{name}.jsonl") for name in (*contents, "predictions")}
    version, _, run = make(tmp_path / "home", **settings, pages=settings["corpus"])
    rejected = {entry.stage: sum(part_rejected(entry)) for entry in run.done}
    assert rejected["read_questions"] == len(BROKEN)
    assert rejected["read_corpus"] == len(BROKEN)
    for stage in ("read_commercial", "read_predictions"):
        assert rejected[stage] == len(BROKEN)
    report = (version.folder / "report.html").read_text()
    assert MARKUP[:20] not in report
    assert "<img src=x" not in report
    released_rows = export(run, version, "expertqa-jsonl")
    assert [row for row in released_rows if row["question"] != MARKUP] == given


def part_rejected(entry: StageRun) -> Iterator[int]:
    return (number for part in entry.artifact.parts for _, _, number in part.rejected)


def export(builder: Build, version: Version, form: str) -> list[Any]:
    command = [str(Path(sys.executable).parent / "longform"), "export", "expertqa", "--format", form]
    out = version.folder.parent / "out.jsonl"
    done = subprocess.run(
        [*command, "--to", str(out), "--home", str(builder.store.home)], text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in out.read_text().splitlines()]


# ---------------------------------------------------------------- size


@pytest.mark.soak
def test_a_tenth_of_the_paper_takes_minutes_and_bounded_memory(tmp_path: Path) -> None:
    """218 questions in two files, 10,000 passages, 100 pages; memory of all processes."""
    drawn = random.Random(5)
    vocabulary = [f"{drawn.choice('bdfgklmnprst')}{drawn.choice('aeiou')}{number:x}" for number in range(9_000)]

    def prose(words: int) -> str:
        return " ".join(drawn.choices(vocabulary, k=words)).capitalize()

    def write(name: str, records: Iterable[dict[str, Any]]) -> str:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        return str(path)

    def asked() -> Iterator[dict[str, Any]]:
        return ({"question": f"{prose(15)}?", "field": f"Field {number % 32}"} for number in range(109))

    def documents(many: int, sentences: int) -> Iterator[dict[str, Any]]:
        texts = (". ".join(prose(14) for _ in range(sentences)) for _ in range(many))
        return ({"url": f"https://e.example/{number}", "text": text} for number, text in enumerate(texts))

    settings = {"questions": [write("one", asked()), write("two", asked())], "commercial": []}
    corpora = {"corpus": write("corpus", documents(10_000, 7)), "pages": write("pages", documents(100, 150))}
    with Peak() as peak:
        started = time.monotonic()
        _, _, run = make(tmp_path / "home", **settings, **corpora)
        seconds = time.monotonic() - started
    assert len(rows_of(run, "write_from_passages")) == 2 * 218
    assert seconds < 300
    assert peak.bytes < 2 << 30


class Peak:
    """The peak memory of this process and its children together, sampled every half second."""

    def __init__(self) -> None:
        self.bytes, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(0.5):
            own = psutil.Process()
            with suppress(psutil.Error):
                held = [process.memory_info().rss for process in (own, *own.children(recursive=True))]
                self.bytes = max(self.bytes, sum(held))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


SEARXNG = '{kind = "searxng", url = "http://127.0.0.1:9"}'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["questions = []"], "questions names no file"),
        (["questions="], "questions names no file"),
        ([f"web = {SEARXNG}", "pages = mine.jsonl"], "pages and web are both set"),
        (['web = {kind = "searxng"}'], "searxng needs its address"),
        (['web = {kind = "searxng", url = "ftp://x"}'], "does not fit: searxng needs its address"),
        (['web = {kind = "brave"}'], "brave needs a key: set key_env"),
        (['web = {kind = "searxng", url = "http://me:pw@h/"}'], "an address holds no user and no password"),
        (['web = {kind = "searxng", url = "http://h/", parameters = {Token = "x"}}'], "parameters holds a Token"),
        (["answer_parameters = {max_tokens = 9}"], "max_tokens is set by the build itself"),
        (["web.ur = x"], 'no setting "web.ur"; did you mean "url"'),
        (["web = x"], r"it takes a table, e\.g\. \{ kind ="),
        (['systems = ["post_hoc_gs_gpt4"]'], 'add "gpt4"'),
        (['systems = ["gpt4", "gpt4"]'], "systems names one of them twice"),
        (["commercial_system = post_hoc_gs_gpt4"], "which one of ours is called"),
        (["window = 100"], "overlap must be less than window"),
        (["stages.split_claims.mode = batch"], "which asks no model"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_anything_is_read(settings: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read("expertqa", ExpertqaConfig, None, settings)


def test_a_search_engine_needs_no_word_on_pages() -> None:
    assert read("expertqa", ExpertqaConfig, None, [f"web = {SEARXNG}"]).pages is None


def test_where_nothing_is_revised_the_claims_are_published_alone(tmp_path: Path) -> None:
    version, _, _ = make(tmp_path, questions=str(SAMPLES / "questions.jsonl"), revise_with_model=False)
    assert {name for name, splits in version.configs.items() if splits} == {"claims"}
    assert longform.load("expertqa", config="claims", home=tmp_path).num_rows


def test_a_pilot_refuses_no_commercial_answer_of_the_questions_it_leaves_out(tmp_path: Path) -> None:
    progress = Silent()
    build(
        "expertqa",
        ExpertqaConfig(limit=3),
        Options(tmp_path, until="collect_answers"),
        tasks=SequentialStages(),
        progress=progress,
    )
    ended = {entry.stage: entry.artifact for entry in progress.ended}
    assert ended["read_commercial"].rows == 10
    assert not ended["read_commercial"].rejected()
    released = ended["read_released"].rows
    assert ended["collect_answers"].rows - released == 3 * 5 + 2, "bing_chat answered two of the three"
