"""Lists of trainings, and the command's refusals, without torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from flows.training.runs import in_short, read_runs, settings_of, with_axioms_and_margins
from flows.training.training import PACKAGES, Trained, check_dataset, check_packages
from longform.errors import UsageError
from tasks.publishing.card import ReportTable

LIST = """
steps = 40
backbone = "random:tiny"

[[run]]
name = "PM 0"
axioms = [0]

[[run]]
name = "PM 0-5 + λ"
axioms = [0, 1, 2, 3, 4, 5]
margins = "critic"
steps = 50
"""


def test_a_run_has_its_own_settings_over_those_of_the_list_and_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "runs.toml"
    file.write_text(LIST)
    first, second = read_runs(file)
    assert first == ("PM 0", {"steps": 40, "backbone": "random:tiny", "axioms": [0]})
    assert (second[0], second[1]["steps"], second[1]["margins"]) == ("PM 0-5 + λ", 50, "critic")
    chosen = settings_of(second[1], ["seed=4", 'version="2026.11"'], tmp_path / "m", "run")
    assert (chosen.steps, chosen.seed, chosen.version, chosen.to) == (50, 4, "2026.11", str(tmp_path / "m"))
    assert chosen.training.learning_rate == 5e-6


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("steps = ", "is no TOML"),
        ("steps = 4", "has no run"),
        ("[[run]]\naxioms = [0]", "Run 1 of .* needs a name"),
        ('[[run]]\nname = "../a"', "needs a name"),
        ('[[run]]\nname = "a"\n[[run]]\nname = "a"', 'two runs with the name "a"'),
    ],
)
def test_a_list_that_cannot_be_used_says_why(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "runs.toml").write_text(text)
    with pytest.raises(UsageError, match=why):
        read_runs(tmp_path / "runs.toml")


def test_a_list_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_runs(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("setting", "why"),
    [("axioms=7", "there is no axiom 7"), ("step=3", 'did you mean "steps"'), ("steps=0", "steps = 0 does not fit")],
)
def test_a_wrong_setting_is_named(setting: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        settings_of({}, [setting], tmp_path, "training")


@pytest.mark.parametrize(("axioms", "short"), [([0], "0"), ([0, 1, 2], "0-2"), ([0, 2], "0,2"), ([1, 2], "1-2")])
def test_axioms_are_named_as_in_the_paper(axioms: list[int], short: str) -> None:
    assert in_short(axioms) == short


def test_another_dataset_is_refused() -> None:
    with pytest.raises(UsageError, match='"kiwi" has no pairs to train on: axioms has'):
        check_dataset("kiwi")


@pytest.mark.skipif(all(map(find_spec, PACKAGES)), reason="what trains is installed")
def test_without_torch_the_error_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"not installed: install the extra with .*\[train\]"):
        check_packages()


def test_the_tables_tell_axioms_and_margins_of_ours_and_the_papers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"scorer": ["length", "encoder:b", "PM 0-1 T5-base", "PM 0-5 + λ Llama-7b"], "MRR": [1.0] * 4})
    model = Trained(tmp_path, {"settings": {"axioms": [0, 1, 2], "margins": "critic"}}, {}, new=True)
    found = with_axioms_and_margins(ReportTable("t", "", frame), {"b": model}).frame
    assert found["axioms"].fillna("").tolist() == ["", "0-2", "0-1", "0-5"]
    assert found["margins"].fillna("").tolist() == ["", "critic", "votes", "critic"]
