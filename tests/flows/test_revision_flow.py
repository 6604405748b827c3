"""The whole revision-distance flow: equal byte by byte offline, asked once against a server, and each task alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from axioms_builds import Silent
from standin_server import serve

from flows.builds.building import Options, build, declare, plan
from flows.cli.shared.verification import check
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.revision_distance import ABOUT, SAMPLES, RevisionDistanceConfig
from longform.artifacts import takedowns
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.engine.thread_tasks import SequentialStages
from longform.errors import NothingToPublish, UsageError
from longform.files import sha256_of

LONGFORM = str(Path(sys.executable).with_name("longform"))
TASKS = ("easy", "hard", "free", "structure")
SYSTEMS = {
    "easy": {"weak", "strong"},
    "hard": {"vanilla", "cot"},
    "free": {"chosen", "rejected"},
    "structure": {"reordered"},
}


def make(home: Path, version: str = "v1", **settings: Any) -> tuple[Version, Build]:
    config = RevisionDistanceConfig(**settings)
    published, run = build(ABOUT.dataset, config, Options(home, version), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, run


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    home = tmp_path_factory.mktemp("revision") / "home"
    return home, make(home)[0]


def hashes(version: Version) -> dict[str, str]:
    kept = (".parquet", ".svg", ".json", ".md")
    paths = [path for path in version.folder.rglob("*") if path.suffix in kept and path.name != "manifest.json"]
    return {str(path.relative_to(version.folder)): sha256_of(path) for path in paths}


def drafts_of(version: Version) -> pandas.DataFrame:
    return pandas.concat([pandas.read_parquet(version.folder / task) for task in TASKS])


def test_every_task_has_both_its_drafts(sample: tuple[Path, Version]) -> None:
    drafts = drafts_of(sample[1])
    for task, systems in SYSTEMS.items():
        by_case = drafts[drafts["task"] == task].groupby("case_id")["system"].agg(set)
        assert len(by_case) >= 5
        assert all(found == systems for found in by_case)


def test_distance_counts_the_edits_and_the_editor_keeps_its_word(sample: tuple[Path, Version]) -> None:
    drafts = drafts_of(sample[1])
    edits = pandas.concat([pandas.read_parquet(sample[1].folder / "edits" / task) for task in TASKS])
    counted = edits.groupby("draft_id").size()
    for draft in drafts.itertuples():
        assert draft.distance == len(draft.edits) == counted.get(draft.draft_id, 0)
        if draft.task != "free":
            assert draft.reproduces in ("exactly", "words")
            assert draft.revised.split() == draft.reference.split()
    assert (edits["placed"] == "exactly").all()


def test_reordered_references_cost_edits_although_rouge_sees_none(sample: tuple[Path, Version]) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    rouge = RougeScorer(["rouge1"])
    rows = pandas.read_parquet(sample[1].folder / "structure")
    for row in rows.itertuples():
        assert rouge.score(row.reference, row.draft)["rouge1"].fmeasure == 1
        assert row.rouge1 == 100
        assert row.distance > 0


def test_a_repetition_is_equal_byte_by_byte(sample: tuple[Path, Version], tmp_path: Path) -> None:
    assert hashes(make(tmp_path / "home")[0]) == hashes(sample[1])


def test_a_version_is_sound(sample: tuple[Path, Version]) -> None:
    home, version = sample
    assert list(check(Store(home), version)) == []


def test_other_weights_run_only_what_follows(sample: tuple[Path, Version]) -> None:
    home, version = sample
    found, run = make(home, "v2", weights={"meaning": 3.0})
    ran = {entry.stage for entry in run.done if entry.state == "run"}
    assert ran == {"place_edits", "publish_drafts", "publish_edits"}
    assert (drafts_of(found)["weighted"] >= drafts_of(version)["weighted"]).all()


def test_each_source_can_be_left_out(tmp_path: Path) -> None:
    only, _ = make(tmp_path / "a", ultrafeedback=[], papers=[], structure=[])
    assert sorted(path.name for path in only.folder.iterdir() if path.is_dir()) == ["easy", "edits", "figures"]
    with pytest.raises(NothingToPublish):
        make(tmp_path / "b", wildchat=[], ultrafeedback=[], papers=[], structure=[])


def test_related_work_of_s2orc(tmp_path: Path) -> None:
    """S2ORC links papers by corpus ids, and abstracts are in the metadata."""
    found, _ = make(
        tmp_path / "home",
        wildchat=[],
        ultrafeedback=[],
        structure=[],
        papers=str(SAMPLES.parent / "s2orc"),
        papers_source="s2orc",
        least_cited=1,
        least_words=5,
    )
    drafts = pandas.read_parquet(found.folder / "hard")
    assert set(drafts["system"]) == SYSTEMS["hard"]
    cited = [paper for papers in drafts["cited"] for paper in papers]
    assert "link" in {paper["by"] for paper in cited}
    assert all(paper["paper_id"].startswith("s2/") for paper in cited)
    assert any(paper["abstract"] for paper in cited)


def test_numbers_of_cases_are_those_wanted(tmp_path: Path) -> None:
    few, _ = make(tmp_path / "home", easy=3, hard=2, free=0, structure=[])
    drafts = pandas.concat([pandas.read_parquet(few.folder / task) for task in ("easy", "hard")])
    assert drafts.groupby("task")["case_id"].nunique().to_dict() == {"easy": 3, "hard": 2}
    more, _ = make(tmp_path / "home", "v2", easy=5, hard=3, free=0, structure=[])
    wider = pandas.concat([pandas.read_parquet(more.folder / task) for task in ("easy", "hard")])
    assert set(drafts["case_id"]) < set(wider["case_id"])


def endpoints(url: str) -> dict[str, EndpointConfig]:
    """Two writers; the smaller one leaves out parts of the text."""
    effort = {"mine": {}, "smaller": {"effort": "low"}}
    return {
        name: EndpointConfig(base_url=url, model=name, capabilities=["json_schema"], parameters=parameters)
        for name, parameters in effort.items()
    }


@pytest.mark.check
def test_the_plan_says_what_a_server_then_is_asked_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    with serve() as server:
        settings: dict[str, Any] = {
            "model": "mine",
            "endpoints": endpoints(server.url),
            "stages": {"write_weak": StageConfig(model="smaller")},
            "limit": 3,
        }
        home = tmp_path / "home"
        first, run = make(home, **settings)
        asked = server.counters()["requests"]["POST /v1/chat/completions"]
        made = {entry.stage: entry.artifact for entry in run.done}
        rows = {name: artifact.rows for name, artifact in made.items()}
        assert rows["write_weak"] == rows["write_strong"] == 3
        free = 3
        assert asked == (
            rows["check_requests"] - 3  # hard ones are not checked
            + rows["write_weak"] + rows["write_strong"] + rows["write_vanilla"]
            + rows["recall_knowledge"] + rows["write_segments"] + rows["write_cot"]
            + rows["propose_edits"] + rows["rate_drafts"] - 2 * free
        )  # fmt: skip
        options = Options(home, "v2")
        planned, _ = plan(declare(ABOUT.dataset, RevisionDistanceConfig(**settings), options), options, priced=True)
        assert planned.nothing_to_do
        again, _ = make(home, "v2", **{**settings, "weights": {"style": 0.0}})
        assert server.counters()["requests"]["POST /v1/chat/completions"] == asked
        assert set(drafts_of(again)["draft_id"]) == set(drafts_of(first)["draft_id"])


def test_weak_and_strong_must_be_two_models(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"model": "mine", "endpoints": endpoints("http://127.0.0.1:9")}
    with pytest.raises(UsageError, match=r'both ask the model mine of endpoint "mine": name another endpoint in'):
        declare(ABOUT.dataset, RevisionDistanceConfig(**settings), Options(tmp_path))
    declare(ABOUT.dataset, RevisionDistanceConfig(**settings, easy=0), Options(tmp_path))


def test_a_record_that_is_taken_down_leaves_the_next_version(sample: tuple[Path, Version], tmp_path: Path) -> None:
    drafts = drafts_of(sample[1])
    gone = [str(drafts[drafts["task"] == task]["source_id"].iloc[0]) for task in ("easy", "hard", "free")]
    home = tmp_path / "home"
    home.mkdir()
    takedowns.add(home, [(name, "2026-11-21", "asked for") for name in gone])
    left, _ = make(home)
    assert not set(gone) & set(drafts_of(left)["source_id"])
    assert not any(name.encode() in path.read_bytes() for name in gone for path in left.folder.rglob("*.json"))


def typed(*arguments: str, home: Path) -> str:
    command = [LONGFORM, *arguments, "--home", str(home)]
    done = subprocess.run(command, cwd=home.parent, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.check
def test_the_command_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "revision-distance" in typed("build", "revision-distance", home=home)
    (folder,) = (home / "datasets" / "revision-distance").iterdir()
    draft = pandas.read_parquet(folder / "hard")["draft_id"].iloc[0]
    assert "distance" in typed("trace", "revision-distance", draft, home=home)
