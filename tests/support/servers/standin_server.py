"""A stand-in server for tests: `from standin_server import standin`, then a test takes the fixture.

    def test_something(standin: Server) -> None:
        standin.script([{"fault": "500"}, {}])
        ask(base_url=standin.url)
        assert standin.counters()["outcomes"] == {"500": 1, "answered": 1}

With settings of its own a test calls `serve(rpm=600, key="k")` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from offline_rules import RULES

from longform.standin import server as stand_in
from longform.standin.server import Server

__all__ = ["Server", "serve", "standin"]


def serve(**settings: Any) -> AbstractContextManager[Server]:
    return stand_in.serve(rules=RULES, **settings)


@pytest.fixture
def standin() -> Iterator[Server]:
    with serve() as server:
        yield server
