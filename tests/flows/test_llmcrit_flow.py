"""The whole llmcrit flow, offline: equal byte by byte, every count recomputed, layers in their order, tasks as data."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import paths
import pytest
from axioms_builds import Silent

from flows.builds.building import Options, build
from flows.cli.shared.takedown_effects import holders
from flows.cli.shared.verification import check
from flows.inspection.describe import trace_lines
from flows.inspection.tracing import trace_row
from flows.llmcrit import ABOUT, EXPORTS, SAMPLES, LLMCritConfig, responses_of
from longform.artifacts import takedowns
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.engine.thread_tasks import SequentialStages
from longform.files import sha256_of
from longform.llm.responses.store import open_responses
from tasks.publishing.exports import Export
from tasks.sources.permalinks import ids_of_address

TASKS = ("introductions", "code", "posts")
READMES = paths.TEST_DATA / "readmes"


def make(home: Path, version: str = "v1", **settings: Any) -> tuple[Version, Build]:
    config = LLMCritConfig(**{"texts": 6, "single": ["posts"], **settings})
    published, run = build(ABOUT.dataset, config, Options(home, version), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, run


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    home = tmp_path_factory.mktemp("llmcrit") / "home"
    return home, make(home)[0]


def rows(version: Version, config: str) -> str:
    """The SQL that reads a config of a version."""
    below = "*/*.parquet" if config == "feedback" else f"{config}/*/*.parquet"
    if config == "feedback":
        files = [str(path) for path in version.tables()["feedback"]]
        return f"read_parquet({files})"
    return f"'{version.folder}/{below}'"


def asked(query: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(query).fetchall()


def hashes(version: Version) -> dict[str, str]:
    kept = (".parquet", ".svg", ".json", ".md")
    found = [path for path in version.folder.rglob("*") if path.suffix in kept and path.name != "manifest.json"]
    return {str(path.relative_to(version.folder)): sha256_of(path) for path in found}


def table(version: Version, title: str) -> list[dict[str, Any]]:
    tables = json.loads((version.folder / "tables.json").read_text())
    return next(each["rows"] for each in tables if title in each["title"])


def test_two_homes_give_equal_bytes(sample: tuple[Path, Version], tmp_path: Path) -> None:
    assert hashes(make(tmp_path / "other")[0]) == hashes(sample[1])


def test_half_of_the_test_texts_of_each_task_are_modified_and_say_how(sample: tuple[Path, Version]) -> None:
    texts = rows(sample[1], "texts")
    assert asked(f"SELECT task, count(*), count_if(modified) FROM {texts} GROUP BY 1 ORDER BY 1") == [
        (task, 6, 3) for task in sorted(TASKS)
    ]
    assert asked(f"SELECT count(*) FROM {texts} WHERE modified != (len(violated) > 0)") == [(0,)]
    assert asked(f"SELECT count(*) FROM {texts} WHERE modified AND text = original") == [(0,)]
    strata = asked(f"SELECT stratum, count(*) FROM {texts} WHERE task = 'introductions' GROUP BY 1 ORDER BY 1")
    assert [number for _, number in strata] == [3, 3]


def test_every_text_is_asked_about_by_every_strategy_and_aspect(sample: tuple[Path, Version]) -> None:
    feedback, aspects = rows(sample[1], "feedback"), rows(sample[1], "aspects")
    found = asked(
        f"SELECT task, strategy, granularity, count(*) / count(DISTINCT text_id) FROM {feedback} GROUP BY ALL"
    )
    of_task = dict(asked(f"SELECT task, count(*) FROM {aspects} GROUP BY 1"))
    criteria = dict(asked(f"SELECT task, count(*) FROM {rows(sample[1], 'criteria')} GROUP BY 1"))
    wanted = {(task, "base", "text", 1.0) for task in TASKS}
    wanted |= {(task, name, "aspect", float(of_task[task])) for task in TASKS for name in ("crit", "icl", "cricl")}
    assert {*found} == wanted | {("posts", "crit", "criterion", float(criteria["posts"]))}


def test_a_layer_judges_nothing_that_an_earlier_one_refused(sample: tuple[Path, Version]) -> None:
    feedback, critiques = rows(sample[1], "feedback"), rows(sample[1], "critiques")
    assert asked(f"SELECT count(*) FROM {feedback} WHERE (context IS NOT NULL) != (validity = 'specific')") == [(0,)]
    assert asked(f"SELECT count(*) FROM {feedback} WHERE (judged > 0) != (coalesce(context, '') = 'match')") == [(0,)]
    assert asked(f"SELECT count(*) FROM {critiques} WHERE (helpful IS NOT NULL) != constructive") == [(0,)]
    unknown = f"SELECT count(*) FROM {critiques} WHERE feedback_id NOT IN (SELECT feedback_id FROM {feedback})"
    assert asked(unknown) == [(0,)]


def test_the_counts_of_the_report_are_those_of_the_published_rows(sample: tuple[Path, Version]) -> None:
    version = sample[1]
    feedback, critiques = rows(version, "feedback"), rows(version, "critiques")
    of_feedback = {
        (task, strategy): (judged, valid, match)
        for task, strategy, judged, valid, match in asked(
            f"SELECT task, strategy, count(validity), count_if(validity = 'specific'), count_if(context = 'match') "
            f"FROM {feedback} WHERE granularity != 'criterion' GROUP BY ALL"
        )
    }
    of_critiques = {
        (task, strategy): numbers
        for task, strategy, *numbers in asked(
            "SELECT task, strategy, count(*), count_if(constructive), count_if(helpful) "
            f"FROM {critiques} WHERE granularity != 'criterion' GROUP BY ALL"
        )
    }
    ours = [row for row in table(version, "table 25") if row["source"] == "this build"]
    assert {
        (r["task"], r["strategy"]): (r["feedback judged"], r["valid"], r["contextual"]) for r in ours
    } == of_feedback
    ours = [row for row in table(version, "table 1)") if row["source"] == "this build"]
    found = {(r["task"], r["strategy"]): [r["criteria judged"], r["touched"], r["helped"]] for r in ours}
    assert found == of_critiques
    for title, column, place in (("table 26", "touched", 1), ("table 2)", "helped", 2)):
        ours = [row for row in table(version, title) if row["source"] == "this build"]
        assert {(r["task"], r["strategy"]): r[column] for r in ours} == {
            key: numbers[place] for key, numbers in of_critiques.items()
        }
    sums = asked(f"SELECT sum(judged), sum(touched), sum(helped) FROM {feedback}")
    assert sums == asked(f"SELECT count(*), count_if(constructive), count_if(helpful) FROM {critiques}")


def test_judges_find_what_was_planted_and_the_gates_say_so(sample: tuple[Path, Version]) -> None:
    checks = rows(sample[1], "checks")
    rates = asked(f"SELECT layer, planted, avg(hit::INT), count(*) FROM {checks} GROUP BY ALL")
    assert len(rates) == 8
    assert all(rate >= 0.9 for *_, rate, _ in rates), rates
    assert {gate["gate"]: gate["found"] for gate in sample[1].manifest["gates"]}["planted_feedback"] == 0


def test_feedback_by_criteria_finds_what_texts_were_made_to_violate(sample: tuple[Path, Version]) -> None:
    critiques, texts = (rows(sample[1], name) for name in ("critiques", "texts"))
    query = (
        f"SELECT c.violated, avg(coalesce(helpful, false)::INT) FROM {critiques} AS c "
        f"JOIN {texts} AS t USING (text_id) "
        "WHERE strategy = 'crit' AND granularity = 'aspect' AND t.modified GROUP BY 1"
    )
    found = dict(asked(query))
    assert found[True] > 0.7 > 0.3 > found[False]


def test_no_text_of_a_demonstration_is_a_test_text_and_the_version_verifies(sample: tuple[Path, Version]) -> None:
    home, version = sample
    shown = rows(version, "demonstrations")
    both = f"SELECT count(*) FROM {shown} WHERE text_id IN (SELECT text_id FROM {rows(version, 'texts')})"
    assert asked(both) == [(0,)]
    kinds = asked(f"SELECT DISTINCT task, kind FROM {shown} ORDER BY ALL")
    assert {kind for task, kind in kinds if task == "introductions"} <= {1, 2}
    assert not [*check(Store(home), version)]


def test_a_task_of_ones_own_is_a_folder_and_changes_no_row_of_the_others(
    sample: tuple[Path, Version], tmp_path: Path
) -> None:
    home, version = sample
    tasks = [*(str(SAMPLES / name) for name in TASKS), str(READMES)]
    four, _ = make(home, "four", tasks=tasks)
    before, after = hashes(version), hashes(four)
    of_three = [name for name in before if name.endswith(".parquet") and any(f"{task}/" in name for task in TASKS)]
    assert of_three
    assert all(after[name] == before[name] for name in of_three)
    found = asked(
        f"SELECT count(DISTINCT text_id), count(DISTINCT strategy) FROM {rows(four, 'feedback')} WHERE task = 'readmes'"
    )
    assert found[0][0] >= 4
    assert found[0][1] == 4


def test_exported_criteria_are_criteria_of_a_task(sample: tuple[Path, Version], tmp_path: Path) -> None:
    home, version = sample
    export = EXPORTS["llmcrit-jsonl"]
    lines = [export.line(row) for row in export.rows(Export(Store(home), version, None, "criteria", frozenset()))]
    own = tmp_path / "posts"
    own.mkdir()
    task = (SAMPLES / "posts" / "task.toml").read_text()
    (own / "task.toml").write_text(task.replace('paths = ["', f'paths = ["{SAMPLES / "posts"}/'))
    (own / "criteria.jsonl").write_bytes(b"".join(line for line in lines if b'"posts/' in line))
    again, _ = make(tmp_path / "home", tasks=[str(own)])
    shown = 'task, name, "check"'
    before = asked(f"SELECT {shown} FROM {rows(version, 'criteria')} WHERE task = 'posts' ORDER BY ALL")
    assert asked(f"SELECT {shown} FROM {rows(again, 'criteria')} ORDER BY ALL") == before
    assert asked(f"SELECT count(*) FROM {rows(again, 'demonstrations')}") == asked(
        f"SELECT count(*) FROM {rows(version, 'demonstrations')} WHERE task = 'posts'"
    )


def test_a_text_that_is_taken_down_is_in_no_table(sample: tuple[Path, Version], tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(sample[0], home)
    ((source_id,),) = asked(f"SELECT min(source_id) FROM {rows(sample[1], 'texts')} WHERE task = 'posts'")
    takedowns.add(home, [(source_id, "2026-11-26", "its author asked")])
    without, _ = make(home, "without")
    for config in ("feedback", "texts"):
        assert asked(f"SELECT count(*) FROM {rows(without, config)} WHERE text_id LIKE '%{source_id}'") == [(0,)]


def test_a_text_of_ones_own_is_taken_down_by_its_address_with_what_was_made_of_it(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "texts.jsonl"
    lines = [json.loads(line) for line in (READMES / "texts.jsonl").read_text().splitlines()]
    file.write_text("\n".join(json.dumps(line | {"url": f"https://a.example/{n}"}) for n, line in enumerate(lines)))
    own = {"tasks": [str(READMES)], "sources": {"readmes": str(file)}, "single": [], "strategies": ["base"]}
    version, _ = make(home, **own)
    ((url, text_id),) = asked(f"SELECT min(url), arg_min(text_id, url) FROM {rows(version, 'texts')}")
    ids = ids_of_address(url)
    (holder,) = holders(home, ids)
    assert {(hit.id, hit.column) for hit in holder.hits} == {(ids[0], "url")}
    with closing(open_responses(home / "llm" / "responses.sqlite", home=home)) as responses:
        found = responses_of(Store(home), ids, responses)
    made = asked(f"SELECT DISTINCT response FROM {rows(version, 'feedback')} WHERE text_id = '{text_id}'")
    others = asked(f"SELECT DISTINCT response FROM {rows(version, 'feedback')} WHERE text_id <> '{text_id}'")
    assert {key for (key,) in made} <= found
    assert not {key for (key,) in others} & found


def test_a_row_is_traced_to_the_document_of_its_criteria_and_the_demonstrations_shown(
    sample: tuple[Path, Version],
) -> None:
    home, version = sample
    ((found, aspect_id, shown, said),) = asked(
        "SELECT feedback_id, aspect_id, demonstrations, feedback "
        f"FROM {rows(version, 'feedback')} WHERE strategy = 'cricl' ORDER BY 1 LIMIT 1"
    )
    assert shown
    traced = trace_row(Store(home), version, found)
    behind = {(row["stage"], row[row["key"]]) for row in traced["behind"]}
    assert {("review_demonstrations", each) for each in shown[:3]} <= behind
    assert ("collect_aspects", aspect_id) in behind
    lines = "\n".join(trace_lines(traced))
    assert " ".join(said.split())[:60] in lines
    assert "judge_validity: verdict " in lines
    assert re.search(r"\.md · written for longform · Apache-2\.0", lines), "document, its author, its licence"
    ((criterion,),) = asked(f"SELECT min(criterion_id) FROM {rows(version, 'criteria')}")
    assert "Apache-2.0" in "\n".join(trace_lines(trace_row(Store(home), version, criterion)))


def test_without_texts_there_are_criteria_and_demonstrations_to_review(tmp_path: Path) -> None:
    version, _ = make(tmp_path / "home", texts=0, single=[])
    assert asked(f"SELECT count(*) FROM {rows(version, 'criteria')}") == [(34,)]
    assert "feedback" not in [name for name, files in version.tables().items() if files]
