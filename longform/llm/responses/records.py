"""What a response store keeps, and what every one of them can do: SQLite (store.py), PostgreSQL (postgres.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from longform.llm.gate.sharing import Allowances

REPLY, TOMBSTONE = 0, 1


@dataclass(frozen=True, slots=True)
class Record:
    """What is stored under a key. Of a tombstone `code` is the kind of failure and `body` its message.

    `request` and `body` are bytes of JSON; `cost_nano` is billionths of a US dollar (None: price unknown);
    `created` is seconds since 1970, given by the store where it is None.
    """

    endpoint: str
    model: str
    task: str
    prompt: str
    request: bytes
    body: bytes = b""
    state: int = REPLY
    code: str | None = None
    finish: str | None = None
    served_model: str | None = None
    fingerprint: str | None = None
    request_id: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_limit: int | None = None
    milliseconds: int | None = None
    cost_nano: int | None = None
    batch: bool = False
    created: float | None = None


@dataclass(frozen=True, slots=True)
class Paid:
    """A line of the ledger: one call that was, or may have been, billed.

    `recipe` is the fingerprint of the stage that made it. `answered` is False for a call whose reply was lost or
    unusable. `cost_nano` is None where the price is unknown.
    """

    run: str
    dataset: str
    stage: str
    recipe: str
    endpoint: str
    model: str
    key: str
    answered: bool
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nano: int | None
    batch: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A batch. `name` is ours, the hash of its keys; `remote` is the provider's id. `state` is STAGED (written down,
    nothing sent), UPLOADED, SUBMITTED, or one in which it ended: DONE (all that it made is stored), GONE."""

    name: str
    endpoint: str
    state: str
    requests: int
    reserved_nano: int = 0
    remote: str | None = None
    input_file: str | None = None
    created: float | None = None
    context: str = "{}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What stored answers of one task and model took. Tokens per byte are of the request as stored."""

    answers: int
    input_tokens_per_byte: float
    output_tokens: float
    output_tokens_p90: float
    milliseconds: float


def usage_of(answers: Sequence[tuple[int, int, int, int | None]]) -> Usage | None:
    """Of (bytes of the request, tokens in, tokens out, milliseconds) of each answer; None where there is none."""
    if not answers:
        return None
    outputs = sorted(made for _, _, made, _ in answers)
    took = [milliseconds for *_, milliseconds in answers if milliseconds is not None]
    return Usage(
        answers=len(answers),
        input_tokens_per_byte=sum(sent for _, sent, _, _ in answers) / max(1, sum(size for size, *_ in answers)),
        output_tokens=sum(outputs) / len(answers),
        output_tokens_p90=outputs[(9 * len(answers) + 9) // 10 - 1],
        milliseconds=sum(took) / len(took) if took else 0.0,
    )


class ResponseStore(Protocol):
    """Every method may be called from any thread; `put` and `lease` from any event loop. Errors: StoreError.

    `exclusive`: only this process writes here, so that leases are always granted. Else `allowances` tell what of an
    endpoint is this process's.
    """

    exclusive: bool

    @property
    def allowances(self) -> Allowances | None: ...

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        """The records of those keys that are there."""

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid] = ()) -> None:
        """Store in place of what was there, with the ledger's lines, in one transaction; returns when committed."""

    async def lease(self, keys: Sequence[str], *, again: bool = False) -> set[str]:
        """Those keys that this process may ask a model for now; the others are being asked for by another process.

        Keys that have an answer are not granted, unless they are to be asked `again`. A lease ends with the `put` of
        its key, with `release`, or some minutes after its process has gone.
        """

    async def release(self, keys: Sequence[str]) -> None: ...

    def scan(self, keys: Collection[str] | None = None) -> Iterator[tuple[str, Record]]:
        """All records, or those of these keys, in the order of their keys; in constant memory."""

    def add(self, records: Iterable[tuple[str, Record]]) -> int:
        """Store what is not there yet, without the ledger; how many were new."""

    def purge(self, keys: Collection[str]) -> int:
        """Delete these records, beyond recovery where the database can do that; how many there were.

        The ledger keeps what was paid for them.
        """

    def stats(self) -> list[dict[str, Any]]:
        """A dict for each endpoint, model and task: answers, errors, input_tokens, output_tokens, cost_nano, bytes."""

    def ledger(self, dataset: str, recipes: Collection[str] | None = None) -> list[dict[str, Any]]:
        """What was paid for a dataset, or for these recipes of it, in the order of first payment.

        A dict for each stage, endpoint, model and batch (bool): calls, unanswered, input_tokens, cached_tokens,
        output_tokens, cost_nano, unpriced (calls of unknown price).
        """

    def usage(self, endpoint: str, model: str, task: str) -> Usage | None:
        """Of the latest answers (a few hundred), None where there is none."""

    def stage_job(self, job: Job, keys: Sequence[str]) -> None:
        """Write down a job and its keys in one transaction."""

    def update_job(self, name: str, **fields: Any) -> None: ...

    def jobs(self, endpoint: str | None = None) -> list[Job]:
        """Jobs that have not ended (state neither DONE nor GONE), oldest first."""

    def job_keys(self, name: str) -> list[str]: ...

    def close(self) -> None: ...
