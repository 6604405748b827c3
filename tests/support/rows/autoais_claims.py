"""Claims with evidence, for the estimates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longform.engine.stage import Row, Shard, StageContext, stage
from schemas.expertqa import CLAIMS


@stage(CLAIMS, revision=1)
def given_claims(context: StageContext, lines: Shard) -> Iterator[Row]:
    for line in Path(lines.source.path).read_text().splitlines():
        yield json.loads(line)


def claim(number: int, text: str, *evidence: str | None, answer: str = "a_1", system: str = "rr_gs_gpt4") -> Row:
    return {
        "claim_id": f"{answer}#{number}",
        "answer_id": answer,
        "question_id": "expertqa/q1",
        "system": system,
        "position": number,
        "text": text,
        "start": None,
        "end": None,
        "marks": [],
        "unmatched": [],
        "evidence": [
            {"number": at, "url": "https://example.org/", "passage_id": None, "text": text, "given": None}
            for at, text in enumerate(evidence, 1)
        ],
        "original": None,
    }


def made_rejections(rows: Any) -> Iterator[tuple[str, str]]:
    import pyarrow.parquet as pq

    for part in rows.parts:
        if part.rejected_sha256:
            for row in pq.read_table(rows.store.rejected_path(part)).to_pylist():
                yield row["key"], row["reason"]
