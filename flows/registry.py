"""The list of datasets, name -> flow module. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longform.engine.stage import Stage
    from longform.llm.offline import Rule

DATASETS = {
    "axioms": "flows.axioms",
    "expertqa": "flows.expertqa",
    "revision-distance": "flows.revision_distance",
}


def checked_name(dataset: str) -> str:
    """The name of a dataset if there is one of that name; else UsageError with the most similar name."""
    from longform.errors import UsageError
    from longform.hints import hint

    if dataset not in DATASETS:
        raise UsageError(f'There is no dataset "{dataset}"; {hint(dataset, DATASETS, "there is")}')
    return dataset


def model_of(dataset: str) -> Any:
    """The configuration model of a dataset, which its `rebuild` takes."""
    import inspect

    rebuild = module_of(checked_name(dataset)).rebuild
    return inspect.signature(rebuild, eval_str=True).parameters["config"].annotation


def module_of(dataset: str) -> ModuleType:
    """A dataset's flow module: `rebuild`, `about`, `ABOUT`, `OFFLINE`, and optionally `example_row_id`, `trace`,
    `sheets` and `EXPORTS`.
    """
    return import_module(DATASETS[dataset])


def offline_rules() -> dict[str, Rule]:
    """prompt name -> rule of the offline model, for the prompts of all datasets."""
    return {name: rule for dataset in DATASETS for name, rule in module_of(dataset).OFFLINE.items()}


def stages_of(dataset: str) -> dict[str, Stage]:
    """stage name -> stage, for all stages that a dataset's flow may call."""
    return {stage.name: stage for stage in named_stages(vars(module_of(dataset)))}


def named_stages(names: Mapping[str, Any]) -> Iterator[Stage]:
    """The stages among the names of a flow module, and among those of the source modules it uses."""
    from longform.engine.stage import Stage

    for value in names.values():
        if isinstance(value, Stage):
            yield value
        elif isinstance(value, ModuleType) and value.__name__.startswith(("flows.sources.", "tasks.sources.")):
            yield from named_stages(vars(value))


def model_stages(names: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the stages among `names` that ask a model which a configuration can set."""
    return tuple(stage.name for stage in named_stages(names) if "model" in stage.signature.parameters)
