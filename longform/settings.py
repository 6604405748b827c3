"""The settings that come from environment variables: no other module reads the environment."""

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from longform.errors import UsageError

PREFECT_DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_LOGGING_SETTINGS_PATH": str(Path(__file__).parent / "engine" / "logging.yml"),
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_CLIENT_MAX_RETRIES": "7",  # of a request to the server, over 4 minutes: a busy one answers 503 that long
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
}
SERVER_DEFAULTS = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "8",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",  # seconds: builds side by side share the database
    "PREFECT_SERVER_DATABASE_SQLALCHEMY_POOL_TIMEOUT": "60",
}


_secrets: dict[str, None] = {}  # in the order in which they were read


def secrets() -> tuple[str, ...]:
    """The secrets that this process has read so far: keys and passwords, which are shown nowhere."""
    return tuple(_secrets)


def _secret(variable: str) -> str | None:
    """The secret in the environment variable, from now on one of `secrets`; None if unset or empty."""
    value = os.environ.get(variable) or None
    if value:
        _secrets[value] = None
    return value


def home(chosen: Path | None = None) -> Path:
    """The folder of stages, datasets, responses and runs, as an absolute path: `chosen` (the option `--home`), else
    LONGFORM_HOME, else ./data.
    """
    return Path(chosen or os.environ.get("LONGFORM_HOME") or "data").absolute()


def responses(home: Path) -> Path | str:
    """Where model responses are stored: the PostgreSQL URL in LONGFORM_RESPONSES, else (unset or empty) the path
    `<home>/llm/responses.sqlite`. UsageError for any other URL.
    """
    return _database("LONGFORM_RESPONSES", "responses", home / "llm" / "responses.sqlite")


def work(home: Path) -> Path | str:
    """Where accounts and annotations of the page are stored: the PostgreSQL URL in LONGFORM_WORK, else (unset or empty)
    the path `<home>/page/work.sqlite`. UsageError for any other URL.
    """
    return _database("LONGFORM_WORK", "accounts and annotations", home / "page" / "work.sqlite")


def _database(variable: str, what: str, file: Path) -> Path | str:
    """The PostgreSQL URL in an environment variable, whose password becomes one of `secrets`; `file` if it is unset or
    empty. UsageError for any other URL; `what` is kept there, for the message.
    """
    url = os.environ.get(variable)
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"{variable} holds no URL of a PostgreSQL database, postgresql://user:password@host:port/name: "
            f"correct it, or unset it to keep {what} in the home."
        )
    password = _password(url) if url else None
    if password:
        _secrets.update({password: None, unquote(password): None})
    return url or file


def durability() -> str:
    """LONGFORM_DURABILITY: `full`, so that stored answers outlive a power cut, or `normal`, so that they outlive the
    process; for the SQLite file of responses. `full` if unset or empty; UsageError for any other value.
    """
    chosen = os.environ.get("LONGFORM_DURABILITY") or "full"
    if chosen not in ("normal", "full"):
        raise UsageError(f"LONGFORM_DURABILITY is {chosen!r}: set it to full or normal, or unset it.")
    return chosen


def _password(url: str) -> str | None:
    """The password in a URL; None if there is none, or it is no URL."""
    try:
        return urlsplit(url).password
    except ValueError:
        return None


def api_key(variable: str) -> str | None:
    """The API key in the environment variable that an endpoint's `key_env` names; None if unset or empty."""
    return _secret(variable)


def budget() -> float | None:
    """LONGFORM_BUDGET, what all builds of a home may spend together in US dollars; None if unset or empty. UsageError
    unless it is a number from 0 on.
    """
    text = os.environ.get("LONGFORM_BUDGET")
    with suppress(ValueError):
        if not text or 0 <= float(text) < math.inf:
            return float(text) if text else None
    raise UsageError(f"LONGFORM_BUDGET={text} is no amount of US dollars: give a number, e.g. 500, or unset it.")


