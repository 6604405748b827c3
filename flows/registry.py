"""The datasets there are: name -> module. Read before anything heavy is imported."""

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


def known(dataset: str) -> str:
    """The name of a dataset, checked; UsageError with the nearest where there is none."""
    from longform.errors import UsageError
    from longform.hints import hint

    if dataset not in DATASETS:
        raise UsageError(f'There is no dataset "{dataset}"; {hint(dataset, DATASETS, "there is")}')
    return dataset


def model_of(dataset: str) -> Any:
    """The configuration model of a dataset: what its `rebuild` takes."""
    import inspect

    rebuild = module_of(known(dataset)).rebuild
    return inspect.signature(rebuild, eval_str=True).parameters["config"].annotation


def module_of(dataset: str) -> ModuleType:
    """A dataset's flow module: `rebuild`, `about`, `ABOUT`, `OFFLINE`, and optionally `example_row_id` and `trace`."""
    return import_module(DATASETS[dataset])


def offline_rules() -> dict[str, Rule]:
    """The rules of the offline model for the prompts of all datasets."""
    return {name: rule for dataset in DATASETS for name, rule in module_of(dataset).OFFLINE.items()}


def stages_of(dataset: str) -> dict[str, Stage]:
    """The stages that a dataset's flow may call, by name."""
    return {stage.name: stage for stage in named_stages(vars(module_of(dataset)))}


def named_stages(names: Mapping[str, Any]) -> Iterator[Stage]:
    """The stages among the names of a module of flows/, and of the modules of sources that it uses."""
    from longform.engine.stage import Stage

    for value in names.values():
        if isinstance(value, Stage):
            yield value
        elif isinstance(value, ModuleType) and value.__name__.startswith(("flows.sources.", "tasks.sources.")):
            yield from named_stages(vars(value))


def model_stages(names: Mapping[str, Any]) -> tuple[str, ...]:
    """Of these the stages that ask a model which a configuration names."""
    return tuple(stage.name for stage in named_stages(names) if "model" in stage.signature.parameters)
