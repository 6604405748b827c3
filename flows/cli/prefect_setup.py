"""Commands about Prefect: deployments of the flows for a folder of your own, and crash detection on a server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.shared.arguments import Json, print_json
from flows.registry import DATASETS

app = typer.Typer()
prefect = typer.Typer(no_args_is_help=True, help="Deploy the flows on a Prefect server.")
app.add_typer(prefect, name="prefect")

ON_DEMAND = """
- <<: *dataset
  name: on-demand
  description: Rebuild the {dataset} dataset; what is unchanged is reused.
  entrypoint: {entrypoint}
"""
PULL = re.compile(r"^pull:.*\n(?:[ -].*\n)*", re.MULTILINE)


@prefect.command("init")
def init() -> None:
    """Write prefect.yaml, which deploys every flow of this installation to run in the current folder."""
    from longform.errors import UsageError
    from longform.files import write_bytes

    path = Path.cwd() / "prefect.yaml"
    if path.exists():
        raise UsageError(f"{path} is there already: move it away, or run this in another folder.")
    write_bytes(path, deployments(packaged().read_text("utf-8"), path.parent).encode())
    print(f"Wrote {path}. Its first lines say how to deploy; runs keep everything in {path.parent / 'data'},")
    print("or where the parameter `home` says.")


@prefect.command("deployments")
def show_deployments() -> None:
    """Print prefect.yaml with a deployment of every dataset, to run in the current folder."""
    print(deployments(packaged().read_text("utf-8"), Path.cwd()), end="")


@prefect.command("automations")
def automations(
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=10, help="a run that is silent so long is Crashed")
    ] = 75,
    as_json: Json = False,
) -> None:
    """Have the configured Prefect server mark a run as Crashed whose process is gone. Again, it changes nothing."""
    from datetime import timedelta

    from flows.builds.server import configured
    from longform.settings import quiet_prefect

    quiet_prefect()
    url = configured()
    from flows.cli.shared.automations import NAME, install

    done = install(timedelta(seconds=patience))
    if as_json:
        return print_json({"server": url, "automation": NAME, "patience_seconds": patience, "done": done})
    print(f'{done}: "{NAME}", after {patience:.0f} s without a heartbeat, on {url}')


def packaged() -> Path:
    """The path of the prefect.yaml that was installed with the package; in a source checkout,
    of the one at its root.
    """
    installed = Path(__file__).parents[1] / "prefect.yaml"
    return installed if installed.exists() else Path(__file__).parents[2] / "prefect.yaml"


def deployments(text: str, folder: Path) -> str:
    """The text of a prefect.yaml (`text`), changed so that runs work in `folder`: its pull steps are replaced by one
    that makes it the working directory. Datasets that have no deployment in `text` get one named on-demand.
    """
    entries = {dataset: f"flows.deployed.{dataset.replace('-', '_')}" for dataset in DATASETS}
    missing = {dataset: entry for dataset, entry in entries.items() if f"entrypoint: {entry}\n" not in text}
    text += "".join(ON_DEMAND.format(dataset=dataset, entrypoint=entry) for dataset, entry in missing.items())
    step = f"pull:\n- prefect.deployments.steps.set_working_directory: {{directory: {json.dumps(str(folder))}}}\n"
    return PULL.sub("", text).replace("\ndeployments:\n", f"\n{step}\ndeployments:\n", 1)
