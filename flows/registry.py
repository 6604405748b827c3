"""The list of datasets, dataset name -> flow module, and look-ups in these modules. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longform.engine.stage import Stage
    from longform.llm.offline import Rule
    from tasks.publishing.audits import Audits

DATASETS = {
    "axioms": "flows.axioms",
    "expertqa": "flows.expertqa",
    "revision-distance": "flows.revision_distance",
    "llmcrit": "flows.llmcrit",
    "kiwi": "flows.kiwi",
}
WITH_STAGES = ("flows.preference", "flows.sources.", "tasks.sources.")  # modules that flow modules import whole


def checked_name(dataset: str) -> str:
    """The name unchanged if there is such a dataset; else UsageError, which suggests the most similar name."""
    from longform.errors import UsageError
    from longform.hints import hint

    if dataset not in DATASETS:
        raise UsageError(f'There is no dataset "{dataset}"; {hint(dataset, DATASETS, "there is")}')
    return dataset


def config_class(dataset: str) -> Any:
    """The configuration class (a pydantic model) of a dataset: the annotation of `config` in its `rebuild`. UsageError
    for an unknown dataset.
    """
    import inspect

    rebuild = module_of(checked_name(dataset)).rebuild
    return inspect.signature(rebuild, eval_str=True).parameters["config"].annotation


def module_of(dataset: str) -> ModuleType:
    """The flow module of a dataset, imported. KeyError for an unknown dataset.

    Each has `rebuild`, `ABOUT` (for the dataset card), `OFFLINE` (rules of the offline model) and `responses_of` (for
    takedowns); some have `AUDITS`, `example_row_id`, `trace`, `sheets` (or `FORMS`) or `EXPORTS`.
    """
    return import_module(DATASETS[dataset])


def offline_rules() -> dict[str, Rule]:
    """prompt name -> the rule by which the offline model answers that prompt, for the prompts of all datasets."""
    return {name: rule for dataset in DATASETS for name, rule in module_of(dataset).OFFLINE.items()}


def audits_of(dataset: str) -> Audits:
    """The audits of a dataset's versions; only those of every dataset if it declares none."""
    from tasks.publishing.audits import Audits

    found: Audits = getattr(module_of(dataset), "AUDITS", Audits())
    return found


def stages_of(dataset: str) -> dict[str, Stage]:
    """stage name -> stage, for all stages in the namespace of the dataset's flow module or of a source module that it
    imports. KeyError for an unknown dataset.
    """
    return {stage.name: stage for stage in named_stages(vars(module_of(dataset)))}


def named_stages(names: Mapping[str, Any]) -> Iterator[Stage]:
    """The stages among the values of `names`, a module's namespace (`vars(module)`), and those of the modules of
    WITH_STAGES among them. A stage that several of these modules import comes more than once.
    """
    from longform.engine.stage import Stage

    for value in names.values():
        if isinstance(value, Stage):
            yield value
        elif isinstance(value, ModuleType) and value.__name__.startswith(WITH_STAGES):
            yield from named_stages(vars(value))


def model_stages(names: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the stages that ask a model: those of `named_stages` with a parameter `model`, each once."""
    asking = (stage.name for stage in named_stages(names) if "model" in stage.signature.parameters)
    return tuple(dict.fromkeys(asking))
