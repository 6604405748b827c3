"""Run options are declared once: the command line, deployments and builds have the same ones."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from flows.builds.options import Options, about
from flows.registry import DATASETS
from longform.errors import UsageError

LONGFORM = str(Path(sys.executable).with_name("longform"))
NAMES = [each.name for each in fields(Options)]


def help_of(command: str) -> str:
    wide = {"COLUMNS": "300", "TERMINAL_WIDTH": "300"}
    done = subprocess.run([LONGFORM, command, "--help"], env=wide, capture_output=True, text=True, timeout=600)
    return " ".join(done.stdout.split())


def test_a_build_has_a_flag_for_every_option_and_a_plan_for_what_it_can_use() -> None:
    build, plan = help_of("build"), help_of("plan")
    for name in NAMES:
        assert re.search(rf"--{name.replace('_', '-')} .*{re.escape(about(name).help[:30])}", build), name
    found = [name for name in NAMES if f" --{name.replace('_', '-')} " in plan]
    assert found == ["home", "version", "until", "force", "budget", "retry_errors"]


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_flow_of_a_dataset_takes_every_option_with_its_default(dataset: str) -> None:
    from flows.deployed import FLOWS

    parameters = inspect.signature(FLOWS[dataset].fn).parameters
    assert list(parameters) == ["config", *NAMES]
    options = Options(Path("home"))
    for name in NAMES[1:]:
        assert parameters[name].default == getattr(options, name)
    from flows.deployed import FLOWS

    described = FLOWS[dataset].parameters.properties
    assert {name: described[name]["description"] for name in NAMES} == {name: about(name).help for name in NAMES}


@pytest.mark.parametrize(("given", "words"), [
    ({"max_cost": -1.0}, "--max-cost -1.0 is no amount of US dollars"),
    ({"max_cost": float("nan")}, "--max-cost nan is no amount of US dollars"),
    ({"budget": -1.0}, "--budget -1.0 is no amount of US dollars"),
    ({"runner": "spark"}, 'There is no runner "spark" (--runner or LONGFORM_RUNNER); there are threads, processes,'),
    ({"address": "tcp://here:8786"}, "--address tcp://here:8786 names a cluster, but --runner processes uses none"),
])  # fmt: skip
def test_a_value_that_no_build_can_use_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Options(Path("home"), **given)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_a_cluster_may_be_named() -> None:
    options = Options(Path("home"), runner="dask", address="tcp://here:8786")
    assert options.engine == ("dask", "tcp://here:8786")


def test_the_runner_option_overrides_the_runner_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGFORM_RUNNER", "ray")
    monkeypatch.setenv("LONGFORM_RUNNER_ADDRESS", "here:6379")
    assert Options(Path("home")).engine == ("ray", "here:6379")
    assert Options(Path("home"), runner="threads").engine == ("threads", None)
    monkeypatch.setenv("LONGFORM_RUNNER", "spark")
    with pytest.raises(UsageError, match="LONGFORM_RUNNER"):
        Options(Path("home"))
