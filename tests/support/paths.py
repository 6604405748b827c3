"""Paths of what tests read: the checkout, its samples, and real data beside the project."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"
TEST_DATA = ROOT / "tests" / "data"
REAL_DATA = ROOT.parent / "shared" / "data"
SUPPORT = ROOT / "tests" / "support"
PYTHONPATH = os.pathsep.join(
    map(str, [ROOT, SUPPORT, SUPPORT / "rows", SUPPORT / "servers"])
)  # of processes that tests start
