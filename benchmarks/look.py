"""How quickly the page shows rows of a large version, against a bare DuckDB query.

    python benchmarks/look.py [--rows 1000000] [--home DIR] [--json]

The version has texts of 400 to 1,200 characters in three columns, and short texts, numbers, times and lists beside
them, in files of 50,000 rows and row groups of 20,000, as builds write them. Each way is asked for twice, in one
process; the slower time counts. `first`, `last`: pages of all rows; `filter_…`: a filter on a column; `sort_…`: the
whole split sorted; `search`: a text in any of the long columns, which is read whole for it; `row`: one row by its id.

`bare_…`: DuckDB, asked for the number of rows that fit and for the first fifty of them, whole. `ratio_…`: ours as a
share of that. `slowest_filter_seconds`: of the filters on anything but long text.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb

FILE_ROWS, GROUP_ROWS = 50_000, 20_000
BASE = "/datasets/axioms/large"
FILTERS = {
    "number": ("votes", "least", "990", "votes >= 990"),
    "fraction": ("margin", "most", "0.001", "margin <= 0.001"),
    "name": ("site", "equals", "site3.example", "site = 'site3.example'"),
    "short_text": ("url", "contains", "14285", "contains(lower(url), '14285')"),
    "time": ("created", "least", "2024-06-01", "created >= TIMESTAMP '2024-06-01'"),
    "list": ("sources", "contains", "/77777", "len(list_filter(sources, lambda x: contains(x, '/77777'))) > 0"),
    "missing": ("note", "missing", "", "note IS NULL"),
}
LONG = ("chosen", "contains", "qxq", "contains(lower(chosen), 'qxq')")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--home", type=Path, help="made there, and kept; what is there already is used again")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(pages(given.home)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = compare(given.home or Path(folder), given.rows)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:28} {found[name]}" for name in found))


def compare(home: Path, rows: int) -> dict[str, Any]:
    if not (home / "datasets").exists():
        make_version(home, rows)
    command = [sys.executable, __file__, "--measure", "--home", str(home)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    ours: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    files = sorted((home / "datasets" / "axioms" / "large" / "train").glob("*.parquet"))
    bare = {
        "first": slower(lambda: ask(files, "true")),
        **{f"filter_{name}": slower(lambda where=where: ask(files, where)) for name, (*_, where) in FILTERS.items()},
        "filter_long_text": slower(lambda: ask(files, LONG[3])),
    }
    filters = [f"filter_{name}" for name in FILTERS]
    return {
        "rows": rows,
        "megabytes": round(sum(path.stat().st_size for path in files) / 1e6),
        **{f"{name}_seconds": round(seconds, 3) for name, seconds in ours.items() if name != "peak_mb"},
        **{f"bare_{name}_seconds": round(seconds, 3) for name, seconds in bare.items()},
        "slowest_filter_seconds": round(max(ours[name] for name in filters), 3),
        "ratio_first": round(ours["first"] / bare["first"], 2),
        "ratio_filter": round(sum(ours[name] for name in filters) / sum(bare[name] for name in filters), 2),
        "ratio_long_text": round(ours["filter_long_text"] / bare["filter_long_text"], 2),
        "peak_mb": ours["peak_mb"],
    }


def pages(home: Path) -> dict[str, float]:
    from starlette.testclient import TestClient

    from flows.page.application import Serving, create_app

    with TestClient(create_app(Serving(home)), base_url="http://127.0.0.1") as client:

        def seconds(**asked: Any) -> float:
            return slower(lambda: shown(client, f"{BASE}/rows/pairs/train?{urlencode(asked)}"))

        found = {"first": seconds(), "last": seconds(page=10**9)}
        for name, (column, how, value, _) in {**FILTERS, "long_text": LONG}.items():
            found[f"filter_{name}"] = seconds(column=column, how=how, value=value)
        found |= {"sort_number": seconds(sort="margin"), "sort_text": seconds(sort="pair_id", down=1)}
        found |= {"search": seconds(q="qxq"), "row": slower(lambda: shown(client, f"{BASE}/row?id=p_00000000"))}
    return {**found, "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)}


def shown(client: Any, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text


def slower(run: Callable[[], object]) -> float:
    """Seconds of the slower of two runs."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return max(times)


def ask(files: list[Path], condition: str) -> None:
    with duckdb.connect() as database:
        of = f"FROM read_parquet({[str(path) for path in files]}) WHERE {condition}"
        database.execute(f"SELECT count(*) {of}").fetchall()
        database.execute(f"SELECT * {of} LIMIT 50").fetchall()


def make_version(home: Path, rows: int) -> None:
    """A version whose train split has so many rows, with the least that a manifest needs."""
    folder = home / "datasets" / "axioms" / "large"
    (folder / "train").mkdir(parents=True)
    draw = random.Random(0)
    words = ["".join(draw.choices("aeiourstlnmdcpgbhkw", k=draw.randint(2, 9))) for _ in range(20_000)]
    material = " ".join(draw.choices(words, k=300_000))[:1_500_000] + " qxq "
    texts = ", ".join(
        f"substr($1, (hash(i * 7 + {n}) % 1490000)::INT, (400 + hash(i * 11 + {n}) % 800)::INT) AS {name}"
        for n, name in enumerate(("question", "chosen", "rejected"))
    )
    with duckdb.connect() as database:
        for number, start in enumerate(range(0, rows, FILE_ROWS)):
            path = folder / "train" / f"site-0-{number:05}.parquet"
            query = f"""
                SELECT printf('p_%08x', i) AS pair_id, {texts}, (hash(i) % 1000)::INT AS votes,
                       (hash(i + 1) % 1000000) / 1e6 AS margin, 'site' || hash(i + 2) % 9 || '.example' AS site,
                       'https://site.example/q/' || i // 7 AS url,
                       TIMESTAMP '2010-01-01' + to_seconds((hash(i + 3) % 470000000)::BIGINT) AS created,
                       ['https://site.example/' || i, 'https://site.example/' || i + 1] AS sources,
                       CASE WHEN i % 1000 = 0 THEN NULL ELSE 'seen' END AS note
                FROM range({start}, {min(rows, start + FILE_ROWS)}) AS t(i)"""
            made = database.sql(query, params=[material]).to_arrow_table()
            database.register("made", made)
            database.execute(f"COPY made TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS})")
    manifest = {
        "number": 1,
        "recipe": "0" * 20,
        "stages": {},
        "splits": {"train": rows},
        "configs": {"pairs": {"train": rows}},
        "keys": {"pairs": "pair_id"},
        "offline": True,
        "files": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


if __name__ == "__main__":
    main()
