"""Requirements of an installation: a Python version that every pinned package supports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import paths
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from flows.registry import DATASETS

pytestmark = pytest.mark.check

ROOT = paths.ROOT
PYTHONS = [f"3.{minor}.{patch}" for minor in range(10, 16) for patch in range(15)]


def pinned() -> dict[str, SpecifierSet]:
    """package -> supported Python versions, of every pinned package that is installed here."""
    found = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE):
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of an extra that the checks do without
            continue
        assert package.version == version, f"{name} is not the pinned one"
        found[name] = SpecifierSet(package.metadata.get("Requires-Python") or "")
    return found


def needed() -> SpecifierSet:
    return SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])


def test_requires_python_is_what_the_pins_need_and_no_less() -> None:
    pins = pinned()
    assert len(pins) > 200
    refused = {python: sorted(name for name, fit in pins.items() if not fit.contains(python))[:3] for python in PYTHONS}
    taken = [python for python in PYTHONS if needed().contains(python)]
    assert taken == [python for python, by in refused.items() if not by], refused
    assert "3.11.7" in taken


def test_the_makefile_and_the_readme_name_the_same_pythons() -> None:
    [(least, below)] = re.findall(r"not \(([\d, ]+)\) <= sys\.version_info < \(([\d, ]+)\)", _text("Makefile"))
    dotted = [version.replace(", ", ".") for version in (least, below)]
    assert needed() == SpecifierSet(f">={dotted[0]},<{dotted[1]}")
    most = f"3.{int(dotted[1].removeprefix('3.')) - 1}"
    for name in ("Makefile", "README.md"):
        assert f"Python {dotted[0]} to {most}" in _text(name), name


HIDING = """
import sys
hidden = set(sys.argv.pop(1).split(","))

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hiding())
from flows.cli.main import main
main()
"""


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_samples_are_built_without_any_extra(dataset: str, tmp_path: Path) -> None:
    extras = tomllib.loads(_text("pyproject.toml"))["project"]["optional-dependencies"]
    named = {
        Requirement(each).name.lower() for extra, packages in extras.items() if extra != "dev" for each in packages
    }
    hidden = [top for top, packages in packages_distributions().items() if {each.lower() for each in packages} & named]
    assert {"distributed", "faiss", "tantivy", "trafilatura"} <= {*hidden}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path / "prefect")}
    command = [sys.executable, "-c", HIDING, ",".join(hidden), "build", dataset, "--home", str(tmp_path / "home")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def _text(name: str) -> str:
    return (ROOT / name).read_text()
