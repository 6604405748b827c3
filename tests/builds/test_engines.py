"""Every engine makes the same bytes; a worker or a scheduler that is killed costs what it was at work on.

Ray's part runs where the extra `ray` is installed: `make test-ray`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import Silent, build_axioms
from ports import nobody
from processes import started, wait_for
from two_sites import contents, dumps_of, parts, stamps

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build, declare
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Part, Store
from longform.engine.build import Build
from longform.engine.jobs import Job
from longform.engine.runners import Dask, Processes, Ray, Runner, ThreadRunner, attempt, check
from longform.engine.thread_tasks import Threads
from longform.errors import Incomplete, LostWorker, ServerError, UsageError
from longform.llm.models import Models

pytestmark = pytest.mark.check

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed: make test-ray")
ENGINES = ["threads", "processes", "dask", pytest.param("ray", marks=needs_ray)]


def made_by(runner: Runner, home: Path, dumps: list[str]) -> None:
    config = AxiomsConfig(dump=dumps)
    build("axioms", config, Options(home, "v1"), tasks=Threads(), progress=Silent(), runner=runner)


# Each sends small parts to workers too.
RUNNERS: dict[str, Callable[..., Runner]] = {
    "threads": ThreadRunner,
    "processes": partial(Processes, small_bytes=0),
    "dask": Dask,
    "ray": Ray,
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return dumps_of(tmp_path_factory.mktemp("dumps"), megabytes=0.3)


@pytest.fixture(scope="module")
def reference(dumps: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a build that runs one stage after the other in this process."""
    home = tmp_path_factory.mktemp("reference")
    build_axioms(home, dump=dumps)
    return contents(home)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_makes_the_same_bytes(
    engine: str, dumps: list[str], reference: dict[str, bytes], tmp_path: Path
) -> None:
    made_by(RUNNERS[engine](), tmp_path / "home", dumps)
    assert contents(tmp_path / "home") == reference


