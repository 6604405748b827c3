"""Other frameworks that ask models, each in a venv of its own, for benchmarks/llm.py --others.

    curator      LLM(backend="openai") over a data set, its files included; so many rows that it takes some seconds
    distilabel   OpenAILLM.agenerate, as many at once as are to be in flight; without its pipeline

What they would send home or fetch by themselves is turned off where they allow it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.llm import KEY, LATENCY, MODEL, SCHEMA, SYSTEM, Clock, Found, by_workers, messages, rates

PACKAGES = {"curator": ["bespokelabs-curator"], "distilabel": ["distilabel[openai]", "requests"]}
INSTALL_SECONDS = 1_200
ROWS_A_SECOND = 500
QUIET = {
    "TELEMETRY_ENABLED": "false",
    "CURATOR_DISABLE_RICH_DISPLAY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
}


def install(venvs: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The Python of each that is installed, and why each other one is not."""
    pythons, skipped = {}, {}
    for name, packages in PACKAGES.items():
        python = venvs / name / "bin" / "python"
        why = None if (venvs / name / "installed").exists() else _installed(venvs / name, python, packages)
        if why:
            skipped[name] = why
        else:
            pythons[name] = str(python)
    return pythons, skipped


def _installed(venv: Path, python: Path, packages: list[str]) -> str | None:
    """Why not, if not."""
    print(f"Installing {' '.join(packages)} in {venv}, which may take minutes.", file=sys.stderr)
    for command in (
        [sys.executable, "-m", "venv", str(venv)],
        [str(python), "-m", "pip", "install", "-q", *packages],
    ):
        try:
            done = subprocess.run(["nice", *command], capture_output=True, text=True, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            return f"not installed within {INSTALL_SECONDS} seconds"
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
            return f"it does not install ({errors[-1].strip()[:200]})"
    (venv / "installed").touch()
    return None


def curator(url: str, in_flight: int, seconds: float, folder: Path) -> Found:
    os.environ.update(QUIET, TIKTOKEN_CACHE_DIR=_token_files(), CURATOR_CACHE_DIR=str(folder))
    from bespokelabs.curator import LLM
    from datasets import Dataset

    class Checker(LLM):  # type: ignore[misc]
        def prompt(self, row: dict[str, Any]) -> str:
            return str(row["prompt"])

        def parse(self, row: dict[str, Any], response: Any) -> dict[str, Any]:
            return {"verdict": json.loads(response)["verdict"]}

    limits = {"max_requests_per_minute": 10**9, "max_tokens_per_minute": 10**12, "max_concurrent_requests": in_flight}
    settings = {"base_url": f"{url}/v1", "api_key": KEY, **limits}
    how = {"response_format": SCHEMA, "max_completion_tokens": 512}
    checker = Checker(MODEL, backend="openai", backend_params=settings, generation_params=how, system_prompt=SYSTEM)
    rows = int(ROWS_A_SECOND * seconds)
    asked = Dataset.from_list([{"prompt": messages(number)[1][1]} for number in range(rows)])
    clock = Clock()
    made = checker(asked, working_dir=str(folder / str(in_flight)))
    assert len(made.dataset) == rows
    return rates(rows, clock, in_flight / LATENCY)


def _token_files() -> str:
    """Where a package that comes with it keeps what it would fetch otherwise."""
    import litellm

    return str(Path(litellm.__file__).parent / "litellm_core_utils" / "tokenizers")


@asynccontextmanager
async def distilabel(url: str, in_flight: int) -> Any:
    from distilabel.models import OpenAILLM

    model = OpenAILLM(model=MODEL, base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    model.load()

    async def send(body: dict[str, Any]) -> str:
        extra = {"response_format": SCHEMA}
        output = await model.agenerate(input=body["messages"], max_new_tokens=512, extra_body=extra)
        return str(output["generations"][0])

    yield send
    await model._aclient.close()  # noqa: SLF001 - it has no other way


OTHERS: dict[str, Callable[..., Found]] = {"curator": curator, "distilabel": partial(by_workers, distilabel)}
