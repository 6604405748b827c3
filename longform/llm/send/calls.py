"""The calls that are sent to an endpoint, and the results that they end with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from longform.errors import LongformError
from longform.llm.responses.records import Record
from longform.llm.send.bodies import ReplyFacts
from longform.llm.send.faults import Fault

Replies = Sequence[tuple[bytes, ReplyFacts] | None]


class LookAgain:
    """The result of a call of which another process has answered a part meanwhile: look its keys up in the store, and
    ask for those that are missing.
    """


LOOK_AGAIN: Final = LookAgain()
Result = list[tuple[Record, ReplyFacts | None] | None] | Fault | LongformError | LookAgain


@dataclass(slots=True, eq=False)
class Call:
    """One request to send, and the records to be made from its reply: one for each key; None where
    that part of the reply cannot be used, and fewer where it has fewer parts.

    `bases`: what is known of each record beforehand. `input_bound` and `output_bound`: upper bounds of the tokens that
    are paid. `tokens`: about how many tokens the server's rate limit counts (prompt and longest reply). `read` splits
    the reply's body into (body, facts) for each record; None where it is malformed. `done` is called once with the
    result: for each record (record, facts; None if another process stored it), a Fault (the request is refused for
    good), LOOK_AGAIN, or an error (there is no reply now). `wanted`: whether anybody waits for it. `again`: send it
    also where a usable reply is stored, and replace that. `most_bytes`: the size up to which a reply is read.

    The rest is kept by the machine. `tries`: kind of failure -> attempts that failed so. `replies`: how many replies
    of no use came. `reserved`: money set aside for it, in billionths of a US dollar. `ticket`: its number at the gate.
    `leased`: this process has the lease of its keys. `waited`: another process had it before.
    """

    path: str
    sent: str
    keys: Sequence[str]
    bases: Sequence[dict[str, Any]]
    stage: str
    recipe: str
    input_bound: int
    output_bound: int
    tokens: int
    read: Callable[[bytes], Replies | None]
    done: Callable[[Result], None]
    wanted: Callable[[], bool]
    again: bool = False
    most_bytes: int | None = None
    tries: dict[str, int] = field(default_factory=dict)
    replies: int = 0
    reserved: int = 0
    ticket: int = 0
    leased: bool = False
    waited: bool = False
