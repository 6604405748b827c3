"""How long it takes to see what a takedown reaches in a home of many parts, against a plain read of the same columns.

    python benchmarks/takedown_reach.py [--parts 20000] [--json]

The home has posts of Reddit and Stack Exchange, papers, passages and pairs of versions, each in parts of 50 rows.
Each way runs in a process of its own, with nothing known of the home:

    one, author, paper, three, versions   tasks/sources/reach.py: a post of Reddit; an author's posts; a paper by its id
                                          of Semantic Scholar; these three at once; the other versions of a paper
    plain                                 pyarrow: each file is opened, the columns of ids in it are read, and the three
                                          ids looked for

`ratio`: the time of `three` as a share of that of `plain`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS = 50
TEXT = "kites were flown over the sea by several people of the village "
POST, AUTHOR, PAPER = "reddit/t1_0", "author/cooking.stackexchange.com/211", "s2/301"
ASKED = {"one": [POST], "author": [AUTHOR], "paper": [PAPER], "three": [POST, AUTHOR, PAPER], "versions": [PAPER]}
COLUMNS = {"post_id", "site", "author_id", "author", "paper_id", "corpus_id", "authors", "url", "passage_id"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--home", type=Path, help="made there, and kept; what is there already is used again")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.home, given.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = compare(given.home or Path(folder), given.parts)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:20} {found[name]}" for name in found))


def compare(home: Path, parts: int) -> dict[str, Any]:
    if not (home / "stages").exists():
        make_home(home, parts)
    found: dict[str, Any] = {"parts": parts, "rows": parts * ROWS}
    for way in (*ASKED, "plain"):
        command = [sys.executable, __file__, "--measure", way, "--home", str(home)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found |= {f"{way}_{name}": value for name, value in json.loads(done.stdout.splitlines()[-1]).items()}
    return found | {"ratio": round(found["three_seconds"] / found["plain_seconds"], 3)}


def measure(home: Path, way: str) -> dict[str, Any]:
    from tasks.sources.reach import other_versions, rows_reached

    started = time.perf_counter()
    if way == "plain":
        found = plain(home)
    elif way == "versions":
        found = len(other_versions(home, ASKED[way]))
    else:
        found = sum(map(len, rows_reached(home, ASKED[way]).values()))
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"seconds": round(seconds, 3), "peak_mb": round(peak), "found": found}


def plain(home: Path) -> int:
    """How many values of the columns of ids are one of the three."""
    asked, found = pa.array([POST, AUTHOR.rpartition("/")[2], PAPER]), 0
    for path in sorted((home / "stages").glob("*/parts/[!.]*/rows.parquet")):
        with pq.ParquetFile(path) as file:
            table = file.read([name for name in file.schema_arrow.names if name in COLUMNS])
        for column in table.columns:
            values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            found += pc.sum(pc.is_in(values, value_set=asked)).as_py() or 0
    return found


def make_home(home: Path, parts: int) -> None:
    """A home whose stages have `parts` parts in all: of ten, four of Reddit, two each of Stack Exchange, and of
    papers, one of passages, and one of pairs of versions.
    """
    kinds = (reddit, reddit, reddit, reddit, stackexchange, stackexchange, papers, papers, passages, versions)
    for number in range(parts):
        kind = kinds[number % 10]
        folder = home / "stages" / kind.__name__ / "parts" / f"{number:016x}"
        folder.mkdir(parents=True)
        first = number // 10 * 10 * ROWS
        table = kind(range(first + number % 10 * ROWS, first + (number % 10 + 1) * ROWS))
        pq.write_table(table, folder / "rows.parquet", compression="zstd")


def reddit(ids: range) -> pa.Table:
    return pa.table(
        {
            "post_id": [f"reddit/t1_{one:x}" for one in ids],
            "subreddit": ["kites"] * len(ids),
            "author_id": [f"{one % 977:024x}" for one in ids],
            "text": [f"{TEXT} {one}" for one in ids],
        }
    )


def stackexchange(ids: range) -> pa.Table:
    site = "cooking.stackexchange.com"
    return pa.table(
        {
            "post_id": [f"{site}/{one}" for one in ids],
            "site": [site] * len(ids),
            "author_id": [str(one % 977) for one in ids],
            "author": [f"ann {one % 977}" for one in ids],
            "text": [f"{TEXT} {one}" for one in ids],
        }
    )


def papers(ids: range) -> pa.Table:
    return pa.table(
        {
            "paper_id": [f"s2/{one}" for one in ids],
            "corpus_id": [str(one) for one in ids],
            "doi": [f"10.5555/{one}" for one in ids],
            "authors": [[f"Ada Aloft {one % 97}", "Bo Breeze"] for one in ids],
            "text": [f"{TEXT} {one}" for one in ids],
        }
    )


def passages(ids: range) -> pa.Table:
    return pa.table(
        {
            "passage_id": [f"web/kites.example/{one}#0" for one in ids],
            "url": [f"https://kites.example/{one // 4}" for one in ids],
            "text": [f"{TEXT} {one}" for one in ids],
            "start": list(ids),
        }
    )


def versions(ids: range) -> pa.Table:
    return pa.table(
        {
            "first_id": [f"s2/{one - 150}" for one in ids],
            "second_id": [f"s2/{one - 149}" for one in ids],
            "verdict": ["same"] * len(ids),
            "group_id": [f"s2/{one - 150}" for one in ids],
            "found_by": ["title"] * len(ids),
        }
    )


if __name__ == "__main__":
    main()
