"""Versions: their names, what a check notices, withdrawing them, and what the garbage collector may take."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent

from benchmarks.make_dump import write_dump
from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from flows.cli.shared.verification import check
from flows.registry import stages_of
from longform.artifacts.store import Store
from longform.artifacts.versions import (
    Version,
    broken_versions,
    check_name,
    datasets,
    find,
    garbage,
    natural,
    problems,
    versions,
    withdraw,
)
from longform.engine.thread_tasks import SequentialStages
from longform.errors import StoreError, UsageError
from longform.files import remove
from longform.machines import temporary


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("dumps") / "tea.stackexchange.com"
    return write_dump(folder / "Posts.xml", 120_000, seed="tea").path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, dump: str) -> Path:
    """A home with the version `first`, which tests copy and do not change."""
    home = tmp_path_factory.mktemp("built") / "home"
    make(home, dump, "first")
    return home


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "home"))


def make(home: Path, dump: str, name: str | None = None, **settings: Any) -> tuple[Version, bool]:
    """Build: (the version, whether this build published it)."""
    options = Options(home, name)
    config = AxiomsConfig(dump=dump, test_share=0.5, **settings)  # so that the last stage has several parts
    published, _ = build("axioms", config, options, tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, published.new


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- names


def test_without_a_name_a_version_is_called_by_its_day_and_the_next_of_a_day_counts_on(home: Path, dump: str) -> None:
    before = datetime.now(UTC)
    made = [make(home, dump, pairs_per_question=number)[0].name for number in (1, 2, 3)]
    days = {f"{moment:%Y.%m.%d}" for moment in (before, datetime.now(UTC))}
    if len(days) == 1:
        (day,) = days
        assert made == [day, f"{day}.2", f"{day}.3"]
    assert [version.name for version in versions(home, "axioms")] == ["first", *made]
    assert find(home, "axioms").name == made[-1]


def test_without_a_name_a_recipe_is_not_published_twice(home: Path, dump: str) -> None:
    version, new = make(home, dump)
    assert (version.name, new) == ("first", False)


def test_a_name_of_the_same_recipe_is_kept_and_a_new_name_is_made(home: Path, dump: str) -> None:
    assert make(home, dump, "first")[1] is False
    assert make(home, dump, "second")[1] is True
    assert [version.name for version in versions(home, "axioms")] == ["first", "second"]


def test_a_name_that_another_recipe_has_is_refused_before_anything_is_done(home: Path, dump: str) -> None:
    before = files(home)
    with pytest.raises(UsageError, match=r"axioms first was built by another recipe .*differs from find_related on"):
        make(home, dump, "first", neighbours=9)
    assert {name for name in files(home) - before if not name.startswith("locks/")} == set()
    withdraw(find(home, "axioms@first").folder)
    assert make(home, dump, "first", neighbours=9)[1] is True


@pytest.mark.parametrize("name", ["latest", "", "..", ".hidden", "a/b", "a@b", "-x", "a b", "x" * 101, "é"])
def test_a_name_that_cannot_be_a_folder_or_an_address_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a version"):
        check_name(name)


@pytest.mark.parametrize("name", ["2026.11.20", "2026.11.20.2", "v1", "v1.0-rc_2+x", "x" * 100])
def test_other_names_are_kept_as_they_are(name: str) -> None:
    assert check_name(name) == name


def test_tens_follow_nines() -> None:
    names = ["2026.11.20", "2026.11.20.2", "2026.11.20.9", "2026.11.20.10", "2026.12.1"]
    shuffled = [names[place] for place in (3, 0, 4, 2, 1)]
    assert sorted(shuffled, key=natural) == names


def test_a_version_that_is_not_there_is_reported_with_a_near_one(home: Path) -> None:
    with pytest.raises(UsageError, match=r'no version firts; did you mean "first"\?'):
        find(home, "axioms@firts")
    with pytest.raises(UsageError, match="no version zzz; there are first"):
        find(home, "axioms@zzz")
    with pytest.raises(UsageError, match="kiwi has no version in"):
        find(home, "kiwi")
    assert find(home, "axioms@latest").name == find(home, "axioms@first").name == "first"


# ---------------------------------------------------------------- verify


def test_a_sound_version_has_no_problem(home: Path) -> None:
    store, version = Store(home), find(home, "axioms")
    assert list(problems(store, version)) == []
    assert list(check(store, version)) == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def published_parquet(home: Path) -> Path:
    return sorted(find(home, "axioms").folder.glob("train/*.parquet"))[0]


def part_of(home: Path, stage: str, file: str = "rows.parquet") -> Path:
    return sorted((home / "stages" / stage / "parts").glob(f"*/{file}"))[0]


def rewrite_manifest(home: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = find(home, "axioms").folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def more_rows(manifest: dict[str, Any]) -> None:
    name = next(name for name in manifest["files"] if name.startswith("train/"))
    manifest["files"][name]["rows"] += 1


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a byte of a published table": (lambda home: flip(published_parquet(home)), r"train/.*parquet was changed"),
    "a byte of the card": (lambda home: flip(find(home, "axioms").folder / "README.md"), r"README.md was changed"),
    "a published file that is gone": (lambda home: published_parquet(home).unlink(), r"train/.*parquet is missing"),
    "a file too many": (
        lambda home: (find(home, "axioms").folder / "train" / "more.parquet").write_bytes(b""),
        r"train/more.parquet is not in the manifest",
    ),
    "another number of rows": (
        lambda home: rewrite_manifest(home, more_rows),
        r"holds (\d+) rows, the manifest says \d+",
    ),
    "a byte of a stage's part": (
        lambda home: flip(part_of(home, "find_related")),
        r"stages/find_related/parts/.*rows.parquet is missing or was changed",
    ),
    "a byte of rejected rows": (
        lambda home: flip(part_of(home, "select_questions", "rejected.parquet")),
        r"stages/select_questions/.*rejected.parquet is missing or was changed",
    ),
    "rows of a part that are gone": (
        lambda home: part_of(home, "read_posts").unlink(),
        r"stages/read_posts/parts/.*rows.parquet is missing or was changed",
    ),
    "a part that is gone": (
        lambda home: remove(part_of(home, "join_threads").parent),
        r"the rows of stage join_threads .* are gone",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_check_notices(what: str, home: Path) -> None:
    damage, sentence = DAMAGE[what]
    damage(home)
    (found,) = check(Store(home), find(home, "axioms"))
    assert re.search(sentence, found)


def test_a_check_notices_rows_that_vanished_although_every_checksum_is_right(home: Path) -> None:
    store, version = Store(home), find(home, "axioms")
    made = store.artifact("sign_questions", version.stages["sign_questions"])
    assert made is not None
    path = store.rows_path(made.parts[0])
    kept = pq.read_table(path).slice(1)
    pq.write_table(kept, path)
    digest = duckdb.sql(f"SELECT sha256(content) FROM read_blob('{path}')").fetchall()[0][0]
    artifact = home / "stages" / "sign_questions" / f"{made.fingerprint}.json"
    expected_message = artifact.read_text().replace(made.parts[0].sha256, digest)
    artifact.write_text(expected_message.replace(f'"bytes": {made.parts[0].bytes}', f'"bytes": {path.stat().st_size}'))
    found = list(check(store, version))
    assert [line.split(":")[0] for line in found] == ["sign_questions", "assign_splits"]
    assert "is neither the parent of a row nor rejected" in found[0]


def test_a_damaged_manifest_is_reported(home: Path) -> None:
    (find(home, "axioms").folder / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"has no readable manifest.json"):
        find(home, "axioms")


# ---------------------------------------------------------------- withdraw and gc


def test_a_withdrawn_version_is_gone_and_its_stages_stay(home: Path, dump: str) -> None:
    make(home, dump, "second", neighbours=9)
    stages = {name for name in files(home) if name.startswith("stages/")}
    withdraw(find(home, "axioms@first").folder)
    assert [version.name for version in versions(home, "axioms")] == ["second"]
    assert {name for name in files(home) if name.startswith("stages/")} == stages
    assert not [name for name in files(home) if "first" in name]
    withdraw(find(home, "axioms@second").folder)
    assert datasets(home) == []


def test_nothing_of_a_published_version_is_garbage(home: Path) -> None:
    assert garbage(Store(home)) == []


def test_gc_takes_what_no_version_needs_and_nothing_else(home: Path, dump: str) -> None:
    before = {name for name in files(home) if name.startswith("stages/")}
    make(home, dump, "second", neighbours=9)
    more = {name for name in files(home) if name.startswith("stages/")} - before
    made = {name.split("/")[1] for name in more}
    parts = {name.split("/")[3] for name in before if "/parts/" in name}
    units = {name: {part["id"] for part in json.loads((home / name).read_text())} for name in more if "/units/" in name}
    equal = {name for name, made_of in units.items() if made_of and made_of <= parts}  # made anew with the same rows
    assert made >= {"find_related", "pair_with_related", "assemble_pairs", "view_as_chats", "view_as_texts"}
    assert made <= {*stages_of("axioms")} - {"pair_by_votes", "pair_generated", "pair_combined"}
    withdraw(find(home, "axioms@second").folder)
    left = home / "stages" / "find_related" / "parts" / temporary().replace(f"-{os.getpid()}-", "-999999999-")
    left.mkdir()
    (left / "rows.parquet").write_bytes(b"half")
    found = garbage(Store(home))
    assert sum(size for _, size in found) == 4 + sum((home / name).stat().st_size for name in more - equal)
    for path, _ in found:
        remove(path)
    assert {name for name in files(home) if name.startswith("stages/")} == before | equal
    assert list(check(Store(home), find(home, "axioms"))) == []
    assert make(home, dump)[1] is False


def test_gc_keeps_what_a_damaged_version_still_has(home: Path) -> None:
    assert set(find(home, "axioms").manifest["splits"]) >= {"train", "test"}
    remove(part_of(home, "assemble_pairs").parent)
    kept = files(home)
    for path, _ in garbage(Store(home)):
        remove(path)
    assert files(home) == kept


def test_without_versions_everything_made_is_garbage(home: Path) -> None:
    withdraw(find(home, "axioms").folder)
    for path, _ in garbage(Store(home)):
        remove(path)
    assert [name for name in files(home) if name.startswith(("stages/", "datasets/"))] == []


@pytest.mark.parametrize("manifest", ["{", '{"format": 1}', None])
def test_a_version_without_a_readable_manifest_is_reported_and_costs_nothing_else(
    home: Path, dump: str, manifest: str | None
) -> None:
    make(home, dump, "second", neighbours=9)
    path = home / "datasets" / "axioms" / "second" / "manifest.json"
    path.unlink() if manifest is None else path.write_text(manifest)
    assert [version.name for version in versions(home, "axioms")] == ["first"]
    assert broken_versions(home, "axioms") == [path.parent]
    with pytest.raises(StoreError, match="longform withdraw axioms@second"):
        garbage(Store(home))
    with pytest.raises(StoreError, match="no readable manifest"):
        make(home, dump, "third", neighbours=8)
    withdraw(path.parent)
    assert garbage(Store(home))
    assert make(home, dump, "second", neighbours=9)
