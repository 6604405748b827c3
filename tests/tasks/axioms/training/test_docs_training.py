"""docs/training.md names every setting, and its commands run. `make test-train` has torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import paths
import pytest
from axioms_builds import build_axioms

from tasks.axioms.training.settings import Training

PAGE = (paths.ROOT / "docs" / "training.md").read_text()
COMMANDS = re.findall(r"^    (longform .+)$|`(longform evaluate [^`]+)`", PAGE, re.MULTILINE)
QUICK = "--steps 3 --set report_pairs=20 --set pairs_per_question=1 --set questions_per_step=2 --set max_tokens=64"


def test_the_page_names_every_setting_and_no_other() -> None:
    (listed,) = re.findall(r"^All settings, .*", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", listed)) == set(Training.model_fields)


def test_the_printed_defaults_are_those_of_the_settings() -> None:
    defaults = Training()
    assert (defaults.learning_rate, defaults.warmup_steps, defaults.steps) == (5e-6, 1_000, 16_000)
    assert (defaults.question_tokens, defaults.max_tokens, defaults.questions_per_step) == (256, 2_048, 56)


@pytest.mark.train
@pytest.mark.filterwarnings("ignore")
def test_the_commands_run_and_leave_what_the_page_promises(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    build_axioms(tmp_path / "data")
    (tmp_path / "runs.toml").write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(paths.ROOT)}
    lines = [first or second for first, second in COMMANDS]
    assert len(lines) == 4
    for line in [*lines[1:2], *lines[1:2], *lines[2:]]:
        quick = re.sub(r"--steps \d+|(?<=--runs runs.toml)", f" {QUICK}", line) if "train" in line else line
        quick += " --backbone random:tiny" if "--runs" in line else ""
        done = subprocess.run(
            quick, shell=True, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=900
        )
        assert done.returncode == 0, f"{quick}\n{done.stdout}{done.stderr}"
        assert done.stdout.strip()
    assert not list(tmp_path.glob("*.unfinished"))
    assert {"README.md", "run.json", "metrics.json", "model.safetensors", "config.json", "tokenizer.json"} <= {
        each.name for each in (tmp_path / "small").iterdir()
    }
    card = (tmp_path / "small" / "README.md").read_text()
    for told in ("offline rules", "CC BY-SA", "| encoder:small |", "| length |"):
        assert told in card, told
    tables = (tmp_path / "models" / "tables.md").read_text()
    for told in ("| encoder:PM 0-1 | 0-1 | votes |", "| PM 0-5 + λ Llama-7b | 0-5 | critic |", "| length |"):
        assert told in tables, told
    assert re.search(r"Nothing to do", done.stdout) is None
