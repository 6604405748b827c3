"""The annotation forms of datasets: which there are, and the sheets that a form makes of a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flows.registry import DATASETS, module_of
from longform.errors import UsageError
from longform.hints import hint

if TYPE_CHECKING:
    from longform.artifacts.store import Store
    from longform.artifacts.versions import Version
    from tasks.annotation.form import Sheets

    MakeSheets = Callable[[Store, Version], Sheets]


def sheets_of(store: Store, version: Version, form: str | None = None) -> Sheets:
    """The form of a version's dataset with this name, or its only one, and the tasks that annotators can fill in;
    UsageError for a dataset without a form, or as by `chosen`.
    """
    forms = forms_of(version.dataset)
    if not forms:
        others = [name for name in DATASETS if forms_of(name)]
        raise UsageError(
            f"{version.dataset} {version.name} has nothing that experts fill in: "
            f"sheets are made of {' and '.join(others)}."
        )
    return chosen(version.dataset, forms, form)(store, version)


def forms_of(dataset: str) -> dict[str, MakeSheets]:
    """name -> the function that makes the sheets of a version: FORMS of the dataset's flow module, and its `sheets`,
    which has no name (""); {} if it has neither.
    """
    module = module_of(dataset)
    only = {"": module.sheets} if hasattr(module, "sheets") else {}
    return only | dict(getattr(module, "FORMS", {}))


def next_step(setting: str, address: str) -> str:
    """What to do with filled-in sheets: name them under the dataset's setting, or, where it has none (""), look at them
    by `longform labels`.
    """
    if not setting:
        return f"look at them: longform labels {address} FILE"
    return f"name the files under `{setting}` in the configuration and build again"


def chosen(dataset: str, forms: Mapping[str, MakeSheets], name: str | None) -> MakeSheets:
    """The form with this name; without a name the only one, or the one without a name (""). UsageError for an unknown
    name, and for no name where all of several have one.
    """
    named = [each for each in forms if each]
    if name is None and "" not in forms and len(forms) > 1:
        raise UsageError(f"{dataset} has several forms: name one with --form: {', '.join(forms)}.")
    if name is not None and not named:
        raise UsageError(f"{dataset} has one form, which has no name: leave out --form {name}.")
    if name is not None and name not in named:
        raise UsageError(f'{dataset} has no form "{name}"; {hint(name, named, "it has")}')
    return forms[name] if name is not None else forms.get("") or next(iter(forms.values()))
