"""Commands printed in docs/evaluate.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pages import built, commands, page, typed

from flows.axioms import AxiomsConfig
from longform.artifacts.versions import find
from tasks.axioms.scoring.reading import CONFIGS, SETS, sets_in

pytestmark = pytest.mark.check

PAGE = page("evaluate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the page was run, in order."""
    folder = tmp_path_factory.mktemp("evaluate-page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if line.startswith("longform build"):
                built(line, AxiomsConfig, folder)
                write_scores(folder)
                continue
            done = typed(line, folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            assert "paper: length" in done.stdout
    return folder


def write_scores(folder: Path) -> None:
    """mine.csv: a score of each answer that the version ranks, the number of its characters."""
    version = find(folder / "data", "axioms")
    rows = [row for path in sets_in(version)["eli5"] for row in pq.read_table(path).to_pylist()]
    lines = [
        f"{row['question_id']},{answer['answer_id']},{len(answer['text'])}" for row in rows for answer in row["answers"]
    ]
    (folder / "mine.csv").write_text("\n".join(["question_id,answer_id,score", *lines, ""]))


def test_the_judged_sets_are_written(folder: Path) -> None:
    assert sorted(path.name for path in (folder / "judged").iterdir()) == [
        "figures",
        "metrics.parquet",
        "report.html",
        "scores.parquet",
    ]
    assert set(pq.read_table(folder / "judged" / "scores.parquet")["set"].to_pylist()) == {"stackexchange", "eli5"}


def test_the_samples_have_all_sets_but_that_of_people(folder: Path) -> None:
    version = find(folder / "data", "axioms")
    assert set(SETS) - {"people"} <= set(sets_in(version))


def test_every_set_and_config_is_on_the_page() -> None:
    for name in (*SETS, *CONFIGS.values()):
        assert f"`{name}`" in PAGE
