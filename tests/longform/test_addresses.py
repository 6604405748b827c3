"""Users and passwords leave addresses, and nothing else leaves a text."""

from __future__ import annotations

import time

import pytest

from longform.addresses import without_logins, without_logins_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:secret@a.example/x", "https://a.example/x"),
        ("See [1](HTTP://user:secret@a.example:8080/x?q=1).", "See [1](HTTP://a.example:8080/x?q=1)."),
        ("https://secret@a.example", "https://a.example"),
        ("https://user:s@e:cret@a.example/@b", "https://a.example/@b"),
        ("https://user:se/cr?et#@a.example/x", "https://a.example/x"),
        ("https://user:secret%40a.example/x", "https://a.example/x"),
        ("ftp://user:secret@a.example and https://b:secret@c.example.", "ftp://a.example and https://c.example."),
        ("https://a.example/?next=https://user:secret@b.example/", "https://a.example/?next=https://b.example/"),
        ("<a href='https://user:secret@a.example'>x</a>", "<a href='https://a.example'>x</a>"),
    ],
)
def test_users_and_passwords_leave_addresses(text: str, expected: str) -> None:
    assert without_logins(text) == expected
    assert without_logins_in({"a": [text, 1, None]}) == {"a": [expected, 1, None]}


@pytest.mark.parametrize(
    "text",
    [
        "Write to a@b.example, or see https://a.example/@name and https://a.example:8080/@name.",
        "https://a.example/x?mail=a@b.example#c@d",
        "<https://a.example> or <a@b.example>; 100%40 https://a.example/%40x",
        "https://a.example\nc@d.example",
    ],
)
def test_mail_addresses_and_signs_in_paths_stay(text: str) -> None:
    assert without_logins(text) == text


def test_a_hostile_text_takes_little_time() -> None:
    started = time.process_time()
    assert without_logins("https://a:b" * 20_000 + "@").endswith("https://")
    for text in ("a:b@", "a:b%40", "a:/b@", "a:/", "@"):
        without_logins("https://" + text * 20_000)
    assert time.process_time() - started < 10
