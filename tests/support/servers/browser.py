"""A real Chromium, with pages that note every console message, error and request to another host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

SERIOUS = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; the test is skipped where it is not installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Screen:
    """One person's browser at a page. `faults`: what no page may do."""

    def __init__(self, browser: Browser, address: str, width: int = 1_280, height: int = 800, scheme: Any = "light"):
        self.context = browser.new_context(
            base_url=address, viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self._host = urlsplit(address).netloc
        self.page.on("console", self._read)
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        self.page.on("request", lambda request: self._note(self._foreign(request.url), request.url))

    def _read(self, message: ConsoleMessage) -> None:
        self._note(message.type in ("error", "warning"), f"{message.text} {message.location.get('url')}")

    def _note(self, wrong: bool, text: str) -> None:
        self.faults += [text] if wrong else []

    def _foreign(self, url: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != self._host

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, text: str) -> None:
        self.page.keyboard.type(text)

    def focused(self) -> str:
        """The name, else the text, of what has the focus."""
        return str(self.page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))

    def tab_to(self, name: str, most: int = 80) -> None:
        """Press Tab until what has this name or text has the focus."""
        for _ in range(most):
            if self.focused() == name:
                return
            self.press("Tab")
        raise AssertionError(f"no Tab reaches {name}; the focus is on {self.focused()}")

    def has_focus(self, selector: str) -> None:
        """Wait until what this CSS selector finds has the focus, as a page gives it when it is there."""
        self.page.wait_for_function("selector => document.activeElement.matches(selector)", arg=selector)

    def log_in(self, name: str, password: str) -> None:
        """Log in by the keyboard alone, at the page that asks for it."""
        self.page.goto("/work")
        self.has_focus("#name")
        self.write(name)
        self.press("Tab")
        self.write(password)
        self.press("Enter")
        self.page.wait_for_selector("form.who")

    def is_wider_than_the_screen(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    def accessibility_faults(self) -> list[str]:
        """What axe-core finds serious on this page."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {node['html'][:120]}"
            for each in found
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]
