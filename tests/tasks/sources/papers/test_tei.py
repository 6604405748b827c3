"""TEI documents: real ones of two GROBID versions where they lie beside the project, and the defects one by one."""

from __future__ import annotations

import copy
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers.papers import introduction, related_work
from tasks.sources.papers.tei import fold, paper_of

SAMPLES = paths.SAMPLES / "papers"
REAL = paths.REAL_DATA / "grobid_tei"
DOCUMENTS = sorted(REAL.glob("*.xml")) if REAL.exists() else []
WHOLE = [file for file in DOCUMENTS if "withdrawn" not in file.name]
TEI = "{http://www.tei-c.org/ns/1.0}"


def tei(
    body: str, *, abstract: str = "", back: str = "", header: str = "", version: str = "0.8.2", refs: int = 3
) -> bytes:
    entries = "".join(
        f'<biblStruct xml:id="b{n}"><monogr><title>T{n}</title></monogr></biblStruct>' for n in range(refs)
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
    <TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>{header}</fileDesc>
    <encodingDesc><appInfo><application version="{version}" ident="GROBID"/></appInfo></encodingDesc>
    <profileDesc><abstract>{abstract}</abstract></profileDesc></teiHeader>
    <text><body>{body}</body><back>{back}<div type="references"><listBibl>{entries}</listBibl></div></back></text>
    </TEI>""".encode()


def heads(row: Row) -> list[tuple[str | None, str | None, str | None]]:
    return [(section["number"], section["head"], section["role"]) for section in row["sections"]]


def texts(row: Row, section: int | None) -> list[str]:
    return [row["text"][p["start"] : p["end"]] for p in row["paragraphs"] if p["section"] == section]


def cited(row: Row) -> list[tuple[str, str | None]]:
    spans = [span for paragraph in row["paragraphs"] for span in paragraph["citations"]]
    return [(row["text"][span["start"] : span["end"]], span["ref_id"]) for span in spans]


def check_offsets(row: Row) -> None:
    """What holds of every paper: spans lie in order, inside each other, and are where their text is."""
    text, end = row["text"], 0
    for paragraph in row["paragraphs"]:
        assert end <= paragraph["start"] < paragraph["end"] <= len(text)
        own = text[paragraph["start"] : paragraph["end"]]
        assert own == " ".join(own.split())
        end = paragraph["start"]
        for span in paragraph["citations"]:
            assert end <= span["start"] < span["end"] <= paragraph["end"]
            assert text[span["start"] : span["end"]].strip() == text[span["start"] : span["end"]]
            end = span["start"]
        end = paragraph["end"]
    for position, section in enumerate(row["sections"]):
        assert text.startswith(section["head"] or "", section["start"])
        own_ends = [p["end"] for p in row["paragraphs"] if p["section"] == position]
        assert section["end"] == max(own_ends, default=section["start"] + len(section["head"] or ""))


def rejected_as(content: bytes) -> str:
    with pytest.raises(UnreadableError) as caught:
        paper_of(content)
    return caught.value.reason


# ---------------------------------------------------------------- real documents


@pytest.fixture(params=WHOLE, ids=lambda file: file.name)
def real(request: Any) -> tuple[Row, ElementTree.Element]:
    content = request.param.read_bytes()
    return paper_of(content), ElementTree.fromstring(content)


needs_real = pytest.mark.skipif(not DOCUMENTS, reason="the real documents are not beside the project")


@needs_real
def test_real_documents_have_their_offsets_and_an_introduction(real: tuple[Row, ElementTree.Element]):
    row, _ = real
    check_offsets(row)
    assert heads(row)[0][1:] == ("Introduction", "introduction")
    assert row["title"]
    assert len(row["authors"]) >= 3
    assert row["parser"].startswith("grobid ")
    assert row["pdf_sha"] is None or len(row["pdf_sha"]) == 32


@needs_real
def test_every_paragraph_formula_caption_and_note_of_real_documents_is_in_the_text(
    real: tuple[Row, ElementTree.Element],
):
    row, root = real
    text = compact(row["text"])
    elements = list(running(root))
    assert len(elements) > 50
    for element in elements:
        assert compact(without_foot_ids(element)) in text
    own = [compact("".join(section["head"] or "")) for section in row["sections"]]
    labels = [compact(head.text or "") for head in root.iter(f"{TEI}head")]
    assert sum(map(len, own)) + sum(len(compact(without_foot_ids(e))) for e in outermost(root)) <= len(text) + 200
    assert len(text) <= sum(map(len, labels)) + sum(len(compact(without_foot_ids(e))) for e in outermost(root))


@needs_real
def test_every_citation_of_real_documents_is_a_span_with_its_entry(real: tuple[Row, ElementTree.Element]):
    row, root = real
    entries = {entry.get("{http://www.w3.org/XML/1998/namespace}id") for entry in root.iter(f"{TEI}biblStruct")} - {
        None
    }
    expected = [
        (" ".join("".join(ref.itertext()).split()), (ref.get("target") or "#").removeprefix("#") or None)
        for ref in root.iter(f"{TEI}ref")
        if ref.get("type") == "bibr"
    ]
    found = cited(row)
    formulas = [item for item in found if item not in expected]
    assert sorted(map(str, expected)) == sorted(str(item) for item in found if item in expected)
    assert all(ref is None for _, ref in formulas)
    assert {entry["ref_id"] for entry in row["bibliography"]} == entries
    assert {ref for _, ref in found if ref} <= entries


@needs_real
def test_real_bibliographies_have_titles_and_years():
    row = paper_of((REAL / "2020.acl-main.207.tei.xml").read_bytes())
    assert len(row["bibliography"]) == 57
    assert sum(entry["title"] is not None for entry in row["bibliography"]) >= 55
    assert {type(entry["year"]) for entry in row["bibliography"]} <= {int, type(None)}
    second = row["bibliography"][1]
    assert (second["year"], second["venue"]) == (2018, "NAACL-HLT")
    assert second["authors"][:2] == ["Waleed Ammar", "Dirk Groeneveld"]
    assert second["raw"].startswith("Waleed Ammar, Dirk Groeneveld")


@needs_real
def test_a_withdrawn_article_has_an_empty_body():
    assert rejected_as((REAL / "article_withdrawn.grobid.tei.xml").read_bytes()) == "empty body"


@needs_real
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2020.acl-main.207.tei.xml", [("7", "Related Work", "related_work")]),
        ("2021.naacl-main.224.grobid.tei.xml", [("4", "Comparison with Related Work", "related_work")]),
    ],
)
def test_related_work_is_found_in_real_documents(name: str, expected: list[Any]):
    assert [head for head in heads(paper_of((REAL / name).read_bytes())) if head[2] == "related_work"] == expected


@needs_real
def test_pages_printed_twice_give_each_section_once():
    row = paper_of((REAL / "ijms-24-05988.grobid.tei.xml").read_bytes())
    numbers = [number for number, _, _ in heads(row) if number]
    assert numbers == list(dict.fromkeys(numbers))
    assert numbers[:4] == ["1", "2", "2.1", "2.1.1"]


def compact(text: str) -> str:
    return "".join(text.split())


def running(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    text = root.find(f"{TEI}text")
    assert text is not None
    for element in text.iter():
        if element.tag in (f"{TEI}p", f"{TEI}formula", f"{TEI}figDesc"):
            yield element


def outermost(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    inside = {id(inner) for element in running(root) for inner in element.iter() if inner is not element}
    yield from (element for element in running(root) if id(element) not in inside)
    text = root.find(f"{TEI}text")
    assert text is not None
    cited = {id(note) for entry in text.iter(f"{TEI}biblStruct") for note in entry.iter(f"{TEI}note")}
    yield from (note for note in text.iter(f"{TEI}note") if not list(note) and id(note) not in cited)


def without_foot_ids(element: ElementTree.Element) -> str:
    element = copy.deepcopy(element)
    for ref in element.iter(f"{TEI}ref"):
        if (ref.text or "").startswith("foot_"):
            ref.text = ""
    return "".join(element.itertext())


# ---------------------------------------------------------------- our samples


def test_the_first_sample_shows_what_is_repaired():
    row = paper_of((SAMPLES / "kites.tei.xml").read_bytes())
    check_offsets(row)
    assert heads(row) == [
        ("1", "Introduction", "introduction"),
        ("2", "Related Work", "related_work"),
        ("2.1", "Tails", "related_work"),
        ("2.2", "Winds", "related_work"),
        ("3", "Flights", None),
        ("3.1", "Field", None),
        ("4", "Results", None),
        (None, "Acknowledgements", None),
    ]
    assert cited(row)[:4] == [
        ("(Moss, 1999)", "b0"),
        ("(Vale and Reed, 2004;", "b1"),
        ("Hill, 2010)", None),
        ("Reed et al. (2001, 2003)", None),
    ]
    assert texts(row, 0)[0].endswith("(Vale and Reed, 2004; Hill, 2010) To our knowledge nobody has counted the falls.")
    assert texts(row, 3) == [
        "Winds are measured with cups [9], or with socks (Table supplement 1).",
        "Neither says what a kite feels.",
    ]
    assert texts(row, 5) == ["The field is flat. The lift is L = c v 2 , (1)", "where v is the speed of the wind."]
    assert texts(row, 6) == ["Long tails fell less often.", "Very long tails did not rise at all."]
    assert texts(row, None) == [
        "We measured it with a sock.",
        "Figure 1: A kite with a tail, after Moss (1999).",
        "Table 1 : Falls by length of the tail.",
    ]
    assert (row["doi"], row["year"], row["licence"]) == ("10.99999/kites.2021.4", 2021, "CC BY 4.0")
    assert row["bibliography"][0]["doi"] == "10.99999/wind.7"
    assert row["bibliography"][1]["year"] == 2004
    assert row["bibliography"][2]["title"] is None
    assert "citation of no entry" in row["notes"]


def test_an_introduction_inside_the_abstract_is_found():
    row = paper_of((SAMPLES / "tides.tei.xml").read_bytes())
    check_offsets(row)
    assert heads(row)[0] == (None, None, "introduction")
    assert row["abstract"].endswith("more than any moon.")
    assert texts(row, 0) == [
        "Tides have been watched for long [1], [2]. Lakes have small ones [2].",
        "Whether a tub has one was asked before [1] [3], but never answered.",
    ]
    assert [head for _, head, _ in heads(row)[1:]] == ["RESULTS", "The child", "METHODS", "(a) Gauges"]
    assert texts(row, 4) == ["We drew a line on the tub.", "The line did not wash off."]
    assert row["arxiv_id"] == "2106.01234"
    assert "introduction found in the abstract" in row["notes"]


# ---------------------------------------------------------------- introductions


def test_a_first_section_without_a_head_is_the_introduction():
    row = paper_of(
        tei("<div><p>We begin.</p></div><div><p>And go on.</p></div><div><head>Methods</head><p>M.</p></div>")
    )
    assert heads(row) == [(None, None, "introduction"), (None, "Methods", None)]
    assert texts(row, 0) == ["We begin.", "And go on."]


def test_text_before_a_headed_introduction_is_none():
    row = paper_of(tei("<div><p>Dedicated.</p></div><div><head n='1'>Introduction</head><p>I.</p></div>"))
    assert heads(row) == [(None, None, None), ("1", "Introduction", "introduction")]


def test_a_body_without_any_head_has_no_introduction():
    assert heads(paper_of(tei("<div><p>A letter.</p></div>"))) == [(None, None, None)]


@pytest.mark.parametrize(
    ("first", "found"), [("Results", True), ("Materials and Methods", True), ("Introduction", False), ("Kites", False)]
)
def test_a_cited_abstract_is_parted_only_where_the_body_lacks_its_introduction(first: str, found: bool):
    refs = '<ref type="bibr" target="#b0">[1]</ref>' * 4
    row = paper_of(tei(f"<div><head>{first}</head><p>R.</p></div>", abstract=f"<p>Short.</p><p>Long {refs}.</p>"))
    assert (row["abstract"] == "Short.") is found
    assert ("introduction found in the abstract" in row["notes"]) is found


def test_one_paragraph_of_abstract_and_introduction_is_parted_before_the_first_citation():
    own = "We weighed the wind with care. " * 20
    refs = 'Wind was weighed before <ref type="bibr">[1]</ref>, ' + '<ref type="bibr">[2]</ref> ' * 4
    row = paper_of(tei("<div><head>Results</head><p>R.</p></div>", abstract=f"<p>{own}{refs}.</p>"))
    assert row["abstract"] == own.strip()
    assert texts(row, 0)[0].startswith("Wind was weighed before [1], [2]")
    check_offsets(row)


METHODS = "<div><head>Methods</head><p>M.</p></div>"


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("<div><head>1</head><p>We begin.</p></div>", [(None, None, "introduction")]),
        ("<div><head n='1'/><p>We begin.</p></div>", [(None, None, "introduction")]),
        (
            "<div><head>Highlights</head><p>H.</p></div><div><p>We begin.</p></div><div><p>On.</p></div>",
            [(None, "Highlights", None), (None, None, "introduction")],
        ),
        ("<div><head>On  KITES.</head><p>We begin.</p></div>", [(None, None, "introduction")]),
        ("<div><head>Main</head><p>We begin.</p></div>", [(None, "Main", "introduction")]),
        ("<div><head>1 | INTRODUCTION</head><p>We begin.</p></div>", [("1", "INTRODUCTION", "introduction")]),
        ("<div><p>1. Introduction We begin.</p></div>", [("1", "Introduction", "introduction")]),
        (
            "<div><p>J. of Kites 7.</p><p>INTRODUCTION: We begin.</p></div>",
            [None, (None, "INTRODUCTION", "introduction")],
        ),
        (
            "<div><head>Keywords</head><p>kite</p><p>Introduction We begin.</p></div>",
            [(None, "Keywords", None), (None, "Introduction", "introduction")],
        ),
        ("<div><head n='1'>Introduction We</head><p>begin.</p></div>", [("1", "Introduction", "introduction")]),
    ],
    ids=range(10),
)
def test_introductions_whose_heads_were_lost_or_moved(first: str, expected: list[Any]):
    title = '<titleStmt><title level="a" type="main">On Kites</title></titleStmt>'
    row = paper_of(tei(first + METHODS, header=title))
    check_offsets(row)
    found = heads(row)
    assert found[-1] == (None, "Methods", None)
    assert [one for one, wanted in zip(found[:-1], expected, strict=True) if wanted] == [*filter(None, expected)]
    (start, end) = introduction(row) or (0, 0)
    assert row["text"][start:end] in ("We begin.", "We begin.\n\nOn.")


def test_a_numbered_introduction_inside_the_abstract_needs_no_citations():
    row = paper_of(
        tei("<div><head>Kites</head><p>K.</p></div>", abstract="<p>Short.</p><p>1 Introduction We begin.</p>")
    )
    assert row["abstract"] == "Short."
    assert heads(row)[0] == ("1", "Introduction", "introduction")
    assert texts(row, 0) == ["We begin."]


def test_an_abstract_with_parts_stays_whole():
    parts = "<div><head>Introduction</head><p>We ask.</p></div><div><head>Methods</head><p>We fly.</p></div>"
    row = paper_of(tei("<div><p>We begin.</p></div>" + METHODS, abstract=parts))
    assert row["abstract"] == "Introduction\n\nWe ask.\n\nMethods\n\nWe fly."
    assert heads(row)[0] == (None, None, "introduction")


def test_related_work_that_begins_a_paragraph_is_parted_and_stays_within_the_introduction():
    cite = '<ref type="bibr" target="#b0">[1]</ref>'
    row = paper_of(
        tei(
            f"<div><head n='1'>Introduction</head><p>We begin.</p><p>Related work. Moss {cite} flew.</p>"
            f"<p>So did Vale {cite}.</p><p>Our contributions are two.</p></div>"
            f"<div><head n='2'>Kites</head><p>Previous work — {cite} fell.</p></div>{METHODS}"
        )
    )
    check_offsets(row)
    assert heads(row)[:5] == [
        ("1", "Introduction", "introduction"),
        (None, "Related work", "related_work"),
        (None, None, "introduction"),
        ("2", "Kites", None),
        (None, "Previous work", "related_work"),
    ]
    assert [row["text"][p["start"] : p["end"]] for p in related_work(row)] == [
        "Moss [1] flew.",
        "So did Vale [1].",
        "[1] fell.",
    ]
    assert {span for span, _ in cited(row)} == {"[1]"}
    start, end = introduction(row) or (0, 0)
    assert row["text"][start:end].startswith("We begin.")
    assert row["text"][start:end].endswith("Our contributions are two.")


@pytest.mark.parametrize(
    "text", ["Related work is rare.", "Prior works of Moss: three.", "Introduction of kites is old."]
)
def test_sentences_are_not_taken_for_heads(text: str):
    row = paper_of(tei(f"<div><head>Flights</head><p>{text}</p></div>{METHODS}"))
    assert heads(row) == [(None, "Flights", None), (None, "Methods", None)]


# ---------------------------------------------------------------- heads


@pytest.mark.parametrize("n", ["2", "2.", " 2 ", "2)"])
def test_numbers_are_the_same_with_and_without_a_dot(n: str):
    assert heads(paper_of(tei(f'<div><head n="{n}">Model</head><p>M.</p></div>')))[0][0] == "2"


@pytest.mark.parametrize(
    "head", ["Continued", "Table 1.", "Figure 3 continued on next page", '"', "Figure 2 :", "(Continued)"]
)
def test_a_head_that_is_none_does_not_end_its_section(head: str):
    row = paper_of(tei(f"<div><head>Related Work</head><p>A.</p></div><div><head>{head}</head><p>B.</p></div>"))
    assert heads(row) == [(None, "Related Work", "related_work")]
    assert texts(row, 0) == ["A.", "B."]
    assert "head that is none" in row["notes"]


def test_the_rest_of_a_sentence_goes_back_to_it():
    row = paper_of(
        tei("<div><head>Results</head><p>As shown (Figure 1-figure </p></div><div><head>supplement 1).</head></div>")
    )
    assert texts(row, 0) == ["As shown (Figure 1-figure supplement 1)."]


@pytest.mark.parametrize(
    ("head", "n", "expected"),
    [
        ("Model 2.1 Overview", "2", [("2", "Model"), ("2.1", "Overview")]),
        ("2 Model 2.1 Overview", "", [("2", "Model"), ("2.1", "Overview")]),
        (
            "METHODS (a) Preparation of facial stimuli",
            "",
            [(None, "METHODS"), (None, "(a) Preparation of facial stimuli")],
        ),
        ("Version 2.1 Overview", "4", [("4", "Version 2.1 Overview")]),
        ("Kites (a) and tails", "", [(None, "Kites (a) and tails")]),
    ],
)
def test_two_heads_in_one_are_parted(head: str, n: str, expected: list[Any]):
    row = paper_of(tei(f'<div><head n="{n}">{head}</head><p>Text.</p></div>'))
    assert [found[:2] for found in heads(row)] == expected
    assert texts(row, len(expected) - 1) == ["Text."]
    check_offsets(row)


def test_a_repeated_chain_of_heads_is_one():
    chain = '<div><head n="2.">Air</head></div><div><head n="2.1.">Ice</head></div>'
    chain += '<div><head n="2.1.1.">Sea</head><p>{}</p></div>'
    row = paper_of(tei(chain.format("One.") + chain.format("Two.")))
    assert [number for number, _, _ in heads(row)] == ["2", "2.1", "2.1.1"]
    assert texts(row, 2) == ["One.", "Two."]


def test_equal_heads_far_apart_are_two():
    row = paper_of(tei("".join(f"<div><head>{head}</head><p>P.</p></div>" for head in ("KG", "Results", "KG"))))
    assert [head for _, head, _ in heads(row)] == ["KG", "Results", "KG"]


def test_nested_divisions_are_read_in_their_order():
    inner = '<div><head n="2.1">Cups</head><p>B.</p></div>'
    row = paper_of(
        tei(f'<div><head n="2">Related Work</head><p>A.</p>{inner}</div><div><head n="3">Method</head><p>C.</p></div>')
    )
    assert heads(row) == [("2", "Related Work", "related_work"), ("2.1", "Cups", "related_work"), ("3", "Method", None)]


# ---------------------------------------------------------------- text and citations


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ('A<ref type="bibr">(B, 2001)</ref>and', "A (B, 2001) and"),
        ('A <ref type="bibr">(B, 2001;</ref><ref type="bibr">C, 2002)</ref>.', "A (B, 2001; C, 2002)."),
        ('cells <ref type="bibr">12</ref>are', "cells 12 are"),
        ('(B, <ref type="bibr">2001</ref>a)', "(B, 2001a)"),
        ('see <ref type="figure">2</ref>A.', "see 2A."),
        ('<ref type="figure">Figure 1-</ref>figure supplement', "Figure 1-figure supplement"),
        ('A\n   <ref type="bibr">\n[1] </ref>  ,\tB', "A [1] , B"),
        ("<s>One.</s><s>Two <ref type='bibr'>[1]</ref>.</s>", "One. Two [1]."),
        ("a<hi rend='sup'>2</hi> b<lb/>c", "a2 b c"),
        ('x <ref type="foot" target="#foot_0">foot_0</ref> y', "x y"),
        ("a &amp; b &lt;c&gt; é 𝛼", "a & b <c> é 𝛼"),
    ],
)
def test_blanks_are_folded_and_those_lost_beside_a_citation_restored(inner: str, expected: str):
    row = paper_of(tei(f"<div><head>Kites</head><p>{inner}</p></div>"))
    assert texts(row, 0) == [expected]
    check_offsets(row)


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ('<ref type="bibr" target="#b1">[2]</ref>', [("[2]", "b1")]),
        ('<ref type="bibr">[2]</ref>', [("[2]", None)]),
        ('<ref type="bibr" target="#b77">[2]</ref>', [("[2]", None)]),
        ('<ref type="bibr" target="#b0 #b2">[1-3]</ref>', [("[1-3]", "b0"), ("[1-3]", "b2")]),
        ('<ref type="formula">Yu et al. (2018, 2021)</ref>', [("Yu et al. (2018, 2021)", None)]),
        ('<ref type="formula">(1)</ref>', []),
        ('<ref type="figure">2</ref>', []),
        ('<ref type="bibr" target="#b1"/>', []),
        ('<ref type="bibr" target="#b1"><hi>[2]</hi></ref>', [("[2]", "b1")]),
    ],
)
def test_citations_name_entries_that_are_there(ref: str, expected: list[Any]):
    assert cited(paper_of(tei(f"<div><head>Kites</head><p>As {ref} says.</p></div>"))) == expected


words = st.text(st.characters(codec="utf-8", exclude_characters="<&\r", exclude_categories=("Cs", "Cc")), max_size=12)
pieces = st.lists(st.tuples(words, words), max_size=5)


@given(pieces)
def test_offsets_hold_for_any_text(parts: list[tuple[str, str]]):
    inner = "".join(f"{text}<ref type='bibr'>{ref}</ref>" for text, ref in parts).replace("]]>", "")
    row = paper_of(tei(f"<div><head>Kites</head><p>{inner}</p><p>End.</p></div>"))
    check_offsets(row)
    assert [text for text, _ in cited(row)] == [" ".join(ref.split()) for _, ref in parts if ref.split()]


@given(st.text(st.characters(exclude_characters="\x0b\x0c\x1c\x1d\x1e\x1f") | st.sampled_from(" \t\n\u00a0\u2003")))
def test_folding_is_what_splitting_and_joining_is(text: str):
    assert fold(text) == " ".join(text.split())


# ---------------------------------------------------------------- floats and back matter


def test_captions_notes_and_back_matter_have_their_places():
    body = (
        '<div><head>Method</head><p>A<note place="foot">N1.</note> b<figure><head>Figure 1</head>'
        "<figDesc>Kite.</figDesc></figure>.</p><list><item>One.</item><item>Two.</item></list></div><figure><figDesc/></figure>"
        '<figure type="table"><figDesc>Falls.</figDesc><table><row><cell>1</cell></row></table>'
        "<note>In m.</note></figure>"
    )
    back = (
        '<div type="annex"><div><p>Loose.</p></div><div><head>A Proofs</head><p>P.</p></div></div><note>N2.</note>'
        '<div type="acknowledgement"><div><head>Related Work</head><p>Thanks.</p></div></div>'
    )
    row = paper_of(tei(body, back=back))
    assert texts(row, 0) == ["A b.", "One.", "Two."]
    assert texts(row, None) == ["N1.", "Figure 1 Kite.", "Falls.", "In m.", "N2."]
    assert heads(row)[1][:2] == (None, None)
    assert heads(row)[1][2] is None
    check_offsets(row)


def test_a_paper_whose_text_is_all_annex_is_kept():
    row = paper_of(tei("", back='<div type="annex"><div><head>A</head><p>All of it.</p></div></div>'))
    assert texts(row, 0) == ["All of it."]


# ---------------------------------------------------------------- versions of the format


def test_documents_without_a_namespace_or_with_it_inside_are_read():
    plain = tei("<div><head>Introduction</head><p>I <ref type='bibr' target='#b0'>[1]</ref>.</p></div>")
    bare = plain.replace(b' xmlns="http://www.tei-c.org/ns/1.0"', b"")
    inside = plain.replace(b"<div><head>", b'<div xmlns="http://www.tei-c.org/ns/1.0"><head>')
    assert paper_of(bare) == paper_of(plain) == paper_of(inside)


@pytest.mark.parametrize("version", ["0.5.6", "0.6.1", "0.7.3", "0.8.3-SNAPSHOT", "0.9.1", "unknown"])
def test_the_parser_is_named_with_its_version(version: str):
    assert paper_of(tei("<div><p>P.</p></div>", version=version))["parser"] == f"grobid {version}"


def test_a_document_of_no_known_program_is_read():
    content = tei("<div><p>P.</p></div>").replace(b"encodingDesc", b"otherDesc")
    assert paper_of(content)["parser"] == "unknown"


def test_comments_and_instructions_are_no_text():
    row = paper_of(tei("<div><head>Kites<!-- x --></head><p>A<!-- b --> <?c d?>e.</p></div>"))
    assert texts(row, 0) == ["A e."]


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("<licence/>", None),
        ("<licence>Some  rights\n reserved</licence>", "Some rights reserved"),
        (
            '<licence target="http://creativecommons.org/licenses/by-nc-sa/4.0/"><p>Open</p></licence>',
            "CC BY-NC-SA 4.0",
        ),
        ('<licence target="https://creativecommons.org/publicdomain/zero/1.0/"/>', "CC0 1.0"),
    ],
)
def test_the_licence_is_what_the_document_says(licence: str, expected: str | None):
    header = f"<publicationStmt><availability>{licence}</availability></publicationStmt>"
    assert paper_of(tei("<div><p>P.</p></div>", header=header))["licence"] == expected


# ---------------------------------------------------------------- hostile and broken


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE TEI [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]><TEI><text>
<body><div><p a="&d;">&d;</p></div></body></text></TEI>"""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (LAUGHS, "document type declaration"),
        (LAUGHS.decode().replace('<?xml version="1.0"?>', "").encode("utf-16"), "document type declaration"),
        (b'<!DOCTYPE TEI [<!ENTITY x SYSTEM "file:///etc/passwd">]><TEI>&x;</TEI>', "document type declaration"),
        (b"<TEI><text>", "ill-formed XML"),
        (b"", "ill-formed XML"),
        (b"\0\0\0", "ill-formed XML"),
        (b"<TEI>" * 400 + b"</TEI>" * 400, "ill-formed XML"),
        (b'<TEI a="' + b"x" * 11_000_000 + b'"/>', "ill-formed XML"),
        (b"<article><body/></article>", "no TEI"),
        (b"<TEI>" + b"<a/>" * 1_100_000 + b"</TEI>", "too many elements"),
        (tei(""), "empty body"),
        (tei("<div><head>Introduction</head></div>", abstract="<p>Only an abstract.</p>"), "empty body"),
        (b"<TEI/>", "empty body"),
    ],
    ids=range(13),
)
def test_what_is_no_paper_is_refused_within_bounds(content: bytes, reason: str):
    assert rejected_as(content) == reason


def test_what_grows_with_its_square_or_nests_deeply_does_not_here():
    body = "<div><head>Kites</head><p>P.</p>" + "<formula>a</formula>" * 200_000 + "</div>"
    started = time.process_time()
    assert len(texts(paper_of(tei(body)), 0)[0]) == 400_002
    assert time.process_time() - started < 30
    deep = "<div><head>Kites</head><p>P." + "<note>n" * 240 + "</note>" * 240 + "</p></div>"
    with suppress(UnreadableError):
        assert texts(paper_of(tei(deep)), None)[0] == "n"


def test_a_plain_document_type_without_a_subset_does_no_harm():
    content = tei("<div><p>P.</p></div>").replace(
        b"<TEI", b'<!DOCTYPE TEI SYSTEM "http://127.0.0.1:9/tei.dtd">\n<TEI', 1
    )
    assert texts(paper_of(content), 0) == ["P."]
