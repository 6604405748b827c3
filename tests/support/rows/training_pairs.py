"""Published versions of a few pairs, for what trains on them, without a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.versions import Version
from longform.files import sha256_of
from schemas.axioms import PAIRS
from tasks.axioms.training.pairs import KEYS, LICENCES, MARGINS, TEXTS

COLUMNS = (*TEXTS, *KEYS, *LICENCES, *MARGINS.values())
WORDS = ["amber", "basil", "cedar", "daisy", "elder", "fennel", "ginger", "hazel", "ivory", "kale", "lemon", "maple"]


def pair(question: int, number: int = 0, **values: Any) -> dict[str, Any]:
    """A pair of axiom 1: the preferred answer has the word that the question asks for, the rejected one another."""
    asked, other = (WORDS[(question + step) % len(WORDS)] for step in (0, number + 1))
    return {
        "pair_id": f"p_{question}_{number}",
        "question_id": f"q_{question}",
        "question": f"where does {asked} grow",
        "evidence": [],
        "preferred_id": f"a_{question}",
        "preferred": f"most of the {asked} stands near water",
        "rejected_id": f"n_{question}_{number}",
        "rejected": f"most of the {other} stands near water",
        "axiom": 1,
        "pair_type": "human > related",
        "margin": 0.25,
        "critic_margin": None,
        **dict.fromkeys(LICENCES, "CC BY-SA 4.0"),
        **values,
    }


def version_of(folder: Path, train: list[dict[str, Any]], test: list[dict[str, Any]] | None = None) -> Version:
    """A version whose pairs are these; those of the test split are the training ones where none are given."""
    files = {}
    schema = pa.schema([PAIRS.field(name) for name in COLUMNS])
    for split, rows in (("train", train), ("test", test if test is not None else train)):
        path = folder / split / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([{name: row[name] for name in COLUMNS} for row in rows], schema), path)
        files[f"{split}/part.parquet"] = {"sha256": sha256_of(path)}
    configs = {"pairs": {"train": len(train), "test": len(train if test is None else test)}}
    manifest = {"recipe": "r", "files": files, "configs": configs, "splits": configs["pairs"], "offline": True}
    return Version("axioms", folder.name, folder, manifest)
