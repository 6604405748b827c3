"""Whether the store of models' answers can be asked at this moment."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from longform.errors import StoreError
from longform.settings import responses

SECONDS = 2.0


def check_answers(home: Path) -> None:
    """Raise StoreError if the answers are in a PostgreSQL server to which nothing connects within SECONDS: builds wait
    for it, people who look should not. A file, also a missing one, can always be asked.
    """
    where = responses(home)
    if isinstance(where, Path):
        return
    parts = urlsplit(where)
    if not parts.hostname:  # a socket of this machine
        return
    try:
        socket.create_connection((parts.hostname, parts.port or 5432), SECONDS).close()
    except OSError as error:
        raise StoreError(
            f"The response store at {parts.hostname} cannot be reached ({error.strerror or error}): check that "
            "PostgreSQL runs there, then load this page again for prices, prompts and replies."
        ) from None
