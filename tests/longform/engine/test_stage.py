"""Stages over a toy flow: shapes, reuse, conservation, plans, and what is left when something goes wrong."""

from __future__ import annotations

import errno
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paths
import psutil
import pyarrow.parquet as pq
import pytest
import xxhash
from toy_stages import (
    ask,
    below_mean,
    building,
    cap,
    die,
    guess,
    hoard,
    invent,
    join,
    linger,
    lose,
    multiply,
    order_items,
    pad,
    padding,
    rank,
    read_items,
    scribble,
    source,
    stumble,
)

from longform.artifacts.rows import Rows, Source
from longform.artifacts.store import Part, Store
from longform.engine.build import Build
from longform.engine.plan import Plan
from longform.engine.stage import Method, StageCall, UntilReached, stage
from longform.engine.thread_tasks import SequentialStages
from longform.errors import BusyStore, ConservationError, Incomplete, LostWorker, StoreError

ROOT = paths.ROOT
TEA, COFFEE, ALE = [3, 1, 2], [5, 4], [9, 8, 7, 6]


@dataclass
class Toy:
    """A home, sources to build from, and a log that the toy stages write."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def log(self) -> str:
        return str(self.folder / "log")

    def source(self, site: str, lines: list[Any], pieces: int = 1) -> Source:
        path = self.folder / site
        path.write_text("".join(f"{line}\n" for line in lines))
        return source(path, site, pieces)

    def sites(self) -> list[Source]:
        return [self.source("ale", ALE), self.source("coffee", COFFEE), self.source("tea", TEA)]

    def switch(self, text: str) -> str:
        path = self.folder / "switch"
        path.write_text(text)
        return str(path)

    def worked_on(self) -> list[str]:
        """The sites of the units that were started since the last call, in alphabetical order."""
        path = Path(self.log)
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(line.split()[1].split("/")[0] for line in lines)

    def plan(self) -> Plan:
        return Plan(Store(self.home))


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


def values(rows: Rows) -> dict[str, int]:
    return {row["item_id"]: row["value"] for row in rows}


def numbered(**sites: list[int]) -> dict[str, int]:
    return {f"{site}/{line}": value for site, lines in sites.items() for line, value in enumerate(lines)}


def xxh3(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode())


def begun(builder: Build) -> dict[str, int]:
    return builder.progress.begun  # type: ignore[attr-defined, no-any-return]


def state(builder: Build, stage: str) -> tuple[str, int, int]:
    """(state, units run, units reused) of a stage."""
    (entry,) = (entry for entry in builder.done if entry.stage == stage)
    return entry.state, entry.units_run, entry.units_reused


def counts(rows: Rows) -> dict[str, int]:
    return dict(sum((Counter(dict(part.counts)) for part in rows.parts or ()), Counter()))


# ---------------------------------------------------------------- shapes


def test_a_source_stage_reads_shard_by_shard(toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("ale", [*ALE, "foam"], pieces=2)])
    assert values(items) == numbered(ale=ALE)
    assert [part.rows for part in items.parts or ()] == [2, 2]
    assert counts(items) == {"read": 5}
    assert begun(run) == {"read_items": 2}


def test_a_line_that_is_no_item_is_rejected_with_its_text(toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("ale", [1, "foam, and more"])])
    (part,) = items.parts or ()
    assert part.rejected == (("defect", "not a number", 1),)
    (row,) = pq.read_table(run.store.rejected_path(part)).to_pylist()
    assert (row["key"], row["raw"]) == ("ale/1", "foam, and more")


def test_a_stage_of_parts_works_part_by_part(toy: Toy) -> None:
    with building(toy.home) as run:
        tripled = multiply(run, read_items(run, toy.sites()), factor=3, log=toy.log)
    assert values(tripled) == {name: 3 * value for name, value in numbered(ale=ALE, coffee=COFFEE, tea=TEA).items()}
    assert toy.worked_on() == ["ale", "coffee", "tea"]
    assert state(run, "multiply") == ("run", 3, 0)


def test_a_stage_of_groups_sees_all_shards_of_its_site_and_no_other_site(toy: Toy) -> None:
    with building(toy.home) as run:
        ordered = order_items(run, read_items(run, [toy.source("ale", ALE, pieces=3), toy.source("tea", TEA)]))
    assert begun(run)["order_items"] == 2
    hashes = [[xxh3(name) for name in values(of(ordered, i))] for i in range(2)]
    assert [part.rows for part in ordered.parts or ()] == [len(ALE), len(TEA)]
    assert hashes == [sorted(hashes[0]), sorted(hashes[1])]


def test_parts_of_a_further_table_are_units_of_their_own(toy: Toy) -> None:
    def joined(run: Any) -> Rows:
        ale, tea = (read_items(run, [toy.source(site, lines)]) for site, lines in (("ale", ALE), ("tea", TEA)))
        return join(run, ale, multiply(run, tea, factor=2, log=toy.log), lost="", log=toy.log)

    plan = toy.plan()
    joined(plan)
    assert plan.stages[-1].units == 2
    with building(toy.home) as run:
        both = joined(run)
    assert values(both) == numbered(ale=ALE, tea=[2 * value for value in TEA])
    assert [part.key.split("/")[0] for part in both.parts or ()] == ["ale", "tea"]
    assert toy.worked_on() == ["ale", "tea", "tea"]
    plan = toy.plan()
    joined(plan)
    assert plan.nothing_to_do


@pytest.mark.parametrize("lost", ["ale/1", "tea/2"])
def test_a_lost_row_of_a_further_table_is_a_bug_of_the_stage_too(lost: str, toy: Toy) -> None:
    with building(toy.home) as run:
        ale, tea = (read_items(run, [toy.source(site, lines)]) for site, lines in (("ale", ALE), ("tea", TEA)))
        with pytest.raises(ConservationError, match=f"join: item_id {lost} is neither"):
            join(run, ale, tea, lost=lost, log=toy.log)


def of(rows: Rows, part: int) -> Rows:
    return Rows(rows.store, rows.schema, rows.stage, rows.fingerprint, (rows.parts or [])[part : part + 1])


def test_a_stage_of_the_whole_sees_all_sites_at_once(toy: Toy) -> None:
    with building(toy.home) as run:
        ranks = rank(run, order_items(run, read_items(run, toy.sites())))
    everything = numbered(ale=ALE, coffee=COFFEE, tea=TEA)
    assert values(ranks) == {name: value - 1 for name, value in everything.items()}  # they are 1 to 9, each once
    assert [part.key.split("/")[0] for part in ranks.parts or ()] == ["ale", "coffee", "tea"]
    assert begun(run)["rank"] == 1


def test_a_group_beside_the_rows_of_a_part_is_the_whole_site_and_only_looked_into(toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("ale", ALE, pieces=2), toy.source("tea", TEA)])
        low = below_mean(run, items, items, log=toy.log)
    everything = {"ale": ALE, "tea": TEA}
    expected = {site: [v for v in lines if v < statistics.mean(lines)] for site, lines in everything.items()}
    assert sorted(values(low).values()) == sorted(expected["ale"] + expected["tea"])
    assert toy.worked_on() == ["ale", "ale", "tea"]


def test_a_large_site_is_cut_at_ranges_of_the_hash(toy: Toy) -> None:
    with building(toy.home) as run:
        ordered = order_items(run, read_items(run, [toy.source("ale", list(range(20_000)))]))
    assert [part.key for part in ordered.parts or ()] == ["ale/1-00000", "ale/1-00001"]
    for half in range(2):
        ids = pq.read_table(ordered.paths[half]).column("item_id").to_pylist()
        expected = {f"ale/{n}" for n in range(20_000) if xxh3(f"ale/{n}") // 2**63 == half}
        assert set(ids) == expected


# ---------------------------------------------------------------- reuse


def test_a_second_build_reuses_every_unit(toy: Toy) -> None:
    for expected in (["ale", "coffee", "tea"], []):
        with building(toy.home) as run:
            multiply(run, read_items(run, toy.sites()), factor=3, log=toy.log)
        assert toy.worked_on() == expected
    assert [entry.state for entry in run.done] == ["reuse", "reuse"]
    assert begun(run) == {}


def test_a_changed_source_rebuilds_only_its_own_units(toy: Toy) -> None:
    for coffee in (COFFEE, [50, 4]):
        with building(toy.home) as run:
            sources = [toy.source("ale", ALE), toy.source("coffee", coffee), toy.source("tea", TEA)]
            doubled = multiply(run, read_items(run, sources), factor=2, log=toy.log)
            expected = {"coffee"} if coffee != COFFEE else {"ale", "coffee", "tea"}
            assert set(toy.worked_on()) == expected
    assert state(run, "read_items") == state(run, "multiply") == ("run", 1, 2)
    assert values(doubled)["coffee/0"] == 100


def test_a_changed_row_rebuilds_only_the_part_that_holds_it(toy: Toy) -> None:
    lines = list(range(20_000))
    for first in (0, -1):
        with building(toy.home) as run:
            ordered = order_items(run, read_items(run, [toy.source("ale", [first, *lines[1:]])]))
            multiply(run, ordered, factor=2, log=toy.log)
    assert state(run, "multiply") == ("run", 1, 1)
    (before, after) = ({part.key: part.id for part in made.parts} for made in run.store.artifacts("multiply"))
    same = {key for key in before if before[key] == after[key]}
    assert same == {f"ale/1-{1 - xxh3('ale/0') // 2**63:05d}"}


def test_a_new_site_leaves_the_old_ones_alone(toy: Toy) -> None:
    for sites in (toy.sites()[:2], toy.sites()):
        with building(toy.home) as run:
            items = read_items(run, sites)
            below_mean(run, items, items, log=toy.log)
    assert toy.worked_on() == ["ale", "coffee", "tea"]
    assert state(run, "below_mean") == ("run", 1, 2)


def test_a_source_that_moved_or_was_touched_is_the_same_source(toy: Toy) -> None:
    with building(toy.home) as run:
        read_items(run, [toy.source("tea", TEA)])
    moved = toy.folder / "elsewhere.txt"
    moved.write_text((toy.folder / "tea").read_text())
    with building(toy.home) as run:
        read_items(run, [source(moved, "tea")])
    assert state(run, "read_items") == ("reuse", 0, 0)


def test_equal_output_of_a_changed_stage_leaves_its_followers_alone(toy: Toy) -> None:
    def flow(builder: Build, most: int) -> dict[str, int]:
        return values(
            multiply(builder, cap(builder, read_items(builder, [toy.source("tea", TEA)]), most=most), factor=2, log=log)
        )

    log = toy.log
    for most in (10, 20):
        with building(toy.home) as run:
            assert flow(run, most) == {"tea/0": 6, "tea/1": 2, "tea/2": 4}
    assert state(run, "cap") == ("run", 1, 0)
    assert state(run, "multiply") == ("run", 0, 1)
    assert toy.worked_on() == ["tea"]
    with building(toy.home) as run:
        assert flow(run, 2) == {"tea/0": 4, "tea/1": 2, "tea/2": 4}
    assert toy.worked_on() == ["tea"]


def test_force_makes_one_stage_again_and_no_follower_of_equal_rows(toy: Toy) -> None:
    for force in (None, "multiply"):
        with building(toy.home, force=force) as run:
            cap(run, multiply(run, read_items(run, [toy.source("tea", TEA)]), factor=2, log=toy.log), most=5)
        assert toy.worked_on() == ["tea"]
    assert [state(run, name)[0] for name in ("read_items", "multiply", "cap")] == ["reuse", "run", "reuse"]


def test_followers_are_made_again_where_the_same_recipe_gave_other_rows(toy: Toy) -> None:
    def flow(builder: Build | Plan) -> Rows:
        return cap(builder, guess(builder, read_items(builder, [toy.source("tea", TEA)]), mood=mood), most=100)

    mood = toy.switch("1")
    with building(toy.home) as run:
        flow(run)
    toy.switch("2")
    with building(toy.home, force="guess") as run:
        assert set(values(flow(run)).values()) == {2}
    fingerprints = [len(run.store.artifacts(name)) for name in ("guess", "cap")]
    assert fingerprints == [1, 1]
    plan = toy.plan()
    flow(plan)
    assert plan.nothing_to_do


def test_force_replaces_a_damaged_part(toy: Toy) -> None:
    def tea(force: str | None = None) -> Path:
        with building(toy.home, force=force) as run:
            return Path(read_items(run, [toy.source("tea", TEA)]).paths[0])

    path = tea()
    sound = path.read_bytes()
    path.write_bytes(sound[:50] + bytes([sound[50] ^ 1]) + sound[51:])
    tea("read_items")
    assert path.read_bytes() == sound


def test_until_ends_the_build_after_that_stage(toy: Toy) -> None:
    with building(toy.home) as run:
        method = Method(run.store, until="multiply")
        with pytest.raises(UntilReached):
            cap(method, multiply(method, read_items(method, [toy.source("tea", TEA)]), factor=2, log=toy.log), most=5)
        run.make(method)
    assert [entry.stage for entry in run.done] == ["read_items", "multiply"]
    assert run.store.artifacts("cap") == []


def test_a_part_that_is_gone_is_made_again(toy: Toy) -> None:
    def flow() -> tuple[Build, Rows]:
        with building(toy.home) as run:
            return run, multiply(run, read_items(run, toy.sites()), factor=2, log=toy.log)

    run, first = flow()
    gone = run.store.part((first.parts or [])[1])
    before = (gone / "rows.parquet").read_bytes()
    (gone / "part.json").unlink()
    toy.worked_on()
    run, second = flow()
    assert toy.worked_on() == ["coffee"]
    assert (gone / "rows.parquet").read_bytes() == before
    assert second.parts == first.parts


# ---------------------------------------------------------------- conservation


def test_a_stage_that_loses_a_row_fails(toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("tea", TEA)])
        with pytest.raises(ConservationError, match=r"lose: item_id tea/1 is neither .* \(1 such\)"):
            lose(run, items, lost="tea/1")
        assert run.store.artifacts("lose") == []
    with building(toy.home) as run:
        assert values(lose(run, items, lost="none of them")) == numbered(tea=TEA)


def test_a_stage_that_invents_a_parent_fails(toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("tea", TEA)])
        with pytest.raises(ConservationError, match=r"invent: item_id tea/99 is no row of its input \(1 such\)"):
            invent(run, items, invented="tea/99")
        assert run.store.artifacts("invent") == []


def test_a_row_of_another_part_is_an_invented_one(toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("tea", TEA), toy.source("ale", ALE)])
        with pytest.raises(ConservationError, match="tea/0 is no row of its input"):
            invent(run, items, invented="tea/0")


# ---------------------------------------------------------------- plans


def planned(plan: Plan, stage: str) -> tuple[str, str]:
    (found,) = (found for found in plan.stages if found.stage == stage)
    return found.state, found.why


def toy_flow(toy: Toy, factor: int = 2, tea: list[int] = TEA) -> Callable[[Any], Rows]:
    def flow(run: Any) -> Rows:
        items = read_items(run, [toy.source("tea", tea), toy.source("ale", ALE)])
        return cap(run, multiply(run, items, factor=factor, log=toy.log), most=100)

    return flow


def test_a_first_plan_knows_the_first_stage_only_and_writes_nothing(toy: Toy) -> None:
    plan = toy.plan()
    toy_flow(toy)(plan)
    assert planned(plan, "read_items") == ("run", "first build")
    assert planned(plan, "cap") == ("run", "first build")
    assert not toy.home.exists()


def test_a_plan_after_a_build_reuses_everything(toy: Toy) -> None:
    with building(toy.home) as run:
        toy_flow(toy)(run)
    plan = toy.plan()
    rows = toy_flow(toy)(plan)
    assert {found.state for found in plan.stages} == {"reuse"}
    assert plan.nothing_to_do
    assert rows.count == len(TEA) + len(ALE)


def test_a_plan_names_the_argument_that_changed_and_what_waits_for_it(toy: Toy) -> None:
    with building(toy.home) as run:
        toy_flow(toy)(run)
    plan = toy.plan()
    toy_flow(toy, factor=3)(plan)
    assert planned(plan, "read_items") == ("reuse", "")
    assert planned(plan, "multiply") == ("run", "factor: 2 -> 3")
    assert planned(plan, "cap") == ("run", "its input items changes")
    assert not plan.nothing_to_do
    assert [(found.known, found.rows, found.rows_at_most) for found in plan.stages[1:]] == [("at most", None, 7)] * 2


def test_a_plan_names_the_input_that_changed_and_the_parts_that_are_there(toy: Toy) -> None:
    with building(toy.home) as run:
        toy_flow(toy)(run)
    plan = toy.plan()
    toy_flow(toy, tea=[7])(plan)
    assert planned(plan, "read_items") == ("run", "reuse 1 of 2 parts; its input lines changes")
    assert planned(plan, "multiply") == ("run", "reuse 1 of 2 parts; its input items changes")


def test_a_plan_compares_with_the_nearest_earlier_build(toy: Toy) -> None:
    for factor, tea in ((2, TEA), (3, [7])):
        with building(toy.home) as run:
            toy_flow(toy, factor, tea)(run)
    for factor, tea, nearest in ((5, TEA, "factor: 2 -> 5"), (6, [7], "factor: 3 -> 6")):
        plan = toy.plan()
        toy_flow(toy, factor, tea)(plan)
        assert planned(plan, "multiply")[1].startswith(nearest)
        assert "input" not in planned(plan, "multiply")[1]


def test_a_plan_names_the_revision_that_was_raised(toy: Toy) -> None:
    with building(toy.home) as run:
        multiply(run, read_items(run, [toy.source("tea", TEA)]), factor=2, log=toy.log)
    plan = toy.plan()
    raised = stage(multiply.schema, revision=2)(multiply.body)
    raised(plan, read_items(plan, [toy.source("tea", TEA)]), factor=2, log=toy.log)
    assert planned(plan, "multiply") == ("run", "revision 1 -> 2")


def test_a_forced_stage_is_planned_as_forced(toy: Toy) -> None:
    with building(toy.home) as run:
        toy_flow(toy)(run)
    plan = Plan(Store(toy.home), force="multiply")
    toy_flow(toy)(plan)
    assert planned(plan, "multiply") == ("run", "forced")
    assert planned(plan, "cap") == ("run", "multiply is made again; reused where it comes out the same")


def test_a_plan_and_the_build_after_it_agree_on_fingerprints(toy: Toy) -> None:
    plan = toy.plan()
    toy_flow(toy)(plan)
    with building(toy.home) as run:
        toy_flow(toy)(run)
    assert [found.fingerprint for found in plan.stages] == [entry.artifact.fingerprint for entry in run.done]


# ---------------------------------------------------------------- what goes wrong


def test_an_unanswered_part_lets_the_others_go_on_and_only_it_is_made_by_the_next_run(toy: Toy) -> None:
    closed = toy.switch("ale")
    sites = [f"site{number:02d}" for number in range(12)]  # many more than there are workers
    sources = [toy.source("ale", ALE), *(toy.source(site, TEA) for site in sites)]
    with building(toy.home) as run:
        items = read_items(run, sources)
        with pytest.raises(Incomplete, match=r"ale/0 got no answer"):
            ask(run, items, closed=closed, log=toy.log)
        assert toy.worked_on() == ["ale", *sites]
        assert run.store.artifacts("ask") == []
    toy.switch("")
    with building(toy.home) as run:
        asked = ask(run, read_items(run, sources), closed=closed, log=toy.log)
    assert toy.worked_on() == ["ale"]
    assert state(run, "ask") == ("run", 1, 12)
    assert values(asked) == numbered(ale=ALE, **dict.fromkeys(sites, TEA))


@pytest.mark.check
def test_a_worker_that_is_killed_ends_the_build_and_the_next_run_finishes_it(toy: Toy) -> None:
    deadly = toy.switch("ale")
    sites = [f"site{number}" for number in range(8)]  # some of them wait for the worker that dies
    sources = [toy.source("ale", ALE), *(toy.source(site, TEA) for site in sites)]
    with building(toy.home) as run:
        items = read_items(run, sources)
    told = r"worker died while it made die of .*run the same command again"
    with building(toy.home, spawned=True) as run, pytest.raises(LostWorker, match=told):
        die(run, items, deadly=deadly, log=toy.log)
    assert str(os.getpid()) not in Path(toy.log).read_text().split()
    assert "ale" in toy.worked_on()
    assert visible(toy.home, "die") == committed(toy.home, "die")
    toy.switch("")
    with building(toy.home) as run:
        survived = die(run, items, deadly=deadly, log=toy.log)
    assert "ale" in toy.worked_on()
    assert values(survived) == numbered(ale=ALE, **dict.fromkeys(sites, TEA))


@pytest.mark.parametrize("spawned", [False, True], ids=["here", "in a worker"])
def test_a_stage_for_which_duckdb_has_too_little_memory_is_named_with_what_to_do(toy: Toy, spawned: bool) -> None:
    hoarder = toy.switch("ale")
    with building(toy.home) as run:
        items = read_items(run, toy.sites())
    told = (
        r"^DuckDB had too little memory while hoard worked on ale\S* \([^()\n]+\([^()\n]+ used\)\): "
        r"what was finished is kept; free some memory, or give the sources as smaller files, "
        r"and run the command again\.$"
    )
    with building(toy.home, spawned=spawned) as run, pytest.raises(StoreError, match=told) as caught:
        hoard(run, items, hoarder=hoarder)
    assert caught.value.exit_code == 1
    assert visible(toy.home, "hoard") == committed(toy.home, "hoard")
    toy.switch("")
    with building(toy.home) as run:
        assert values(hoard(run, items, hoarder=hoarder)) == numbered(ale=ALE, coffee=COFFEE, tea=TEA)


def visible(home: Path, stage: str) -> list[str]:
    return sorted(path.name for path in (home / "stages" / stage / "parts").glob("[!.]*"))


def committed(home: Path, stage: str) -> list[str]:
    return sorted(path.parent.name for path in (home / "stages" / stage / "parts").glob("[!.]*/part.json"))


@pytest.mark.parametrize("fails", [False, True])
def test_scratch_folders_are_gone_when_the_unit_ends(toy: Toy, fails: bool) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("tea", TEA)])
        try:
            scribble(run, items, log=toy.log, fails=fails)
        except RuntimeError:
            assert fails
    (folder,) = {Path(line) for line in Path(toy.log).read_text().splitlines()}
    assert folder.is_relative_to(toy.home)
    assert not folder.exists()
    assert not list(toy.home.rglob(".tmp-*"))


@dataclass
class Killed:
    toy: Toy
    workers: list[psutil.Process]
    arguments: dict[str, str]


LINGER = """
import sys, longform.engine.runners, toy_stages
longform.engine.runners.processors = lambda: 3  # one for each site, whatever this machine has
toy_stages.linger_over(*sys.argv[1:])
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """A build of three sites that was killed while two workers were making two of them; the third was finished."""
    toy = Toy(tmp_path_factory.mktemp("killed"))
    arguments = {"slow": toy.switch("coffee tea"), "log": toy.log}
    files = [source.path for source in toy.sites()]
    path = paths.PYTHONPATH
    command = [sys.executable, "-c", LINGER]
    process = subprocess.Popen(
        [*command, str(toy.home), *arguments.values(), *files], env={**os.environ, "PYTHONPATH": path}
    )
    try:
        slow = wait_for(lambda: units(toy.home, "linger") and lines_of(Path(f"{toy.log}.slow"), 2))
        workers = [psutil.Process(int(line.split()[0])) for line in slow]
    finally:
        process.kill()
        process.wait()
    yield Killed(toy, workers, arguments)
    for worker in filter(running, workers):
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def lines_of(path: Path, number: int) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return lines if len(lines) == number else []


