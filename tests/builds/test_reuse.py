"""Rebuilding real sites: only what changed is made again; equal builds are equal byte by byte."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paths
import pyarrow.parquet as pq
import pytest
from axioms_builds import UNSEEN, Silent, build_axioms

from flows.axioms import SAMPLES, AxiomsConfig
from longform.artifacts.versions import Version
from longform.errors import StoreError
from longform.files import sha256_of

pytestmark = pytest.mark.check

DUMPS = paths.REAL_DATA / "stackexchange"
BEER, COFFEE = "alcohol.stackexchange.com", "coffee.stackexchange.com"
WORKING = (
    *("read_posts", "admit_posts", "scrub_posts", "join_threads", "select_questions", "sign_questions"),
    *("find_paraphrases", "join_duplicates", "find_same", "assign_splits", "list_texts", "find_copies"),
    *("list_candidates", "pair_by_votes", "find_related", "pair_with_related", "retrieve_passages"),
    *("answer_open_book", "answer_closed_book", "corrupt_answers", "pair_generated", "combine_answers"),
    *("attribute_posts", "pair_combined", "list_generated", "find_generated_copies", "find_grounded_copies"),
    *("assemble_pairs", "pair_for_validation", "assemble_validation_pairs", "rank_held_out"),
    *("list_evaluation_texts", "decontaminate", "sample_validation"),
    *("view_as_chats", "draw_one_a_question", "view_as_texts"),
)  # of dumps alone; these have neither Users.xml nor PostLinks.xml
VIEWS = {"view_as_chats", "draw_one_a_question", "view_as_texts"}
BY_SPLIT = {"decontaminate", *VIEWS}
AFTER_PAIRS = {"list_evaluation_texts", *BY_SPLIT, "sample_validation"}
LATE = {
    *("combine_answers", "pair_combined", "list_generated", "find_generated_copies", "find_grounded_copies"),
    *("assemble_pairs", "pair_for_validation", "assemble_validation_pairs", *AFTER_PAIRS),
}
OF_ALL_SITES = {"list_evaluation_texts", "sample_validation"}  # in parts that hold several sites
SEES_ALL_SITES = {
    *("find_same", "assign_splits", "find_copies", "find_generated_copies", "find_grounded_copies", "decontaminate"),
    *OF_ALL_SITES,
}


@dataclass
class Made:
    """A build: its version, the units made of each stage, and the parts of each stage by key."""

    version: Version
    progress: Silent
    parts: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def worked(self) -> dict[str, int]:
        return {stage: units for stage, units in self.progress.begun.items() if units}

    def of(self, site: str) -> dict[str, dict[str, str]]:
        """stage -> key -> id of the parts of one site."""
        return {
            stage: {key: id for key, id in parts.items() if key.startswith(f"{site}/")}
            for stage, parts in self.parts.items()
        }


def make(home: Path, version: str, **settings: Any) -> Made:
    published, progress, run = build_axioms(home, version, **settings)
    assert published is not None
    parts = {entry.stage: {part.key: part.id for part in entry.artifact.parts} for entry in run.done}
    return Made(published, progress, parts)


def dumps(*names: str) -> dict[str, Any]:
    folders = {BEER: DUMPS / "beer_2017", COFFEE: DUMPS / "coffee_2015"}
    return {"dump": [str(folders[name]) for name in names], "site": list(names)}


@pytest.fixture(scope="module")
def beer_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Made]:
    """A complete build of the beer site, which tests copy and do not change."""
    if not DUMPS.exists():
        pytest.skip("the real dumps are not beside the project")
    home = tmp_path_factory.mktemp("beer") / "home"
    return home, make(home, "v1", **dumps(BEER))


@pytest.fixture
def home(beer_home: tuple[Path, Made], tmp_path: Path) -> Path:
    return Path(shutil.copytree(beer_home[0], tmp_path / "home"))


@pytest.fixture(scope="module")
def first(beer_home: tuple[Path, Made]) -> Made:
    return beer_home[1]


# ---------------------------------------------------------------- what is made again


def test_a_first_build_makes_every_stage(first: Made) -> None:
    assert first.worked == units(1)


def test_a_late_setting_changes_its_stage_and_those_after_it_and_changing_it_back_nothing(
    home: Path, first: Made
) -> None:
    changed = make(home, "v2", **dumps(BEER), utilization_below=1.5)
    assert set(changed.worked) == LATE
    differing = {stage for stage in WORKING if changed.parts[stage] != first.parts[stage]}
    same = {"find_generated_copies", "find_grounded_copies", "list_evaluation_texts"}  # no text is generated twice
    assert LATE - same <= differing <= LATE
    assert changed.version.manifest["splits"] != first.version.manifest["splits"]

    back = make(home, "v1", **dumps(BEER))
    assert back.progress.begun == {}
    assert back.parts == first.parts
    assert back.version.manifest == first.version.manifest


def test_a_setting_that_changes_no_row_changes_no_stage_after_it(home: Path, first: Made) -> None:
    pairs = max(pairs_of_a_question(home, first))
    same = make(home, "v2", **dumps(BEER), pairs_per_question=pairs)
    assert set(same.worked) == {"pair_by_votes"}
    assert same.progress.begun == {"pair_by_votes": 1, **dict.fromkeys(["assemble_pairs", *AFTER_PAIRS], 0)}
    assert same.parts["assemble_pairs"] == first.parts["assemble_pairs"]


def units(sites: int) -> dict[str, int]:
    """stage -> units of so many sites: two, train and test, of a stage that reads what is split already."""
    return {stage: sites * (len(("train", "test")) if stage in BY_SPLIT else 1) for stage in WORKING}


def pairs_of_a_question(home: Path, made: Made) -> list[int]:
    (part,) = made.parts["pair_by_votes"].values()
    table = pq.read_table(home / "stages" / "pair_by_votes" / "parts" / part / "rows.parquet")
    return list(table.group_by("question_id").aggregate([([], "count_all")]).column("count_all").to_pylist())


def test_a_new_site_leaves_every_part_of_the_old_one_as_it_is(home: Path, first: Made) -> None:
    both = make(home, "v2", **dumps(BEER, COFFEE))
    anew = {"decontaminate": units(2)["decontaminate"]}
    assert both.worked == units(1) | anew  # of assign_splits the one there is, of most others coffee's
    reused = {entry.stage: entry.units_reused for entry in both.progress.ended if entry.units_reused}
    assert reused == {stage: number for stage, number in units(1).items() if stage not in SEES_ALL_SITES}
    before, after = first.of(BEER), both.of(BEER)
    assert {stage for stage in before if before[stage] != after[stage]} <= OF_ALL_SITES
    without = {*OF_ALL_SITES, "find_grounded_copies"}  # the latter has no rows without MS MARCO
    assert {stage for stage in WORKING if not both.of(COFFEE)[stage]} <= without


def test_a_new_site_leaves_the_published_rows_of_the_old_one_as_they_are(home: Path, first: Made) -> None:
    both = make(home, "v2", **dumps(COFFEE, BEER))  # in any order
    old = {name: file["sha256"] for name, file in first.version.manifest["files"].items() if BEER in name}
    new = {name: file["sha256"] for name, file in both.version.manifest["files"].items() if BEER in name}
    assert old == new
    assert old


def test_leaving_a_site_out_again_makes_nothing(home: Path, first: Made) -> None:
    make(home, "v2", **dumps(BEER, COFFEE))
    alone = make(home, "v3", **dumps(BEER))
    assert alone.progress.begun == {}
    assert alone.version.recipe == first.version.recipe


def test_one_changed_post_leaves_the_other_site_alone(home: Path, tmp_path: Path) -> None:
    coffee = tmp_path / "Posts.xml"
    coffee.write_bytes((DUMPS / "coffee_2015" / "Posts.xml").read_bytes())
    given = {"dump": [str(DUMPS / "beer_2017"), str(coffee)], "site": [BEER, COFFEE]}
    before = make(home, "v2", **given)
    text = coffee.read_text(encoding="utf-8-sig")
    assert text.count("How should I store whole bean coffee?") == 1
    coffee.write_text(text.replace("How should I store whole bean coffee?", "How should I keep whole bean coffee?"))
    after = make(home, "v3", **given)
    changed = {stage for stage in WORKING if before.of(COFFEE)[stage] != after.of(COFFEE)[stage]}
    assert {"read_posts", "join_threads", "select_questions", "find_related", "assemble_pairs"} <= changed
    assert {stage for stage in WORKING if before.of(BEER)[stage] != after.of(BEER)[stage]} <= SEES_ALL_SITES
    assert all(made <= (units(1) | {"decontaminate": 4})[stage] for stage, made in after.worked.items())


# ---------------------------------------------------------------- equal bytes


def test_two_homes_hold_the_same_bytes(tmp_path: Path, home: Path, first: Made) -> None:
    other = make(tmp_path / "other", "v1", **dumps(BEER))
    assert other.parts == first.parts
    assert lasting(tmp_path / "other") == lasting(home)


def lasting(home: Path) -> dict[str, str]:
    """path -> sha256 of every Parquet file, README.md and croissant.json in a home."""
    names = ("*.parquet", "README.md", "croissant.json")
    return {str(path.relative_to(home)): sha256_of(path) for name in names for path in sorted(home.rglob(name))}


def test_the_samples_give_the_same_bytes_in_two_homes(tmp_path: Path) -> None:
    if not SAMPLES.exists():
        pytest.skip("there are no samples")
    homes = [tmp_path / "one", tmp_path / "two"]
    everything = {name: AxiomsConfig.model_fields[name].default for name in UNSEEN}
    one, two = (make(home, "v1", **everything) for home in homes)
    assert one.parts == two.parts
    assert lasting(homes[0]) == lasting(homes[1])
    assert set(one.worked) >= {*WORKING, "pair_by_evidence", "rank_discussions", "select_comparisons", "pair_research"}
    assert make(homes[0], "v1", **everything).progress.begun == {}


def test_a_damaged_part_is_named_with_what_makes_it_again(tmp_path: Path) -> None:
    build_axioms(tmp_path)
    (rows,) = (tmp_path / "stages" / "select_questions" / "parts").glob("*/rows.parquet")
    rows.write_bytes(rows.read_bytes()[:-300] + bytes(300))
    with pytest.raises(StoreError, match=r"is damaged, find_related cannot read it: .* --force select_questions"):
        build_axioms(tmp_path, "v2", neighbours=3)
    version, _, _ = build_axioms(tmp_path, "v2", neighbours=3, force="select_questions")
    assert version is not None
