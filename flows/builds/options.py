"""The options of a build besides its configuration, declared once.

The flags of `longform build` and the parameters of the deployed flows are made from the fields of `Options`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from longform.errors import UsageError
from longform.llm.retry import Retry
from longform.settings import runner, runner_address

RunnerName = Literal["threads", "processes", "dask", "ray"]
CLUSTERS = ("dask", "ray")
MOST_USD = 1e9


@dataclass(frozen=True, slots=True)
class About:
    """The documentation of an option: help text, metavar (the name of its value), minimum, and exclusive maximum.
    `flag_type`: its type on the command line, where that is another.
    """

    help: str
    metavar: str | None = None
    least: float | None = None
    below: float | None = None
    flag_type: Any = None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a build besides its configuration."""

    home: Annotated[Path, About("where everything is kept; else LONGFORM_HOME, else ./data", "DIR")]
    version: Annotated[str | None, About("name of the version; else today's date", "NAME")] = None
    until: Annotated[str | None, About("stop after this stage, publish nothing", "STAGE")] = None
    force: Annotated[str | None, About("make this stage again even if it is there", "STAGE")] = None
    max_cost: Annotated[float | None, About("stop before more than this is spent", "USD", 0, MOST_USD)] = None
    budget: Annotated[
        float | None, About("stop before all builds of the dataset have spent more; else `budget`", "USD", 0, MOST_USD)
    ] = None
    retry_errors: Annotated[
        bool | list[str],
        About(
            "ask again what a model could not answer (rejected rows `model: …`): all, or STAGE, or STAGE:REASON",
            "[STAGE [REASON]]",
            flag_type=list[str] | None,
        ),
    ] = False
    accept: Annotated[
        list[str] | None,
        About("go on although the gate of this stage or audit refuses, and say so in the card; repeatable", "NAME"),
    ] = None
    runner: Annotated[
        RunnerName | None,
        About("where parts run: threads or processes, a Dask or a Ray cluster; else LONGFORM_RUNNER, else processes"),
    ] = None
    address: Annotated[
        str | None,
        About("of a running Dask scheduler or Ray cluster; else LONGFORM_RUNNER_ADDRESS, else one is started", "URL"),
    ] = None

    def __post_init__(self) -> None:
        """Raise UsageError for a `max_cost` or `budget` that is no amount, an unknown runner (of the options or of
        LONGFORM_RUNNER), or an `address` for a runner that uses no cluster.
        """
        amount(self.max_cost)
        amount(self.budget, "--budget")
        name, address = self.engine
        if name not in get_args(RunnerName):
            names = ", ".join(get_args(RunnerName))
            raise UsageError(f'There is no runner "{name}" (--runner or LONGFORM_RUNNER); there are {names}.')
        if address is not None and name not in CLUSTERS:
            raise UsageError(
                f"--address {address} names a cluster, but --runner {name} uses none: "
                "add --runner dask or --runner ray, or leave --address out."
            )

    @property
    def retry(self) -> Retry:
        """Which rows that a model could not answer are asked again."""
        return Retry.of(self.retry_errors)

    @property
    def engine(self) -> tuple[str, str | None]:
        """(name of the runner that makes the parts, address of its Dask or Ray cluster), from the options, else from
        LONGFORM_RUNNER and LONGFORM_RUNNER_ADDRESS. The default is `processes`; the address is None if none is given.
        LONGFORM_RUNNER_ADDRESS is ignored for a runner without a cluster.
        """
        name = self.runner or runner()
        return name, self.address or (runner_address() if name in CLUSTERS else None)


def amount(usd: float | None, option: str = "--max-cost") -> float | None:
    """The amount unchanged, also None; UsageError, which names the option, unless it is from 0 to below 1e9 USD."""
    if usd is not None and not 0 <= usd < MOST_USD:
        raise UsageError(f"{option} {usd} is no amount of US dollars: give a number, e.g. 50 or 0.5.")
    return usd


def about(name: str) -> About:
    """The documentation (`About`) of the field `name` of `Options`; KeyError if there is no such field."""
    return next(note for note in _options()[name].annotation.__metadata__ if isinstance(note, About))


def parameter(name: str, *notes: Any) -> inspect.Parameter:
    """The field `name` of `Options` as a keyword-only parameter for a signature. Its type is annotated with `notes` in
    place of the field's `About`.
    """
    option = _options()[name]
    return option.replace(
        kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[(option.annotation.__origin__, *notes)]
    )


def _flag_parameter(name: str) -> inspect.Parameter:
    """The field `name` of `Options` as a parameter of a command, with its flag."""
    found, other = parameter(name, flag(name)), about(name).flag_type
    return found if other is None else found.replace(annotation=Annotated[other, flag(name)], default=None)


def flag(name: str, **more: Any) -> Any:
    """The field `name` of `Options` as a typer option (--some-name); names of stages are completed at the Tab key.
    `more` is passed on to `typer.Option`.
    """
    import typer

    from flows.builds.completion import stages

    note = about(name)
    completion = stages if "STAGE" in (note.metavar or "") else None
    return typer.Option(
        f"--{name.replace('_', '-')}", metavar=note.metavar, help=note.help, autocompletion=completion, **more
    )


def flags(*chosen: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that replaces a command's parameter `options` by a flag for each field of `Options` in `chosen`
    (default: all but `home`). The command gets their values as a dict `options`. All parameters become keyword-only.
    """
    names = chosen or tuple(name for name in _options() if name != "home")  # which every command has

    def spread(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [declared.replace(kind=declared.KEYWORD_ONLY) for declared in signature.parameters.values()]
        chosen_flags = [_flag_parameter(name) for name in names]
        parameters = [each for one in own for each in (chosen_flags if one.name == "options" else [one])]

        @functools.wraps(command)
        def with_flags(**given: Any) -> None:
            values = {name: given.pop(name) for name in names}
            defaults = {name: _options()[name].default for name in names}
            command(options={name: defaults[name] if values[name] is None else values[name] for name in names}, **given)

        with_flags.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {declared.name: declared.annotation for declared in parameters}
        return with_flags

    return spread


def _options() -> Mapping[str, inspect.Parameter]:
    """name -> parameter (type with its `About`, default), for all fields of `Options`."""
    return inspect.signature(Options, eval_str=True).parameters
