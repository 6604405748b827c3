"""What a person asks of a build besides its configuration, declared once.

The flags of `longform build` and the parameters of the deployed flows are made of the fields of `Options`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from longform.errors import UsageError
from longform.settings import runner, runner_address

RunnerName = Literal["threads", "processes", "dask", "ray"]
CLUSTERS = ("dask", "ray")
MOST_USD = 1e9


@dataclass(frozen=True, slots=True)
class About:
    """What a person is told of an option, how its value is called, its least value, and what it stays below."""

    help: str
    metavar: str | None = None
    least: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asks of a build besides its configuration."""

    home: Annotated[Path, About("where everything is kept; else LONGFORM_HOME, else ./data", "DIR")]
    version: Annotated[str | None, About("name of the version; else today's date", "NAME")] = None
    until: Annotated[str | None, About("stop after this stage, publish nothing", "STAGE")] = None
    force: Annotated[str | None, About("make this stage again even if it is there", "STAGE")] = None
    max_cost: Annotated[float | None, About("stop before more than this is spent", "USD", 0, MOST_USD)] = None
    retry_errors: Annotated[bool, About("ask again what a model could not answer (rejected rows `model: …`)")] = False
    runner: Annotated[
        RunnerName | None,
        About("where parts run: threads or processes, a Dask or a Ray cluster; else LONGFORM_RUNNER, else processes"),
    ] = None
    address: Annotated[
        str | None,
        About("of a running Dask scheduler or Ray cluster; else LONGFORM_RUNNER_ADDRESS, else one is started", "URL"),
    ] = None

    def __post_init__(self) -> None:
        """UsageError where a value is none that a build can use."""
        amount(self.max_cost)
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
    def engine(self) -> tuple[str, str | None]:
        """Where parts run: the runner, and the address of its cluster."""
        name = self.runner or runner()
        return name, self.address or (runner_address() if name in CLUSTERS else None)


def amount(usd: float | None) -> float | None:
    if usd is not None and not 0 <= usd < MOST_USD:
        raise UsageError(f"--max-cost {usd} is no amount of US dollars: give a number, e.g. 50 or 0.5.")
    return usd


def about(name: str) -> About:
    """What is told of an option."""
    return next(note for note in _annotation(name).__metadata__ if isinstance(note, About))


def parameter(name: str, *notes: Any) -> inspect.Parameter:
    """The keyword parameter of a function that takes this option, its type annotated with `notes`."""
    default = next(each.default for each in fields(Options) if each.name == name)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[(_annotation(name).__origin__, *notes)],
    )


def flag(name: str, **more: Any) -> Any:
    """What typer is told of an option; names of stages are completed."""
    import typer

    from flows.builds.completion import stages

    told = about(name)
    offered = stages if told.metavar == "STAGE" else None
    return typer.Option(
        f"--{name.replace('_', '-')}", metavar=told.metavar, help=told.help, autocompletion=offered, **more
    )


def flags(*some: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one flag for each of these options, else for all; its parameter `options` gets a dict of them."""
    names = some or tuple(each.name for each in fields(Options) if each.name != "home")  # which every command has

    def spread(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for each in signature.parameters.values():
            parameters += map(_flagged, names) if each.name == "options" else [each.replace(kind=each.KEYWORD_ONLY)]

        @functools.wraps(command)
        def with_flags(**given: Any) -> None:
            command(options={name: given.pop(name) for name in names}, **given)

        with_flags.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_flags

    return spread


def _flagged(name: str) -> inspect.Parameter:
    return parameter(name, flag(name))


def _annotation(name: str) -> Any:
    return get_type_hints(Options, include_extras=True)[name]
