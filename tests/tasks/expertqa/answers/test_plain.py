"""Answers without marks: every form that was seen goes, what reads alike stays, and nothing is left over."""

from __future__ import annotations

import difflib
import json
import re
import time

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.expertqa.answers.audits import OF_REVISIONS
from tasks.expertqa.answers.citations import cited_numbers
from tasks.expertqa.answers.dangling import remains_in
from tasks.expertqa.answers.plain import marks_in, plain, sources_of
from tasks.publishing.audits import rejected_by

REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
TOKEN = re.compile(r"\w+|[^\w\s]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("[1]", ""),
        ("Tin melts [1].", "Tin melts."),
        ("Tin melts [1][2]; lead [3], too.", "Tin melts; lead, too."),
        ("Tin [^1^] melts[^2^].", "Tin melts."),
        ("Tin melts [cite: 1, 2]. [cite_start]Lead melts.", "Tin melts. Lead melts."),
        ("Tin melts.¹ Lead² does, gold³,⁴ too.¹²", "Tin melts. Lead does, gold too."),
        ("Tin <sup>1</sup> melts<sup>2,3</sup>⁽⁴⁾.", "Tin melts."),
        ("Tin 【1†L3】 [2†source] [#3] [1, p. 5] melts \\[4\\] ^[2].", "Tin melts."),
        ("Tin melts [1] .", "Tin melts."),
        ("Tin melts. [1]. Lead melts.", "Tin melts. Lead melts."),
        ("Tin melts.[1]Lead melts.", "Tin melts. Lead melts."),
        ("Tin [1], [2], and [3] melts.", "Tin melts."),
        ("Tin (see [1]) melts ([2], [3]).", "Tin melts."),
        ("Tin **[1]** melts.", "Tin melts."),
        ("As shown in [3], tin melts [4].", "Tin melts."),
        ("[1] Tin melts.", "Tin melts."),
        ("- [1]\n- Tin [2]\n1. [3]", "- Tin"),
        ("1[16].\nTin", "1.\nTin"),
        ("Tin [1] [2]\n[3]\nLead", "Tin\nLead"),
        ("Tin [melts](https://a.example/x) [1](https://a.example/y).", "Tin melts."),
        ("Tin melts (https://a.example/x) <https://a.example/y>.", "Tin melts."),
        ("Tin melts.\nhttps://a.example/x\nLead.https://a.example/y.", "Tin melts.\nLead."),
        ("Tin.\n\nReferences:\n[1] https://a.example\n[2] B. Author, Book.", "Tin."),
        ("Tin [^1].\n\n[^1]: https://a.example", "Tin."),
        ("| a [1] | b |\n|---|---|\n| c | d [2] |", "| a | b |\n|---|---|\n| c | d |"),
    ],
)
def test_marks_go_without_a_trace(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert not marks_in(expected)
    assert bool(marks_in(text)) == (text != expected)


@pytest.mark.parametrize(
    "text",
    [
        "x in [0, 1], the interval [2, 5], 95% CI [1, 3], values between [1, 2]",
        "Tin (2) and 3) of them, s34(6)",
        "T² and Z², 10 km², m³, Fe³⁺, 10⁻³, 40 feet², x²y",
        "`x[1]` and a[0] and matrix[1][2] = 4 and f[1](x)",
        "```\nx[1] = y[2]\n```",
        "Years [1990-2000] and [2019], [EMIM][TfO], [a], [Smith 2020], []",
        "Go to https://a.example/x to download it.",
        "1. World Bank: https://a.example\n2. Tin",
        "Wait ... what . Yes",
        "![picture](https://a.example/x.png)",
    ],
)
def test_what_reads_alike_stays(text: str) -> None:
    assert plain(text) == text


@given(st.text(alphabet="ab1² ,-^[]().*\n:/h", max_size=60))
def test_a_plain_text_is_left_as_it_is(text: str) -> None:
    once = plain(text)
    assert plain(once) == once


def test_hostile_texts_take_no_time() -> None:
    started = time.monotonic()
    for text in ("[1] " * 20_000, "[" * 50_000, "¹,²;" * 20_000, "https://a" * 10_000, "(see " * 20_000, "`" * 30_000):
        plain(text)
    assert time.monotonic() - started < 20


@pytest.mark.skipif(not REAL.exists(), reason="the released examples are not beside the project")
def test_of_all_released_revised_answers_nothing_but_marks_goes() -> None:
    """The marks as a plain pattern sees them; beyond these only references, addresses and doubled signs may go."""
    others = 0
    for line in REAL.read_text().splitlines():
        for answer in json.loads(line)["answers"].values():
            text = answer["revised_answer_string"] or ""
            made = plain(text)
            assert not re.search(r"\[\^?\d[^\[\]]*\]", made)
            assert not marks_in(made)
            simply = re.sub(r"\[\^?\d+\^?(?:, \d+)*\]", "", text)
            first, second = TOKEN.findall(simply), TOKEN.findall(made)
            for kind, start, end, *_ in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
                gone = " ".join(first[start:end])
                assert kind in ("equal", "delete"), gone
                if kind == "delete" and gone != ".":
                    others += 1
                    assert re.match(r"https :|www \. |doi :|(: )?References|\( Passage ID \d \)$", gone), gone
    assert others < 20


def test_an_answer_that_still_holds_a_mark_is_left_out_with_its_reason() -> None:
    row = {"row_id": "r", "revised_by": "person", "response": None, "model": None, "question": "Why?", "sources": []}
    row["cited_answer"] = "Tin melts [1] and [2]."
    left_out = rejected_by({**row, "answer": "Tin melts [1] and [2]."}, OF_REVISIONS, "row_id")
    assert left_out is not None
    assert (left_out.reason, left_out.detail) == ("audit: marks", "marks in the answer: [1], [2]")
    assert rejected_by({**row, "answer": "Tin melts."}, OF_REVISIONS, "row_id") is None


def test_sources_are_those_that_are_cited_by_number_with_what_is_known_of_them() -> None:
    listed = [
        {"number": 1, "url": "https://a.example/1", "title": "A", "text": None},
        {"number": 2, "url": "https://a.example/2", "title": None, "text": None},
    ]
    evidence = [
        {"number": 1, "url": None, "text": "Tin."},
        {"number": 5, "url": "https://a.example/5", "text": "Lead."},
        {"number": None, "url": "https://a.example/9", "text": "Gold."},
    ]
    assert sources_of("Tin [5] [1] [7].", listed, [{"evidence": evidence}]) == [
        {"number": 1, "url": "https://a.example/1", "title": "A", "text": "Tin."},
        {"number": 5, "url": "https://a.example/5", "title": None, "text": "Lead."},
    ]
    assert sources_of("Tin.", listed, [{"evidence": evidence}]) == [
        {"number": None, "url": "https://a.example/9", "title": None, "text": "Gold."}
    ]
    by_address = sources_of("Tin ([A](https://a.example/2)). Lead (https://b.example/). Zinc [1].", listed, [])
    assert [(one["number"], one["url"]) for one in by_address] == [
        (1, "https://a.example/1"),
        (None, "https://a.example/2"),
        (None, "https://b.example/"),
    ]


@pytest.mark.parametrize("text", [
    "The area is (x + 1)² here.", "It slows in seconds², acre² or alpha².", "A metre squared² is (width)².",
    "Let f(x)² be 5 m<sup>2</sup>.",
])  # fmt: skip
def test_exponents_stay_and_cite_nothing(text: str) -> None:
    assert plain(text) == text
    assert cited_numbers(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("According to [1], water boils. As [2] and [3] show, it freezes.", "Water boils. It freezes."),
        ("Water boils as noted in [3] above. Tin melts, according to [1].", "Water boils. Tin melts."),
        ("Water, according to [1], boils. In winter, as [2] notes, it freezes.", "Water boils. In winter, it freezes."),
        ("But according to [3], iPhones do. According to [1], iPhones do.", "But iPhones do. iPhones do."),
        ("Tin melts (see [1]; but cf. [2]). Lead (for a review, see [3], p. 5) does.", "Tin melts. Lead does."),
        ("[1] shows that tin melts. Lead is soft.", "Lead is soft."),
        ("Lead is soft. In [2] the authors melt tin. Gold [3] too.", "Lead is soft. Gold too."),
        ("Data from [1] show it. This was reported by [1]. However, [3] argues otherwise. Tin.", "Tin."),
        ("Lead is soft. See [1]. See also [2], [3] for details.\nSources: [2].", "Lead is soft."),
        ("- Tin (Smith).\n- As argued in [4] for tin, it melts.\n- Lead.", "- Tin (Smith).\n- Lead."),
        ("| a [1] | see [2] |", "| a | |"),
        ("Metals such as [1] are soft. Tin and [2]. Lead.", "Lead."),
    ],
)
def test_no_sentence_is_left_without_a_word_that_was_a_mark(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert not marks_in(expected)
    assert not remains_in(expected, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "What it is made of [1]. The country it comes from [2]. Jobs you look for[3].",
            "What it is made of. The country it comes from. Jobs you look for.",
        ),
        (
            "Known for [1] the size. Tin,[1] is soft. Tin [2] shows promise.",
            "Known for the size. Tin, is soft. Tin shows promise.",
        ),
        (
            "[1] Tin melts. The word (see above) stays, as noted above.",
            "Tin melts. The word (see above) stays, as noted above.",
        ),
        (
            "They acted according to plan [1]. As shown, it melts [2].",
            "They acted according to plan. As shown, it melts.",
        ),
    ],
)
def test_sentences_that_stand_without_their_marks_stay(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert not remains_in(expected, text)


@pytest.mark.parametrize(
    "text",
    [
        "The interval [0, 1] contains 0.5 and [1, 2] does not.",
        "The array a[1] holds 5; call f(x)[0], f(x)[1] and get()[2].",
        "Use arr[2][3], x_[1], A[1,2], myList[3], my_list[4], x1[2] and total[1] = 4.",
        "Psalm [23] and page [12] of the range 1-[5], or [2] + 3.",
        "The ions SO₄²⁻, CrO₄²⁻, sulfate²⁻ and Ca²⁺, mc², s⁻¹.",
        "Let $x_{[1]}$ and \\(y_{[2]}\\) be <code>z[3]</code>, and `[words](https://a.example)`.",
        "The radius^2, E = mass × velocity^2, log^2, 10^3 and x^2; feet^2, item^2x.",
        "Go to http://h/ok9. See also http://h/ok8. The page http://h/ok7 says so.",
        "1. World Bank https://a.example\n2. Tin: https://b.example",
        "Common techniques , encouraging . Tin",
    ],
)
def test_code_math_names_and_spoken_addresses_stay(text: str) -> None:
    assert plain(text) == text
    assert not marks_in(text)
    assert not remains_in(text, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The interval [0, 1] is closed [1, 2].", "The interval [0, 1] is closed."),
        (
            "Water boils[1] (at sea level). Vitamin C[1], 5 m[2], World War I[1], (e.g[4].",
            "Water boils (at sea level). Vitamin C, 5 m, World War I, (e.g.",
        ),
        (
            "CO2[1], H1N1[2], mRNA[3], pH[1], gene(s)[2], TNF-α[3] and words[1][2].",
            "CO2, H1N1, mRNA, pH, gene(s), TNF-α and words.",
        ),
        ("On the last page [3], the topic in question [1].", "On the last page, the topic in question."),
        ("Sulfate² falls, tin³ rises, lead^1 too^{2}. Gold.^3 Zinc", "Sulfate falls, tin rises, lead too. Gold. Zinc"),
        ("It costs $5 [1] or $6 [2].", "It costs $5 or $6."),
        ('Tin 【2:3†file.pdf】 melts【4:0†f】 [1](#ref1) <a href="#c1">[1]</a>.', "Tin melts."),
        (
            'Tin&#91;1&#93; [\u200b2\u200b] 〔4〕⟦5⟧<sup><a href="#1">6</a></sup>\ue200cite\ue202turn0search1\ue201.',
            "Tin.",
        ),
        (
            "It lives near the harbour http://h/ok9. See also the sea. https://a.example/x Lead.",
            "It lives near the harbour. See also the sea. Lead.",
        ),
        ("Common techniques [1] , encouraging ([2]) , too [3] .", "Common techniques, encouraging, too."),
    ],
)
def test_citations_that_look_like_these_go(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert not marks_in(expected)
    assert not remains_in(expected, text)


def test_a_number_that_the_sources_know_decides_between_an_index_and_a_citation() -> None:
    text = "The tool read_csv[2] reads A[1] and myTool[3]."
    assert plain(text) == text
    assert plain(text, {1, 2, 3}) == "The tool read_csv reads A and myTool."
    assert plain("The array a[1] and arr[2] = 3.", {1, 2}) == "The array a[1] and arr[2] = 3."


@pytest.mark.parametrize(
    "answer",
    [
        "According to, water boils.",
        "As show, it freezes.",
        "Water, as noted in above.",
        "Tin (see; but cf.).",
        "Tin , lead.",
        "Tin [~2].",
        "Foo(#ref1).",
        'Tin <a href="#c1"></a>.',
        "Tin ().",
        "Tin &#91;x&#93;.",
    ],
)
def test_the_audit_finds_what_a_removal_broke(answer: str) -> None:
    row = {"row_id": "r", "revised_by": "person", "response": None, "model": None, "question": "Why?", "sources": []}
    left_out = rejected_by({**row, "answer": answer, "cited_answer": "Tin [1]."}, OF_REVISIONS, "row_id")
    assert left_out is not None
    assert left_out.reason == "audit: marks"


def test_what_stood_so_in_the_original_is_no_finding() -> None:
    assert remains_in("Wait , no ( ).", "Wait [1] , no , ( ).") == []


@given(st.text(alphabet="ab1² ,-^[]().*\n:/h", max_size=60))
def test_no_blank_before_a_sign_comes_from_a_removal(text: str) -> None:
    sign = re.compile(r"[ \t][,;:]")
    assert len(sign.findall(plain(text))) <= len(sign.findall(text))


LONG = [
    "a[1] " * 20_000,
    "according to [1], " * 5_000,
    "as [1] and " * 8_000,
    "(see [1]; " * 8_000,
    "$x_" * 20_000,
    "see " * 30_000 + "[1]",
    "([1] see and " * 8_000,
    "[1] shows " * 8_000,
    "x[1]" * 20_000,
    "the " * 30_000 + "by [1].",
    "https://a.b c " * 8_000,
    "https://a.b. " * 8_000,
    "\\(" * 20_000,
    "<a href='" * 10_000,
    "[[1], " * 10_000,
    "a_" * 30_000 + "[1]",
    "word^{1" * 20_000,
    "according to " * 9_000,
    "Sources: [1] a." * 6_000,
    "[1]" * 20_000,
]


@pytest.mark.parametrize("text", LONG)
def test_hostile_prose_costs_time_in_proportion_to_its_length(text: str) -> None:
    started = time.process_time()
    once = plain(text)
    remains_in(once, text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nets help [^1].\n\n[^1]: WHO, https://a.example/x\n[^2]: Example, 2020.", "Nets help."),
        ('Tea helps [1], too [2].\n\n---\n[1] NIH, "Sleep", 2020.\n[2] WHO, "Malaria", 2021.', "Tea helps, too."),
        ('Tea helps¹.\n\n¹ NIH, "Sleep", 2020.', "Tea helps."),
        ("Tea helps [1].\n\nSources\n\n- [NIH: Sleep](https://a.example)\n- WHO, 2020.", "Tea helps."),
        ("Le fer [1].\n\nRéférences :\n[1] https://a.example", "Le fer."),
        ("Eisen [1].\n\n**Quellen:**\n1. https://a.example", "Eisen."),
        ("Eat these.\n\n## Sources\n- Meat [1]\n- Fish", "Eat these.\n\n## Sources\n- Meat\n- Fish"),
        ("[1] Tea came in 1610.", "Tea came in 1610."),
        ("Tea helps <cite>[2]</cite>. It is old<ref>NIH</ref>.", "Tea helps. It is old."),
        ("Tea helps[citation needed]. It is old.[2]:15 It is warm.[3][a]", "Tea helps. It is old. It is warm."),
        ("Tea helps [4, Table 2], at 9 °C<sup>3,4</sup>. It is old [²]; 10<sup>3</sup> cups.",
         "Tea helps, at 9 °C. It is old; 10<sup>3</sup> cups."),
        ("Tea ([NIH](https://www.nih.gov/x)) is old [(source)](https://a.example).", "Tea is old."),
        ("Tea [↗](https://a.example) is old [oai_citation:2‡a.example](https://a.example).", "Tea is old."),
        ("See [this review](https://a.example), or the ([long list](https://a.example)).",
         "See this review, or the (long list)."),
        ("Tee (vgl. [3], S. 12) hilft. Чай (см. [2]) стар.", "Tee hilft. Чай стар."),
        ("Tea <|cite_1|> helps <co: 2>. It is old (see footnote 2).", "Tea helps. It is old."),
        ("Smith et al. [3] showed it. This contradicts [2].", "Smith et al. showed it."),
        ("Source 2 states that tea is old. In all, source 9 is new.", "In all, source 9 is new."),
        ("For x in [2, 5], f is flat [2]. Residue K[12] moved.", "For x in [2, 5], f is flat. Residue K[12] moved."),
    ],
)  # fmt: skip
def test_forms_of_citations_of_other_writers(text: str, expected: str) -> None:
    known = {1, 2, 3, 4, 5}
    assert plain(text, known) == expected
    assert not marks_in(expected, known)
    assert not remains_in(expected, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yields are in line with [1]. The crop fails.", "The crop fails."),
        ("Ref. [4] found more. Eq. [2] holds. Sand is dry.", "Sand is dry."),
        ('Compare [1] with [2]. What [4] calls "loam" is soil. This contradicts [3]. Sand is dry.', "Sand is dry."),
        ("Citing [3], the board closed the pit. It was filled by [1].", "The board closed the pit."),
        ("Laut [1] ist Sand trocken. Lehm ist feucht (siehe [2]), Ton auch (laut [3]).", "Lehm ist feucht, Ton auch."),
        ("Selon [2], le sable est sec. L'argile (voir [1]) non.", "Le sable est sec. L'argile non."),
        ("Según [1], la arena es seca. Como se muestra en [2], el barro no (véase [3]).",
         "La arena es seca. El barro no."),
        ("De acordo com [1], a areia é seca. Segundo [2], o barro não (ver [3]).", "A areia é seca. O barro não."),
        ("Secondo [2], la sabbia è secca. Volgens [1] is klei nat. Gold.", "La sabbia è secca. Gold."),
        ("Согласно [2], песок сух. По [2], глина влажна.", "Песок сух."),
        ("沙子很干(见[1])。据[2],粘土潮湿。数据[3]很旧。", "沙子很干。粘土潮湿。数据很旧。"),
        ("砂は乾く([1]を参照)。[2]によると、粘土は湿る。", "砂は乾く。粘土は湿る。"),
    ],
)  # fmt: skip
def test_no_word_that_needs_its_mark_is_left_as_a_stump(text: str, expected: str) -> None:
    known = {1, 2, 3, 4}
    assert plain(text, known) == expected
    assert not marks_in(expected, known)
    assert not remains_in(expected, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This is what sand is made of [1]. It is the pit they dug for [2].",
         "This is what sand is made of. It is the pit they dug for."),
        ("It must be paid for [1]. Log in [2]. TV shows [3] sell.", "It must be paid for. Log in. TV shows sell."),
        ("Sand, studies say [1], is dry, as experts say [2].", "Sand, studies say, is dry, as experts say."),
    ],
)  # fmt: skip
def test_words_whose_object_came_before_need_no_mark(text: str, expected: str) -> None:
    assert plain(text, {1, 2, 3}) == expected
    assert not remains_in(expected, text)


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Results agree with.", "Results agree with [1]."),
        ("Laut sind es drei.", "Laut [2] sind es drei."),
        ("Compare with.", "Compare [1] with [2]."),
        ("Eq. is exact.", "Eq. [1] is exact."),
        ("What calls it loam.", "What [1] calls it loam."),
        ("Selon, le sable est sec.", "Selon [1], le sable est sec."),
        ("沙子(见)。", "沙子(见[1])。"),
        ("Press to go.", "Press [1] to go."),
    ],
)
def test_the_audit_finds_a_stump_where_a_mark_of_the_original_stood(answer: str, cited: str) -> None:
    assert remains_in(answer, cited)
    assert not remains_in(answer, answer)


@pytest.mark.parametrize(
    "text",
    [
        "It is rated on a scale [1-5], from [1] (bad) to [5] (good).",
        "The list [1, 2, 4] is short, and range(1, 3) yields [1, 2]; its transpose is [1, 2]^T.",
        "The [1,3]-dipolar step, [1]benzofuran and [5]helicene.",
        "In R, y[[2]] is an element, and the prior is Beta[2, 2] or Gamma[1, 1].",
        "Press [1] to stop or [2] to go on. Then 7 mod [4] is 3. They won [3-1].",
    ],
)
def test_scales_lists_names_of_substances_and_keys_stay(text: str) -> None:
    assert plain(text, {1, 2, 3, 4, 5}) == text
    assert not marks_in(text, {1, 2, 3, 4, 5})


def test_both_marks_of_a_span_of_years_go() -> None:
    assert plain("In 1990[1]–1995[2], it grew from 3[1] to 5[2].", {1, 2}) == "In 1990–1995, it grew from 3 to 5."
