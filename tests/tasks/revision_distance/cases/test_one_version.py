"""Of two versions of one paper the cases of one are kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent

from flows.builds.building import Options, build
from flows.revision_distance import ABOUT, SAMPLES, RevisionDistanceConfig
from longform.artifacts.store import Artifact, Store
from longform.engine.thread_tasks import SequentialStages
from tasks.revision_distance.cases.versions import OTHER_VERSION, kept_versions


def pair(first: str, second: str, group: str | None) -> dict[str, str | None]:
    return {"first_id": first, "second_id": second, "group_id": group}


@pytest.mark.parametrize(
    ("pairs", "papers", "kept"),
    [
        ([pair("a", "b", "a")], {"a", "b", "c"}, {"a": "a", "b": "a"}),
        ([pair("a", "b", "a")], {"b"}, {"b": "b"}),  # the other version has no case
        ([pair("a", "b", "a"), pair("b", "c", "a")], {"b", "c"}, {"b": "b", "c": "b"}),
        ([pair("a", "b", None)], {"a", "b"}, {}),  # doubtful
    ],
)
def test_the_smallest_id_that_has_cases_is_kept(pairs: list[Any], papers: set[str], kept: dict[str, str]) -> None:
    assert kept_versions(pairs, papers) == kept


def made(home: Path, papers: Path) -> Artifact:
    """What the stage keep_one_version made of these papers."""
    nothing: list[str] = []
    config = RevisionDistanceConfig(papers=str(papers), wildchat=nothing, ultrafeedback=nothing, structure=nothing)
    _, run = build(ABOUT.dataset, config, Options(home, "v1"), tasks=SequentialStages(), progress=Silent())
    return next(done.artifact for done in run.done if done.stage == "keep_one_version")


def test_a_copy_of_a_paper_under_another_id_is_no_second_case(tmp_path: Path) -> None:
    """A paper of the sample a second time, under a larger id: as many cases, the others rejected by name."""
    originals, folder = SAMPLES / "acl_ocl", tmp_path / "papers"
    once = made(tmp_path / "once", originals)
    cases = [row for part in once.parts for row in pq.read_table(Store(tmp_path / "once").rows_path(part)).to_pylist()]
    chosen = min(row["paper_id"] for row in cases).removeprefix("acl/")
    shutil.copytree(originals, folder)
    [file] = folder.rglob(f"{chosen}.json")
    copy = "2029.copied-1.7"
    (file.parent / f"{copy}.json").write_text(file.read_text().replace(chosen, copy))
    twice = made(tmp_path / "twice", folder)
    number = sum(row["paper_id"] == f"acl/{chosen}" for row in cases)
    assert twice.rows == once.rows
    assert twice.rejected() == {("filtered", OTHER_VERSION): number}
    [rejected] = [Store(tmp_path / "twice").rejected_path(part) for part in twice.parts if part.rejected]
    assert set(pq.read_table(rejected)["detail"].to_pylist()) <= {f"acl/{chosen}", f"acl/{copy}"}
