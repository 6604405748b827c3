"""Look in a browser: with the keyboard alone, at the widths of a phone and a desk, as axe and the console see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from look_homes import SCRIPT, axioms_home, made_version
from page_server import served
from playwright.sync_api import Browser, Page, expect

from flows.inspection.tracing import example_row_id
from longform.artifacts.versions import find

pytestmark = pytest.mark.check

V = "/datasets/axioms/v2"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = axioms_home(tmp_path_factory.mktemp("home"))
    made_version(home, [{"pair_id": SCRIPT, "text": SCRIPT * 9, SCRIPT: SCRIPT}], "strange", number=9)
    made_version(home, [{"pair_id": "p", "text": "t"}], "broken", offline="no")
    with served(home) as server:
        yield server.address


@pytest.fixture
def page(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of a width (by parameter, else a desk's) on which nothing goes wrong: no error, no other host."""
    width, scheme = getattr(request, "param", (1280, "light"))
    context = browser.new_context(viewport={"width": width, "height": 900}, base_url=address, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda sent: None if sent.url.startswith((address, "data:")) else wrong.append(sent.url))
    yield page
    context.close()
    assert wrong == []


def tab_to(page: Page, name: str | re.Pattern[str], most: int = 60) -> None:
    """Press Tab until what has the focus bears this name or text."""
    for _ in range(most):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "() => { const e = document.activeElement; const l = e.labels && e.labels[0];"
            " return (e.getAttribute('aria-label') || (l && l.innerText) || e.innerText || '').trim() }"
        )
        if said == name if isinstance(name, str) else name.search(said):
            return
    raise AssertionError(f"no Tab leads to {name}")


def enter(page: Page) -> None:
    """Press Enter, and wait for the page that it leads to."""
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_from_the_start_page_to_the_trace_of_a_row_by_keyboard(page: Page) -> None:
    page.goto("/datasets/axioms/v2")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.goto("/")
    tab_to(page, "All versions of axioms")
    enter(page)
    tab_to(page, "v2")
    enter(page)
    tab_to(page, "Rows")
    enter(page)
    expect(page.locator("tbody tr")).not_to_have_count(0)
    tab_to(page, re.compile(r"^p_[0-9a-f]{20}$"), most=90)
    key = page.locator(":focus").inner_text()
    enter(page)
    expect(page.get_by_role("heading", level=1)).to_have_text(key)
    expect(page.locator("#trace")).to_contain_text("read_posts")


def test_rows_are_filtered_sorted_and_turned_by_keyboard(page: Page) -> None:
    page.goto(f"{V}/rows/pairs/train")
    tab_to(page, "Filter by")
    page.keyboard.type("axiom")
    page.keyboard.press("Tab")
    page.keyboard.type("is exactly")
    page.keyboard.press("Tab")
    page.keyboard.type("1")
    enter(page)
    expect(page.get_by_label("Filters that are set")).to_contain_text("axiom is exactly “1”")
    tab_to(page, "margin")
    enter(page)
    assert shown(page, "margin") == sorted(shown(page, "margin"))
    tab_to(page, re.compile("^margin"))
    enter(page)
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("margin")
    assert shown(page, "margin") == sorted(shown(page, "margin"), reverse=True)
    assert set(shown(page, "axiom")) == {1.0}
    tab_to(page, "Next")
    enter(page)
    expect(page.get_by_label("Pages, above")).to_contain_text("Page 2 of")
    tab_to(page, re.compile("^axiom is exactly"))
    enter(page)
    expect(page.get_by_label("Filters that are set")).to_have_count(0)
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("margin")


def shown(page: Page, column: str) -> list[float]:
    names = [text.split()[0] for text in page.locator("thead th").all_inner_texts()]
    cells = page.locator(f"tbody tr > :nth-child({names.index(column) + 1})").all_inner_texts()
    return [float(text) for text in cells]


def test_two_versions_are_compared_by_keyboard(page: Page) -> None:
    page.goto("/")
    tab_to(page, "Compare versions")
    enter(page)
    tab_to(page, "Before")
    page.keyboard.type("axioms@v1")
    page.keyboard.press("Tab")
    page.keyboard.type("axioms@v2")
    page.keyboard.press("Tab")
    enter(page)
    expect(page.get_by_role("region", name="Settings that differ")).to_contain_text("neighbours")
    expect(page.get_by_role("region", name="Rows by split")).to_contain_text("train")


def test_a_box_of_the_drawing_leads_to_its_stage_and_on_to_what_it_left_out(page: Page) -> None:
    page.goto(f"{V}/stages")
    page.locator("svg .box", has_text="select_questions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("select_questions")
    page.get_by_role("link", name="Rows it left out").click()
    expect(page.locator("article.left").first).to_contain_text("select_questions")


PLACES = [
    "/",
    "/datasets/axioms",
    V,
    f"{V}/stages",
    f"{V}/stages/answer_open_book",
    f"{V}/stages/join_threads/rows",
    f"{V}/report",
    f"{V}/rows/pairs/train?column=axiom&how=least&value=1&q=a&sort=margin",
    f"{V}/row?id=EXAMPLE",
    f"{V}/left-out",
    "/compare?a=axioms@v1&b=axioms@v2",
    "/runs",
    "/datasets/axioms/strange/rows",
    "/datasets/axioms/strange/report",
]


@pytest.mark.parametrize("page", [(1280, "light"), (390, "dark"), (1920, "light")], indirect=True)
def test_pages_fit_their_width_and_axe_finds_nothing_serious(page: Page, address: str, home_of: Path) -> None:
    example = example_row_id(find(home_of, "axioms@v2"))
    for place in PLACES:
        page.goto(place.replace("EXAMPLE", example))
        for fold in page.locator("details").all()[:12]:
            fold.evaluate("e => e.open = true")
        width = page.viewport_size["width"] if page.viewport_size else 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        serious = [
            f"{found['id']}: {found['nodes'][0]['html'][:200]}"
            for found in violations(page)
            if found["impact"] in ("serious", "critical")
        ]
        assert serious == [], place
        assert page.evaluate(
            "document.images.length == [...document.images].filter(i => !i.complete || i.naturalWidth).length"
        )


@pytest.fixture
def home_of(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the server."""
    return next(path for path in tmp_path_factory.getbasetemp().glob("home*") if (path / "datasets").exists())


def violations(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return found


def test_a_strange_text_is_read_not_run(page: Page) -> None:
    page.goto("/datasets/axioms/strange/rows")
    page.get_by_role("rowheader").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(SCRIPT)
    page.goto("/datasets/axioms")
    expect(page.get_by_text("broken cannot be shown")).to_be_visible()


@pytest.mark.parametrize("page", [(390, "light"), (800, "light"), (1280, "dark")], indirect=True)
def test_a_drawing_begins_at_its_first_stage(page: Page) -> None:
    page.goto(f"{V}/stages")
    first, area = page.locator(".drawing .box").first.bounding_box(), page.locator(".drawing").bounding_box()
    assert first
    assert area
    assert area["x"] <= first["x"]
    assert first["x"] + first["width"] <= area["x"] + area["width"]
