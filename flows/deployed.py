"""The Prefect flows, all created by one factory; their parameters are a configuration model and the options of a build.

A build is one flow run. There is a flow for each dataset, one for reading a source and one for fetching it.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from prefect import Flow, flow, states
from pydantic import BaseModel, ConfigDict, Field

from flows.builds import earlier_reads, fetching, reading
from flows.builds.building import Options, build, gate_lines
from flows.builds.console import Lines
from flows.builds.options import about, parameter
from flows.builds.reporting import RunPage, summarize, summarize_fetching, summarize_reading
from flows.builds.transfers import TransferLines
from flows.config.endpoints import ModelSettings
from flows.registry import DATASETS, config_class, module_of, stages_of
from flows.sources import SOURCES
from flows.training import training
from flows.training.progress import TrainingLines
from flows.training.training import TrainingRun
from longform.artifacts.store import Store
from longform.engine.build import Progress
from longform.engine.prefect_tasks import CANCELLED, PrefectTasks, log, task_runner
from longform.engine.runners import runner_of
from longform.engine.stage import Method
from longform.errors import Cancelled, LongformError
from longform.llm.send.secrets import without_secrets
from longform.settings import home as home_of
from longform.settings import retries

ALL = tuple(each.name for each in fields(Options))
Body = Callable[[Any, Options], Any]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What the command line passes to the flow run that it starts.

    `progress`: the display of the progress. `method`: the calls of the dataset's stages, recorded already. `on_loss`:
    called with an error when Prefect's server no longer answers.
    """

    progress: Progress
    method: Method
    on_loss: Callable[[LongformError], None]


STARTED_BY: ContextVar[CommandLine | None] = ContextVar("started_by", default=None)


class Reading(BaseModel):
    """Parameters of the flow that reads a source."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: str = Field(description="name of the source", json_schema_extra={"enum": [*SOURCES]})
    paths: list[str] = Field(description="files or folders of it; from the worker's folder", min_length=1)
    settings: list[str] = Field([], description="KEY=VALUE, one setting each; `longform read SOURCE` shows all")
    to: str | None = Field(None, description="folder to write STAGE.parquet and STAGE.rejected.parquet to")


class Fetching(BaseModel):
    """Parameters of the flow that fetches a source."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: str = Field(description="name of the source", json_schema_extra={"enum": [*SOURCES]})
    what: list[str] = Field(description="what of it, or all; `longform fetch SOURCE` shows what there is", min_length=1)
    settings: list[str] = Field([], description="KEY=VALUE, one setting each; `longform fetch SOURCE` shows all")
    to: str | None = Field(None, description="folder for the files; else sources/SOURCE in the home")
    accept_terms: bool = Field(False, description="you have read the terms that `longform sources` names, and agree")


def make_flow(
    name: str,
    config: type[BaseModel],
    method: Body,
    description: str,
    *options: str,
    settings: str = "",
    stages: Iterable[str] = (),
) -> Flow[..., Any]:
    """A Prefect flow `name` that calls `method` with a configuration and options of a build, and returns its result.

    The flow's parameters are `config` (of the class `config`, described by `settings`) and the fields of `Options`
    that `options` names, `home` among them; `stages` are the stage names that options such as `until` may take. If
    `method` raises a LongformError, the run ends as Failed or, for Cancelled, as Cancelled; other errors are raised.
    """

    def body(**values: Any) -> Any:
        try:
            home = home_of(Path(values["home"]) if values["home"] else None)
            return method(values["config"], Options(**{option: values[option] for option in options} | {"home": home}))
        except Cancelled as error:
            return states.Cancelled(message=without_secrets(str(error)))
        except LongformError as error:  # returned, as what is raised is logged with pages of Prefect's own code
            log(logging.ERROR, str(error))
            return states.Failed(message=without_secrets(str(error)), data=error)

    help_texts = {"config": settings, **{option: about(option).help for option in options}}
    body.__name__ = body.__qualname__ = name.replace("-", "_")
    body.__signature__ = inspect.Signature([_config(config), *(_option(option, stages) for option in options)])  # type: ignore[attr-defined]
    body.__doc__ = "\n    ".join(
        [f"{description}\n\nArgs:", *(f"{parameter}: {help}" for parameter, help in help_texts.items())]
    )
    return flow(name=name, description=description, task_runner=task_runner())(body)


def _config(model: type[BaseModel]) -> inspect.Parameter:
    """The flow parameter `config`; its default is `model()` if every field of the model has a default, else it has
    none.
    """
    needed = any(field.is_required() for field in model.model_fields.values())
    default = inspect.Parameter.empty if needed else model()
    return inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=model)


def _option(name: str, stages: Iterable[str]) -> inspect.Parameter:
    """The field `name` of `Options` as a flow parameter, with its bounds, or with `stages` and None as allowed values
    if it names a stage. `home` becomes text with the default None.
    """
    if name == "home":
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
    note = about(name)
    names: dict[str, Any] = {"enum": [None, *stages]} if note.metavar == "STAGE" else {}
    return parameter(name, Field(ge=note.least, lt=note.below, json_schema_extra=names))


