"""Notices in place of a text are known; texts that mention what such notices say are not."""

from __future__ import annotations

import json

import paths
import pytest

from tasks.sources.web.walls import LONGEST, wall_of

OTTER = "The granite otter lives near the harbour and eats maple seeds in winter, as field work in 1987 showed. "


@pytest.mark.parametrize(
    ("title", "text", "kind"),
    [
        (
            "Page not found",
            "Sorry, the page you requested could not be found. 404 error. Please go back to the home page.",
            "page not found",
        ),
        (
            "Oops!",
            "404\nThe page you are looking for doesn’t exist.\nTry searching, or check the URL.",
            "page not found",
        ),
        ("Page not found - Example", "Page not found", "page not found"),
        ("Seite nicht gefunden", "Die Seite konnte nicht gefunden werden. Zur Startseite.", "page not found"),
        ("Erreur", "Cette page n’existe pas. Retour à la page d’accueil.", "page not found"),
        ("Error", "Página no encontrada. Volver a la página de inicio.", "page not found"),
        ("ページが見つかりません", "お探しのページが見つかりません。", "page not found"),
        (
            "Before you continue",
            "We value your privacy. Accept all cookies to continue. We and our 812 partners store and access "
            "information on a device.",
            "cookie wall",
        ),
        ("Datenschutz", "Wir verwenden Cookies. Alle Cookies akzeptieren. Nur mit Ihrer Einwilligung.", "cookie wall"),
        (
            "T",
            "The granite otter ... Subscribe to continue reading. This article is for subscribers only. Already a "
            "subscriber? Log in.",
            "paywall",
        ),
        ("Le loutre", "Article réservé aux abonnés. Déjà abonné ? Choisissez un abonnement.", "paywall"),
        (
            "Just a moment...",
            "Checking your browser before accessing. Enable JavaScript and cookies to continue. Just a moment...",
            "bot check",
        ),
        (
            "Access Denied",
            "You don't have permission to access this page on this server. Reference #18.2f",
            "bot check",
        ),
    ],
)
def test_a_notice_in_place_of_a_text_is_known_by_its_kind(title: str, text: str, kind: str) -> None:
    found = wall_of(title, text)
    assert found is not None
    assert found.kind == kind
    assert wall_of(title, f"{text}\n\n{text}") == found


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Otters", OTTER),
        ("Otters", f"{OTTER}{OTTER}We use cookies and other means. Accept all cookies."),
        ("Otters", f"{OTTER * 3}Subscribe to continue reading. Already a subscriber? Log in."),
        ("404: the otters of room 404", OTTER * 2),
        ("Page not found errors", f"{OTTER}A 404 error is sent where a page does not exist. {OTTER}{OTTER}"),
        (
            "How to accept cookies",
            "A cookie is a biscuit. Bake it for ten minutes. Eat it with milk from a cold glass.",
        ),
        ("Captchas", "A captcha asks whether you are human. It was made in 2000. Its name is a contrived acronym."),
        (
            "HTTP 404",
            "The server sends this status where it finds nothing at an address. It was among the first of 1992. "
            "Some call a person who is clueless so. A page not found is the commonest error of the web.",
        ),
        ("Privacy law", "Accept all cookies. " * 80),
        (None, "Tin."),
    ],
)
def test_a_text_that_mentions_such_things_stays(title: str | None, text: str) -> None:
    assert wall_of(title, text) is None


def test_a_long_text_is_never_a_notice() -> None:
    text = "Page not found. " * (LONGEST // 16 + 1)
    assert wall_of("Page not found", text) is None


PAGES = [json.loads(line) for line in (paths.TEST_DATA / "web" / "walls.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=[f"{row['kind'] or 'article'}: {row['text'][:30]}" for row in PAGES])
def test_notices_and_articles_about_them_are_told_apart_in_ten_languages(page: dict[str, str]) -> None:
    found = wall_of(page["title"], page["text"])
    assert (found and found.kind) == page["kind"]


def test_what_an_article_quotes_tells_nothing() -> None:
    quoted = "The banner says “We value your privacy. Accept all cookies.” and the button “I agree”."
    assert wall_of("Banners", quoted) is None
    assert wall_of("Banners", "We value your privacy. Accept all cookies.") is not None
