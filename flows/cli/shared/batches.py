"""Batch jobs on the command line: listing those that are open at a provider, and stopping them."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from flows.builds.building import DATASETS
from flows.config.configuration import read
from flows.config.endpoints import EndpointConfig, check_keys, endpoint_of
from longform.errors import UsageError
from longform.llm.responses.records import Job
from longform.llm.responses.store import open_responses
from longform.settings import api_key, responses

if TYPE_CHECKING:
    from rich.table import Table


class EndpointTables(BaseModel):
    """The tables [endpoints.NAME] of a configuration; its other settings are ignored."""

    model_config = ConfigDict(extra="ignore")

    endpoints: dict[str, EndpointConfig] = {}


def open_jobs(home: Path) -> list[Job]:
    """Batch jobs that have not ended (state neither DONE nor GONE), oldest first. Nothing is locked, so this also
    works while a build is running.
    """
    with closing(open_responses(responses(home), read_only=True)) as store:
        return store.jobs()


def described(job: Job) -> dict[str, Any]:
    """A batch job as a JSON value: name, endpoint, the provider's id (`remote`), state, number of requests, the time
    it was created (Unix time) and its age in seconds; id, time and age are None if unknown.
    """
    return {
        "name": job.name,
        "endpoint": job.endpoint,
        "remote": job.remote,
        "state": job.state,
        "requests": job.requests,
        "created": job.created,
        "age_seconds": None if job.created is None else max(0.0, round(time.time() - job.created, 1)),
    }


def jobs_table(jobs: list[Job]) -> Table:
    """The jobs as a table: the first 12 characters of the name, endpoint, the provider's id, state, number of
    requests, age.
    """
    from flows.builds.console import table

    columns = {"job": "", "endpoint": "", "provider's id": "", "state": "", "requests": "right", "age": "right"}
    rows = [
        (job.name[:12], job.endpoint, job.remote or "–", job.state, job.requests, _age(described(job)["age_seconds"]))
        for job in jobs
    ]
    return table(columns, rows)


def _age(seconds: float | None) -> str:
    """Seconds in whole minutes, rounded down: `12 min`, from an hour on `2 h 20 min`; `–` for None."""
    if seconds is None:
        return "–"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def chosen(jobs: list[Job], name: str) -> list[Job]:
    """All jobs if `name` is "all"; else a list of the one job whose name begins with `name`, upper and lower case
    being equal. UsageError if no job or several fit such a name.
    """
    found = jobs if name == "all" else [job for job in jobs if job.name.startswith(name.lower())]
    if name != "all" and len(found) != 1:
        names = ", ".join(job.name[:12] for job in jobs) or "none"
        why = "begins more than one job's name" if found else "is the name of no open job"
        raise UsageError(f'"{name}" {why}; open are: {names}.')
    return found


def stop(home: Path, jobs: list[Job], file: Path | None, settings: list[str]) -> dict[str, bool]:
    """Ask the providers to stop these jobs. Returns job name -> True, or False if the provider does not know the job,
    whose state then becomes GONE. `file` and `settings` (texts `key=value`): the configuration with the jobs'
    endpoints.

    UsageError if the configuration is wrong or lacks an endpoint of these jobs, EndpointError if a key is missing or
    refused, Incomplete if a provider gives no answer for an hour, BusyError if a job is to become GONE while a build
    runs; jobs that were stopped before the error stay stopped.
    """
    endpoints = read(next(iter(DATASETS)), EndpointTables, file, settings).endpoints
    for job in jobs:
        if job.endpoint not in endpoints:
            raise UsageError(
                f'Job {job.name[:12]} was sent to the endpoint "{job.endpoint}", whose address is not known: give the '
                f"configuration it was built with by --config FILE, or --set endpoints.{job.endpoint}.base_url=URL."
            )
    check_keys([job.endpoint for job in jobs], endpoints)
    return {job.name: _stop(home, job, endpoints) for job in jobs}


def _stop(home: Path, job: Job, endpoints: dict[str, EndpointConfig]) -> bool:
    """Ask the provider to stop a job; returns whether it knows the job. If it does not, the job's stored state is set
    to GONE.
    """
    stopped = asyncio.run(_cancel(job, endpoints))
    if not stopped:
        with closing(open_responses(responses(home), home=home)) as store:
            store.update_job(job.name, state="GONE")
    return stopped


async def _cancel(job: Job, endpoints: dict[str, EndpointConfig]) -> bool:
    """Ask the provider to cancel a job; False if it has no batch of this job. Messages are printed."""
    from longform.llm.batch.jobs import cancel
    from longform.llm.send.wire import Wire

    endpoint = endpoint_of(job.endpoint, endpoints)
    key = api_key(endpoint.key_env) if endpoint.key_env else None
    wire = Wire(endpoint, key, None)
    try:
        return await cancel(wire, job, endpoint, api_key=key, say=print)
    finally:
        await wire.close()
