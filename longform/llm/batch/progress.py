"""What is known of a job at the provider, beyond the columns of the store's job: kept in the job's `context`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from longform.llm.responses.records import Job


@dataclass(slots=True)
class Progress:
    """How far a job is at the provider.

    `uploads`: how often its file was uploaded anew. `unsure`: the answer to a request that creates its batch was lost,
    so that there may be several batches of it; `twins` are the ids of those beside the job's `remote`. `collected`:
    ids of the batches whose replies are stored or given up. `files`: ids of files to delete at the end. `booked`: id of
    a batch -> positions of requests whose reply is in the ledger only. `short_runs`: how many runs found its files
    short.
    """

    uploads: int = 0
    unsure: bool = False
    twins: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    booked: dict[str, list[int]] = field(default_factory=dict)
    short_runs: int = 0

    def into(self, job: Job) -> str:
        """The context of the job with this progress in it."""
        return json.dumps({**json.loads(job.context), "progress": asdict(self)})


def progress_of(job: Job) -> Progress:
    """The progress in the context of a job. Of an uploaded job from a release that kept none, nobody knows whether its
    batch was created: it is `unsure`.
    """
    kept = json.loads(job.context).get("progress")
    return Progress(**kept) if kept else Progress(unsure=job.state == "UPLOADED")


def is_perhaps_created(job: Job) -> bool:
    """Whether the provider may have a batch of a job whose batch is not known."""
    return job.remote is None and (job.state == "CREATING" or progress_of(job).unsure)