def author_key() -> str | None:
    """The key under which authors' names are hashed (LONGFORM_AUTHOR_KEY), as written there; None if unset or empty."""
    return _secret("LONGFORM_AUTHOR_KEY")


def contact() -> str | None:
    """The mail address or page in LONGFORM_CONTACT, which is sent with every web request so that the server's operator
    can write to it; None if unset or empty.
    """
    return os.environ.get("LONGFORM_CONTACT") or None


def qafacteval_models() -> Path | None:
    """The folder into which QAFactEval's own script downloaded its models (LONGFORM_QAFACTEVAL_MODELS); None if unset
    or empty.
    """
    folder = os.environ.get("LONGFORM_QAFACTEVAL_MODELS")
    return Path(folder) if folder else None


def openreview_login() -> tuple[str, str] | None:
    """(name, password) of an account at OpenReview, some of whose notes and PDFs are only for users who are logged in;
    None if OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD are unset or empty. UsageError if only one of them is set.
    """
    return _pair("OPENREVIEW_USERNAME", "OPENREVIEW_PASSWORD")


def reddit_client() -> tuple[str, str] | None:
    """(id, secret) of an app registered for Reddit's Data API; None if REDDIT_CLIENT_ID and REDDIT_CLIENT_SECRET are
    unset or empty. UsageError if only one of them is set.
    """
    return _pair("REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET")


def _pair(name: str, other: str) -> tuple[str, str] | None:
    """The values of two environment variables; None if both are unset or empty. UsageError if only one is set."""
    first, second = os.environ.get(name), os.environ.get(other)
    if bool(first) != bool(second):
        raise UsageError(f"{name} and {other} belong together: set both, or neither.")
    return (first, second) if first and _secret(other) and second else None


def quiet_prefect() -> None:
    """Set the environment variables PREFECT_DEFAULTS: no telemetry, little console output. Variables that are already
    set stay. Call it before importing Prefect.
    """
    os.environ.update({**PREFECT_DEFAULTS, **os.environ})


def server_environment() -> dict[str, str]:
    """All environment variables for a Prefect server that a build starts: those of this process, and SERVER_DEFAULTS
    for the ones not set. By these, task states are written in batches, events are not kept and automations not run.
    """
    return {**SERVER_DEFAULTS, **os.environ}


def prefect_api_url() -> str | None:
    """The URL of the Prefect server in PREFECT_API_URL; None if unset or empty, although a Prefect profile may still
    name a server.
    """
    return os.environ.get("PREFECT_API_URL") or None


def set_prefect_api_url(url: str | None) -> None:
    """Set PREFECT_API_URL for this process and the processes it starts; None unsets it."""
    if url is None:
        os.environ.pop("PREFECT_API_URL", None)
    else:
        os.environ["PREFECT_API_URL"] = url


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a part of a build that failed for a passing reason is retried, and the seconds before its first retry;
    they double with each further one.
    """

    times: int
    seconds: float


def retries() -> Retries:
    """Retries with the values of LONGFORM_RETRIES (default 3) and LONGFORM_RETRY_SECONDS (default 2). UsageError
    unless these are a whole number from 0 to 100 and a number from 0 to 3600.
    """
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
    """LONGFORM_RUNNER, the name of the engine that runs the parts of a build; `processes` if unset or empty."""
    return os.environ.get("LONGFORM_RUNNER") or "processes"


def runner_address() -> str | None:
    """LONGFORM_RUNNER_ADDRESS, the address of a Dask scheduler or a Ray cluster; None if unset or empty: then a local
    one is started.
    """
    return os.environ.get("LONGFORM_RUNNER_ADDRESS") or None


def s2_api_key() -> str | None:
    """The key of Semantic Scholar's APIs (S2_API_KEY); None if unset or empty."""
    return _secret("S2_API_KEY")


def grobid_url() -> str | None:
    """The address of a GROBID server that reads PDFs (GROBID_URL); None if unset or empty: PDFs are read without a
    server.
    """
    return os.environ.get("GROBID_URL") or None
