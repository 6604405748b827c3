"""What training reads, and in which order: pure functions, without torch."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from training_pairs import pair, version_of

from longform.errors import UsageError
from tasks.axioms.training.folder import METRICS, RUN, RunFolder, card, run_of
from tasks.axioms.training.pairs import licences, write_pairs
from tasks.axioms.training.sampling import QuestionOrder, drawn, shows_evidence
from tasks.axioms.training.settings import Training


def test_an_epoch_has_every_question_once_in_another_order_than_the_next() -> None:
    order = QuestionOrder(questions=12, per_step=4, seed=3)
    epochs = [[question for step in range(start, start + 3) for question in order.at(step)] for start in (0, 3, 6)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 3
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_step_is_the_same_whatever_was_asked_before() -> None:
    through = QuestionOrder(10, 3, seed=1)
    asked = [through.at(step) for step in range(20)]
    assert [QuestionOrder(10, 3, seed=1).at(step) for step in range(20)] == asked
    assert [QuestionOrder(10, 3, seed=2).at(step) for step in range(20)] != asked


def test_a_question_with_fifty_pairs_is_drawn_as_often_as_one_with_two() -> None:
    rows = {0: list(range(50)), 1: [50, 51], 2: [52]}
    order = QuestionOrder(len(rows), per_step=5, seed=0)
    counted = Counter(question for step in range(600) for question in order.at(step))
    assert set(counted.values()) == {1_000}


def test_each_pair_of_a_question_is_drawn_alike() -> None:
    rows = list(range(100, 110))
    found = Counter(row for place in range(5_000) for row in drawn(rows, 2, seed=4, place=place))
    assert sum(found.values()) == 10_000
    expected, deviation = 1_000, np.sqrt(5_000 * 0.2 * 0.8)
    assert all(abs(found[row] - expected) < 4 * deviation for row in rows)
    assert drawn(rows, None, 0, 0) == drawn(rows, 10, 0, 0) == rows


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_evidence_is_shown_in_its_share_of_draws(share: float) -> None:
    shown = np.mean([shows_evidence(share, 0, place) for place in range(4_000)])
    assert abs(shown - share) < 0.04


def test_the_learning_rate_is_the_papers() -> None:
    paper = Training()
    assert [paper.rate(step) for step in (0, 499, 999, 8_000, 15_999)] == pytest.approx(
        [5e-9, 2.5e-6, 5e-6, 5e-6, 5e-6]
    )
    falling = Training(steps=10, warmup_steps=2, learning_rate=1.0, decay="linear")
    assert [falling.rate(step) for step in (0, 1, 2, 6, 9)] == pytest.approx([0.5, 1, 1, 0.5, 0.125])


def test_what_changes_no_weight_is_no_part_of_the_identity() -> None:
    manifest = {"recipe": "r", "files": {"train/a.parquet": {"sha256": "1"}, "README.md": {"sha256": "2"}}}
    other = json.loads(json.dumps(manifest).replace('"1"', '"3"'))
    base = Training().run_id(manifest)
    assert Training(checkpoint_every=7, report_every=9, threads=1).run_id(manifest) == base
    changed = [Training(seed=1), Training(axioms=[0]), Training(margins="critic"), Training(steps=3)]
    assert len({base, Training().run_id(other), *(each.run_id(manifest) for each in changed)}) == 6


@pytest.mark.parametrize(("axioms", "why"), [([6], "there is no axiom 6"), ([], "name one axiom or more")])
def test_axioms_that_are_none_are_refused(axioms: list[int], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Training(axioms=axioms)


def test_pairs_are_chosen_by_axiom_and_margin_and_stand_by_question(tmp_path: Path) -> None:
    rows = [
        pair(0),
        pair(1, axiom=0, margin=0.7),
        pair(0, 1, critic_margin=0.4),
        pair(1, 2, axiom=0, critic_margin=0.1),
    ]
    version = version_of(tmp_path / "v", rows)
    both = write_pairs(version, "train", [0, 1], "votes", tmp_path / "a.arrow")
    assert both.questions == ["q_0", "q_1"]
    assert [both.rows(question) for question in range(2)] == [[0, 2], [1, 3]]
    assert both.counts() == {0: 2, 1: 2}
    assert (both.pair(1).margin, both.pair(2).rejected_id) == (0.7, "n_0_1")
    critic = write_pairs(version, "train", [1], "critic", tmp_path / "b.arrow")
    assert [critic.pair(row).margin for row in range(len(critic))] == [0.4]


@pytest.mark.parametrize(
    ("axioms", "margins", "why"),
    [
        ([2, 3], "votes", "has no pair of axioms 2, 3 .* pairs of axioms 1"),
        ([1], "critic", "has no pair of axioms 1 with a margin by critic"),
    ],
)
def test_no_pair_to_train_on_is_an_error_that_says_what_there_is(
    axioms: list[int], margins: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=why):
        write_pairs(version_of(tmp_path / "v", [pair(0)]), "train", axioms, margins, tmp_path / "a.arrow")


def test_a_version_without_the_split_is_an_error(tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [pair(0)])
    with pytest.raises(UsageError, match="no split validation; it has train, test"):
        write_pairs(version, "validation", [1], "votes", tmp_path / "a.arrow")


def test_licences_are_counted_by_pair(tmp_path: Path) -> None:
    rows = [pair(0), pair(1, question_licence="CC BY-SA 3.0"), pair(2)]
    assert licences(version_of(tmp_path / "v", rows)) == {"CC BY-SA 4.0": 3, "CC BY-SA 3.0": 1}


def finished(folder: RunFolder) -> RunFolder:
    """The folder of a run that ended, without a model in it."""
    folder.begin()
    folder.model.mkdir()
    folder.finish({"reports": []}, card(folder.run, {"CC BY-SA 4.0": 2}, {1: 2}, []))
    return folder


def test_a_finished_run_is_known_again_and_another_is_refused(tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [pair(0)])
    folder = RunFolder(tmp_path / "model", run_of(Training(), version))
    assert not folder.is_finished()
    finished(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "v"]
    assert {path.name for path in folder.place.iterdir()} == {RUN, METRICS, "README.md"}
    assert folder.is_finished()
    other = RunFolder(folder.place, run_of(Training(seed=3), version))
    with pytest.raises(UsageError, match="a run with seed = 0, not 3"):
        other.is_finished()


def test_a_run_in_the_making_is_not_taken_over_by_another(tmp_path: Path) -> None:
    version = version_of(tmp_path / "v", [pair(0)])
    RunFolder(tmp_path / "model", run_of(Training(), version)).begin()
    with pytest.raises(UsageError, match=r'model.unfinished holds a run with margins = "votes", not "critic"'):
        RunFolder(tmp_path / "model", run_of(Training(margins="critic"), version)).is_finished()
    same = RunFolder(tmp_path / "model", run_of(Training(), replace(version, name="w")))
    with pytest.raises(UsageError, match='version = "v", not "w"'):
        RunFolder(same.place, {**same.run, "run": "other"}).is_finished()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(UsageError, match="something else than a model"):
        RunFolder(tmp_path / "notes", run_of(Training(), version_of(tmp_path / "v", [pair(0)]))).is_finished()


def test_the_card_names_licences_settings_and_that_texts_are_of_the_offline_rules(tmp_path: Path) -> None:
    run = run_of(Training(axioms=[1]), version_of(tmp_path / "v", [pair(0)]))
    text = card(run, {"CC BY-SA 4.0": 3}, {1: 3}, ["### Held-out pairs"])
    for told in ("- CC BY-SA 4.0: 3 pairs", "3 of axiom 1", "offline rules", "| learning_rate | `5e-06` |", "### Held"):
        assert told in text
    assert "offline rules" not in card({**run, "offline": False}, {}, {}, [])
