"""How fast each source becomes rows, and in how much memory, beside the bare decompress-and-parse of the same file.

    python benchmarks/sources.py [--megabytes 500] [--only reddit,s2orc] [--folder DIR] [--json]
    python benchmarks/sources.py --sizes 100,300 --only reddit        memory by the size of the file

Each source has a module benchmarks/source_<name>.py with three functions:

    generate   a file of about that many unpacked megabytes, in the form and packing of the real source, from a seed
    ours       the source's stages over it, in this process and its workers; says how many records are accounted for
    bare       unpack and parse the same file, and nothing else; says how many records it saw

Each way runs in a process of its own, over a file of one megabyte first, so that imports are not counted. "per core"
is megabytes (10^6 bytes, unpacked) by processor second of the process and its workers; the ratio is of these. Peak
memory is the largest sum of resident memory over the process tree; "small" is that of the file of one megabyte alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.dump import Clock, machine, peak_bytes

SMALL_MEGABYTES = 1.0
REPETITIONS, SHORT_SECONDS = 3, 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--sizes", help="e.g. 100,300: ours at several sizes")
    parser.add_argument("--only", help="names of sources, parted by commas")
    parser.add_argument("--folder", type=Path, help="where generated files are kept; else they are removed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs=4, metavar=("WAY", "SOURCE", "PATH", "SMALL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        return measure(*given.measure)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="longform-benchmark-"))
    sizes = [float(size) for size in given.sizes.split(",")] if given.sizes else [given.megabytes]
    try:
        found = [compared(name, size, folder) for name in names(given.only) for size in sizes]
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    document = {"sources": found, **machine()}
    print(json.dumps(document, indent=1) if given.json else "\n".join(table(found)))


def names(only: str | None) -> list[str]:
    there = sorted(path.stem.removeprefix("source_") for path in Path(__file__).parent.glob("source_*.py"))
    wanted = only.split(",") if only else there
    if unknown := set(wanted) - set(there):
        raise SystemExit(f"There is no source {', '.join(sorted(unknown))}; there are {', '.join(there)}.")
    return wanted


def compared(name: str, megabytes: float, folder: Path) -> dict[str, Any]:
    path = generated(name, megabytes, folder)
    small = generated(name, SMALL_MEGABYTES, folder)
    ours, bare, idle = run("ours", name, path, small), run("bare", name, path, small), run("ours", name, small, small)
    if ours["records"] < bare["records"]:
        raise SystemExit(f"{name}: {ours['records']} of {bare['records']} records of {path} are accounted for")
    rate = {way: round(megabytes / found["cpu_seconds"], 1) for way, found in (("ours", ours), ("bare", bare))}
    return {
        "source": name,
        "megabytes": megabytes,
        "records": bare["records"],
        "ours_mb_per_second": round(megabytes / ours["seconds"], 1),
        "ours_mb_per_cpu_second": rate["ours"],
        "bare_mb_per_cpu_second": rate["bare"],
        "ratio": round(rate["ours"] / rate["bare"], 2),
        "ours_peak_mb": ours["peak_mb"],
        "small_peak_mb": idle["peak_mb"],
        "bare_peak_mb": bare["peak_mb"],
    }


def generated(name: str, megabytes: float, folder: Path) -> Path:
    """The source's file of this size, made once."""
    place = folder / f"{name}-{megabytes:g}"
    note = place / "path.txt"
    if not note.exists():
        place.mkdir(parents=True, exist_ok=True)
        note.write_text(str(module(name).generate(place, megabytes)))
    return Path(note.read_text())


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.source_{name}")


def run(way: str, name: str, path: Path, small: Path) -> dict[str, Any]:
    """What a way did; of one that takes seconds only the quickest of three, as a busy machine doubles such times."""
    found = [once(way, name, path, small)]
    while len(found) < REPETITIONS and found[0]["cpu_seconds"] < SHORT_SECONDS:
        found.append(once(way, name, path, small))
    return {**min(found, key=itemgetter("cpu_seconds")), "peak_mb": max(one["peak_mb"] for one in found)}


def once(way: str, name: str, path: Path, small: Path) -> dict[str, Any]:
    """In a process of its own, with the peak memory of its process tree."""
    command = [sys.executable, __file__, "--measure", way, name, str(path), str(small)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak = peak_bytes(process)
        printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{way} of {name} failed over {path}")
    return {**json.loads(printed.splitlines()[-1]), "peak_mb": round(peak / 1e6)}


def measure(way: str, name: str, path: str, small: str) -> None:
    source = module(name)
    _read(source, way, Path(small))
    clock = Clock()
    records = _read(source, way, Path(path))
    print(json.dumps({**clock.read(), "records": records}))


def _read(source: Any, way: str, path: Path) -> int:
    """The records of the file, when all workers have ended."""
    if way == "bare":
        return int(source.bare(path))
    with tempfile.TemporaryDirectory(prefix="home-", dir=path.parent) as home:
        return int(source.ours(path, Path(home)))


def table(found: list[dict[str, Any]]) -> list[str]:
    head = (
        f"{'source':16}{'MB':>7}{'records':>11}{'MB/s':>8}{'per core':>10}{'bare':>8}{'ratio':>7}"
        f"{'peak MB':>9}{'small':>7}"
    )
    rows = [
        f"{one['source']:16}{one['megabytes']:7g}{one['records']:11,}{one['ours_mb_per_second']:8}"
        f"{one['ours_mb_per_cpu_second']:10}{one['bare_mb_per_cpu_second']:8}{one['ratio']:7}"
        f"{one['ours_peak_mb']:9}{one['small_peak_mb']:7}"
        for one in found
    ]
    return [head, *rows]


if __name__ == "__main__":
    main()
