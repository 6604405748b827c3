"""The command that serves the page on which people look at versions and work on annotation tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import typer

from flows.cli.shared.arguments import Home
from longform.errors import UsageError
from longform.settings import home as home_of

if TYPE_CHECKING:
    from flows.page.application import Serving

app = typer.Typer()

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
    home: Home = None,
) -> None:
    """Serve the page: look at versions, work on annotation tasks."""
    import uvicorn

    from flows.page.application import create_app

    serving = _serving(host, origin, look, home)
    for line in _lines(serving, origin or f"http://{_bracketed(host)}:{port}"):
        print(line, flush=True)
    config = uvicorn.Config(
        create_app(serving),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=origin is not None,
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run()


def _serving(host: str, origin: str | None, look: str | None, home: Any) -> Serving:
    """How the page is served by these options. UsageError for a wrong one, and for a host that other machines reach
    without a word on how the part Look is protected.
    """
    from flows.page.application import LOOPBACK, Serving

    local = _bracketed(host) in LOOPBACK
    if look is not None and look not in LOOKS:
        raise UsageError(f'--look is "{look}": it takes {", ".join(LOOKS)}.')
    if not (local or look):
        raise UsageError(
            f"Other machines reach {host}, and everybody there could look at every version: add --look accounts (who "
            "logs in), --look off, or --look open if a proxy or a firewall protects it."
        )
    parts = urlsplit(origin or "")
    if not (local or origin) or (origin and not (parts.scheme in ("http", "https") and parts.hostname)):
        raise UsageError(
            f"--origin is {origin or 'not given'}: for {host} give the address that people type, e.g. "
            "--origin https://annotate.example.org, whose proxy passes requests on."
        )
    hosts = LOOPBACK | ({parts.hostname} if parts.hostname else set())
    chosen = cast(Literal["open", "accounts", "off"], look or "open")
    return Serving(home_of(home), frozenset(hosts), secure=not local or parts.scheme == "https", look=chosen)


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
    return [
        f"look   {off}" if serving.look == "off" else f"look   {address}/            {built}",
        f"work   {address}/work",
    ]
