"""How fast a dump becomes threads, and in how much memory: ours, a bare lxml parse, BeautifulSoup and a dict.

    python benchmarks/dump.py [--megabytes 1000] [--folder DIR] [--json]
    python benchmarks/dump.py --sizes 100,200,400 [--json]          memory by the size of the dump

All of it in one run over one generated dump, each way in a process of its own:

    ours   the stages read_posts and join_threads, with as many worker processes as there are processors
    lxml   etree.fromstring on every line, and nothing else: what any reader of this format pays
    bs4    the usual script: BeautifulSoup.get_text for every body, questions and answers in a dict, JSON lines;
           over the first --bs4-megabytes of the dump, as it is slow and its memory grows with them

Rates are megabytes (10^6 bytes) of XML. "per core" divides by the processor seconds of the process and its workers,
without imports. Peak memory is the largest sum of resident memory over the whole process tree, looked at 50 times
a second; what processes share counts once for each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.make_dump import write_dump

SITE = "generated.example"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=1_000)
    parser.add_argument("--bs4-megabytes", type=float, default=50)
    parser.add_argument("--sizes", help="e.g. 100,200,400: ours only, at several sizes")
    parser.add_argument("--folder", type=Path, help="where generated dumps are kept; else they are removed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(WAYS[given.measure](given.folder)))
        return
    folder = given.folder or Path(tempfile.mkdtemp(prefix="longform-benchmark-"))
    try:
        found = by_size(folder, given.sizes) if given.sizes else compare(folder, given.megabytes, given.bs4_megabytes)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:28} {found[name]}" for name in found))


# ---------------------------------------------------------------- side by side


def compare(folder: Path, megabytes: float, bs4_megabytes: float) -> dict[str, Any]:
    dump = dump_of(folder, megabytes)
    small = dump if bs4_megabytes >= megabytes else dump_of(folder, bs4_megabytes)
    ours, lxml, bs4 = (measured(way, path) for way, path in (("ours", dump), ("lxml", dump), ("bs4", small)))
    return {
        "megabytes": megabytes,
        **named("ours", ours),
        "ours_read_seconds": ours["read_seconds"],
        "ours_join_seconds": ours["join_seconds"],
        **named("lxml", lxml),
        "bs4_megabytes": min(megabytes, bs4_megabytes),
        **named("bs4", bs4),
        "ratio_to_lxml": round(ours["mb_per_cpu_second"] / lxml["mb_per_cpu_second"], 3),
        "ratio_to_bs4": round(ours["mb_per_cpu_second"] / bs4["mb_per_cpu_second"], 2),
        "posts": ours["posts"],
        "threads": ours["threads"],
        **machine(),
    }


def by_size(folder: Path, sizes: str) -> dict[str, Any]:
    megabytes = [float(size) for size in sizes.split(",")]
    runs = [measured("ours", dump_of(folder, size)) for size in megabytes]
    names = ("mb_per_second", "mb_per_cpu_second", "peak_mb")
    return {"megabytes": megabytes, **{f"ours_{name}": [run[name] for run in runs] for name in names}, **machine()}


def named(way: str, run: dict[str, Any]) -> dict[str, Any]:
    return {f"{way}_{name}": run[name] for name in ("mb_per_second", "mb_per_cpu_second", "peak_mb")}


def dump_of(folder: Path, megabytes: float) -> Path:
    """A folder with a generated Posts.xml of this size, made once."""
    place = folder / f"dump-{megabytes:g}"
    if not (place / "dump.json").exists():
        made = write_dump(place / "Posts.xml", int(megabytes * 1_000_000), seed=1)
        (place / "dump.json").write_text(json.dumps(asdict(made)))
    return place


def measured(way: str, dump: Path) -> dict[str, Any]:
    """What the way printed, with its rates and the peak memory of its process tree."""
    command = [sys.executable, __file__, "--measure", way, "--folder", str(dump)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak = peak_bytes(process)
        printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{way} failed over {dump}")
    run: dict[str, Any] = json.loads(printed.splitlines()[-1])
    megabytes = (dump / "Posts.xml").stat().st_size / 1e6
    rates = {"mb_per_second": megabytes / run["seconds"], "mb_per_cpu_second": megabytes / run["cpu_seconds"]}
    return {**run, **{name: round(rate, 2) for name, rate in rates.items()}, "peak_mb": round(peak / 1e6)}


def peak_bytes(process: subprocess.Popen[str]) -> int:
    import psutil

    root, peak = psutil.Process(process.pid), 0
    while process.poll() is None:
        peak = max(peak, sum(map(resident, [root, *descendants(root)])))
        time.sleep(0.02)
    return peak


def descendants(root: Any) -> list[Any]:
    import psutil

    try:
        return list(root.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def resident(process: Any) -> int:
    import psutil

    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return {
        "cpu_model": model[1] if model else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }


# ---------------------------------------------------------------- the three ways, each in its own process


def ours(dump: Path) -> dict[str, Any]:
    from benchmarks.building import building
    from longform.artifacts.store import Digests
    from tasks.sources.stackexchange.posts import open_dump, read_posts
    from tasks.sources.stackexchange.threads import join_threads, read_users

    home = Path(tempfile.mkdtemp(prefix="home-", dir=dump))
    try:
        clock = Clock()
        source = open_dump(dump, site=SITE, retrieved_at=None, digest=Digests(home))
        with building(home) as build:
            threads = join_threads(build, read_posts(build, [source]), read_users(build, []))
        read, _, join = build.done
        posts = read.artifact.rows
        _check(dump, posts + sum(read.artifact.rejected().values()))
        stages = {"read_seconds": round(read.seconds, 2), "join_seconds": round(join.seconds, 2)}
        return {**clock.read(), **stages, "posts": posts, "threads": threads.count}
    finally:
        shutil.rmtree(home)


def _check(dump: Path, rows: int) -> None:
    expected = json.loads((dump / "dump.json").read_text())["rows"]
    if rows != expected:
        raise SystemExit(f"{rows} of {expected} rows of {dump} came out")


def bare_lxml(dump: Path) -> dict[str, Any]:
    from lxml import etree

    clock, rows = Clock(), 0
    for _ in parsed(dump, etree):
        rows += 1
    return {**clock.read(), "rows": rows}


def bs4_and_dict(dump: Path) -> dict[str, Any]:
    from bs4 import BeautifulSoup
    from lxml import etree

    clock = Clock()
    questions: dict[str, dict[str, Any]] = {}
    answers: dict[str, list[dict[str, Any]]] = {}
    for row in parsed(dump, etree):
        text = BeautifulSoup(row.get("Body", ""), "lxml").get_text()
        post = {"id": row.get("Id"), "text": text, "votes": int(row.get("Score", 0))}
        if row.get("PostTypeId") == "1":
            questions[row.get("Id")] = {**post, "title": row.get("Title"), "tags": row.get("Tags")}
        elif row.get("PostTypeId") == "2":
            answers.setdefault(row.get("ParentId"), []).append(post)
    with tempfile.TemporaryFile("w", dir=dump) as file:
        for number, question in questions.items():
            found = sorted(answers.get(number, []), key=lambda answer: -answer["votes"])
            file.write(json.dumps({**question, "answers": found}) + "\n")
    return {**clock.read(), "threads": len(questions)}


def parsed(dump: Path, etree: Any) -> Iterator[Any]:
    """The rows that lxml takes as they are; those with illegal characters are lost."""
    parser = etree.XMLParser()
    with (dump / "Posts.xml").open("rb") as file:
        for line in file:
            if b"<row" in line:
                try:
                    yield etree.fromstring(line, parser)
                except etree.XMLSyntaxError:
                    continue


WAYS = {"ours": ours, "lxml": bare_lxml, "bs4": bs4_and_dict}


class Clock:
    """Wall and processor seconds since it was made, those of workers that were waited for included."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), processor_seconds()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self.wall, "cpu_seconds": processor_seconds() - self.processor}


def processor_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
