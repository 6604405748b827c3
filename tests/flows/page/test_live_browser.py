"""Live sessions of KIWI in a real browser, by the keyboard alone, with the server killed in the middle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Screen
from page_server import PageServer, add_account, served
from pages import built

from flows.kiwi import KiwiConfig

pytestmark = pytest.mark.check

BUILD = "longform build kiwi --set turns=0 --set generate=false --set sessions=[]"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    built(BUILD, KiwiConfig, folder)
    for name, role in (("ann", "annotator"), ("bob", "annotator"), ("cat", "annotator"), ("root", "administrator")):
        add_account(folder / "data", name, role, f"p-{name}")
    return folder / "data"


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[PageServer]:
    with served(home) as found:
        yield found


def begin(screen: Screen) -> str:
    """Begin a session by the keyboard; its address."""
    screen.tab_to("Research answers, live")
    screen.press("Enter")
    screen.page.wait_for_url("**/work/live")
    screen.has_focus(".head button")
    screen.press("Enter")
    screen.page.wait_for_url("**/work/live/*")
    return screen.page.url


def ask(screen: Screen, instruction: str, kind: str) -> None:
    screen.has_focus("#instruction")
    screen.write(instruction)
    screen.tab_to("kind")
    screen.press(kind)
    screen.press("Control+Enter")
    screen.page.wait_for_selector("form[aria-label='Your rating']")


def rate(screen: Screen, key: str, comment: str) -> None:
    screen.has_focus("input[name=rating]")
    screen.press(key)
    screen.tab_to("comment")
    screen.write(comment)
    screen.press("Control+Enter")
    screen.page.wait_for_selector("textarea#instruction")


def test_a_session_by_the_keyboard_is_there_after_a_kill_and_read_by_the_next_build(
    screens: Any, server: PageServer, home: Path
) -> None:
    ann = screens("ann")
    address = begin(ann)
    first = ann.page.inner_text("section[aria-label='Answer as it stands'] .text")
    ask(ann, "Add what pressure gauges or thermometers cost.", "1")
    revised = ann.page.inner_text("#revision")
    assert revised != first
    assert re.search(r"\[[5-9]\]", revised), "references go on behind those of the first answer"
    assert "offline" not in ann.page.content(), "models are hidden"

    assert server.kill() == -9
    server.start()
    ann.page.goto(address)
    assert ann.page.inner_text("#revision") == revised, "the turn was kept"
    rate(ann, "1", "It says what they cost.")
    ask(ann, "Shorten the answer to about half of its length.", "2")
    short = ann.page.inner_text("#revision")
    assert len(short) < len(revised)
    ann.has_focus("input[name=rating]")
    ann.press("2")
    ann.press("Control+Enter")
    ann.page.wait_for_selector("#comment-error")
    ann.write("Too much is gone.")
    ann.tab_to("edited")
    ann.press("Control+End")
    ann.write(" And more.")
    ann.press("Control+Enter")
    ann.page.wait_for_selector("textarea#instruction")
    assert ann.page.inner_text("section[aria-label='Answer as it stands'] .text").endswith("And more.")
    ann.tab_to("I am content: finish the session")
    ann.press("Enter")
    ann.page.wait_for_selector(".note.good")

    (file,) = (home / "page" / "kiwi").glob("*.jsonl")
    session = json.loads(file.read_text())
    assert (session["annotator_id"], session["origin"], session["system"]) == ("p-ann", "page", "offline")
    assert [(turn["kind"], turn["rating"], turn["comment"]) for turn in session["turns"]] == [
        ("information", "good", "It says what they cost."),
        ("style", "neutral", "Too much is gone."),
    ]
    assert session["turns"][1]["edited"].endswith("And more.")
    assert session["turns"][1]["before"] == revised


def test_two_readers_at_once_never_have_the_same_question_with_the_same_model_and_nobody_twice(screens: Any) -> None:
    bob, cat = screens("bob"), screens("cat")
    addresses = {begin(bob), begin(cat)}
    assert len(addresses) == 2
    assert bob.page.inner_text("h1") != cat.page.inner_text("h1")
    cat.page.goto(bob.page.url)
    assert cat.page.locator("h1").inner_text() == "Not found"
    cat.faults[:] = [fault for fault in cat.faults if "404" not in fault]


@pytest.mark.parametrize(("width", "scheme"), [(1_280, "light"), (390, "dark")])
def test_no_page_of_a_session_has_a_serious_fault_or_is_wider_than_the_screen(
    screens: Any, width: int, scheme: str
) -> None:
    bob = screens("bob", width=width, scheme=scheme)
    bob.page.goto("/work/live")
    assert (bob.accessibility_faults(), bob.is_wider_than_the_screen()) == ([], False)
    begin_again = bob.page.locator(".head button")
    begin_again.click()
    bob.page.wait_for_url("**/work/live/*")
    assert (bob.accessibility_faults(), bob.is_wider_than_the_screen()) == ([], False)
    if bob.page.locator("#instruction").count():
        ask(bob, "Give an example with figures.", "1")
    assert (bob.accessibility_faults(), bob.is_wider_than_the_screen()) == ([], False)


def test_what_is_written_is_there_after_a_reload_and_a_kill(screens: Any, server: PageServer) -> None:
    cat = screens("cat")
    address = begin(cat)
    cat.has_focus("#instruction")
    with cat.page.expect_response("**/draft"):
        cat.write("Say more on the door.")
    with cat.page.expect_response("**/draft"):
        cat.tab_to("kind")
        cat.press("2")
    assert server.kill() == -9
    server.start()
    cat.page.goto(address)
    assert cat.page.input_value("#instruction") == "Say more on the door."
    assert cat.page.is_checked("input[name=kind][value=style]")
    cat.press("Control+Enter")
    cat.page.wait_for_selector("form[aria-label='Your rating']")
    with cat.page.expect_response("**/draft"):
        cat.press("3")
    with cat.page.expect_response("**/draft"):
        cat.tab_to("comment")
        cat.write("Nothing on the door.")
    cat.page.reload()
    assert cat.page.is_checked("input[name=rating][value=bad]")
    assert cat.page.input_value("#comment") == "Nothing on the door."
