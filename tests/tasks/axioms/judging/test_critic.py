"""Margins by a critic: what it is shown, and the margins computed again, by plain loops, from what it said."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from pydantic import ValidationError

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, declare, plan
from flows.cli.shared.verification import check
from flows.inspection.describe import rejected_rows
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.axioms.judging.critic import NO_SIDE, NOT_SHOWN, _add_texts, _chosen
from tasks.axioms.judging.margins import DISAGREES, NOT_SCORED, TOO_NEAR
from tasks.axioms.trace import trace

Row = dict[str, Any]
OTHERS: dict[str, Any] = {"eli5": [], "webgpt": [], "research_questions": []}
SETTINGS: dict[str, Any] = {"margins": "critic", "critic_answers": 8, "test_share": 0.3, **OTHERS}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def version(home: Path) -> Version:
    version, _, _ = build_axioms(home, **SETTINGS)
    assert version is not None
    return version


@pytest.fixture(scope="module")
def critiques(version: Version) -> dict[tuple[str, str], Row]:
    return {(row["question_id"], row["answer_id"]): row for row in rows(version, "critiques").values()}


def rows(version: Version, config: str) -> dict[str, Row]:
    found = [row for path in version.tables()[config] for row in pq.read_table(path).to_pylist()]
    return {row[version.key(config)]: row for row in found}


def expected(pair: Row, critiques: dict[tuple[str, str], Row]) -> tuple[float | None, float | None, float | None]:
    """(preferred_score, rejected_score, critic_margin) of a pair, from the critiques of its answers."""
    both = [critiques.get((pair["question_id"], pair[f"{side}_id"])) for side in ("preferred", "rejected")]
    if both[0] is None or both[1] is None:
        return None, None, None
    first, second = both[0]["score"], both[1]["score"]
    return first, second, (first - second) / 100 if first - second >= 5 else None


def test_every_margin_follows_from_the_critiques(version: Version, critiques: dict[tuple[str, str], Row]) -> None:
    pairs = rows(version, "pairs")
    found = Counter[str]()
    for pair in pairs.values():
        scores = expected(pair, critiques)
        assert (pair["preferred_score"], pair["rejected_score"]) == scores[:2]
        assert pair["critic_margin"] == (None if scores[2] is None else pytest.approx(scores[2]))
        found["kept" if scores[2] is not None else "not scored" if scores[0] is None else "dropped"] += 1
    assert min(found[kind] for kind in ("kept", "not scored", "dropped")) > 20, found


def test_rows_for_trainers_have_the_margin_of_the_critic_and_no_other_row(
    version: Version, critiques: dict[tuple[str, str], Row]
) -> None:
    pairs, chats, by_critic = (rows(version, name) for name in ("pairs", "preference", "preference_critic"))
    margins = {key: expected(pair, critiques)[2] for key, pair in pairs.items() if pair["split"] != "overlap"}
    assert by_critic.keys() == {key for key, margin in margins.items() if margin is not None}
    of_question = Counter(row["question_id"] for row in by_critic.values())
    order = defaultdict(list)
    for key, row in by_critic.items():
        assert 0.05 <= row["margin"] <= 0.99
        assert row["margin"] == pytest.approx(margins[key]) == row["critic_margin"]
        assert row["weight"] == 1 / of_question[row["question_id"]]
        assert row == {**chats[key], **{name: row[name] for name in ("margin", "weight", "draw")}}
        order[row["question_id"]].append((row["draw"], chats[key]["draw"]))
    for own in order.values():
        places, before = zip(*sorted(own), strict=True)
        assert list(places) == list(range(1, len(own) + 1))
        assert list(before) == sorted(before)
    assert chats.keys() == margins.keys()
    assert {row["margin"] for row in chats.values()} >= {0.25}


def test_what_is_dropped_is_counted_by_its_reason(
    version: Version, home: Path, critiques: dict[tuple[str, str], Row]
) -> None:
    counted = Counter[str]()
    for pair in rows(version, "pairs").values():
        first, second, margin = expected(pair, critiques)
        if pair["split"] != "overlap" and margin is None:
            near = first is not None and second is not None and first >= second
            counted[NOT_SCORED if first is None else TOO_NEAR if near else DISAGREES] += 1
    dropped = Counter(row["reason"] for row in rejected_rows(Store(home), version, "take_critic_margins"))
    assert dropped == counted
    assert set(counted) == {NOT_SCORED, TOO_NEAR, DISAGREES}
    unseen = Counter(row["reason"] for row in rejected_rows(Store(home), version, "criticise_answers"))
    assert set(unseen) <= {NOT_SHOWN, NO_SIDE}
    assert unseen[NOT_SHOWN] == counted[NOT_SCORED]


def test_the_report_counts_the_same_pairs(version: Version, critiques: dict[tuple[str, str], Row]) -> None:
    tables = json.loads((version.folder / "tables.json").read_text())
    table, of_critic = (
        next(each["rows"] for each in tables if each["title"] == title)
        for title in ("Margins by the critic", "The critic")
    )
    for row in table:
        own = [pair for pair in rows(version, "pairs").values() if pair["pair_type"] == row["pair type"]]
        found = [expected(pair, critiques) for pair in own if pair["split"] != "overlap"]
        ahead = [first - second for first, second, _ in found if first is not None and second is not None]
        assert row["pairs"] == len(found)
        assert row["scored"] == len(ahead)
        assert row["kept"] == sum(each >= 5 for each in ahead)
        assert row["under 5 points"] == sum(0 <= each < 5 for each in ahead)
        assert row["critic disagrees"] == sum(each < 0 for each in ahead)
    calls = defaultdict(list)
    for critique in critiques.values():
        calls[critique["question_id"]].append((critique["place"], critique["score"]))
    best = [min(own) for own in calls.values() for top in [max(score for _, score in own)]]
    first = [
        next(place for place, score in own if score == max(s for _, s in own)) == 1
        for own in calls.values()
        if sum(score == max(s for _, s in own) for _, score in own) == 1
    ]
    two = [
        (one[1], other[1])
        for own in calls.values()
        for one in sorted(own)
        for other in sorted(own)
        if one[0] < other[0]
    ]
    earlier = [a > b for a, b in two if a != b]
    (row,) = of_critic
    assert best
    assert (row["calls"], row["answers"]) == (len(calls), len(critiques))
    assert row["ties, %"] == pytest.approx(100 * sum(a == b for a, b in two) / len(two), abs=0.01)
    assert row["best is shown first, %"] == pytest.approx(100 * sum(first) / len(first), abs=0.01)
    assert row["earlier is better, %"] == pytest.approx(100 * sum(earlier) / len(earlier), abs=0.01)


def test_a_question_shows_at_most_so_many_answers_of_pairs_of_every_type(
    version: Version, critiques: dict[tuple[str, str], Row]
) -> None:
    pairs = rows(version, "pairs")
    calls = defaultdict(list)
    for row in critiques.values():
        calls[row["question_id"]].append(row)
    for question, own in calls.items():
        assert sorted(row["place"] for row in own) == list(range(1, own[0]["shown"] + 1))
        assert len(own) <= 8
        assert len({(row["response"], row["explanation"]) for row in own}) == 1
        shown = {row["answer_id"] for row in own}
        scored = {
            key
            for key, pair in pairs.items()
            if pair["question_id"] == question and {pair["preferred_id"], pair["rejected_id"]} <= shown
        }
        assert {pair["pair_id"] for row in own for pair in row["pairs"]} == scored
        human = {answer for answer in shown if "/" in answer}
        assert human <= set(own[0]["parent_ids"])
    scored_types = {pair["pair_type"] for pair in pairs.values() if pair["preferred_score"] is not None}
    assert scored_types == {pair["pair_type"] for pair in pairs.values()}


def test_which_answers_are_shown_depends_on_the_seed_and_the_questions_own_pairs_alone() -> None:
    pairs = [
        {"pair_id": f"p{n}", "pair_type": "a" if n < 40 else "b", "preferred_id": "x", "rejected_id": f"y{n}"}
        for n in range(42)
    ]
    one = _chosen("q", pairs, 6, 0)
    again = _chosen("q", pairs[::-1], 6, 0)
    assert (one.order, one.pairs) == (again.order, again.pairs | {})
    assert len(one.order) == 6
    assert {"p40", "p41"} <= one.pairs.keys()  # of the rarer type, although the other has twenty times its pairs
    assert _chosen("q", pairs, 6, 1).pairs.keys() != one.pairs.keys()
    whole = _chosen("q", pairs, 43, 0)
    assert len(whole.pairs) == 42


def test_evidence_is_shown_unless_an_answer_is_itself_a_passage(version: Version) -> None:
    pairs = rows(version, "pairs").values()
    shown: dict[int, Any] = {}
    for axiom in (2, 4):
        question = next(pair["question_id"] for pair in pairs if pair["axiom"] == axiom)
        own = [pair for pair in pairs if pair["question_id"] == question]
        asked = {question: _chosen(question, own, 50, 0)}
        _add_texts(OfRows(own), asked)
        shown[axiom] = (asked[question], own)
    grounded, pairs_of_it = shown[2]
    assert grounded.evidence == next(pair["evidence"] for pair in pairs_of_it if pair["evidence"])
    of_passages, own = shown[4]
    assert any(pair["evidence"] for pair in own)
    assert (of_passages.evidence, of_passages.evidence_ids) == ([], [])
    assert of_passages.answers.keys() == {pair[f"{side}_id"] for pair in own for side in ("preferred", "rejected")}


class OfRows:
    """Rows in memory, as `Rows` gives them."""

    def __init__(self, found: list[Row]) -> None:
        self._found = found

    def as_dicts(self, *columns: str) -> list[Row]:
        return [{name: row[name] for name in columns} for row in self._found]


def test_equal_settings_give_equal_bytes_and_the_version_is_verified(
    version: Version, home: Path, tmp_path: Path
) -> None:
    other, _, _ = build_axioms(tmp_path, **SETTINGS)
    assert other is not None
    assert other.manifest["files"] == version.manifest["files"]
    assert list(check(Store(home), version)) == []


def test_without_a_critic_the_columns_are_there_and_null(tmp_path: Path) -> None:
    version, progress, _ = build_axioms(tmp_path, **OTHERS)
    assert version is not None
    assert not {"criticise_answers", "score_pairs", "take_critic_margins"} & progress.begun.keys()
    assert not {"preference_critic", "critiques"} & version.configs.keys()
    for pair in rows(version, "pairs").values():
        assert [pair[name] for name in ("preferred_score", "rejected_score", "critic_margin")] == [None] * 3
    assert not any(gate["gate"].startswith("critic") for gate in version.manifest["gates"])


def test_a_plan_bounds_the_calls_of_the_critic_and_knows_them_once_the_pairs_are_there(
    home: Path, version: Version, tmp_path: Path, critiques: dict[tuple[str, str], Row]
) -> None:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "price": {"input": 1.0, "output": 2.0}}
    critic = {"stages": {"criticise_answers": {"model": "judge"}}, "endpoints": {"judge": endpoint}}
    config = AxiomsConfig(**SETTINGS | critic)
    build_axioms(tmp_path, until="select_questions", test_share=0.3, **OTHERS)
    plans = []
    for place in (tmp_path, home):
        options = Options(place)
        found, _ = plan(declare("axioms", config, options), options, priced=True, config=config)
        plans.append(next(each for each in found.stages if each.stage == "criticise_answers"))
    bounded, known = plans
    assert known.calls == len({question for question, _ in critiques})
    assert known.usd_at_most > 0
    assert bounded.calls >= known.calls


def test_the_trace_of_a_scored_pair_shows_what_the_critic_said(
    home: Path, version: Version, critiques: dict[tuple[str, str], Row]
) -> None:
    scored = next(row for row in rows(version, "pairs").values() if row["critic_margin"] is not None)
    found = trace(Store(home), version, scored["pair_id"])
    text = "\n".join(f"{title} {line}" for title, line in found["lines"])
    assert f"margin {scored['critic_margin']:.3g}" in text
    for side in ("preferred", "rejected"):
        said = critiques[scored["question_id"], scored[f"{side}_id"]]
        assert f"{side} {said['score']} points, shown as {said['place']} of {said['shown']}" in text
        assert all(point in text for name in ("strengths", "weaknesses", "missing") for point in said[name])
        assert found["critiques"][side]["critique_id"] == said["critique_id"]
    unscored = next(row for row in rows(version, "pairs").values() if row["preferred_score"] is None)
    assert not any(title == "critic" for title, _ in trace(Store(home), version, unscored["pair_id"])["lines"])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"margins": "judge"}, "margins"),
        ({"critic_answers": 1}, "critic_answers"),
        ({"critic_min_difference": 0}, "critic_min_difference"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        AxiomsConfig(**settings)
