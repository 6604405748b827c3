"""Imported predictions of entailment models: every line is a row, or rejected with its reason."""

from __future__ import annotations

import json
from pathlib import Path

from expertqa_tables import Home, filled

from longform.files import sha256_of
from schemas.expertqa import PUBLISHED_CLAIMS
from tasks.expertqa.estimates.predictions import open_entailments, read_entailments

LINES = [
    {"claim_id": "a_1#0", "model": "tuned", "label": 1, "claim": "an exported column"},
    {"claim_id": "a_1#1", "model": "tuned", "label": False},
    {"claim_id": "a_1#0", "model": "tuned", "label": 0},
    {"claim_id": "a_1#0", "model": "other", "label": 0.0},
    {"claim_id": "a_9#0", "model": "tuned", "label": 1},
    {"claim_id": "a_1#0", "model": "tuned", "label": "1"},
    {"claim_id": "a_1#0", "model": " ", "label": 1},
    {"claim_id": ["a_1#0"], "model": "tuned", "label": 1},
    {"claim_id": "a_1#0", "model": "tuned", "label": 0.7},
]


def test_every_line_is_a_row_or_rejected(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    claims = home.table(PUBLISHED_CLAIMS, [filled(PUBLISHED_CLAIMS, claim_id=f"a_1#{n}") for n in (0, 1)])
    file = tmp_path / "tuned.jsonl"
    file.write_text("\n".join([*map(json.dumps, LINES), "{", "[]", ""]))
    made = home.run(read_entailments, open_entailments([file], digest=sha256_of), claims)
    rows = [(row["claim_id"], row["model"], row["attributable"]) for row in made]
    assert rows == [("a_1#0", "tuned", True), ("a_1#1", "tuned", False), ("a_1#0", "other", False)]
    left_out = home.rejected(made)
    assert sorted(left_out.values()) == [
        *("ill-formed JSON", "label is neither 1 nor 0", "label is neither 1 nor 0", "missing or ill-formed model"),
        *("no record", "predicted before", "unknown claim", "unknown claim"),
    ]
    assert len({row["entailed_id"] for row in made}) == 3
