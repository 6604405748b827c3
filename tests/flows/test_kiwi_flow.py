"""The whole kiwi flow, offline: equal byte by byte, every table recomputed, sides apart, sessions of files and the page
taken once, takedowns.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent

from flows.builds.building import Options, build
from flows.cli.shared.takedown_effects import holders
from flows.cli.shared.verification import check
from flows.inspection.describe import trace_lines
from flows.inspection.tracing import trace_row
from flows.kiwi import ABOUT, EXPORTS, SAMPLES, KiwiConfig, responses_of
from longform.artifacts import takedowns
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact, stage_rows
from longform.engine.build import Build
from longform.engine.thread_tasks import SequentialStages
from longform.files import sha256_of
from longform.llm.responses.store import open_responses
from tasks.publishing.exports import Export

Rows = list[dict[str, Any]]
MEASURES = {
    "words of instruction": "instruction_words",
    "words of source": "source_words",
    "words of target": "target_words",
    "length ratio": "length_ratio",
    "edit distance": "edit_distance",
    "edit ratio": "edit_ratio",
}


def make(home: Path, version: str = "v1", **settings: Any) -> tuple[Version, Build]:
    config = KiwiConfig(**settings)
    published, run = build(ABOUT.dataset, config, Options(home, version), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, run


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    home = tmp_path_factory.mktemp("kiwi") / "home"
    return home, make(home)[0]


def rows(version: Version, config: str = "turns") -> Rows:
    return [row for path in version.tables().get(config, []) for row in pq.read_table(path).to_pylist()]


def of_people(version: Version) -> Rows:
    return [row for row in rows(version) if row["origin"] != "simulated"]


def hashes(version: Version) -> dict[str, str]:
    kept = (".parquet", ".svg", ".json", ".md")
    found = [path for path in version.folder.rglob("*") if path.suffix in kept and path.name != "manifest.json"]
    return {str(path.relative_to(version.folder)): sha256_of(path) for path in found}


def table(version: Version, title: str, ours: bool = True) -> Rows:
    tables = json.loads((version.folder / "tables.json").read_text())
    found: Rows = next(each["rows"] for each in tables if title in each["title"])
    return [row for row in found if not ours or row.get("source", "this build") == "this build"]


def share(part: Rows, column: str, value: str) -> float:
    known = [row[column] for row in part if row[column] is not None]
    return 100 * known.count(value) / len(known)


# ---------------------------------------------------------------- bytes, sides


def test_two_homes_give_equal_bytes(sample: tuple[Path, Version], tmp_path: Path) -> None:
    assert hashes(make(tmp_path / "other")[0]) == hashes(sample[1])


def test_nobody_stands_on_both_sides_and_simulated_turns_stand_apart(sample: tuple[Path, Version]) -> None:
    sides = defaultdict(set)
    for row in rows(sample[1]):
        assert (row["split"] == "simulated") == (row["origin"] == "simulated")
        if row["origin"] != "simulated":
            for text in (row["question_id"], row["before"], row["answer"]):
                sides[text].add(row["split"])
    assert {len(of) for of in sides.values()} == {1}
    assert {side for of in sides.values() for side in of} == {"train", "validation", "test"}
    assert {row["annotator_id"] for row in rows(sample[1]) if row["origin"] == "simulated"} == {
        "simulated/offline-rules-1"
    }


def test_references_of_simulated_answers_name_passages_that_were_shown_so_far(sample: tuple[Path, Version]) -> None:
    sessions = {row["session_id"]: row for row in rows(sample[1], "sessions") if row["origin"] == "simulated"}
    for name, session in sessions.items():
        shown = [each["text"] for each in session["passages"]]
        for turn in sorted((row for row in rows(sample[1]) if row["session_id"] == name), key=lambda r: r["position"]):
            shown += [each["text"] for each in turn["passages"]]
            for sentence, number in re.findall(r"([^.\[\]]{20,})\[(\d+)\]", turn["answer"]):
                assert int(number) < len(shown)
                assert " ".join(sentence.split()) in " ".join(shown[int(number)].split())


def test_the_version_verifies_and_every_gate_found_nothing(sample: tuple[Path, Version]) -> None:
    home, version = sample
    assert list(check(Store(home), version)) == []
    assert not any(gate["found"] for gate in version.manifest["gates"])


# ---------------------------------------------------------------- tables again, by plain Python


def test_table_2_counts_turns_edits_and_kinds_of_each_model(sample: tuple[Path, Version]) -> None:
    ours = {(row["readers"], row["system"]): row for row in table(sample[1], "table 2")}
    turns = rows(sample[1])
    for (readers, system), row in ours.items():
        part = [
            turn
            for turn in turns
            if (turn["origin"] == "simulated") == (readers == "simulated") and system in (turn["system"], "total")
        ]
        assert (row["turns"], row["edited"]) == (len(part), sum(turn["edited"] is not None for turn in part))
        assert row["turns per session"] == pytest.approx(len(part) / len({turn["session_id"] for turn in part}))
        for kind in ("information", "style"):
            assert row[f"{kind}, %"] == pytest.approx(share(part, "kind", kind))
    assert {key for key in ours if key[0] == "people"} == {
        ("people", name) for name in ("model-a", "model-b", "model-c", "total")
    }


def test_figure_2_counts_ratings_and_kinds(sample: tuple[Path, Version]) -> None:
    turns = rows(sample[1])
    for row in table(sample[1], "Ratings by model and kind"):
        part = [
            turn
            for turn in turns
            if turn["system"] == row["system"]
            and (turn["origin"] == "simulated") == (row["readers"] == "simulated")
            and row["kind"] in (turn["kind"], "both")
        ]
        assert row["turns"] == len(part)
        assert [row[f"{name}, %"] for name in ("good", "neutral", "bad")] == pytest.approx(
            [share(part, "rating", name) for name in ("good", "neutral", "bad")]
        )
    for row in table(sample[1], "Kinds by place"):
        part = [turn for turn in of_people(sample[1]) if turn["position"] == row["turn"]]
        assert (row["turns"], row["information, %"]) == (len(part), pytest.approx(share(part, "kind", "information")))


def merged(turns: Rows) -> Rows:
    """The turns, in which a category of fewer than 5 % of them is others."""
    count = Counter(turn["category"] for turn in turns)
    return [
        {**turn, "category": turn["category"] if count[turn["category"]] >= 0.05 * len(turns) else "others"}
        for turn in turns
    ]


def test_table_3_counts_categories_and_merges_small_ones(sample: tuple[Path, Version]) -> None:
    turns = merged(of_people(sample[1]))
    found = {row["category"]: row for row in table(sample[1], "table 3") if row["turns"]}
    assert {*found} == {turn["category"] for turn in turns}
    for category, row in found.items():
        part = [turn for turn in turns if turn["category"] == category]
        assert (row["turns"], row["share, %"]) == (len(part), pytest.approx(100 * len(part) / len(turns)))
        assert row["good, %"] == pytest.approx(share(part, "rating", "good"))
        assert row["style, %"] == pytest.approx(share(part, "kind", "style"))
    for row in table(sample[1], "Ratings by category and model"):
        part = [turn for turn in turns if (turn["category"], turn["system"]) == (row["category"], row["system"])]
        assert (row["turns"], row["bad, %"]) == (len(part), pytest.approx(share(part, "rating", "bad")))


def test_table_4_counts_errors_of_turns_that_are_not_good(sample: tuple[Path, Version]) -> None:
    wrong = [turn for turn in of_people(sample[1]) if turn["rating"] != "good" and turn["comment"].strip()]
    assert len(wrong) == 18
    assert all((turn["error"] is not None) == (turn in wrong) for turn in of_people(sample[1]))
    found = {row["error"]: row["turns"] for row in table(sample[1], "table 4") if row["turns"]}
    assert found == Counter(turn["error"] for turn in wrong)


def test_table_5_scores_every_system_on_the_turns_of_test(sample: tuple[Path, Version]) -> None:
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    test = {turn["turn_id"]: turn for turn in rows(sample[1]) if turn["split"] == "test"}
    predictions = defaultdict(dict)
    for row in rows(sample[1], "predictions"):
        predictions[row["system"]][row["turn_id"]] = row["predicted"]
    found = {row["system"]: row for row in table(sample[1], "table 5")}
    assert list(found) == ["majority", "random", "zero-shot", "few-shot"]
    for system, said in predictions.items():
        assert {*said} == {*test}
        actual = ["good" if test[name]["rating"] == "good" else "bad" for name in said]
        scores = precision_recall_fscore_support(
            actual, list(said.values()), average="binary", pos_label="good", zero_division=0
        )[:3]
        row = found[system]
        assert row["accuracy"] == pytest.approx(accuracy_score(actual, list(said.values())))
        assert [row[name] for name in ("precision", "recall", "F1")] == pytest.approx(list(scores))
        assert row["good, %"] == pytest.approx(100 * list(said.values()).count("good") / len(said))
    train = [turn["label"] for turn in rows(sample[1]) if turn["split"] == "train"]
    majority = "good" if train.count("good") > len(train) / 2 else "bad"
    assert {*predictions["majority"].values()} == {majority}


def distance(one: list[str], other: list[str]) -> int:
    """Word-level Levenshtein distance by the textbook's recurrence."""
    last = list(range(len(other) + 1))
    for at, word in enumerate(one, start=1):
        row = [at]
        for place, another in enumerate(other, start=1):
            row.append(min(last[place] + 1, row[-1] + 1, last[place - 1] + (word != another)))
        last = row
    return last[-1]


