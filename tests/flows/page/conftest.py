"""What tests of the page in a browser share: the browser, and screens of people who are logged in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from browser import Screen, chromium
from page_server import PASSWORD, PageServer
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def screens(browser: Browser, server: PageServer) -> Iterator[Callable[..., Screen]]:
    """Makes a Screen of somebody who is logged in at the module's `server`; at the end none of them may have noted a
    fault but that a killed server does not answer.
    """
    opened: list[Screen] = []

    def screen(name: str, **options: int | str) -> Screen:
        opened.append(Screen(browser, server.address, **options))  # type: ignore[arg-type]
        opened[-1].log_in(name, PASSWORD)
        return opened[-1]

    yield screen
    for each in opened:
        each.context.close()
    assert [fault for each in opened for fault in each.faults if "ERR_CONNECTION_REFUSED" not in fault] == []