class Cluster:
    """A Dask scheduler and workers, each in a process of its own."""

    def __init__(self, folder: Path, stack: ExitStack, environment: dict[str, str]) -> None:
        self.folder, self.stack = folder, stack
        path = os.pathsep.join([paths.PYTHONPATH, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {**os.environ, "PYTHONPATH": path, **environment}
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show")
        wait_for(self.told.exists)
        self.address = str(json.loads(self.told.read_text())["address"])
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def told(self) -> Path:
        return self.folder / "scheduler.json"

    def start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        file = ("--scheduler-file", str(self.told)) if kind == "scheduler" else ()
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options, *file, "--no-dashboard"]
        quiet = subprocess.DEVNULL
        return self.stack.enter_context(
            started(command, env=self.environment, stdout=quiet, stderr=quiet, cwd=self.folder)
        )

    def add_worker(self) -> None:
        self.workers.append(self.start("worker", self.address, "--nthreads", "1", "--no-nanny"))


@contextmanager
def cluster(folder: Path, workers: int, **environment: str) -> Iterator[Cluster]:
    folder.mkdir()
    with ExitStack() as stack:
        made = Cluster(folder, stack, environment)
        for _ in range(workers):
            made.add_worker()
        yield made


def held_once(job: Job) -> list[Part] | Exception:
    """Make a job; the first job of the held stage reports its process, leaves a half-written part and waits to be
    killed.
    """
    marker = Path(os.environ["HELD"])
    if job.stage == os.environ["HELD_STAGE"]:
        try:
            with marker.open("x") as file:
                (Store(job.home).new_folder(job.stage) / "rows.parquet").write_bytes(b"half")
                file.write(str(os.getpid()))
            time.sleep(3_600)
        except FileExistsError:
            pass
    return attempt(job)


def holder(marker: Path) -> int:
    wait_for(lambda: marker.exists() and marker.read_text() != "")
    return int(marker.read_text())


@pytest.fixture
def holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment in which `held_once` holds the first job of a stage until it is killed."""
    held = {"HELD": str(tmp_path / "held"), "HELD_STAGE": "answer_open_book"}
    for name, value in held.items():
        monkeypatch.setenv(name, value)
    return held


def test_a_dask_worker_that_is_killed_costs_the_part_it_made(
    holding: dict[str, str], dumps: list[str], reference: dict[str, bytes], tmp_path: Path
) -> None:
    with cluster(tmp_path / "cluster", 2, **holding) as dask, ThreadPoolExecutor() as threads:
        going = threads.submit(made_by, Dask(dask.address, make=held_once), tmp_path / "home", dumps)
        pid = holder(tmp_path / "held")
        next(worker for worker in dask.workers if worker.pid == pid).kill()
        going.result()
    assert contents(tmp_path / "home") == reference


def test_after_the_loss_of_the_scheduler_the_next_run_goes_on(
    holding: dict[str, str], dumps: list[str], reference: dict[str, bytes], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with cluster(tmp_path / "cluster", 2, **holding) as dask, ThreadPoolExecutor() as threads:
        going = threads.submit(made_by, Dask(dask.address, make=held_once), home, dumps)
        holder(tmp_path / "held")
        dask.scheduler.kill()
        with pytest.raises(LostWorker, match="or its scheduler"):
            going.result()
    before = stamps(home)
    with cluster(tmp_path / "next", 1, **holding) as dask:
        made_by(Dask(dask.address, make=held_once), home, dumps)
    assert before.items() <= stamps(home).items()
    assert contents(home) == reference


def test_a_scheduler_that_is_lost_between_two_stages_is_noticed_by_the_parts(dumps: list[str], tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster", 1) as dask, closing(Dask(dask.address)) as runner:
        assert runner.workers == 1
        dask.scheduler.kill()
        dask.scheduler.wait()
        with pytest.raises(LostWorker, match=r"or its scheduler|cluster answers"):
            made_by(runner, tmp_path / "home", dumps)


def test_a_build_whose_dask_workers_are_all_gone_ends_and_says_so(
    holding: dict[str, str], dumps: list[str], tmp_path: Path
) -> None:
    with cluster(tmp_path / "cluster", 1, **holding) as dask, ThreadPoolExecutor() as threads:
        runner = Dask(dask.address, make=held_once, patience=2)
        going = threads.submit(made_by, runner, tmp_path / "home", dumps)
        holder(tmp_path / "held")
        dask.workers[0].kill()
        with pytest.raises(LostWorker, match="has no worker"):
            going.result()


def for_ever(job: Job) -> list[Part] | Exception:
    """A job whose stage never ends by itself."""
    stage = getattr(import_module(job.module), job.stage)
    object.__setattr__(stage, "body", partial(endless, stage.body))
    return attempt(job)


def endless(body: Callable[..., Iterator[Any]], *arguments: Any, **named: Any) -> Iterator[Any]:
    for item in body(*arguments, **named):
        yield item
        while True:
            Path(os.environ["HELD"]).touch()
            time.sleep(0.05)
            yield Rejected("again", "defect", "again")


@pytest.mark.parametrize("engine", ["processes", "dask", pytest.param("ray", marks=needs_ray)])
def test_workers_of_every_engine_hear_that_the_build_stops(
    engine: str, dumps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELD", str(tmp_path / "held"))
    monkeypatch.setenv("PYTHONPATH", paths.PYTHONPATH)  # of Ray's workers
    method = declare("axioms", AxiomsConfig(dump=dumps), Options(tmp_path / "home", "v1"))
    with Models(tmp_path / "responses.sqlite") as models, ThreadPoolExecutor() as threads:
        store, runner = Store(tmp_path / "home"), RUNNERS[engine](make=for_ever)
        built = Build(store, tasks=Threads(), runner=runner, progress=Silent(), models=models)
        going = threads.submit(built.make, method)
        with closing(built):
            wait_for(lambda: (tmp_path / "held").exists() or going.done())
            stopped = time.monotonic()
            built.stop()
            with pytest.raises(Incomplete):
                going.result()
            assert time.monotonic() - stopped < 10
    assert parts(tmp_path / "home") == []


@needs_ray
def test_a_ray_cluster_without_a_processor_ends_the_build_and_says_so(
    dumps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    init = ray.init
    monkeypatch.setattr(ray, "init", lambda *given, **more: init(*given, **more | {"num_cpus": 0}))
    with closing(Ray(patience=2)) as runner, pytest.raises(LostWorker, match="The Ray cluster has no worker"):
        made_by(runner, tmp_path / "home", dumps)


@pytest.mark.parametrize("engine", ["dask", pytest.param("ray", marks=needs_ray)])
def test_a_cluster_that_does_not_answer_is_one_sentence(engine: str, tmp_path: Path) -> None:
    with nobody() as address:
        host = address.removeprefix("http://")
        where, sentence = f"tcp://{host}", f"answers at .*{host}: start it, or correct --address"
        with pytest.raises(ServerError, match=sentence):  # before a build begins
            check(engine, where, seconds=1)
        runner = Dask(where, seconds_to_connect=1) if engine == "dask" else Ray(host, seconds_to_connect=1)
        with pytest.raises(LostWorker, match=sentence):  # a cluster that goes away meanwhile
            assert runner.workers
        runner.close()


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://host", "host:port", "tcp://a b:1"])
def test_a_malformed_cluster_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of a cluster: give host and port"):
        check("dask", address)
