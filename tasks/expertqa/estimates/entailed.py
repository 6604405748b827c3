"""Predictions of an entailment model, e.g. one fine-tuned on the exported rows: the second half of table 6.

    {"claim_id": "a_3f…#0", "model": "t5-expertqa", "label": 1}

`label` is 1 or true where the evidence supports the claim, else 0 or false. The table scores all such claims, and
separately those of the random split's test questions, since a model may be trained on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Source
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Shard, StageContext, stage
from schemas.expertqa import ENTAILED
from tasks.expertqa.bank import GROUP, defect, jsonl_records
from tasks.sources.files.found import open_files
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import lines_of, of_source

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
LEAST = '{"claim_id":"a","model":"a","label":1}'


def open_entailments(paths: Iterable[str | Path], *, digest: Callable[[Path], str]) -> list[Source]:
    """The sources of these files of predictions."""
    return open_files(paths, group=GROUP, endings=ENDINGS, digest=digest)


@stage(ENTAILED, revision=1, at_most=AtMost(bytes=of_source("files"), rows=lines_of("files", LEAST)))
def read_entailments(context: StageContext, files: Shard, claims: AllRows) -> Iterator[Row | Rejected]:
    """Predictions in the order of the file; a Rejected for a model's second prediction for a claim."""
    known = {row["claim_id"] for row in claims.only("claim_id")}
    seen: set[tuple[str, str]] = set()
    for position, record in enumerate(jsonl_records(read_lines(files))):
        item = record if isinstance(record, Rejected) else entailed(record, position, known)
        if not isinstance(item, Rejected):
            key = (item["model"], item["claim_id"])
            if key in seen:
                item = Rejected(item["entailed_id"], "filtered", "predicted before")
            seen.add(key)
        yield item


def entailed(record: dict[str, Any], position: int, known: set[str]) -> Row | Rejected:
    """The row of ENTAILED of a record; a Rejected if it is no prediction for a known claim."""
    claim, model, label = (record.get(name) for name in ("claim_id", "model", "label"))
    if not isinstance(model, str) or not model.strip():
        return defect(position, "missing or ill-formed model", str(record))
    if not isinstance(label, int | float) or label not in (0, 1):
        return defect(position, "label is neither 1 nor 0", str(record), repr(label)[:100])
    if not isinstance(claim, str) or claim not in known:
        return defect(position, "unknown claim", str(record), str(claim)[:100])
    row = {"claim_id": claim, "model": model, "attributable": bool(label)}
    return {"entailed_id": f"e_{fingerprint([model, claim])}", **row}
