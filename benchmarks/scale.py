"""What parts cost on each engine, how reading speeds up from one worker to two, and what orchestration takes.

    python benchmarks/scale.py [--megabytes 1000] [--build 200] [--parts 300] [--runners threads,dask] [--json]

`part_ms`: of an empty part, as a Prefect task run on each runner, the server on the same cores. `speed_up`: seconds of
the stage that reads a generated dump with one worker, divided by those with two, without Prefect. `orchestration`: the
share of a build's seconds that Prefect adds to the same build in plain threads, without the start of its server, which
has the last processor for itself, the builds the others; two builds of each kind, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # of workers

import psutil  # noqa: E402
import pyarrow as pa  # noqa: E402

from benchmarks.building import Silent  # noqa: E402
from benchmarks.make_dump import write_dump  # noqa: E402
from longform.artifacts.rows import Source  # noqa: E402
from longform.artifacts.store import Store  # noqa: E402
from longform.engine.build import Build, Tasks  # noqa: E402
from longform.engine.runners import Dask, Processes, Ray, Runner, ThreadRunner  # noqa: E402
from longform.engine.stage import Row, Shard, StageContext, stage  # noqa: E402
from longform.engine.thread_tasks import Threads  # noqa: E402
from longform.llm.models import Models  # noqa: E402
from longform.settings import Retries, quiet_prefect  # noqa: E402
from schemas import column, table  # noqa: E402

NOTHING = table("nothing", column("name", pa.string(), "never there"), key="name")


@stage(NOTHING, revision=1)
def do_nothing(context: StageContext, shard: Shard) -> Iterator[Row]:
    yield from ()


def runner_of(name: str, workers: int | None = None) -> Runner:
    if name == "dask":
        return Dask(workers=workers)
    return ThreadRunner() if name == "threads" else Ray() if name == "ray" else Processes(workers, small_bytes=0)


@contextmanager
def building(home: Path, tasks: Tasks, runner: Runner) -> Iterator[Build]:
    store = Store(home)
    store.prepare()
    with closing(
        Build(store, tasks=tasks, runner=runner, progress=Silent(), models=Models(home / "r.sqlite"))
    ) as build:
        yield build


def part_ms(name: str, parts: int) -> float:
    """Milliseconds of an empty part, the workers and the server being there."""
    from prefect import flow

    from longform.engine.prefect_tasks import PrefectTasks, task_runner

    @flow(name="scale", task_runner=task_runner())
    def run() -> float:
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(PrefectTasks("scale", Retries(0, 1))) as tasks,
            building(Path(folder), tasks, runner_of(name)) as build,
        ):
            do_nothing(build, [empty("warm", 8)])
            build.finish()
            began = time.perf_counter()
            do_nothing(build, [empty("many", parts)])
            build.finish()
            return 1_000 * (time.perf_counter() - began) / parts

    return run()


def empty(name: str, parts: int) -> Source:
    return Source("scale", name, name * 8, (), tuple((number, number + 1) for number in range(parts)))


def speed_up(name: str, dump: Path) -> dict[str, float]:
    """Seconds of reading a dump with one and with two workers, which are warm."""
    from longform.artifacts.store import Digests
    from tasks.sources.stackexchange.posts import open_dumps, read_posts

    found: dict[str, float] = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory(dir=dump.parent) as folder:
            home = Path(folder)
            sources = open_dumps(str(dump), "bench.example", None, Digests(home))
            with building(home, Threads(), runner_of(name, workers)) as build:
                do_nothing(build, [empty("warm", 8)])
                build.finish()
                began = time.perf_counter()
                read_posts(build, sources)
                build.finish()
                found[f"{workers}"] = round(time.perf_counter() - began, 1)
    return {**found, "speed_up": round(found["1"] / found["2"], 2)}


def server_apart() -> None:
    """The Prefect server has the last processor for itself from now on, this process and its workers the others."""
    processors = sorted(os.sched_getaffinity(0))
    servers = [each for each in psutil.Process().children() if "flows.builds.server" in each.cmdline()]
    if len(processors) > 1:
        for process in (psutil.Process(), *servers):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, processors[-1:] if process in servers else processors[:-1])


def orchestration(dump: Path) -> dict[str, float]:
    """Seconds of a whole build in plain threads and under Prefect, on a server that runs: the last measurement."""
    from flows import deployed
    from flows.axioms import AxiomsConfig
    from flows.builds.building import Options, build, declare

    server_apart()
    config = AxiomsConfig(dump=str(dump), site="bench.example")
    seconds = dict.fromkeys(("threads", "prefect"), 0.0)
    for kind in ("threads", "prefect", "prefect", "threads"):
        with tempfile.TemporaryDirectory(dir=dump.parent) as folder:
            options = Options(Path(folder))
            began = time.perf_counter()
            if kind == "threads":
                build("axioms", config, options, tasks=Threads(), progress=Silent())
            else:
                by = deployed.CommandLine(Silent(), declare("axioms", config, options), print)
                deployed.start("axioms", config, options, by)
            seconds[kind] += (time.perf_counter() - began) / 2
    plain, prefect = seconds.values()
    return {"threads": round(plain, 1), "prefect": round(prefect, 1), "share": round(1 - plain / prefect, 3)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    names = options.runners.split(",")
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0))}
    with tempfile.TemporaryDirectory() as folder:
        large = Path(write_dump(Path(folder) / "large" / "Posts.xml", int(options.megabytes * 1e6), seed=1).path)
        small = Path(write_dump(Path(folder) / "small" / "Posts.xml", int(options.build * 1e6), seed=2).path)
        found["reading"] = {name: speed_up(name, large) for name in names if name != "threads"}
        quiet_prefect()
        from flows.builds.server import connected

        with connected(lambda text: print(text, file=sys.stderr)):
            found["part_ms"] = {name: round(part_ms(name, options.parts), 1) for name in names}
            found["orchestration"] = orchestration(small)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=1_000)
    parser.add_argument("--build", type=float, default=200)
    parser.add_argument("--parts", type=int, default=300)
    parser.add_argument("--runners", default="threads,processes,dask")
    parser.add_argument("--json", action="store_true")
    found = measure(options := parser.parse_args())
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:<16}{json.dumps(value)}")


if __name__ == "__main__":
    main()
