"""The commands that serve the page, on which people look at versions and work on tasks, and its accounts."""

from __future__ import annotations

import asyncio
import getpass
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

import typer

from flows.cli.shared.arguments import Home, Json, home_of_group, print_json
from longform.errors import UsageError
from longform.settings import home as home_of

if TYPE_CHECKING:
    from flows.page.application import Serving
    from flows.page.work.database import Database

Made = TypeVar("Made")
app = typer.Typer()
users = typer.Typer(
    no_args_is_help=True, callback=home_of_group, help="Accounts of people who work on annotation tasks."
)
app.add_typer(users, name="users")

LOOKS = ("open", "accounts", "off")


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65_535)] = 8010,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="URL", help="what people type, e.g. https://annotate.example.org, of a proxy"),
    ] = None,
    look: Annotated[
        str | None,
        typer.Option("--look", help="who may look at versions: open (everybody), accounts (who logs in) or off"),
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option("--live", metavar="FILE", help="configuration of kiwi for live sessions: endpoints, writers"),
    ] = None,
    usd_a_day: Annotated[
        float, typer.Option("--usd-a-day", metavar="USD", min=0, help="of each annotator's live sessions, at most")
    ] = 5.0,
    calls_a_day: Annotated[
        int, typer.Option("--calls-a-day", metavar="N", min=0, help="of each annotator's live sessions, at most")
    ] = 500,
    home: Home = None,
) -> None:
    """Serve the page: look at versions, work on annotation tasks."""
    import uvicorn

    from flows.page.application import create_app
    from flows.page.live import study
    from longform.llm.price import NANO

    serving = _serving(host, origin, look, home)
    serving = replace(serving, live=live, caps=(round(usd_a_day * NANO), calls_a_day))
    if live is not None:
        study.opened(serving.home, live)  # a wrong configuration ends the command before anything is served
    listening = _listening(host, port)
    for line in _lines(serving, origin or f"http://{_bracketed(host)}:{listening.getsockname()[1]}"):
        print(line, flush=True)
    config = uvicorn.Config(
        create_app(serving),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=origin is not None,
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run([listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. UsageError if that cannot be, as where another program listens already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        said = str(error.strerror).partition(" (while")[0]
        raise UsageError(
            f"Nothing can be served at {_bracketed(host)}:{port} ({said}): give another --port or --host, or end what "
            "listens there."
        ) from None


def _serving(host: str, origin: str | None, look: str | None, home: Any) -> Serving:
    """How the page is served by these options. UsageError for a wrong one, and for a host that other machines reach
    without a word on how the part Look is protected.
    """
    from flows.page.application import LOOPBACK, Serving, origin_of

    local = _bracketed(host) in LOOPBACK
    if look is not None and look not in LOOKS:
        raise UsageError(f'--look is "{look}": it takes {", ".join(LOOKS)}.')
    if not (local or origin) or (origin and not origin_of(origin)):
        raise UsageError(
            f"--origin is {origin or 'not given'}: for {host} give the address that people type, e.g. "
            "--origin https://annotate.example.org, whose proxy passes requests on."
        )
    name = urlsplit(origin).hostname if origin else None
    elsewhere = name is not None and _bracketed(name) not in LOOPBACK
    if elsewhere and urlsplit(origin).scheme != "https":
        raise UsageError(
            f"--origin is {origin}: passwords go to other machines by https alone. Put a proxy with TLS before the "
            f"page, and give its address: --origin https://{name}."
        )
    if not look and (elsewhere or not local):
        raise UsageError(
            f"Other machines reach {origin}, and everybody there could look at every version: add --look accounts (who "
            "logs in), --look off, or --look open if a proxy or a firewall protects it."
        )
    return Serving(home_of(home), origin, look=cast(Literal["open", "accounts", "off"], look or "open"))


def _bracketed(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def _lines(serving: Serving, address: str) -> list[str]:
    """What the command prints before it serves: both addresses, and what is behind them."""
    from flows.registry import DATASETS
    from longform.artifacts.versions import versions

    found = {dataset: len(list(versions(serving.home, dataset))) for dataset in DATASETS}
    built = f"{sum(map(bool, found.values())):,} datasets, {sum(found.values()):,} versions"
    off = "off: served with --look off"
    look = off if serving.look == "off" else f"{address + '/':<28} {built}"
    return [f"look   {look}", f"work   {address + '/work':<28} {asyncio.run(_people(serving.home))}"]


async def _people(home: Path) -> str:
    """How many accounts of each role there are, in words, and how to add one."""
    from flows.page.work import accounts
    from flows.page.work.database import opened

    async with opened(home) as database:
        found = Counter(account.role for account in await accounts.listed(database) if not account.disabled)
    words = (f"{found[role]:,} {role}{'s' * (found[role] > 1)}" for role in accounts.ALL_ROLES if found[role])
    return f"{', '.join(words) or 'no account'}      add one: longform users add NAME"


# ---------------------------------------------------------------- accounts

Name = Annotated[str, typer.Argument(metavar="NAME")]


@users.command("add")
def add_user(
    name: Name,
    role: Annotated[str, typer.Option("--role", help="annotator, expert, adjudicator or administrator")] = "annotator",
    pseudonym: Annotated[
        str | None, typer.Option("--pseudonym", metavar="ID", help="who says so in rows; else a random one")
    ] = None,
    home: Home = None,
) -> None:
    """Add an account. Its password is asked for, or read from standard input."""
    from flows.page.work import accounts

    password = _password()
    account_id = _in_database(home, lambda database: accounts.add(database, name, role, password, pseudonym))
    print(f"{accounts.name_of(name)} can log in as {role}; rows will name {account_id}.")


@users.command("list")
def list_users(home: Home = None, as_json: Json = False) -> None:
    """List the accounts."""
    from flows.builds.console import console, table
    from flows.page.work import accounts

    found = _in_database(home, accounts.listed)
    rows = [
        {"name": each.name, "role": each.role, "pseudonym": each.account_id, "disabled": bool(each.disabled)}
        for each in found
    ]
    if as_json:
        return print_json(rows)
    if not rows:
        return print("There is no account yet: longform users add NAME.")
    shown = ([row["name"], row["role"], row["pseudonym"], "disabled" if row["disabled"] else ""] for row in rows)
    console().print(table(dict.fromkeys(("name", "role", "pseudonym", "state"), ""), shown))


@users.command("disable")
def disable_user(name: Name, home: Home = None) -> None:
    """End an account's sessions and log-ins; what it annotated stays."""
    _change(home, name, disabled=True)
    print(f"{name} can no longer log in; longform users enable {name} undoes this.")


@users.command("enable")
def enable_user(name: Name, home: Home = None) -> None:
    """Let a disabled account log in again."""
    _change(home, name, disabled=False)
    print(f"{name} can log in.")


@users.command("password")
def new_password(name: Name, home: Home = None) -> None:
    """Give an account a new password, asked for or read from standard input, and end its sessions."""
    from flows.page.work import accounts

    password = _password()
    _in_database(home, lambda database: accounts.set_password(database, name, password))
    print(f"{name} has a new password.")


def _change(home: Path | None, name: str, **values: Any) -> None:
    from flows.page.work import accounts

    _in_database(home, lambda database: accounts.change(database, name, **values))


def _in_database(home: Path | None, act: Callable[[Database], Awaitable[Made]]) -> Made:
    """The result of `act` on the database of the home."""
    from flows.page.work.database import opened

    async def acting() -> Made:
        async with opened(home_of(home)) as database:
            return await act(database)

    return asyncio.run(acting())


def _password() -> str:
    """The password that is typed twice, unseen, on a terminal; else the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise UsageError("The two passwords differ; nothing was changed. Run the command again.")
    return password
