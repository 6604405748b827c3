"""Of two versions of one paper the cases of one are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axioms_builds import Silent

from flows.builds.building import Options, build
from flows.revision_distance import ABOUT, SAMPLES, RevisionDistanceConfig
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


def test_a_copy_of_a_paper_under_another_id_is_no_second_case(tmp_path: Path) -> None:
    """The sample's papers, each a second time under a larger id: as many cases, the others rejected by name."""
    folder = tmp_path / "papers"
    originals = sorted((SAMPLES / "acl_ocl").rglob("*.json"))
    for file in originals:
        (folder / file.parent.name).mkdir(parents=True, exist_ok=True)
        copy = "Z" + file.stem[1:] if file.stem[0].isupper() else f"2029.copied-{file.stem.split('-', 1)[1]}"
        content = file.read_text()
        (folder / file.parent.name / file.name).write_text(content)
        (folder / file.parent.name / f"{copy}.json").write_text(content.replace(file.stem, copy))
    only = {"wildchat": [], "ultrafeedback": [], "structure": []}
    cases = {}
    for name, papers in (("once", SAMPLES / "acl_ocl" / "Base_JSON"), ("twice", folder)):
        config = RevisionDistanceConfig(papers=str(papers), least_cited=0, **only)
        _, run = build(
            ABOUT.dataset, config, Options(tmp_path / name, "v1"), tasks=SequentialStages(), progress=Silent()
        )
        stage = next(done for done in run.done if done.stage == "keep_one_version")
        cases[name] = stage.artifact
    assert cases["once"].rejected() == {}
    assert cases["twice"].rows == cases["once"].rows > 0
    assert cases["twice"].rejected() == {("filtered", OTHER_VERSION): cases["once"].rows}
