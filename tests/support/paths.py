"""Paths of what tests read: the checkout, its samples, and real data beside the project."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"
TEST_DATA = ROOT / "tests" / "data"
REAL_DATA = ROOT.parent / "shared" / "data"
PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])  # of processes that tests start
