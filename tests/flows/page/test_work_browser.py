"""People at work in a real browser, by the keyboard alone: claims, preferences, reviews, with kills in between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Screen
from page_server import PageServer, add_account, open_form, served
from pages import built
from playwright.sync_api import Browser, expect

from flows.expertqa import ExpertqaConfig
from flows.llmcrit import LLMCritConfig
from flows.revision_distance import RevisionDistanceConfig

pytestmark = pytest.mark.check

MODELS: dict[str, Any] = {
    "expertqa": ExpertqaConfig,
    "revision-distance": RevisionDistanceConfig,
    "llmcrit": LLMCritConfig,
}
FORMS = {"expertqa": None, "revision-distance": None, "llmcrit": "criteria"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with versions built from the samples, whose forms are open, and accounts."""
    folder = tmp_path_factory.mktemp("people")
    for dataset, model in MODELS.items():
        built(f"longform build {dataset}", model, folder)
    home = folder / "data"
    for name, role in (("ann", "annotator"), ("bob", "annotator"), ("eve", "annotator"), ("root", "administrator")):
        add_account(home, name, role, f"p-{name}")
    for dataset, form in FORMS.items():
        open_form(home, dataset, form, overlap=1, seed=7)
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[PageServer]:
    with served(home) as found:
        yield found


def begin(screen: Screen, title: str) -> str:
    """Open a form by the keyboard and get a task of it; its address."""
    screen.tab_to(title)
    screen.press("Enter")
    screen.page.wait_for_url("**/rounds/*")
    screen.has_focus(".head button")
    screen.press("Enter")
    screen.page.wait_for_url("**/tasks/*")
    return screen.page.url


def saved(screen: Screen) -> None:
    expect(screen.page.locator("#saved")).to_have_text("Saved")


def killed(server: PageServer, *screens: Screen) -> None:
    """Kill the server when no page is still being loaded, which a browser would call an error."""
    for screen in screens:
        screen.page.wait_for_load_state("networkidle")
    assert server.kill() == -9


def exported(home: Path, dataset: str, *words: str) -> list[dict[str, Any]]:
    to = home / f"{dataset}.jsonl"
    program = str(Path(sys.executable).with_name("longform"))
    command = [program, "annotations", "export", dataset, "--to", str(to), "--home", str(home), *words]
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0
    return [json.loads(line) for line in to.read_text().splitlines()]


def test_claims_are_annotated_by_two_at_once_and_a_kill_loses_nothing(
    screens: Any, server: PageServer, home: Path
) -> None:
    ann, bob = screens("ann"), screens("bob")
    anns, bobs = begin(ann, "expertqa"), begin(bob, "expertqa")
    assert anns != bobs
    assert ann.page.inner_text(".task-texts") != bob.page.inner_text(".task-texts")

    ann.press("2")  # how far the evidence supports the first claim
    ann.write("The year.")  # the focus went on to what is missing
    saved(ann)
    killed(server, ann, bob)
    server.start()
    ann.page.reload()
    assert ann.page.input_value("textarea[name='0.reason_missing_support']") == "The year."
    assert ann.page.is_checked("input[name='0.support'][value='Partial']")

    claims = ann.page.locator("section.split").count()
    for claim in range(claims):
        for field in ("support", "informativeness", "worthiness", "correctness", "reliability"):
            ann.tab_to(f"{claim}.{field}")
            ann.press("2" if field == "support" and claim == 0 else "1")
    ann.tab_to("task.usefulness")
    ann.press("1")
    ann.page.wait_for_timeout(1_100)  # a second that counts as time spent
    ann.press("Control+Enter")
    ann.page.wait_for_url(lambda url: "/tasks/" in url and url != anns)

    killed(server, ann, bob)
    server.start()
    (row,) = exported(home, "expertqa")
    assert (row["annotator_id"], row["usefulness"]) == (
        "p-ann",
        "Very useful" if "Very useful" in row["ratings"]["usefulness"] else row["ratings"]["usefulness"][0],
    )
    assert [claim["support"] for claim in row["claims"]] == ["Partial", *["Complete"] * (claims - 1)]
    assert row["claims"][0]["reason_missing_support"] == "The year."
    assert row["annotation_time"] >= 1
    bob.page.reload()
    assert bob.page.url == bobs
    assert bob.page.locator("h1").is_visible()


def test_a_preference_is_given_by_digits_and_the_enter_key(screens: Any, home: Path) -> None:
    ann = screens("ann")
    first = begin(ann, "revision-distance")
    ann.press("2", "4", "5", "3", "3", "2", "1")
    ann.press("Enter")
    ann.page.wait_for_url(lambda url: url != first)
    (row,) = exported(home, "revision-distance")
    assert row["better"] == "B"
    rated = [row[f"{name}_{side}"] for name in ("content", "structure", "argument") for side in "ab"]
    assert rated == [4, 5, 3, 3, 2, 1]


def test_a_review_that_contradicts_itself_is_told_so_at_its_place(screens: Any, home: Path) -> None:
    ann = screens("ann")
    first = begin(ann, "llmcrit · criteria")
    items = ann.page.locator("section.split").count()
    for item in range(items):
        ann.tab_to(f"{item}.verdict")
        ann.press("1" if item else "2")
    ann.press("Control+Enter")
    ann.page.wait_for_selector("#wrong")
    assert "an edit without a new text" in ann.page.locator("section.split").first.inner_text()
    ann.tab_to("0.new_check")
    ann.write("Is the year given?")
    ann.press("Control+Enter")
    ann.page.wait_for_url(lambda url: url != first)
    (row,) = exported(home, "llmcrit", "--form", "criteria")
    assert [each["verdict"] for each in row["criteria"]] == ["edit", *["accept"] * (items - 1)]
    assert row["criteria"][0]["new_check"] == "Is the year given?"


def test_a_skipped_task_stays_in_the_list_and_writing_is_never_taken_for_a_choice(screens: Any) -> None:
    bob = screens("bob")
    first = begin(bob, "revision-distance")
    bob.press("1", "1")
    saved(bob)
    bob.tab_to("do")
    bob.press("Enter")
    bob.page.wait_for_url(lambda url: url != first)
    bob.page.goto(first)
    assert bob.page.is_checked("input[name='task.better'][value='A']")


def pages_of(screen: Screen, name: str) -> Iterator[str]:
    """Goes to each page of somebody's, and yields its address."""
    screen.page.goto("/work")
    yield screen.page.url
    links = [link.get_attribute("href") for link in screen.page.query_selector_all("main h2 a, main th a")]
    for link in links:
        screen.page.goto(str(link))
        yield screen.page.url
        if name != "root":
            screen.page.click(".head button")
            screen.page.wait_for_url("**/tasks/*")
            yield screen.page.url
            screen.press("Control+Enter")
            screen.page.wait_for_selector("#wrong")
            yield screen.page.url


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1_280, 800), (1_920, 1_080)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["eve", "root"])
def test_no_page_has_a_serious_fault_or_scrolls_sideways(
    screens: Any, browser: Browser, server: PageServer, name: str, scheme: str, width: int, height: int
) -> None:
    before = Screen(browser, server.address, width, height, scheme)
    before.page.goto("/work/log-in")
    assert (before.accessibility_faults(), before.is_wider_than_the_screen(), before.faults) == ([], False, [])
    before.context.close()
    screen = screens(name, width=width, height=height, scheme=scheme)
    found = {url: (screen.accessibility_faults(), screen.is_wider_than_the_screen()) for url in pages_of(screen, name)}
    assert {url: faults for url, faults in found.items() if faults != ([], False)} == {}
    assert len(found) >= 4
