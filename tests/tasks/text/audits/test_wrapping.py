"""Texts in a preamble, a fence, JSON or quotes, and texts that only look so: by hand, and of real people."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import paths
import pytest

from tasks.text.audits.wrapping import wrapped

SITES = paths.REAL_DATA / "stackexchange"
LINES = [
    line
    for name in ("wrapped.tsv", "wrapped_held_out.tsv")
    for line in (paths.TEST_DATA / name).read_text("utf-8").splitlines()
]
PROSE = "Tin melts at 232 degrees, and lead at 327. Both are soft, so keep them apart."


@pytest.mark.parametrize("line", LINES)
def test_what_a_text_is_wrapped_in_is_told(line: str) -> None:
    label, text = line.split("\t", 1)
    assert (wrapped(text.replace("\\n", "\n")) or "plain") == label


def test_json_fences_and_quotes_around_any_prose_are_found() -> None:
    assert wrapped(PROSE) is None
    assert wrapped(json.dumps({"answer": PROSE}, indent=2)) == "JSON"
    assert wrapped(f"```json\n{json.dumps({'answer': PROSE})}\n```\n") == "JSON"
    assert wrapped(f"\n````\n{PROSE}\n````") == "a code fence"
    assert wrapped(f'"{PROSE}"') == wrapped(f"“{PROSE}”") == "quotation marks"


@pytest.mark.parametrize("text", ["", " ", '"', "```", "```\n```", "{}", "[]", "{", '{"answer": ""}', '["a b"]'])
def test_next_to_nothing_is_not_wrapped(text: str) -> None:
    assert wrapped(text) is None


@pytest.mark.parametrize("unit", ["\n", "here is the ", "(", "```\n", '{"a":', "\n\nchanges:\n", "a\n\n", '"'])
def test_no_text_makes_the_search_slow(unit: str) -> None:
    started = time.perf_counter()
    wrapped(unit * 50_000)
    assert time.perf_counter() - started < 0.5


def test_answers_of_real_people_are_not_wrapped() -> None:
    if not SITES.exists():
        pytest.skip("the sites are not here")
    texts = [
        unescape(re.sub("<[^>]+>", "", unescape(body)))
        for path in sorted(SITES.glob("*_20*/Posts.xml"))
        for body in re.findall(r'PostTypeId="2"[^>]*? Body="([^"]*)"', path.read_text("utf-8-sig"))
    ]
    assert len(texts) > 1_900
    assert [text for text in texts if wrapped(text) and not text.startswith("Good question! ")] == []


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_bare_fence_around_a_paragraph_with_references_is_found_and_one_around_indexed_code_is_not(
    fence: str,
) -> None:
    cited = "Wax keeps jars closed [0]. Lids of tin do so too [1][2], and cloth does not [3, 5-7]."
    assert wrapped(f"{fence}\n{cited}\n{fence}") == "a code fence"
    code = "first = rows[0]\nlast = rows[1]  # Take the last one of them.\nprint(first[2], last[3])"
    assert wrapped(f"{fence}\n{code}\n{fence}") is None