def test_table_6_is_the_means_of_an_edit_distance_of_our_own(sample: tuple[Path, Version]) -> None:
    own: Rows = []
    for turn in merged(of_people(sample[1])):
        target = turn["edited"] or (turn["answer"] if turn["rating"] == "good" else None)
        assert (turn["target"], turn["edit_distance"] is None) == (target, target is None)
        if target is not None:
            source, final = turn["before"].split(), target.split()
            edits = distance(source, final)
            lengths = {"instruction_words": len(turn["instruction"].split()), "source_words": len(source)}
            ratios = {"length_ratio": len(final) / len(source), "edit_ratio": edits / len(source)}
            own.append({**turn, **lengths, "target_words": len(final), "edit_distance": edits, **ratios})
    assert len(own) == 26, "18 good ones, and the 8 with an edit"
    columns = {"category": "category", "kind": "kind", "model": "system"}
    seen = Counter[str]()
    for row in table(sample[1], "table 6"):
        part = own if row["of"] == "all" else [turn for turn in own if turn[columns[row["of"]]] == row["type"]]
        seen[row["of"]] += row["turns"]
        assert row["turns"] == len(part)
        for shown, column in MEASURES.items():
            assert row[shown] == pytest.approx(fmean(turn[column] for turn in part)), (row["type"], shown)
    assert seen == {"category": 26, "kind": 26, "model": 26, "all": 26}


