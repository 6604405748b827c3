"""PDFs without a server: the real two against their TEI, made ones, and those that mean harm."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import paths
import psutil
import pytest
from toy_stages import building, rejected_by

from flows.sources import papers
from longform.artifacts.rows import Row, Rows
from longform.errors import UsageError
from tasks.sources.files.bundles import Member
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers.pdf import lines as pdf_lines
from tasks.sources.papers.pdf.citations import Bibliography, entry_of
from tasks.sources.papers.pdf.layout import Line, lines_of, with_ligatures, without_running_heads
from tasks.sources.papers.pdf.paper import paper_of
from tasks.sources.papers.pdf.pdfium import Pdfium, Reader
from tasks.sources.papers.tei import paper_of as paper_of_tei

SAMPLES = paths.SAMPLES / "papers"
REAL = paths.REAL_DATA / "grobid_tei"

Read = Callable[[bytes], Row]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with closing(Reader(Pdfium(pages=50, seconds=600), tmp_path_factory.mktemp("reader"))) as reader:
        yield reader


def told(reader: Reader, content: bytes) -> Row | UnreadableError:
    return reader.paper(Member("a.pdf", "0" * 64, content, None, None if content else "empty file"))


def read(reader: Reader, content: bytes) -> Row:
    row = told(reader, content)
    assert isinstance(row, dict), row
    return row


def reason(reader: Reader, content: bytes) -> str:
    error = told(reader, content)
    assert isinstance(error, UnreadableError), error
    return error.reason


def heads(row: Row) -> list[tuple[str | None, str | None, str | None]]:
    return [(section["number"], section["head"], section["role"]) for section in row["sections"]]


def texts(row: Row, section: int | None) -> list[str]:
    return [row["text"][p["start"] : p["end"]] for p in row["paragraphs"] if p["section"] == section]


def check_offsets(row: Row) -> None:
    end = 0
    for paragraph in row["paragraphs"]:
        assert end <= paragraph["start"] < paragraph["end"] <= len(row["text"])
        end = paragraph["end"]
    for section in row["sections"]:
        assert row["text"].startswith(section["head"] or "", section["start"])


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[a-z]{3,}", text.lower()))


# ---------------------------------------------------------------- real papers


@pytest.mark.parametrize(
    ("name", "related", "least"), [("N18-3011", None, 0.95), ("2020.acl-main.207", ("7", "Related Work"), 0.95)]
)
def test_real_papers_read_like_their_tei(reader: Reader, name: str, related: Any, least: float):
    if not REAL.exists():
        pytest.skip("the real papers are not beside the project")
    row = read(reader, (REAL / f"{name}.pdf").read_bytes())
    tei = paper_of_tei((REAL / f"{name}.tei.xml").read_bytes())
    check_offsets(row)
    assert row["title"] == tei["title"]
    assert ("1", "Introduction", "introduction") in heads(row)
    assert related is None or (*related, "related_work") in heads(row)
    numbered = {(number, head) for number, head, _ in heads(tei) if number and "ELMo" not in str(head)}
    assert numbered <= {(number, head) for number, head, _ in heads(row)}
    assert share(row["text"], tei["text"]) > least
    assert share(row["abstract"], tei["abstract"]) > 0.85
    assert len(row["bibliography"]) == len(tei["bibliography"])


def share(ours: str, theirs: str) -> float:
    """Of their words, how many ours has."""
    return (words(ours) & words(theirs)).total() / words(theirs).total()


# ---------------------------------------------------------------- our sample


def test_the_sample_has_heads_paragraphs_and_references(reader: Reader):
    row = read(reader, (SAMPLES / "walks.pdf").read_bytes())
    check_offsets(row)
    assert row["title"] == "Walks in the Rain: a Small Study of Wet Shoes"
    assert row["abstract"].startswith("Shoes get wet in the rain. We walked")
    assert heads(row) == [
        ("1", "Introduction", "introduction"),
        ("2", "Related Work", "related_work"),
        ("2.1", "Grease", "related_work"),
        ("3", "Walks", None),
        ("4", "Results", None),
        ("5", "Conclusion", None),
    ]
    assert [paragraph[:12] for paragraph in texts(row, 0)] == ["Whoever walk", "In this pape"]
    assert texts(row, 3)[1].endswith("We stepped into all of them, as a child would, and into each of them once.")
    assert "Journal of Invented Results, volume" not in row["text"]
    assert [entry["raw"][:7] for entry in row["bibliography"]] == ["C. Moss", "E. Reed", "D. Vale"]
    assert row["parser"].startswith("pdfium 5.")


# ---------------------------------------------------------------- layout, line by line


def page(*lines: tuple[str, float, bool, float], number: int = 0, size: float = 10.0) -> list[Line]:
    """Lines of (text, size, bold, left), 12 points apart."""
    return [
        Line(text, size or 10.0, bold, left, left + 200, 700.0 - 12 * n, number)
        for n, (text, size, bold, left) in enumerate(lines)
    ]


def by_page(*pages: Sequence[tuple[str, float, bool, float]]) -> list[Line]:
    """Lines of these pages; those that are there more than twice differ by a letter, or they were running heads."""
    lines = [line for number, lines in enumerate(pages) for line in page(*lines, number=number)]
    return [
        replace(line, text=re.sub(r"(?<=the )(?=field|kites)", f"{'abcdefg'[line.page]} ", line.text)) for line in lines
    ]


BODY = ("The wind blew over the field all day and we flew", 10.0, False, 72.0)
LAST = ("the kites until it was dark.", 10.0, False, 72.0)


def test_paragraphs_begin_where_a_line_is_indented():
    row = paper_of(page(("1 Introduction", 12, True, 72), BODY, BODY, ("It fell", 10, False, 82), BODY, BODY))
    assert len(texts(row, 0)) == 2


def test_words_broken_at_line_ends_are_whole_with_a_hyphen_only_where_the_paper_has_it():
    row = paper_of(
        page(
            ("1 Introduction", 12, True, 72),
            ("state-of-the-art kites need long exper\ufffeience, as state-of\ufffethe-art", 10, False, 72),
            ("tails do; well-known well\ufffeknown and seda-", 10, False, 72),
            ("tive winds", 10, False, 72),
        )
    )
    (text,) = texts(row, 0)
    assert "long experience" in text
    assert "well-known well-known" in text
    assert "sedative winds" in text


def test_running_heads_and_page_numbers_are_dropped():
    pages = [
        page(
            ("Kite Letters 2020", 8, False, 72),
            ("1 Introduction", 12, True, 72) if n == 0 else BODY,
            BODY,
            BODY,
            (f"{n}", 10, False, 72),
            number=n,
        )
        for n in range(4)
    ]
    row = paper_of([line for lines in pages for line in lines])
    assert "Kite Letters" not in row["text"]
    assert re.search(r"\d", row["text"]) is None


def test_captions_and_footnotes_stand_outside_the_sections():
    row = paper_of(
        page(
            ("1 Introduction", 12, True, 72),
            BODY,
            ("Figure 1: A kite.", 9, False, 72),
            ("the kites and then others in", 10, False, 72),
            ("1 See the field.", 8, False, 72),
            LAST,
        )
    )
    assert texts(row, None) == ["Figure 1: A kite.", "1 See the field."]
    assert len(texts(row, 0)) == 1


def test_sentences_in_bold_and_numbers_in_text_are_no_heads():
    row = paper_of(
        page(
            ("1 Introduction", 12, True, 72),
            BODY,
            ("All kites fell.", 10, True, 72),
            ("3 Kites flew away in the", 10, False, 72),
            BODY,
        )
    )
    assert len(heads(row)) == 1


@pytest.mark.parametrize("head", ["I. INTRODUCTION", "INTRODUCTION", "1. Introduction", "Introduction"])
def test_introductions_of_other_styles_are_found(head: str):
    row = paper_of(page((head, 10, False, 150), BODY, LAST, ("II. RELATED WORK", 10, False, 150), BODY, LAST))
    assert [role for _, _, role in heads(row)] == ["introduction", "related_work"]


def test_a_paper_without_heads_is_one_section():
    row = paper_of(page(BODY, BODY))
    assert heads(row) == [(None, None, None)]
    assert row["notes"] == ["no head found"]


def names(row: Row) -> list[str | None]:
    return [head for _, head, _ in heads(row)]


def test_bold_words_in_mid_sentence_are_no_head():
    row = paper_of(
        page(("1 Introduction", 12, True, 72), BODY, ("Kites and their tails", 10, True, 72), LAST, BODY, LAST)
    )
    assert names(row) == ["Introduction"]


def test_numbered_lists_in_bold_are_no_heads():
    items = [(f"{n}. Large kites help.", 10, True, 82) for n in (1, 2, 3)]
    sections = [
        (f"{n} {head}", 12, True, 72) for n, head in enumerate(("Introduction", "Kites", "Conclusion"), start=1)
    ]
    row = paper_of(page(sections[0], BODY, LAST, *items, LAST, sections[1], BODY, LAST, sections[2], BODY, LAST))
    assert names(row) == ["Introduction", "Kites", "Conclusion"]


@pytest.mark.parametrize(
    "line",
    [
        ("Related work is a column of our table.", 10, False, 72),
        ("1. Related work is compared by its yield.", 10, False, 82),
        ("Related Work 30.1 4", 10, True, 120),
    ],
)
def test_sentences_and_cells_are_no_related_work(line: tuple[str, float, bool, float]):
    gap = (" ", 4.0, False, 72.0)
    row = paper_of(page(("1 Introduction", 12, True, 72), BODY, LAST, gap, line, gap, BODY, LAST))
    assert {role for _, _, role in heads(row)} == {"introduction"}


def test_lettering_of_a_figure_is_no_head():
    figure = [
        ("Related Work", 10, True, 120),
        ("Kite, Line, Hand", 10, False, 120),
        ("Figure 1: Parts.", 10, False, 90),
    ]
    row = paper_of(page(("1 Introduction", 12, True, 72), BODY, LAST, *figure, BODY, LAST))
    assert names(row) == ["Introduction"]


def test_heads_that_look_like_related_work_end_it_and_smaller_ones_do_not():
    found = [("Introduction", 12), ("Related Work", 12), ("Old kites", 11), ("Kites as Sails", 12), ("Wings", 11)]
    row = paper_of(by_page(*(((head, size, True, 72), BODY, BODY, LAST) for head, size in found)))
    assert [role for _, _, role in heads(row)] == ["introduction", "related_work", "related_work", None, None]


def test_a_title_stands_below_the_number_of_its_chapter():
    first = (("Chapter 1", 20, True, 72), ("Introduction", 24, True, 72), BODY, BODY, LAST)
    row = paper_of(by_page(first, (("Chapter 2", 20, True, 72), ("Related Work", 24, True, 72), BODY, BODY, LAST)))
    assert heads(row) == [("1", "Introduction", "introduction"), ("2", "Related Work", "related_work")]


def test_a_head_that_runs_on_over_the_next_page_is_dropped():
    first = page(("3 Kites and Method", 14, True, 72), BODY, LAST)
    second = page(("12 CHAPTER 3. KITES AND METHOD", 10, False, 90), BODY, LAST, number=1)
    assert [line.page for line in without_running_heads([*first, *second])] == [0, 0, 0, 1, 1]


def test_an_appendix_that_looks_like_the_references_follows_them():
    heads_of_it = ("Introduction", "References", "Proofs of Flight")
    row = paper_of(by_page(*(((head, 12, True, 72), BODY, BODY, LAST) for head in heads_of_it)))
    assert names(row) == ["Introduction", "Proofs of Flight"]


def test_a_head_over_two_lines_is_one():
    two = [("2 Kites in the Wind and What", 12, True, 72), ("Becomes of Them", 12, True, 72)]
    row = paper_of(page(("1 Introduction", 12, True, 72), BODY, LAST, *two, BODY, LAST))
    assert names(row) == ["Introduction", "Kites in the Wind and What Becomes of Them"]


def test_roman_numbers_and_letters_below_them_are_heads():
    found = ("I. INTRODUCTION", "II. RELATED WORK", "III. KITES")
    row = paper_of(page(*(line for head in found for line in ((head, 10, False, 150), BODY, LAST))))
    assert heads(row) == [
        ("I", "INTRODUCTION", "introduction"),
        ("II", "RELATED WORK", "related_work"),
        ("III", "KITES", None),
    ]


def test_bookmarks_that_lie_make_no_heads():
    lines = page(("1 Introduction", 12, True, 72), BODY, LAST, ("2 Kites", 12, True, 72), BODY, LAST)
    assert names(paper_of(lines, [("A Lie", 0), (BODY[0], 0), (LAST[0], 0)])) == ["Introduction", "Kites"]


def test_related_work_over_most_of_a_paper_is_not_certain():
    long = [("Moss flew all the kites that there were in the field that year, one by one.", 10, False, 72)] * 90
    row = paper_of(page(("1 Introduction", 12, True, 72), BODY, LAST, ("2 Related Work", 12, True, 72), *long))
    assert [role for _, _, role in heads(row)] == ["introduction", None]


def test_citations_by_number_and_by_name_lead_to_their_entries():
    rows = [entry_of("b0", "[1] C. Moss. Kites. 2014. doi:10.1000/Kites."), entry_of("b1", "[2] E. Reed. Wind. 2015.")]
    assert [(row["year"], row["doi"]) for row in rows] == [(2014, "10.1000/kites"), (2015, None)]
    text = "As shown [1, 2], and by Reed (2015), not [7]."
    found = [(text[start:end], ref) for start, end, ref in Bibliography(rows).citations(text)]
    assert found == [("1", "b0"), ("2", "b1"), ("Reed (2015)", "b1"), ("7", None)]


def test_two_columns_row_by_row_are_read_column_by_column():
    rows = [
        [f"{side} {n}", 10.0, False, left, left + 200, 700.0 - 12 * n, "F", 700.0 - 12 * n]
        for n in range(20)
        for side, left in (("left", 60.0), ("right", 320.0))
    ]
    assert [line.text.split()[0] for line in lines_of(rows, 0)] == ["left"] * 20 + ["right"] * 20


def test_text_without_a_head_has_no_role():
    title = ("Kites over the Field", 17, False, 150)
    row = paper_of(page(title, ("Ann Moss", 12, False, 150), BODY, LAST, ("2 Results", 12, True, 72), BODY, LAST))
    assert heads(row)[0] == (None, None, None)
    assert not any(role for _, _, role in heads(row))


def test_a_title_is_no_introduction():
    title = ("An Introduction to Kites", 17, True, 72)
    row = paper_of(page(title, LAST, ("1 Introduction", 12, True, 72), BODY, LAST, ("2 Kites", 12, True, 72), BODY))
    assert row["title"] == "An Introduction to Kites"
    assert [head for head in heads(row) if head[2]] == [("1", "Introduction", "introduction")]


def authors(*below: tuple[str, float]) -> list[str]:
    front = [(text, size, False, 150.0) for text, size in (("Kites over the Field", 17.0), *below)]
    row = paper_of(page(*front, ("Abstract", 10, True, 150), LAST, ("1 Introduction", 12, True, 72), BODY, LAST))
    found: list[str] = row["authors"]
    return found


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ([("Ann Mossᵃ, C.D. Reedᵇ", 12), ("ᵃField School", 9)], ["Ann Moss", "C.D. Reed"]),
        ([("Ann Moss", 12), ("Field School", 9), ("Eve Vale", 12)], ["Ann Moss", "Eve Vale"]),
        ([("Ann Moss", 12), ("by the sea in the field", 12), ("Eve Vale", 12)], []),
        ([("Ann Moss", 12), ("Eve Vale, reed-of-kites", 12)], []),
        ([("Final Report", 12)], []),
        ([("American Kite Society", 12)], []),
    ],
)
def test_authors_are_all_or_none(below: list[tuple[str, float]], expected: list[str]):
    assert authors(*below) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("speci\x1cc e\x1ecient di\x1berent in\x1duence o\x1b \x1ct", "specific efficient different influence off fit"),
        ("\x1ax\x1b = \x1c 3", "\x1ax\x1b = \x1c 3"),
        ("dx\x1b", "dx\x1b"),
    ],
)
def test_ligatures_of_tex_are_letters_only_in_words(text: str, expected: str):
    assert with_ligatures(text) == expected


def test_a_title_in_small_capitals_over_two_lines_names_no_author():
    title = [
        Line("ON KITES", 17.2, False, 72, 300, 700, 0),
        Line("UNDER PARTIAL EVIDENCE", 13.8, False, 72, 300, 676, 0),
    ]
    body = [replace(line, top=line.top - 100) for line in page(("Abstract", 12, True, 72), BODY, LAST)]
    row = paper_of([*title, Line("Anonymous authors", 10, True, 72, 200, 640, 0), *body])
    assert (row["title"], row["authors"]) == ("ON KITES UNDER PARTIAL EVIDENCE", [])


def test_a_sentence_that_names_an_appendix_is_no_head():
    line = ("Appendix A provides more such templates.", 10, True, 72)
    assert names(paper_of(page(("1 Introduction", 12, True, 72), BODY, LAST, line, BODY, LAST))) == ["Introduction"]


def printed(*texts: str) -> list[Line]:
    return lines_of([[text, 10.0, False, 72.0, 300.0, 700.0 - 12 * n, "F", None] for n, text in enumerate(texts)], 0)


def test_text_of_glyphs_without_letters_is_refused():
    with pytest.raises(UnreadableError, match="unreadable text"):
        paper_of(printed("P❡♥❛❧✐③❡❞ ❧❡❛st sq✉❛r❡s", "\ue001\ue002\ue003 \ue004 as"))


def test_text_that_is_unreadable_in_part_is_said_and_makes_no_head():
    readable = [BODY[0], LAST[0]] * 4
    row = paper_of(printed(*readable, "1 \ue001\ue002 \ue003Introduction", *readable, "the\t\r kite\t\r in\t\r it"))
    assert row["notes"] == ["no head found", "text unreadable in part"]


# ---------------------------------------------------------------- made PDFs


def pdf(objects: list[bytes], root: int = 1) -> bytes:
    """A PDF of these objects, numbered from 1."""
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, root, start))


def with_stream(content: bytes, box: bytes = b"0 0 612 792", filters: bytes = b"") -> bytes:
    return pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>" % box,
            b"<</Length %d%s>>stream\n%s\nendstream" % (len(content), filters, content),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        ]
    )


TEXT = b"BT /F 12 Tf 72 700 Td (A kite flies.) Tj ET"


def made(number: int, **encryption: str) -> bytes:
    from io import BytesIO

    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    out = BytesIO()
    canvas = Canvas(out, encrypt=StandardEncryption(**encryption) if encryption else None)
    for n in range(number):
        canvas.drawString(72, 700, f"Page {n} of a kite's long life")
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def test_a_small_pdf_made_by_hand_is_read(reader: Reader):
    assert read(reader, with_stream(TEXT))["text"] == "A kite flies."


def test_a_page_as_large_as_a_country_is_read(reader: Reader):
    assert read(reader, with_stream(TEXT, box=b"0 0 2000000000 2000000000"))["text"] == "A kite flies."


def test_raised_letters_behind_names_are_superscripts(reader: Reader):
    raised = b"BT /F 12 Tf 72 700 Td (Ann Moss) Tj /F 7 Tf 5 Ts (a) Tj /F 12 Tf 0 Ts (, Eva Vale) Tj ET"
    assert read(reader, with_stream(raised))["text"] == "Ann Mossᵃ, Eva Vale"


KITES = "The wind blew over the field all day and we flew the kites"


def numbered_copy(step: int = 1, right: bool = False, listed: bool = False, pages: int = 2) -> bytes:
    """Pages of 40 lines, beside which their numbers stand, on every second page on the other side if there are more
    than two; `listed`: only eight lines of the first page have one, as in a table of ranks.
    """
    from io import BytesIO

    from reportlab.pdfgen.canvas import Canvas

    out = BytesIO()
    canvas, number = Canvas(out), 0
    for page_number in range(pages):
        on_right = right != (pages > 2 and page_number % 2 == 1)
        for row in range(40):
            y, number = 780 - 18 * row, number + 1
            canvas.setFont("Helvetica", 10)
            canvas.drawString(
                72,
                y,
                f"{number // 10} Introduction"
                if row == 9 and number < 40
                else f"{KITES} {chr(97 + number // 26)}{chr(97 + number % 26)}",
            )
            canvas.setFont("Helvetica", 6)
            if number % step == 0 and (not listed or 10 < number < 19):
                canvas.drawString(480, y, str(number)) if on_right else canvas.drawRightString(60, y, str(number))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


@pytest.mark.parametrize(("step", "right"), [(1, False), (1, True), (5, False), (5, True)])
def test_numbers_beside_the_lines_of_review_copies_are_left_out(reader: Reader, step: int, right: bool):
    row = read(reader, numbered_copy(step, right))
    assert words(row["text"])["kites"] == 79
    assert re.findall(r"\d+", row["text"]) == ["1"], "the number of the head stays"


def test_numbers_that_change_sides_from_page_to_page_are_left_out(reader: Reader):
    row = read(reader, numbered_copy(pages=17))
    assert re.findall(r"\d+", row["text"]) == ["1"]


def test_numbers_beside_a_few_lines_are_text(reader: Reader):
    assert set(map(str, range(11, 19))) <= set(re.findall(r"\d+", read(reader, numbered_copy(listed=True))["text"]))


LOOP = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 1000000>>"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", {"empty file"}),
        (b"Not a PDF at all", {"no PDF"}),
        (b"%PDF-1.7\n\0\0\0", {"broken PDF"}),
        (with_stream(TEXT)[:120], {"broken PDF", "no text"}),
        (pdf(LOOP), {"broken PDF", "too many pages", "no text"}),
        (with_stream(b""), {"no text"}),
        (with_stream(b"q " * 100_000 + TEXT[:20]), {"no text"}),
    ],
    ids=range(7),
)
def test_what_cannot_be_read_has_a_reason(reader: Reader, content: bytes, expected: set[str]):
    assert reason(reader, content) in expected
    assert read(reader, with_stream(TEXT))["text"] == "A kite flies."


def test_too_many_pages_and_passwords_are_refused(reader: Reader):
    assert reason(reader, made(2_000)) == "too many pages"
    assert reason(reader, made(1, userPassword="kite", ownerPassword="owner")) == "encrypted"


def test_a_stream_that_unpacks_to_gigabytes_costs_only_itself(reader: Reader):
    packed = zlib.compressobj(9)
    first, again = (packed.compress(bytes(1 << 20)) + packed.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    content = first + again * 3_000 + packed.flush()
    started = time.monotonic()
    answer = told(reader, with_stream(content, filters=b"/Filter/FlateDecode"))
    assert isinstance(answer, UnreadableError)
    assert time.monotonic() - started < 500
    assert read(reader, with_stream(TEXT))["text"] == "A kite flies."


def test_a_reader_that_is_killed_or_hangs_costs_one_pdf(tmp_path: Path):
    before = set(psutil.Process().children())

    def process() -> psutil.Process:
        (found,) = set(psutil.Process().children()) - before
        return found

    with closing(Reader(Pdfium(seconds=600), tmp_path)) as short:
        assert read(short, with_stream(TEXT))
        process().kill()
        assert reason(short, with_stream(TEXT)) == "breaks the reader"
        assert read(short, with_stream(TEXT))
        stopped = process()
        stopped.suspend()
        short.parser.seconds = 0.5
        started = time.monotonic()
        assert reason(short, with_stream(TEXT)) == "too slow"
        assert time.monotonic() - started < 500
        assert not stopped.is_running()
        short.parser.seconds = 600
        assert read(short, with_stream(TEXT))


def test_the_process_ends_with_its_owner():
    with subprocess.Popen(
        [sys.executable, "-P", pdf_lines.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        process.stdin.close()
        assert process.wait(timeout=600) == 0


# ---------------------------------------------------------------- the flow


def rows_of(home: Path, *paths: Path, **settings: Any) -> list[Rows]:
    with building(home) as run:
        return papers.read(run, list(paths), papers.Read(**settings))


def test_our_samples_become_papers_and_paragraphs(tmp_path: Path):
    documents, of_documents, prints, of_prints, _ = rows_of(tmp_path, SAMPLES, licence="CC BY 4.0")
    assert (documents.count, prints.count) == (2, 1)
    everything = [*documents, *prints]
    assert all(row["licence"] == "CC BY 4.0" for row in everything)
    assert all(re.fullmatch(r"file/[0-9a-f]{16}", row["paper_id"]) for row in everything)
    roles = {row["role"] for row in [*of_documents, *of_prints]}
    assert roles == {"introduction", "related_work", None}


def test_a_broken_pdf_is_a_rejected_row_beside_good_ones(tmp_path: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.pdf").write_bytes(with_stream(TEXT))
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 broken")
    (folder / "empty.pdf").write_bytes(b"")
    with building(tmp_path / "home") as run:
        prints, *_ = papers.read(run, [folder], papers.Read())
    assert prints.count == 1
    assert rejected_by(run, "read_pdfs") == [("defect", "broken PDF", 1), ("defect", "empty file", 1)]


@pytest.mark.parametrize("packing", ["zip", "tar", "gztar"])
def test_an_archive_of_documents_and_pdfs_gives_papers_of_both(tmp_path: Path, packing: str):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(with_stream(TEXT))
    (folder / "b.pdf").write_bytes(b"%PDF-1.7 broken")
    (folder / "c.tei.xml").write_bytes((SAMPLES / "kites.tei.xml").read_bytes())
    (folder / "d.xml").write_bytes(b"<article/>")
    archive = shutil.make_archive(str(tmp_path / "both"), packing, folder)
    with building(tmp_path / "home") as run:
        documents, _, prints, *_ = papers.read(run, [Path(archive)], papers.Read())
    assert (documents.count, prints.count) == (1, 1)
    assert rejected_by(run, "read_tei") == [("defect", "no TEI", 1)]
    assert rejected_by(run, "read_pdfs") == [("defect", "broken PDF", 1)]


def test_the_parser_and_its_bounds_are_part_of_the_identity():
    assert Pdfium(seconds=1).identity() != Pdfium(seconds=2).identity()
    assert Pdfium(pages=1).identity() != Pdfium(pages=2).identity()


def test_only_one_kind_is_read_where_asked(tmp_path: Path):
    documents, *_ = rows_of(tmp_path, SAMPLES, only="tei")
    assert documents.count == 2
    with pytest.raises(UsageError, match="holds no paper"):
        rows_of(tmp_path, SAMPLES / "walks.pdf", only="tei")


def test_the_benchmark_scores_the_heads_of_a_folder(tmp_path: Path, reader: Reader) -> None:
    content = (SAMPLES / "walks.pdf").read_bytes()
    found = [head for _, head, _ in heads(read(reader, content)) if head and head != "References"]
    (tmp_path / "walks.pdf").write_bytes(content)
    (tmp_path / "walks.heads").write_text("\n".join([*found[1:], "A head that is not there"]))
    command = [sys.executable, "-m", "benchmarks.pdf_heads", str(tmp_path)]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=True)
    counts = f"{len(found) - 1} right of {len(found):4} found, {len(found):4} true; 0 broken  all 1"
    assert counts in done.stdout.splitlines()[-1]
