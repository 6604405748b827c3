"""The only place that reads the environment."""

import os
from dataclasses import dataclass
from pathlib import Path

from longform.errors import UsageError

PREFECT_DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_LOGGING_SETTINGS_PATH": str(Path(__file__).parent / "engine" / "logging.yml"),
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_CLIENT_MAX_RETRIES": "3",  # of a request to the server, over 14 seconds
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
}
SERVER_DEFAULTS = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "8",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}


def home(given: Path | None = None) -> Path:
    """Where stages, datasets, responses and runs live: `--home`, else LONGFORM_HOME, else ./data."""
    return Path(given or os.environ.get("LONGFORM_HOME") or "data").absolute()


def responses(home: Path) -> Path | str:
    """The response store: the database whose URL stands in LONGFORM_RESPONSES, else a file in the home."""
    url = os.environ.get("LONGFORM_RESPONSES")
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            "LONGFORM_RESPONSES holds no URL of a PostgreSQL database, postgresql://user:password@host:port/name: "
            "correct it, or unset it to keep responses in the home."
        )
    return url or home / "llm" / "responses.sqlite"


def api_key(variable: str) -> str | None:
    """The key that an endpoint's `key_env` names; empty counts as unset."""
    return os.environ.get(variable) or None


def author_key() -> str | None:
    """The key that names of authors are hashed under, in hexadecimal digits; empty counts as unset."""
    return os.environ.get("LONGFORM_AUTHOR_KEY") or None


def contact() -> str | None:
    """Whom the operator of a server may write to: a mail address or a page, sent with every request."""
    return os.environ.get("LONGFORM_CONTACT") or None


def qafacteval_models() -> Path | None:
    """The folder that QAFactEval's own script downloaded its models into; empty counts as unset."""
    folder = os.environ.get("LONGFORM_QAFACTEVAL_MODELS")
    return Path(folder) if folder else None


def openreview_login() -> tuple[str, str] | None:
    """Name and password at OpenReview, if set: some of its notes and PDFs are given only to who has logged in."""
    name, password = os.environ.get("OPENREVIEW_USERNAME"), os.environ.get("OPENREVIEW_PASSWORD")
    if bool(name) != bool(password):
        raise UsageError("OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD belong together: set both, or neither.")
    return (name, password) if name and password else None


def reddit_client() -> tuple[str, str] | None:
    """Id and secret of the app that asks Reddit's Data API, if set."""
    app, secret = os.environ.get("REDDIT_CLIENT_ID"), os.environ.get("REDDIT_CLIENT_SECRET")
    if bool(app) != bool(secret):
        raise UsageError("REDDIT_CLIENT_ID and REDDIT_CLIENT_SECRET belong together: set both, or neither.")
    return (app, secret) if app and secret else None


def quiet_prefect() -> None:
    """Prefect without telemetry and with a calm console; what the user set wins. Call before importing it."""
    for name, value in PREFECT_DEFAULTS.items():
        os.environ.setdefault(name, value)


def server_environment() -> dict[str, str]:
    """Of the Prefect server that a build starts: it writes the states of task runs several at a time, keeps no feed of
    events, and automates nothing; what the user set wins.
    """
    return {**SERVER_DEFAULTS, **os.environ}


def prefect_api_url() -> str | None:
    """The Prefect server that the environment names; empty counts as unset. A profile of Prefect's may name one too."""
    return os.environ.get("PREFECT_API_URL") or None


def set_prefect_api_url(url: str | None) -> None:
    """Name the server for Prefect's settings here, and for processes started from here; None names none."""
    if url is None:
        os.environ.pop("PREFECT_API_URL", None)
    else:
        os.environ["PREFECT_API_URL"] = url


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a part is made again that failed for a passing reason, and the seconds before the first time."""

    times: int
    seconds: float


def retries() -> Retries:
    """LONGFORM_RETRIES and LONGFORM_RETRY_SECONDS, the latter doubled for each further time."""
    times, seconds = os.environ.get("LONGFORM_RETRIES"), os.environ.get("LONGFORM_RETRY_SECONDS")
    try:
        found = Retries(int(times or 3), float(seconds or 2))
    except ValueError:
        found = Retries(-1, 0)
    if not (0 <= found.times <= 100 and 0 <= found.seconds <= 3_600):
        raise UsageError(
            f"LONGFORM_RETRIES={times} and LONGFORM_RETRY_SECONDS={seconds} do not fit: "
            "give a whole number of 0 to 100, and seconds from 0 to 3600."
        )
    return found


def runner() -> str:
    """LONGFORM_RUNNER, where parts run; empty counts as unset: in processes."""
    return os.environ.get("LONGFORM_RUNNER") or "processes"


def runner_address() -> str | None:
    """LONGFORM_RUNNER_ADDRESS, of a Dask scheduler or a Ray cluster; empty counts as unset: one is started."""
    return os.environ.get("LONGFORM_RUNNER_ADDRESS") or None


def s2_api_key() -> str | None:
    """The key of Semantic Scholar's APIs; empty counts as unset."""
    return os.environ.get("S2_API_KEY") or None


def grobid_url() -> str | None:
    """The address of a GROBID server that reads PDFs; empty counts as unset: they are read without a server."""
    return os.environ.get("GROBID_URL") or None
