"""Homes for the tests of Look: axioms built twice, once with answers of the stand-in, and versions no build makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from axioms_builds import build_axioms
from standin_server import serve

from flows.config.endpoints import EndpointConfig

SCRIPT = '<script>alert("x")</script><img src=x onerror=alert(1)>'
PRICE = {"input": 2.5, "output": 10.0}


def axioms_home(home: Path) -> Path:
    """A home with two versions of axioms: v1 by the offline model, v2 by the stand-in, with fewer neighbours."""
    build_axioms(home, "v1", limit=12)
    with serve() as server:
        endpoint = EndpointConfig(base_url=server.url, model="standin-1", price=PRICE)
        build_axioms(home, "v2", limit=12, neighbours=3, model="mine", endpoints={"mine": endpoint})
    return home


def made_version(home: Path, rows: list[dict[str, Any]], name: str = "v1", **manifest: Any) -> Path:
    """A version of axioms with these rows, made by no build; its folder."""
    folder = home / "datasets" / "axioms" / name
    (folder / "train").mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "train" / "a.parquet")
    fields = {
        "number": 1,
        "recipe": "0" * 20,
        "stages": {},
        "splits": {"train": len(rows)},
        "configs": {"pairs": {"train": len(rows)}},
        "keys": {"pairs": table.column_names[0]},
        "offline": False,
        "files": {},
        **manifest,
    }
    (folder / "manifest.json").write_text(json.dumps(fields))
    return folder
