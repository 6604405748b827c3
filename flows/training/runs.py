"""A list of trainings, one after the other, and all of them beside the paper's tables 2 and 3."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.config import configuration
from flows.training.training import Trained, TrainingRun, check_packages, evaluated, train
from longform.artifacts.versions import find
from longform.errors import UsageError
from longform.files import write_bytes, write_json
from tasks.publishing.card import ReportTable, table_markdown

if TYPE_CHECKING:
    import pandas as pd

    from longform.engine.build import Progress as BuildProgress
    from tasks.axioms.training.loop import Progress

REPORT, FIGURES = "tables.md", "tables.json"
OF_PAPER = re.compile(r"PM (0(?:-\d)?)( \+ λ)?")
LISTING = "longform train --help"


@dataclass(frozen=True, slots=True)
class Trainings:
    """The models of a list, by name, in its order, and the tables of their evaluation."""

    models: Mapping[str, Trained]
    tables: Sequence[ReportTable]


def settings_of(values: Mapping[str, Any], given: Sequence[str], to: Path, subject: str) -> TrainingRun:
    """The checked settings of one training: `values`, over them `given`, texts KEY=VALUE. UsageError, about `subject`,
    for an unknown one or one that does not fit.
    """
    texts = [*(text_of(name, value) for name, value in values.items()), *given, text_of("to", str(to))]
    found: TrainingRun = configuration.read(subject, TrainingRun, None, texts, listing=LISTING)
    return found


def text_of(name: str, value: Any) -> str:
    """A setting as KEY=VALUE, of which a text stays a text."""
    return f"{name}={json.dumps(value)}"


def read_runs(file: Path) -> list[tuple[str, dict[str, Any]]]:
    """(name, settings) of each run of a TOML file: its own settings over those at the top of the file.

        steps = 16_000
        [[run]]
        name = "PM 0"
        axioms = [0]

    UsageError if the file cannot be read, has no run, or if a run has no name, or that of another.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The list of runs {file} cannot be read ({error}).") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The list of runs {file} is no TOML: {error}.") from None
    runs = document.pop("run", None)
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise UsageError(f"{file} has no run: give each a table [[run]] with its name and settings.")
    names = [run.pop("name", None) for run in runs]
    for number, name in enumerate(names, start=1):
        if not isinstance(name, str) or not name.strip() or "/" in name or name.startswith("."):
            raise UsageError(f"Run {number} of {file} needs a name that can be one of a folder, not {name!r}.")
        if names.count(name) > 1:
            raise UsageError(f'{file} has two runs with the name "{name}": give each its own.')
    return [(name, {**document, **run}) for name, run in zip(names, runs, strict=True)]


def train_all(
    file: Path, given: Sequence[str], to: Path, home: Path, progress: Progress, building: BuildProgress
) -> Trainings:
    """Train every model of the list `file` in a folder of its name in `to`, and write the tables of all of them there
    (REPORT, FIGURES). What is finished is not trained again; all are checked before the first is trained.

    `given`: texts KEY=VALUE that win over the file. All runs have one version; UsageError otherwise, and as by
    `train`.
    """
    runs = {name: settings_of(values, given, to / name, f"run {name} of {file}") for name, values in read_runs(file)}
    versions = {find(home, f"{run.dataset}@{run.version}").name for run in runs.values()}
    if len(versions) > 1:
        raise UsageError(f"The runs of {file} name the versions {', '.join(sorted(versions))}: compare one at a time.")
    models = {name: train(run, home, progress, building) for name, run in runs.items()}
    first = next(iter(runs.values()))
    version = find(home, f"{first.dataset}@{first.version}")
    check_packages()
    metrics = evaluated(version, [model.folder for model in models.values()], home, building)
    found = [with_axioms_and_margins(table, models) for table in _tables(metrics)]
    text = "\n".join(f"## {table.title}\n\n{table.note}\n\n{table_markdown(table)}\n" for table in found)
    write_bytes(to / REPORT, text.encode())
    write_json(to / FIGURES, [{"title": table.title, "rows": table.cells.to_dict("records")} for table in found])
    return Trainings(models, found)


def _tables(metrics: pd.DataFrame) -> list[ReportTable]:
    from tasks.axioms.scoring.tables import tables

    return tables(metrics)


def with_axioms_and_margins(table: ReportTable, models: Mapping[str, Trained]) -> ReportTable:
    """The table with the axioms and the kind of margins of each model, also of the paper's, after its name."""
    frame = table.frame.copy()
    told = [_axioms_and_margins(name, models) for name in frame["scorer"]]
    place = list(frame.columns).index("scorer") + 1
    frame.insert(place, "axioms", [axioms for axioms, _ in told])
    frame.insert(place + 1, "margins", [margins for _, margins in told])
    return replace(table, frame=frame)


def _axioms_and_margins(scorer: str, models: Mapping[str, Trained]) -> tuple[str | None, str | None]:
    """(axioms as the paper writes them, e.g. 0-2, kind of margins) of a model; None for a scorer without."""
    if (model := models.get(scorer.removeprefix("encoder:"))) and scorer.startswith("encoder:"):
        settings = model.run["settings"]
        return in_short(settings["axioms"]), settings["margins"]
    if found := OF_PAPER.match(scorer):
        return found[1], "critic" if found[2] else "votes"
    return None, None


def in_short(axioms: Sequence[int]) -> str:
    """Axioms in order, e.g. 0, 0-2 or 0,2."""
    first, last = axioms[0], axioms[-1]
    run = len(axioms) > 1 and list(axioms) == list(range(first, last + 1))
    return f"{first}-{last}" if run else ",".join(map(str, axioms))
