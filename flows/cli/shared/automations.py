"""Crash detection on a Prefect server: a run that says nothing any more is Crashed.

A flow run sends a heartbeat every 30 seconds. Where its process is killed, with or without its worker, nobody else
tells the server; it would stay Running, hold its deployment's one place, and have the next scheduled run cancelled.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from prefect.automations import AutomationCore, EventTrigger, Posture
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState

from flows.deployed import FLOWS

NAME = "longform: a run that says nothing is Crashed"
ALIVE = ("Pending", "Running", "Cancelling", "heartbeat")
Done = Literal["installed", "changed", "there already"]


def crash_detection(patience: timedelta) -> AutomationCore:
    """The Prefect automation that marks a run of one of the flows in FLOWS as Crashed if it was pending, running or
    cancelling and has sent no event, not even a heartbeat, for `patience`.
    """
    trigger = EventTrigger(
        after={f"prefect.flow-run.{event}" for event in ALIVE},
        expect={"prefect.flow-run.*"},
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related={"prefect.resource.role": "flow", "prefect.resource.name": sorted(FLOWS)},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=patience,
    )
    message = f"No heartbeat for {patience.total_seconds():.0f} s: its process is gone. A retry does what is missing."
    crash = ChangeFlowRunState(state=StateType.CRASHED, name="Crashed", message=message)
    return AutomationCore(name=NAME, description=str(__doc__).split("\n")[0], trigger=trigger, actions=[crash])


def install(patience: timedelta) -> Done:
    """Create or update the automation on the server of Prefect's settings; returns whether it was created
    ("installed"), "changed", or "there already".
    """
    wanted = crash_detection(patience)
    with get_client(sync_client=True) as client:
        found = client.read_automations_by_name(NAME)
        if not found:
            client.create_automation(wanted)
            return "installed"
        if _comparable(found[0]) == _comparable(wanted):
            return "there already"
        client.update_automation(found[0].id, wanted)
        return "changed"


def _comparable(automation: AutomationCore) -> dict[str, object]:
    """What an automation does, without the ids that a server assigns, so that two of them can be compared."""
    trigger = automation.trigger.model_dump(exclude={"id"})
    actions = [action.model_dump() for action in automation.actions]
    return {"trigger": trigger, "actions": actions, "enabled": automation.enabled, "about": automation.description}
