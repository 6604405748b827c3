"""Finding a job at the provider whose creation got no answer, and cancelling its twins."""

from __future__ import annotations

from typing import Any

from longform.llm.batch.open_jobs import Desk, OpenJob
from longform.llm.batch.remote import SEARCH_SECONDS, status_of

FURTHEST = ("completed", "finalizing", "in_progress", "validating", "expired", "cancelling", "cancelled", "canceled")


class Finder:
    """Looks for the batches of jobs. `patience`: for how many seconds the next job of a killed process is looked
    for.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.patience = SEARCH_SECONDS

    async def search(self, each: OpenJob, seconds: float = SEARCH_SECONDS) -> list[dict[str, Any]]:
        """The batches of a job that may have been created, looked for as `Remote.search` does; from now on it is looked
        for twins.
        """
        if not each.progress.unsure:
            each.progress.unsure = True
            await self._desk.save(each)
        return await self._desk.remote.search(each.job, seconds)

    async def use(self, each: OpenJob, found: list[dict[str, Any]]) -> None:
        """Write down which of the provider's batches of a job is kept, and which are twins of it; a kept batch whose
        replies are stored stays that. Those that are no twins yet are cancelled at the next look (`_look_at`).
        """
        there = {str(batch["id"]): batch for batch in found}
        if each.job.remote and each.job.remote not in there:
            there[each.job.remote] = await self._desk.remote.batch(each.job, each.job.remote)
        kept = each.job.remote if each.progress.collected else None
        kept = kept or max(there, key=lambda name: (_rank(there[name]), name == each.job.remote))
        known = {kept, *each.progress.twins}
        new = [name for name in there if name not in known]
        each.progress.twins = [name for name in [*each.progress.twins, *new] if name != kept]
        file = there[kept].get("input_file_id") if kept in there else None
        await self._desk.save(each, state="SUBMITTED", remote=kept, input_file=file or each.job.input_file)
        if new:
            others = ", ".join(each.progress.twins)
            self._desk.say(f"{each.named}: the provider created it more than once; {kept} is kept, cancelled: {others}")


def _rank(batch: dict[str, Any]) -> int:
    """A sort key of a provider's batch, greater the further it is; the least for one that failed."""
    status = status_of(batch)
    return -FURTHEST.index(status) if status in FURTHEST else -len(FURTHEST)
