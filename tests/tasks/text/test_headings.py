import gzip
import json
import re

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tasks.text.headings import INTRODUCTION, RELATED_WORK, Heading, is_noise, plain, role_of, roles, split_number

DATA = paths.REAL_DATA
real = pytest.mark.skipif(not DATA.exists(), reason="no real papers beside the repository")


@pytest.mark.parametrize(
    ("head", "number", "rest"),
    [
        ("2.1. Parsers", "2.1", "Parsers"),
        ("2 Related Work", "2", "Related Work"),
        ("1.Introduction", "1", "Introduction"),
        ("2Related Work", "2", "Related Work"),
        ("III RELATED WORKS", "III", "RELATED WORKS"),
        ("IV. Method", "IV", "Method"),
        ("V RELATED WORK", "V", "RELATED WORK"),
        ("I INTRODUCTION", "I", "INTRODUCTION"),
        ("A. Proofs", "A", "Proofs"),
        ("A.2 Proof of Lemma 1", "A.2", "Proof of Lemma 1"),
        ("A Related Work", "A", "Related Work"),
        ("Section 2: Prior Work", "2", "Prior Work"),
        ("A Survey of Parsers", None, "A Survey of Parsers"),
        ("I NTRODUCTION", None, "I NTRODUCTION"),
        ("E. coli growth", None, "E. coli growth"),
        ("U.S. law", None, "U.S. law"),
        ("3D Reconstruction", None, "3D Reconstruction"),
        ("16S rRNA gene", None, "16S rRNA gene"),
        ("2019 shared task", None, "2019 shared task"),
        ("Introduction", None, "Introduction"),
        ("", None, ""),
    ],
)
def test_the_printed_number_is_split_off(head: str, number: str | None, rest: str) -> None:
    assert split_number(head) == (number, rest)


@pytest.mark.parametrize(
    "head",
    [
        "Introduction",
        "1 I NTRODUCTION",
        "I. I NTRODUCTION",
        "I N T R O D U C T I O N",
        "1. INTRODUCTION.",
        "Introduction and Motivation",
        "Introduction: why bees",
        "General introduction",
        "Introduction and related work",
        "INTRODUCTION AND BACKGROUND",
        "1 | INTRODUCTION",
        "■ INTRODUCTION",
        "INTRODUC TION",
        "Introduction 1",
        "Introduction (background)",
        "Introduction The tail of a kite",
    ],
)
def test_introductions(head: str) -> None:
    assert role_of(head) == INTRODUCTION


@pytest.mark.parametrize(
    "head",
    [
        "Related Work",
        "III RELATED WORKS",
        "II. R ELATED W ORK",
        "2 Related Work 2.1 Parsers",
        "2 Model 2.1 Related Work",
        "Background and Related Work",
        "Comparison with Related Work",
        "Previous Work on Parsing",
        "Prior and concurrent work",
        "Related Work and Background",
        "Previous work on tails",
        "2 Related Works:",
        "2 | RELATED WORK",
        "1.1 Related work",
        "Related-work",
        "Works related to kites",
        "State-of-the-art methods",
        "Relation to prior work",
        "Literature Review",
        "A Review of the Literature",
        "State of the art",
        "Related Literature and Hypotheses",
        "Existing approaches",
    ],
)
def test_related_work(head: str) -> None:
    assert role_of(head) == RELATED_WORK


@pytest.mark.parametrize(
    "head",
    [
        None,
        "",
        "Background",
        "Structure of The Literature Graph",
        "Other related problems",
        "State-of-the-art results",
        "Results on previous datasets",
        "Figure 2: Related Work",
        "Introductory example",
        "related work " * 30,
    ],
)
def test_other_heads_have_no_role(head: str | None) -> None:
    assert role_of(head) is None


@pytest.mark.parametrize(
    "head",
    [
        *(
            "Figure 2 :",
            "Table 1.",
            "Fig. 3",
            "CFigure 6 .",
            "Figure supplement 1 .",
            "Figure 3 continued on next page",
        ),
        *(
            "Continued",
            "Continued on next page",
            "supplement 4).",
            "Theorem 1 .",
            "Algorithm 2",
            "2 2",
            "F",
            "F. 1",
            '"',
        ),
        *("x" * 300, "", "Table IV: what there is"),
    ],
)
def test_what_is_no_head(head: str) -> None:
    assert is_noise(head)


@pytest.mark.parametrize(
    "head",
    ["Figures of merit", "Table retrieval", "Algorithm", "Theory", "Tabular data", "Proof of Theorem 1", "Method"],
)
def test_what_is_a_head(head: str) -> None:
    assert not is_noise(head)


