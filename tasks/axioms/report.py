"""Tables 7 and 10 of the paper for a version's report, streamed from its stages."""

from __future__ import annotations

from longform.rows import Rows
from tasks.card import ReportTable


def tables(threads: Rows, pairs: Rows) -> list[ReportTable]:
    return []
