"""A stand-in server for tests: `from standin_server import standin`, then a test takes the fixture.

    def test_something(standin: Server) -> None:
        standin.script([{"fault": "500"}, {}])
        ask(base_url=standin.url)
        assert standin.counters()["outcomes"] == {"500": 1, "answered": 1}

With settings of its own a test calls `serve(rpm=600, key="k")` instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longform.standin.server import Server, serve

__all__ = ["Server", "serve", "standin"]


@pytest.fixture
def standin() -> Iterator[Server]:
    with serve() as server:
        yield server
