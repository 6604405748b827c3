"""A preference model trained on a published version of axioms, and evaluated as `longform evaluate` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from longform.artifacts.recipe import fingerprint
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, find
from longform.errors import UsageError
from longform.files import read_json
from tasks.axioms.training.folder import METRICS, RUN, RunFolder, card, run_of
from tasks.axioms.training.pairs import licences
from tasks.axioms.training.run import train as train_model
from tasks.axioms.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from longform.engine.build import Progress as BuildProgress
    from tasks.axioms.training.loop import Progress

DATASET, LOCK = "axioms", "train"
PACKAGES = ("torch", "transformers", "sentence_transformers")
LENGTH = "length"


class TrainingRun(Training):
    """The parameters of the flow: what is trained on, and where the model goes."""

    dataset: str = Field(DATASET, description="the dataset whose pairs are trained on: axioms")
    version: str = Field("latest", description="its published version")
    to: str = Field(description="folder that the model is written to; it must not be there, but for the same run")

    @property
    def training(self) -> Training:
        """The settings of the training alone."""
        return Training(**{name: getattr(self, name) for name in Training.model_fields})


@dataclass(frozen=True, slots=True)
class Trained:
    """A model: its folder, run.json, metrics.json, and whether this call trained it."""

    folder: Path
    run: dict[str, Any]
    metrics: dict[str, Any]
    new: bool


def check_packages() -> None:
    """Raise UsageError if what trains is not installed."""
    if missing := [name for name in PACKAGES if not find_spec(name)]:
        raise UsageError(
            f"Training needs the package {missing[0].replace('_', '-')}, which is not installed: install the extra "
            'with `pip install -c constraints.txt -e ".[train]"`, or `make .venv-train/.installed` and use .venv-train.'
        )


def check_dataset(dataset: str) -> None:
    """Raise UsageError for a dataset that no preference model is trained on."""
    if dataset != DATASET:
        raise UsageError(f'"{dataset}" has no pairs to train on: {DATASET} has.')


def train(run: TrainingRun, home: Path, progress: Progress, building: BuildProgress) -> Trained:
    """Train a preference model and evaluate it, going on where an earlier call ended; a finished run with the same
    settings and version is returned as it is.

    UsageError for a version, axioms or margins that are not there, if the folder holds another run, or if a package is
    missing; BusyError if the folder is being written.
    """
    check_dataset(run.dataset)
    version = find(home, f"{run.dataset}@{run.version}")
    settings, place = run.training, Path(run.to).absolute()
    folder = RunFolder(place, run_of(settings, version))
    if folder.is_finished():
        return _read(place, new=False)
    check_packages()
    store = Store(home)
    store.prepare()
    with store.lock(f"{LOCK}-{fingerprint(str(place))}", doing="written"):
        if folder.is_finished():
            return _read(place, new=False)
        ended = train_model(version, settings, folder, progress)
        metrics = evaluated(version, [folder.model], home, building)
        document = {
            "run": folder.run["run"],
            "questions": ended.questions,
            "pairs": {str(axiom): number for axiom, number in ended.pairs.items()},
            "reports": list(ended.reports),
            "evaluation": metrics.astype(object).where(metrics.notna(), None).to_dict("records"),
        }
        folder.finish(document, card(folder.run, licences(version), ended.pairs, list(_markdown(metrics))))
    return _read(place, new=True)


def _read(folder: Path, *, new: bool) -> Trained:
    """The finished model in a folder."""
    return Trained(folder, read_json(folder / RUN), read_json(folder / METRICS) or {}, new)


def evaluated(version: Version, folders: Sequence[Path], home: Path, progress: BuildProgress) -> pd.DataFrame:
    """The metrics of these models and of length on all sets of a version, as `longform evaluate` has them."""
    from flows.inspection import evaluating
    from longform.llm.retry import Retry

    asked = evaluating.Asked([LENGTH, *(f"encoder:{folder}" for folder in folders)], version)
    config = evaluating.EvaluationConfig()
    return evaluating.score(asked, config, home, progress=progress, retry=Retry.of(None)).metrics


def _markdown(metrics: pd.DataFrame) -> Iterator[str]:
    """The tables of an evaluation, without the paper's rows, as Markdown."""
    from tasks.axioms.scoring.tables import PAPER, tables
    from tasks.publishing.card import table_markdown

    for table in tables(metrics):
        frame = table.frame
        own = frame[frame["source"] != PAPER].drop(columns="source") if "source" in frame else frame
        yield f"### {table.title}\n\n{table.note}\n\n{table_markdown(replace(table, frame=own))}\n"
