"""Texts that break off in the middle of a sentence, and texts that only end without one."""

from __future__ import annotations

import re
from html import unescape

import paths
import pytest

from tasks.text.audits.endings import unfinished

SITES = paths.REAL_DATA / "stackexchange"
PROSE = "Tin melts at 232 degrees, and lead at 327. Both are soft, so keep them apart from each other in the store."


@pytest.mark.parametrize(
    "text",
    [
        f"{PROSE} Careful records reduce errors that arise from haste, whi",
        f"{PROSE}\n\nCareful records of each cask reduce errors that arise from",
        f"{PROSE} Careful records reduce errors [2], and they also save time,",
        f"{PROSE} These are the metals that can be used for this:",
        "Les registres évitent des erreurs. Ils permettent aussi de gagner du temps, parce que chaque tonneau est",
        "锡在二百三十二度熔化。铅在三百二十七度熔化，因此在仓库里应当把它们分开存",
    ],
)
def test_a_text_that_stops_in_a_sentence_breaks_off(text: str) -> None:
    assert unfinished(text)
    assert not unfinished(PROSE)


ENDS = (
    *(
        "",
        " [3]",
        " [1][2]",
        " (Passage 4)",
        ' He said "so it is."',
        " So it is!**",
        " As follows, see `tin.txt`",
        " 17 °C",
    ),
    *("\n\n## What else one may want to know about tin and lead", "\n| tin | lead | zinc and | the | other | metals"),
    *("\n- a list of metals that are soft and melt early on", "\n3. a list of metals that are soft and melt early on"),
    *("\n> the tin that is in the store and the lead that is not", "\n\nKind regards\nTom of the tin works", " 😀"),
    *("\n\nSources and more on all of this: https://example.org/tin", "\n[3] Tin and lead, a book on the soft metals"),
    *("\n```\ntin and lead and zinc and all of the other\n```", "\n\nDr Tom Lang, Cornwall"),
    "\n\n    the indented code of a text that goes on here",
)


@pytest.mark.parametrize("end", ENDS)
def test_titles_lists_tables_quotations_code_and_citations_may_end_a_text(end: str) -> None:
    assert not unfinished(PROSE + end)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A study of the tin that was mined in Cornwall before the war",
        "The valve wears out first\nand then the seal that is below it\nand then the tap that no one ever opens now",
        "ดีบุกหลอมเหลวที่อุณหภูมิต่ำ. ตะกั่วหลอมเหลวช้ากว่า จึงควรเก็บแยกกัน ใน คลัง สินค้า ของ โรงงาน เก่า ริม แม่น้ำ",
    ],
)
def test_texts_without_any_end_of_a_sentence_are_not_judged(text: str) -> None:
    assert not unfinished(text)


def test_few_answers_of_real_people_break_off_and_most_of_them_do_when_cut() -> None:
    if not SITES.exists():
        pytest.skip("the sites are not here")
    texts = [
        unescape(re.sub("<[^>]+>", "", unescape(body)))
        for path in sorted(SITES.glob("*_20*/Posts.xml"))
        for body in re.findall(r'PostTypeId="2"[^>]*? Body="([^"]*)"', path.read_text("utf-8-sig"))
    ]
    assert sum(map(unfinished, texts)) < 0.05 * len(texts)
    long = [text for text in texts if len(text) > 300]
    assert sum(unfinished(text[: len(text) * 6 // 10]) for text in long) > 0.6 * len(long)
