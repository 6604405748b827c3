"""The project's error classes, each with its cause and the exit code of the command that it ends.

LongformError            1   failed
├── UsageError           2   an unknown dataset, setting, row or version; a wrong value
├── EndpointError        3   an endpoint refused: key, quota, unknown model
├── BudgetError          4   the budget is reached
├── SourceError          5   a source is unusable: missing, truncated, encrypted, empty, no dump
│   └── HttpError            a server refused a request for good: its status, and the start of its reply
├── Incomplete           6   some calls failed for a passing reason: run the same command again
├── GateError            7   a gate refused: the model's replies, or the rows of a version, are not sound
├── SchemaError          1   a stage yielded a row that breaks its schema (a bug of ours)
├── ConservationError    1   a stage lost an input row (a bug of ours)
├── FlowError            1   a flow calls a stage with arguments that do not fit (a bug of the flow)
├── StoreError           1   the home cannot be read or written, or holds something damaged
├── BusyError            1   another process holds the dataset, the takedowns, the response store or an index
├── PassingError         1   a fault that a retry may not meet again
│   ├── LostWorker           a worker died, or the cluster cannot be reached
│   └── BusyStore            a store or disk did not answer in time
├── ServerError          1   the Prefect server that runs are reported to, or a cluster, does not answer
├── NothingToPublish     1   a build ended without a row
└── Cancelled            1   somebody cancelled the run

A message names subject, value, rule and next step, in one sentence.
"""

from collections.abc import Mapping


class LongformError(Exception):
    """Base of the project's errors. `exit_code` is that of the command that the error ends."""

    exit_code = 1


class UsageError(LongformError):
    """Raised for an unknown dataset, setting, row or version, or for a wrong value."""

    exit_code = 2


class EndpointError(LongformError):
    """Raised when an endpoint cannot be used: its key is missing or refused, a quota is reached, or the model is
    unknown.
    """

    exit_code = 3


class BudgetError(LongformError):
    """Raised when a model call would exceed the budget."""

    exit_code = 4


class SourceError(LongformError):
    """Raised for a source that is unusable: missing, truncated, encrypted, empty or no dump."""

    exit_code = 5


class HttpError(SourceError):
    """Raised when a server refuses a request for good. `status`: the HTTP status; `body`: the start of the reply."""

    def __init__(self, message: str, *, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status, self.body = status, body


class Incomplete(LongformError):
    """Raised when work is left unfinished for a passing reason, so that the same command is to be run again.

    `fault`: of a model's endpoint, whose it was and what, in a few words; `step`: what to do. `unanswered`: stage ->
    (number of its questions without an answer, the last fault of them).
    """

    exit_code = 6

    def __init__(
        self,
        message: str,
        *,
        fault: str = "",
        step: str = "run the same command again",
        unanswered: Mapping[str, tuple[int, str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.fault, self.step, self.unanswered = fault, step, dict(unanswered or {})


class GateError(LongformError):
    """Raised when a gate refuses what a model replied, or what would be published; nothing is published. `findings`:
    stage -> what its gate found; empty where the rows of a version are refused.
    """

    exit_code = 7

    def __init__(self, message: str, findings: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.findings = dict(findings or {})


class SchemaError(LongformError):
    """Raised when a stage yields a row that breaks its schema."""


class ConservationError(LongformError):
    """Raised when a stage loses an input row, or names a parent that is none."""


class FlowError(LongformError):
    """Raised when a flow calls a stage with arguments that do not fit."""


class StoreError(LongformError):
    """Raised when the home, or a store in it, cannot be read or written, or holds something damaged."""


class BusyError(LongformError):
    """Raised when another process holds what this one would write: a dataset, the takedowns, the response store or an
    index.
    """


class PassingError(LongformError):
    """Raised for a fault that a retry may not meet again."""


class LostWorker(PassingError):
    """Raised when a worker died, or the cluster cannot be reached."""


class BusyStore(PassingError, StoreError):
    """Raised when a store or disk did not answer in time."""


class ServerError(LongformError):
    """Raised when the server that runs are reported to, or a cluster, does not answer."""


class NothingToPublish(LongformError):
    """Raised when a build ended without a row."""


class Cancelled(LongformError):
    """Raised when somebody cancelled the run."""