def wait_for(look: Callable[[], Any], seconds: float = 500) -> Any:
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "this took too long"
        time.sleep(0.02)
    return found


def running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.check
def test_workers_end_when_their_build_is_killed(killed: Killed) -> None:
    assert len({worker.pid for worker in killed.workers}) == 2
    wait_for(lambda: not any(map(running, killed.workers)), seconds=300)  # of the 600 that they linger


@pytest.mark.check
def test_a_killed_build_goes_on_with_what_it_had_not_finished(killed: Killed) -> None:
    toy = killed.toy
    assert [part.split("/")[0] for part in units(toy.home, "linger")] == ["ale"]
    toy.switch("")
    toy.worked_on()
    with building(toy.home) as run:
        items = linger(run, read_items(run, toy.sites()), **killed.arguments)
    assert toy.worked_on() == ["coffee", "tea"]
    assert values(items) == numbered(ale=ALE, coffee=COFFEE, tea=TEA)


def units(home: Path, stage: str) -> list[str]:
    """The keys of the parts that finished units of a stage list."""
    store = Store(home)
    names = [path.stem for path in (home / "stages" / stage / "units").glob("*.json")]
    return sorted(part.key for name in names for part in store.unit(stage, name) or ())


# ---------------------------------------------------------------- a full disk


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EBUSY])
def test_a_file_system_that_is_busy_is_a_passing_failure(number: int, toy: Toy) -> None:
    with building(toy.home) as run:
        items = read_items(run, [toy.source("tea", TEA)])
        with pytest.raises(BusyStore, match=r"was busy .* run the same command again"):
            stumble(run, items, over=number)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "toy", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount the small disk that this test fills")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, left: int) -> Path:
    """Fill the disk until this many bytes are free, in whole pages."""
    usage = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(b"\0" * max(0, usage.f_bavail * usage.f_bsize - left))
    return filler