def run_build(dataset: str, config: ModelSettings, options: Options) -> Any:
    """Build a dataset with Prefect's task runs, and write a summary as an artifact of the flow run. Progress goes to
    the display of the command line that started the run (STARTED_BY), else to stderr.

    Returns the path of the published version's folder as text; None if the build ended at `until`. The error of a
    failed build is raised.
    """
    started_by = STARTED_BY.get()
    on_loss = {"on_loss": started_by.on_loss} if started_by else {}
    with (
        closing(Lines()) as lines,
        closing(PrefectTasks(dataset, retries(), **on_loss)) as tasks,
        closing(RunPage(dataset, started_by.progress if started_by else lines)) as page,
    ):
        runner, method = runner_of(*options.engine), started_by.method if started_by else None
        published, done = build(dataset, config, options, tasks=tasks, runner=runner, progress=page, method=method)
    gates = gate_lines(options.home, published.version) if published else []
    for sentence in gates:
        log(logging.INFO, sentence)
    summarize(dataset, done, published.version if published else None, gates)
    return str(published.version.folder) if published else None


def read(config: Reading, options: Options) -> dict[str, int]:
    """Read files of a source into Parquet, and write a summary as an artifact of the flow run; with `config.to` the
    rows are also written into that folder. Returns stage -> number of its rows. UsageError for an unknown source or
    setting.
    """
    settings = fetching.config_of(config.source, "read", config.settings)
    paths, source = [Path(path) for path in config.paths], config.source
    runner = runner_of(*options.engine)
    with (
        closing(Lines()) as lines,
        closing(PrefectTasks(source, retries())) as tasks,
        closing(RunPage(source, lines)) as page,
    ):
        rows, entries = reading.read(source, paths, settings, options.home, tasks=tasks, runner=runner, progress=page)
    if config.to is not None:
        written = reading.export(rows, entries, Store(options.home), Path(config.to))
        earlier_reads.remove_earlier(source, Path(config.to), written)
    summarize_reading(source, entries, config.to or str(options.home))
    return {entry.stage: entry.artifact.rows for entry in entries}


def fetch_files(config: Fetching, options: Options) -> list[dict[str, Any]]:
    """Fetch files of a source into `config.to` or sources/<source> in the home, and write their list as an artifact of
    the flow run. Returns a dict for each file: path, bytes, sha256, and `new`, whether this run fetched it.

    UsageError for an unknown source or setting, or if its terms must be accepted first.
    """
    settings = fetching.config_of(config.source, "fetch", config.settings)
    fetching.check_terms(config.source, config.accept_terms, "this flow with accept_terms")
    folder = Path(config.to or options.home / "sources" / config.source).absolute()
    with closing(TransferLines()) as lines:
        files = fetching.fetch(
            config.source, config.what, settings, folder, accepted=config.accept_terms, progress=lines
        )
    summarize_fetching(config.source, files)
    return files


def train_model(config: TrainingRun, options: Options) -> str:
    """Train a preference model, and evaluate it. Returns the path of its folder as text. Errors as by
    flows.training.training.train.
    """
    with closing(Lines()) as lines:
        return str(training.train(config, options.home, TrainingLines(), lines).folder)


def dataset_flow(dataset: str) -> Flow[..., Any]:
    """The flow that rebuilds a dataset; its parameters are the dataset's configuration and all options of a build."""
    description = f"Rebuild the {dataset} dataset; what is unchanged is reused. {module_of(dataset).ABOUT.summary}"
    settings = f"settings of the method; `longform config {dataset}` prints them all"
    method = functools.partial(run_build, dataset)
    return make_flow(
        dataset, config_class(dataset), method, description, *ALL, settings=settings, stages=stages_of(dataset)
    )


sources = make_flow(
    "sources",
    Reading,
    read,
    "Read files of a source into Parquet; what is there already is reused.",
    *("home", "runner", "address"),
    settings="the source, its files, and how they are read",
)
fetch = make_flow(
    "fetch",
    Fetching,
    fetch_files,
    "Fetch files of a source; what is there already is not fetched again.",
    "home",
    settings="the source, and what is fetched of it",
)

train = make_flow(
    "train",
    TrainingRun,
    train_model,
    "Train a preference model on a published version, and evaluate it; goes on where an earlier run ended.",
    "home",
    settings="the version, what is trained, and where the model goes",
)

FLOWS = {name: dataset_flow(name) for name in DATASETS} | {"sources": sources, "fetch": fetch, "train": train}
# prefect.yaml names a dataset's flow as flows.deployed.<its name>
globals().update({name.replace("-", "_"): each for name, each in FLOWS.items()})


def start(dataset: str, config: ModelSettings, options: Options, by: CommandLine) -> str | None:
    """Run a dataset's flow from the command line and wait for its end. `by` is set as STARTED_BY for the flow run.

    Returns the path of the published version's folder as text; None if the build ended at `until`. Raises the error of
    a failed run, Cancelled for a cancelled one.
    """
    STARTED_BY.set(by)
    options_by_name = {option: getattr(options, option) for option in ALL}
    state: Any = FLOWS[dataset](config=config, **options_by_name | {"home": str(options.home)}, return_state=True)
    if state.is_cancelled():
        raise Cancelled(CANCELLED)
    folder: str | None = state.result()
    return folder