def told(*heads: str) -> list[str]:
    """The first letter of each role, of heads with their numbers in front, as "2.1 Parsers"; "" is none."""
    found = roles([split_number(head) if head else (None, None) for head in heads])
    return [role[0] if role else "-" for role in found]


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (("1 Introduction", "2 RELATED WORK", "2.1 Light", "2.2 Sound", "3 Method"), "irrr-"),
        (("1 Introduction", "1.1 Aims", "2 Method", "7 Related Work", "8 Conclusion"), "ii-r-"),
        (
            ("I. Introduction", "II. Related Work", "A. Light", "B. Sound", "C. Smell", "III. Method", "A. Data"),
            "irrrr--",
        ),
        (("I INTRODUCTION", "IV RELATED WORK", "A. Light", "B. Sound", "V METHOD", "A. Data"), "irrr--"),
        (("I. Introduction", "A. Related Work", "B. Contributions", "II. Method"), "iri-"),
        (("Introduction", "Related Work", "Neural parsers", "Method", "Results"), "irr--"),
        (("INTRODUCTION", "RELATED WORK", "Parsers", "PROPOSED SYSTEM", "Parsers"), "irr--"),
        (("Introduction", "Our contributions", "Bees", "Conclusion"), "ii--"),
        (("1 Introduction", "2 Related Work", "Data", "3 Method"), "irr-"),
        (("1 Introduction", "2 Related Work", "Method", "4 Experiments"), "ir--"),
        (("1 Introduction", "2 Related Work", "Figure 1 :", "2.1 Light", "Continued", "3 Method"), "irrrr-"),
        (("1 Introduction", "2 Related Work", "2.1 Light", "2 Related Work", "2.2 Sound", "3 Method"), "irrrr-"),
        (("1 Introduction", "2 Background", "2.1 Related Work", "2.2 Notation", "3 Method"), "i-r--"),
        (("1 Introduction", "1.1 Related Work", "1.2 Contributions", "2 Method"), "iri-"),
        (("1 Introduction", "2 Model 2.1 Related Work", "2.2 Details", "3 Method"), "ir--"),
        (("1 Introduction", "2 Related Work 2.1 Light", "2.2 Sound", "3 Method"), "irr-"),
        (("1 Introduction", "Related Work", "2.1 Light", "2.2 Sound", "3 Method"), "irrr-"),
        (("1 Introduction", "5 Conclusion", "A Related Work", "A.1 Light", "B Proofs", "C Data"), "i-rr--"),
        (("1 Introduction", "2 Related Work", "References", "A Proofs"), "ir--"),
        (("1 Introduction", "2 Related Work", "x" * 300, "3 Method"), "irr-"),
        (("", "2 Method", "3 Results"), "i--"),
        (("", "Ivyspring", "Figure 2"), "---"),
        (("", "1 Introduction", "2 Method"), "-i-"),
        (("Abstract", "Background", "Methods", "Results"), "-i--"),
        (("Results", "Background", "Methods"), "---"),
        (("", "Figure 1 :"), "--"),
        ((), ""),
    ],
)
def test_sub_sections_have_the_role_of_their_section(heads: tuple[str, ...], expected: str) -> None:
    assert "".join(told(*heads)) == expected


@given(st.lists(st.tuples(st.none() | st.text(max_size=6), st.none() | st.text(max_size=40))))
def test_any_heads_are_read(headings: list[Heading]) -> None:
    found = roles(headings)
    assert len(found) == len(headings)
    assert set(found) <= {None, INTRODUCTION, RELATED_WORK}
    for _, head in headings:
        if head:
            assert " ".join(head.split()).endswith(split_number(head)[1] or "")
            assert plain(head) == plain(head).casefold()


def test_heads_without_end_take_no_time() -> None:
    found = roles([("1", "Introduction"), *[("I", "Data"), (None, "Data")] * 200_000])
    assert len(found) == 400_001
    assert found[-1] is None


HEAD_ENDS = {
    "2020.acl-main.207.tei.xml": (["1"], ["7"]),
    "2021.naacl-main.224.grobid.tei.xml": (["1"], ["4"]),
    "N18-3011.tei.xml": (["1"], []),
    "ijms-24-05988.grobid.tei.xml": (["1."], []),
    "10.7554_elife.78558.grobid.tei.xml": ([None], []),
    "article_withdrawn.grobid.tei.xml": ([], []),
}


@real
@pytest.mark.parametrize("name", HEAD_ENDS)
def test_real_tei(name: str) -> None:
    """Read by eye: which numbers introduce and relate."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    tree = etree.parse(DATA / "grobid_tei" / name, parser)
    heads = [
        (head.get("n"), "".join(head.itertext()) or None) for head in tree.iterfind(".//{*}text/{*}body/{*}div/{*}head")
    ]
    found = roles(heads)
    introduction, related = HEAD_ENDS[name]
    assert [number for (number, _), role in zip(heads, found, strict=True) if role == INTRODUCTION] == introduction
    assert [number for (number, _), role in zip(heads, found, strict=True) if role == RELATED_WORK] == related


@real
def test_real_s2orc() -> None:
    expected = [([], []), (["1"], []), (["1"], ["2", "2.1", "2.2"])]
    with gzip.open(DATA / "s2orc" / "s2orc-sample.jsonl.gz") as file:
        for line, (introduction, related) in zip(file, expected, strict=True):
            content = json.loads(line)["content"]
            spans = json.loads(content["annotations"]["sectionheader"])
            texts = [content["text"][span["start"] : span["end"]] for span in spans]
            heads = [(span.get("attributes", {}).get("n"), text) for span, text in zip(spans, texts, strict=True)]
            found = roles(heads)
            assert [n for (n, _), role in zip(heads, found, strict=True) if role == INTRODUCTION] == introduction
            assert [n for (n, _), role in zip(heads, found, strict=True) if role == RELATED_WORK] == related
            captions = [text for text in texts if re.match(r"Figure|Theorem|\d", text)]
            assert [text for text in texts if is_noise(text)] == captions