class FillsTheDisk(SequentialStages):
    """Fills the disk when the first unit is done, before its stage is."""

    def __init__(self, disk: Path) -> None:
        super().__init__()
        self.disk = disk

    def part(self, call: StageCall, label: str, run: Callable[[], list[Part]]) -> Future[list[Part]]:
        made = super().part(call, label, run)
        made.result()
        fill(self.disk, 0)
        return made


@pytest.mark.parametrize("left", [0, 8_192, 65_536])
def test_a_full_disk_ends_the_build_with_nothing_half_made_and_the_next_run_finishes(
    small_disk: Path, tmp_path: Path, left: int
) -> None:
    home, toy = small_disk / "home", Toy(tmp_path)
    with building(home) as run:
        items = read_items(run, [toy.source("ale", [7] * 100)])
        filler = fill(small_disk, left)
        with pytest.raises(StoreError, match=r"disk of .* is full: .*run the same command again"):
            pad(run, items, digits=3_000)  # 150,000 random bytes
    assert visible(home, "pad") == []
    assert run.store.artifacts("pad") == []
    filler.unlink()
    padded_again(home, toy)


def test_a_disk_that_is_full_when_the_rows_are_there_keeps_them(small_disk: Path, tmp_path: Path) -> None:
    home, toy = small_disk / "home", Toy(tmp_path)
    with building(home) as run:
        items = read_items(run, [toy.source("ale", [7] * 100)])
        run.tasks = FillsTheDisk(small_disk)
        with pytest.raises(StoreError, match="is full"):
            pad(run, items, digits=3_000)
    assert run.store.artifacts("pad") == []
    (small_disk / "filler").unlink()
    assert padded_again(home, toy) == ("run", 0, 1)


def padded_again(home: Path, toy: Toy) -> tuple[str, int, int]:
    with building(home) as run:
        rows = pad(run, read_items(run, [toy.source("ale", [7] * 100)]), digits=3_000)
    assert {row["item_id"]: row["text"] for row in rows} == {f"ale/{n}": padding(f"ale/{n}", 3_000) for n in range(100)}
    return state(run, "pad")
