"""What a response store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REPLY, TOMBSTONE = 0, 1


@dataclass(frozen=True, slots=True)
class Record:
    """What is stored under a key. Of a tombstone `code` is the kind of failure and `body` its message.

    `request` and `body` are bytes of JSON; `cost_nano` is billionths of a US dollar (None: price unknown);
    `created` is seconds since 1970, set by the store where it is None.
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
    outputs = sorted(received for _, _, received, _ in answers)
    took = [milliseconds for *_, milliseconds in answers if milliseconds is not None]
    return Usage(
        answers=len(answers),
        input_tokens_per_byte=sum(sent for _, sent, _, _ in answers) / max(1, sum(size for size, *_ in answers)),
        output_tokens=sum(outputs) / len(answers),
        output_tokens_p90=outputs[(9 * len(answers) + 9) // 10 - 1],
        milliseconds=sum(took) / len(took) if took else 0.0,
    )
