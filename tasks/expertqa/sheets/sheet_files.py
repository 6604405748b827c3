"""Annotation sheets as files: JSON lines of our own, a project of Label Studio, a data set of Argilla 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import orjson

from longform.artifacts.rows import Row
from tasks.expertqa.sheets import argilla, label_studio

Format = Literal["jsonl", "label-studio", "argilla"]
FORMATS: tuple[str, ...] = get_args(Format)
MAIN = {"jsonl": "sheets.jsonl", "label-studio": "tasks.json", "argilla": "records.json"}


def sheet_files(found: Sequence[Row], format: Format) -> dict[str, bytes]:
    """Name -> content of the files of these sheets; the first is the one that holds them."""
    if format == "jsonl":
        return {MAIN[format]: b"".join(orjson.dumps(one) + b"\n" for one in found)}
    if format == "label-studio":
        tasks = [label_studio.task(one) for one in found]
        return {MAIN[format]: _json(tasks), "config.xml": label_studio.configuration().encode()}
    longest = max((len(one["claims"]) for one in found), default=0)
    return {
        MAIN[format]: _json([argilla.record(one) for one in found]),
        f"{argilla.SETTINGS}/dataset.json": _json(argilla.dataset()),
        f"{argilla.SETTINGS}/settings.json": _json(argilla.settings(longest)),
    }


def _json(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