def test_the_selection_of_questions_is_that_of_the_stages(sample: tuple[Path, Version]) -> None:
    home, version = sample
    count = {
        name: artifact(Store(home), version, name).rows
        for name in ("related_paragraphs", "find_documents", "collect_asked", "match_evidence", "propose_questions",
                     "drop_anchored", "check_answerable")
    }  # fmt: skip
    steps = list(count.values())
    pairs = [(steps[0], steps[1]), (steps[2], steps[3]), (steps[4], steps[5]), (steps[5], steps[6])]
    assert [(row["in"], row["stay"]) for row in table(version, "Selection of questions")] == pairs
    assert pairs[:2] == [(6, 4), (7, 5)], "the odd ones that the samples' README tells of"


# ---------------------------------------------------------------- nothing twice


def test_a_second_build_reuses_every_part_and_has_nothing_to_do(sample: tuple[Path, Version], tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(sample[0], home)
    parts = {path: path.stat().st_mtime_ns for path in (home / "stages").rglob("part.json")}
    make(home, "v2", shots=10)
    assert {path: path.stat().st_mtime_ns for path in (home / "stages").rglob("part.json")} == parts


def test_a_session_of_the_page_is_taken_at_the_next_build_and_moves_no_other_row(
    sample: tuple[Path, Version], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    shutil.copytree(sample[0], home)
    (question,) = [row for row in rows(sample[1], "questions") if row["question_id"] == "ovens-1"]
    turn = {"position": 1, "instruction": "Say it in two sentences.", "kind": "style", "before": "Heat spreads [0].",
            "answer": "Heat spreads. It does [0].", "rating": "good", "comment": "It is.", "edited": None,
            "seconds": 12.5, "passages": [], "summary": None}  # fmt: skip
    session = {"session_id": "0f0f", "question_id": "ovens-1", "question": question["question"], "origin": "page",
               "system": "offline", "annotator_id": "p7", "source_paper": None, "initial": "Heat spreads [0].",
               "passages": [], "turns": [turn]}  # fmt: skip
    (home / "page" / "kiwi").mkdir(parents=True)
    (home / "page" / "kiwi" / "0f0f.jsonl").write_text(json.dumps(session) + "\n")
    version, _ = make(home, "v2")
    before, after = ({row["turn_id"]: row for row in rows(of)} for of in (sample[1], version))
    (new,) = [after[name] for name in after.keys() - before.keys()]
    assert {name: after[name] for name in before} == before
    assert (new["turn_id"], new["origin"], new["annotator_id"], new["seconds"]) == ("0f0f#1", "page", "p7", 12.5)
    assert new["split"] == next(row["split"] for row in before.values() if row["question_id"] == "ovens-1"
                                and row["origin"] != "simulated")  # fmt: skip
    without, _ = make(home, "v3", page_sessions=False)
    assert hashes(without) == {**hashes(sample[1]), "README.md": hashes(without)["README.md"],
                               "croissant.json": hashes(without)["croissant.json"]}  # fmt: skip


# ---------------------------------------------------------------- there and back


def test_exported_sessions_are_sessions_again_to_the_letter(sample: tuple[Path, Version], tmp_path: Path) -> None:
    home, version = sample
    export = EXPORTS["kiwi-jsonl"]
    lines = [export.line(row) for row in export.rows(Export(Store(home), version, None, "sessions", frozenset()))]
    (tmp_path / "sessions.jsonl").write_bytes(b"".join(lines))
    again, _ = make(tmp_path / "home", sessions=str(tmp_path / "sessions.jsonl"), turns=0)
    first = {row["session_id"]: row for row in stage_rows(Store(home), version, "collect_sessions")}
    assert {row["session_id"]: row for row in stage_rows(Store(tmp_path / "home"), again, "collect_sessions")} == first
    assert len(first) == 28
    extras = [row["extra"] for row in first.values() if row["extra"]]
    assert extras == [extra for extra in extras if "survey" in extra]
    assert len(extras) == 1


def test_one_split_is_exported_alone(sample: tuple[Path, Version]) -> None:
    home, version = sample
    found = EXPORTS["kiwi-jsonl"].rows(Export(Store(home), version, "test", "sessions", frozenset()))
    expected = {row["session_id"] for row in rows(version, "sessions") if row["split"] == "test"}
    assert {row["session_id"] for row in found} == expected != set()


# ---------------------------------------------------------------- settings


def test_without_questions_sessions_alone_are_published(tmp_path: Path) -> None:
    version, _ = make(tmp_path / "home", questions=[], papers=[], generate=False)
    assert len(rows(version)) == 36
    assert rows(version, "questions") == []


def test_without_sessions_and_turns_there_are_questions(tmp_path: Path) -> None:
    version, _ = make(tmp_path / "home", sessions=[], turns=0, generate=False)
    assert {row["split"] for row in rows(version, "questions")} == {"unused"}
    assert len(rows(version, "questions")) == 5


def test_turns_are_split_as_in_the_paper_where_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text("".join(_sessions(252, 5)))
    version, _ = make(
        tmp_path / "home", questions=[], papers=[], generate=False, sessions=str(tmp_path / "own.jsonl"),
        split_by="turns", shots=2,
    )  # fmt: skip
    assert Counter(row["split"] for row in rows(version)) == {"train": 888, "validation": 186, "test": 186}
    assert {row["split"] for row in rows(version, "sessions")} >= {"several"}


def _sessions(number: int, turns: int) -> list[str]:
    """JSON lines of sessions, each on a question of its own."""
    record = {"model_name": "m", "annotator_id": "a", "initial_answer": "It is known."}
    made = [
        {"instruction": f"Add fact {n} on {s}.", "answer_1": f"Fact {n} on {s} is known.", "rating": "good"}
        for s in range(number)
        for n in range(turns)
    ]
    return [
        json.dumps({**record, "initial_question": f"What is {s}?", "interaction": made[s * turns : (s + 1) * turns]})
        + "\n"
        for s in range(number)
    ]


# ---------------------------------------------------------------- traces and takedowns


def test_a_turn_is_traced_to_its_question_passages_and_calls(sample: tuple[Path, Version]) -> None:
    home, version = sample
    turn = next(row for row in rows(version) if row["origin"] == "simulated" and row["kind"] == "information")
    traced = trace_row(Store(home), version, turn["turn_id"])
    lines = "\n".join(trace_lines(traced))
    for text in (turn["instruction"], turn["before"], turn["answer"], turn["comment"], turn["question"]):
        assert " ".join(text.split())[:60] in lines
    for passage in turn["passages"]:
        assert passage["passage_id"] in lines
        paper = passage["passage_id"].removeprefix(f"{turn['question_id']}/").rpartition("#")[0]
        assert f'{paper}   "{passage["title"]}"   CCBY' in lines
    assert f"response {turn['response'][:16]}" in lines
    assert re.search(f"category +{turn['category']}", lines)
    other = next(row for row in rows(version) if row["session_id"] == turn["session_id"] and row != turn)
    assert other["turn_id"] not in lines


@pytest.mark.parametrize("config", ["sessions", "questions", "predictions"])
def test_a_row_of_every_table_is_traced(config: str, sample: tuple[Path, Version]) -> None:
    home, version = sample
    for row in rows(version, config)[::7]:
        traced = trace_row(Store(home), version, row[version.key(config)])
        assert (traced["config"], traced["row"][version.key(config)]) == (config, row[version.key(config)])
        json.dumps(traced)
        titles = [title for title, _ in traced["lines"]]
        assert {"row", "built by"} < {*titles}
        if config == "sessions":
            assert [title for title in titles if title.startswith("turn ")] == [
                f"turn {n}" for n in range(1, row["turns"] + 1)
            ]


@pytest.mark.parametrize(("paper", "title"), [("s2/5101", "Reading a Tide Board"), ("s2/5002", "Shared Oven")])
def test_a_paper_that_is_taken_down_leaves_no_row_passage_or_reply(
    paper: str, title: str, sample: tuple[Path, Version], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    shutil.copytree(sample[0], home)
    (holder,) = holders(home, [paper])
    assert {hit.id for hit in holder.hits} == {paper}
    takedowns.add(home, [(paper, "2026-11-26", "its authors asked")])
    version, _ = make(home, "v2")
    attribution = pq.read_table(version.folder / "attribution.parquet").to_pylist()
    assert not any(row["record_id"] == paper for row in attribution)
    turns, questions = rows(version), rows(version, "questions")
    assert not any(paper in (each["passage_id"] or "") or title in each["title"]
                   for row in turns for each in row["passages"])  # fmt: skip
    assert not any(each["paper_id"] == paper for row in questions for each in row["documents"])
    assert not any(row["source_id"] == paper for row in questions)
    assert 0 < len(turns) < len(rows(sample[1]))
    assert list(check(Store(home), version)) == []


def test_replies_that_were_made_from_a_paper_are_found_and_no_others(sample: tuple[Path, Version]) -> None:
    home, version = sample
    with closing(open_responses(home / "llm" / "responses.sqlite", home=home)) as responses:
        found = responses_of(Store(home), ["s2/5101"], responses)
    touched = {row["question_id"] for row in rows(version, "questions")
               if any(each["paper_id"] == "s2/5101" for each in row["documents"])}  # fmt: skip
    made = {True: set[str](), False: set[str]()}
    for row in [*rows(version), *rows(version, "sessions")]:
        if row["response"]:
            made[row["question_id"] in touched].add(row["response"])
    assert made[True]
    assert made[True] <= found
    assert not made[False] & found


def test_the_samples_are_named_as_they_are(sample: tuple[Path, Version]) -> None:
    assert len((SAMPLES / "interaction_data.jsonl").read_text().splitlines()) == 8
