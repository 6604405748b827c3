"""The whole axioms build over a generated dump, stage by stage, beside reading the dump alone.

    python benchmarks/axioms.py [--megabytes 50] [--seed 1] [--json]

`ratio_to_reading`: how many times longer everything takes than read_posts and join_threads, in the same run.
Without Prefect, offline, from an empty home, which is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

READING = ("read_posts", "join_threads")


def measure(megabytes: float, seed: int) -> dict[str, object]:
    from benchmarks.building import Silent  # here, as worker processes import this script, too
    from benchmarks.make_dump import write_dump
    from flows.axioms import AxiomsConfig
    from flows.builds.building import Options, build
    from longform.engine.thread_tasks import Threads

    with tempfile.TemporaryDirectory() as folder:
        dump = write_dump(Path(folder) / "Posts.xml", int(megabytes * 1e6), seed=seed)
        config = AxiomsConfig(dump=str(dump.path), site="bench.example")
        started = time.perf_counter()
        published, made = build("axioms", config, Options(Path(folder) / "home"), tasks=Threads(), progress=Silent())
        seconds = time.perf_counter() - started
    stages = {entry.stage: round(entry.seconds, 2) for entry in made.done}
    reading = sum(stages[name] for name in READING)
    return {
        "megabytes": megabytes,
        "pairs": sum(published.version.manifest["splits"].values()) if published else 0,
        "seconds": round(seconds, 1),
        "mb_per_second": round(megabytes / seconds, 2),
        "ratio_to_reading": round(seconds / reading, 1),
        "cores": len(os.sched_getaffinity(0)),
        "stages": {name: {"seconds": took, "rows": _rows(made, name)} for name, took in stages.items()},
    }


def _rows(made: object, stage: str) -> int:
    return next(entry.artifact.rows for entry in made.done if entry.stage == stage)  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.megabytes, options.seed)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, stage in found.pop("stages").items():  # type: ignore[union-attr]
        print(f"{name:<22}{stage['rows']:>12,} rows {stage['seconds']:>8.2f} s")
    for name, value in found.items():
        print(f"{name:<22}{value:>12,}")


if __name__ == "__main__":
    main()
