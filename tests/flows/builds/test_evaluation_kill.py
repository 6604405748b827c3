"""Kill -9 while a judge scores: the next run goes on, and asks again at most what was in flight."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from evaluation_versions import ranking_rows, write_version
from killed_builds import answered, asked_twice, calls, killed_when, run
from standin_server import serve

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
QUESTIONS, CONCURRENCY = 60, 8


def test_an_evaluation_that_is_killed_twice_goes_on_and_buys_no_reply_twice(tmp_path: Path) -> None:
    home, config, to = tmp_path / "home", tmp_path / "mine.toml", tmp_path / "to"
    write_version(home, ranking=ranking_rows(QUESTIONS), comparisons=[], judged=False)
    command = [LONGFORM, "evaluate", "axioms", "--home", home, "--config", config, "--yes", "--sets", "stackexchange"]
    command += ["--scorer", "judge:mine:pointwise:plain", "--scorer", "length", "--to", to]
    with serve(latency_seconds=0.05) as server:
        endpoint = {"base_url": server.url, "model": "m", "concurrency": CONCURRENCY}
        lines = [f"{name} = {json.dumps(value)}" for name, value in endpoint.items()]
        config.write_text("\n".join(["[endpoints.mine]", *lines, "price = { input = 1.0, output = 2.0 }", ""]))
        for target in (40, 140):
            with run(command) as evaluation:
                killed_when(evaluation, lambda target=target: answered(server) > target)  # type: ignore[misc]
            assert not to.exists()
        with run(command) as evaluation:
            assert evaluation.wait() == 0
        assert answered(server) == 4 * QUESTIONS
        assert asked_twice(server) <= 2 * (CONCURRENCY + CONCURRENCY // 10)
        sent = calls(server)
        with run([*command[:-1], tmp_path / "again"]) as evaluation:
            assert evaluation.wait() == 0
        assert calls(server) == sent
    for name in ("scores.parquet", "metrics.parquet"):
        assert (to / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
