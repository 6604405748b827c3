"""The project's error classes, each with its cause and the exit code of the command that it ends.

LongformError            1   failed
├── UsageError           2   an unknown dataset, setting, row or version; a wrong value
├── EndpointError        3   an endpoint refused: key, quota, unknown model
├── BudgetError          4   the budget is reached
├── SourceError          5   a source is unusable: missing, truncated, encrypted, empty, no dump
│   └── HttpError            a server refused a request for good: its status, and the start of its reply
├── Incomplete           6   some calls failed for a passing reason: run the same command again
├── SchemaError          1   a stage yielded a row that breaks its schema (a bug of ours)
├── ConservationError    1   a stage lost an input row (a bug of ours)
├── FlowError            1   a flow calls a stage with arguments that do not fit (a bug of the flow)
├── StoreError           1   the home cannot be read or written, or holds something damaged
├── BusyError            1   another build of this dataset is running
├── PassingError         1   a fault that a retry may not meet again
│   ├── LostWorker           a worker died, or the cluster cannot be reached
│   └── BusyStore            a store or disk did not answer in time
├── ServerError          1   the Prefect server that runs are reported to does not answer
├── NothingToPublish     1   a build ended without a row
└── Cancelled            1   somebody cancelled the run

A message names subject, value, rule and next step, in one sentence.
"""


class LongformError(Exception):
    """Base of the project's errors. `exit_code` is that of the command that the error ends."""

    exit_code = 1


class UsageError(LongformError):
    exit_code = 2


class EndpointError(LongformError):
    exit_code = 3


class BudgetError(LongformError):
    exit_code = 4


class SourceError(LongformError):
    exit_code = 5


class HttpError(SourceError):
    """A server refused a request for good. `body`: the start of its reply."""

    def __init__(self, message: str, *, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status, self.body = status, body


class Incomplete(LongformError):
    exit_code = 6


class SchemaError(LongformError):
    """A stage yielded a row that breaks its schema."""


class ConservationError(LongformError):
    """A stage lost an input row."""


class FlowError(LongformError):
    """A flow calls a stage with arguments that do not fit."""


class StoreError(LongformError):
    """The home cannot be read or written."""


class BusyError(LongformError):
    """Another process has the lock, of a dataset or of the takedowns."""


class PassingError(LongformError):
    """A fault that a retry may not meet again."""


class LostWorker(PassingError):
    """A worker died, or the cluster cannot be reached."""


class BusyStore(PassingError, StoreError):
    """A store or disk did not answer in time."""


class ServerError(LongformError):
    """The Prefect server does not answer."""


class NothingToPublish(LongformError):
    """A build ended without a row."""


class Cancelled(LongformError):
    """Somebody cancelled the run."""
