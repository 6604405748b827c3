"""Claims of answers: where they were, what is dropped, what they cite; and that released claims are found and kept."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import paths
import pytest
from expertqa_tables import Home, answer
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.claims import PLANTED, planted
from schemas.expertqa import ANSWERS
from tasks.expertqa.answers.claims import claims_of, linked, parse_evidence, parts_of, split_claims
from tasks.expertqa.answers.references import cited_sources

REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
PIECES = ["Tin ", "melts", ".", " [1]", "[2].", "\n", "\n- ", "  ", "? ", "1. ", "| ", "\u00a0"]
RULES = {"splitter": "sentences", "least_characters": 6, "small_talk": True}
needs_real = pytest.mark.skipif(not REAL.exists(), reason="the real answers are not beside the project")


def folded(text: str) -> str:
    return " ".join(text.split())


def texts(answer: str, **rules: Any) -> list[str]:
    return [claim.text for claim in claims_of(answer, **{"splitter": "sentences", **rules})]


def released() -> list[dict[str, Any]]:
    records = [json.loads(line) for line in REAL.read_text("utf-8").splitlines()]
    return [given for record in records for given in record["answers"].values()]


@pytest.mark.parametrize("splitter", ["sentences", "lists"])
@given(text=st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=150)
def test_a_claim_is_the_text_of_its_span_with_single_blanks(splitter: str, text: str) -> None:
    claims = claims_of(text, splitter=splitter)
    assert all(folded(text[claim.start : claim.end]) == claim.text for claim in claims)
    assert all(before.end <= after.start for before, after in pairwise(claims))


def test_claims_are_sentences_with_their_marks() -> None:
    answer = "  Tin melts\nat 232 degrees [1] [2].\n\nLead melts at 327 [2-4]. "
    first, second = claims_of(answer, splitter="sentences")
    assert first == ("Tin melts at 232 degrees [1] [2].", 2, 35, [1, 2], [])
    assert (second.text, second.marks) == ("Lead melts at 327 [2-4].", [2, 3, 4])


def test_short_ones_questions_and_small_talk_are_dropped_and_each_rule_can_be_off() -> None:
    answer = "Hello, this is Bing. Yes. No, so. What is tin? Tin is a metal. Let me know if you need more."
    assert texts(answer) == ["No, so.", "Tin is a metal."]
    assert texts(answer, least_characters=4) == ["Yes.", "No, so.", "Tin is a metal."]
    assert texts(answer, questions=False) == ["No, so.", "What is tin?", "Tin is a metal."]
    assert texts(answer, small_talk=False)[0] == "Hello, this is Bing."
    assert texts(answer, small_talk=False)[-1] == "Let me know if you need more."


def test_a_claim_of_five_characters_is_dropped_and_one_of_six_is_kept() -> None:
    assert texts("Tin 1. It is 2.") == ["Tin 1.", "It is 2."]
    assert texts("Tin a. It is.") == texts("Tin a. It is.", least_characters=6)
    assert texts("Abcd! Abcde!") == ["Abcde!"]


def test_marks_of_bing_chat_are_cleaned_and_still_count() -> None:
    answer = "Tin melts[^1^][1]. Lead melts too[^2^]. Zinc melts.[^3^] Iron melts."
    claims = claims_of(answer, splitter="sentences")
    assert [claim.text for claim in claims] == ["Tin melts[1].", "Lead melts too.", "Zinc melts.", "Iron melts."]
    assert [claim.marks for claim in claims] == [[1], [2], [3], []]
    assert answer[claims[2].start : claims[2].end] == "Zinc melts.[^3^]"


@pytest.mark.parametrize("mark", ["[7]", "[7][8]", "[7, 8]", "[7-9]", "[ 7 ]"])
@pytest.mark.parametrize(
    ("before", "after", "following"),
    [
        ('Ask, "Why tin?', '"', 'or "Why lead?"'),
        ("Tin (or lead, etc.", ")", "if it melts."),
        ("It said “Tin…! Lead.", "”", "He left."),
    ],
)
def test_a_mark_glued_before_a_closing_sign_is_not_seen_and_kept(
    mark: str, before: str, after: str, following: str
) -> None:
    plain = claims_of(f"{before}{after} {following}", splitter="sentences")
    text = f"{before}{mark}{after}\n{following}"
    claims = claims_of(text, splitter="sentences")
    assert [claim.text.replace(mark, "") for claim in claims] == [claim.text for claim in plain]
    (held,) = [claim for claim in claims if mark in claim.text]
    assert held.marks[0] == 7
    assert text[held.start : held.end] == held.text
    assert following.startswith(claims[-1].text)


@pytest.mark.parametrize(
    ("answer", "sentences"),
    [
        ("Tin melts.[7] Lead melts.", ["Tin melts.[7]", "Lead melts."]),
        ('"Tin melts."[7] Lead melts.', ['"Tin melts."[7]', "Lead melts."]),
        ("Tin melts. [1] Lead melts. [2]", ["Tin melts. [1]", "Lead melts. [2]"]),
        ("Tin melts. [1] [2], [3] Lead melts [4].", ["Tin melts. [1] [2], [3]", "Lead melts [4]."]),
        ("Tin melts. (Passage 2) Lead melts.", ["Tin melts. (Passage 2)", "Lead melts."]),
        ("Tin melts.\n[https://a.example/x] Lead melts.", ["Tin melts. [https://a.example/x]", "Lead melts."]),
        ("Tin melts [1]. Lead melts [2].", ["Tin melts [1].", "Lead melts [2]."]),
        ("Tin, e.g. [1], melts. So it is.", ["Tin, e.g. [1], melts.", "So it is."]),
        ("They left the U.S. [1]. Moreover, tin fell.", ["They left the U.S. [1].", "Moreover, tin fell."]),
        ("Shown by Roe et al. [3]. Later work agreed.", ["Shown by Roe et al. [3].", "Later work agreed."]),
        ("Roe et al. [3] said so. Others agreed.", ["Roe et al. [3] said so.", "Others agreed."]),
        ("Wood, stone, etc. [2]. Tin is dearer.", ["Wood, stone, etc. [2].", "Tin is dearer."]),
        ("It is made by Tin Inc. [4]. It sells.", ["It is made by Tin Inc. [4].", "It sells."]),
        ("He has a Ph.D. [2]. She has two.", ["He has a Ph.D. [2].", "She has two."]),
    ],
)
def test_citations_after_a_full_stop_belong_to_the_sentence_before(answer: str, sentences: list[str]) -> None:
    claims = claims_of(answer, splitter="sentences")
    assert [claim.text for claim in claims] == sentences
    assert [folded(answer[claim.start : claim.end]) for claim in claims] == sentences
    numbers = [[int(number) for number in re.findall(r"(?:\[|Passage )(\d+)[\])]", text)] for text in sentences]
    assert [claim.marks for claim in claims] == numbers
    assert [claim.urls for claim in claims] == [re.findall(r"https://[a-z./]+", text) for text in sentences]


def test_the_splitter_for_lists_keeps_marks_with_what_they_follow() -> None:
    answer = "Metals:\n1. Tin melts. [1] [2]\n2. Lead\n"
    assert [(claim.text, claim.marks) for claim in claims_of(answer, splitter="lists")] == [
        ("Metals:", []),
        ("Tin melts. [1] [2]", [1, 2]),
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("## Causes\nTin is slow [1].\n\n**Remedies**\n\nKeep it warm.", ["Tin is slow [1].", "Keep it warm."]),
        ("He said:\n> Tin pest is\n> slow [1].\nSo it is.", ["He said:", "Tin pest is slow [1].", "So it is."]),
        ("**Cost.** It is low. **Time:** one day.", ["**Cost.** It is low.", "**Time:** one day."]),
        ("1. **Footing**\n   It must be level.\n2. **Cope**: sheds rain",
         ["**Footing**", "It must be level.", "**Cope**: sheds rain"]),
        ("Tin melts.\n```\nprint(232)\n```\nLead melts.", ["Tin melts.", "Lead melts."]),
        ("Tin melts [1].\n\nReferences:\n[1] https://a.example/x", ["Tin melts [1]."]),
        ("Fig. 2 [6] and vol. 3 [4] say so, cf. [5]. It melts at 9 p.m. [1] Then it sets.",
         ["Fig. 2 [6] and vol. 3 [4] say so, cf. [5].", "It melts at 9 p.m. [1]", "Then it sets."]),
    ],
)  # fmt: skip
def test_the_splitter_for_lists_leaves_out_headings_code_marks_of_quotes_and_references(
    answer: str, expected: list[str]
) -> None:
    assert texts(answer, splitter="lists") == expected


@pytest.mark.parametrize("splitter", ["sentences", "lists"])
@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("Tin melts [cite: 1, 2]. Lead melts, too.[cite: 3]",
         [("Tin melts [cite: 1, 2].", [1, 2]), ("Lead melts, too.[cite: 3]", [3])]),
        ("[cite_start]Tin melts[cite: 4]. So it is.", [("Tin melts[cite: 4].", [4]), ("So it is.", [])]),
        ("Tin melts.² Lead metal¹,³ does. It has 5 km² or 600 m³.",
         [("Tin melts.²", [2]), ("Lead metal¹,³ does.", [1, 3]), ("It has 5 km² or 600 m³.", [])]),
        ("Tin melts<sup>[1]</sup>. An area of 5 m<sup>2</sup> is small.",
         [("Tin melts<sup>[1]</sup>.", [1]), ("An area of 5 m<sup>2</sup> is small.", [])]),
        ("Tin melts【4†source】. Lead does, too.", [("Tin melts【4†source】.", [4]), ("Lead does, too.", [])]),
    ],
)  # fmt: skip
def test_marks_of_other_chatbots_are_read(answer: str, claims: list[tuple[str, list[int]]], splitter: str) -> None:
    assert [(claim.text, claim.marks) for claim in claims_of(answer, splitter=splitter)] == claims


def test_planted_lists_are_found_better_by_the_splitter_that_knows_them() -> None:
    plain, lists = planted("sentences"), planted("lists")
    assert len(PLANTED) >= 10
    assert plain["recall"] < 0.4 < 0.9 < lists["recall"]
    assert plain["precision"] < 0.4 < 0.9 < lists["precision"]


# ---------------------------------------------------------------- real answers


@needs_real
def test_published_claims_are_found_in_their_answers_to_the_letter() -> None:
    """1,232 of 1,237; the other five are of two answers that the authors put together from claims, line ends lost."""
    found = total = 0
    for one in released():
        known = set(texts(one["answer_string"]))
        total += len(one["claims"])
        found += sum(folded(claim["claim_string"]) in known for claim in one["claims"])
    assert (found, total) == (1_232, 1_237)


@needs_real
def test_no_rule_drops_a_published_claim() -> None:
    for one in released():
        every = set(texts(one["answer_string"], small_talk=False, least_characters=1, questions=False))
        dropped = every - set(texts(one["answer_string"]))
        assert not dropped & {folded(claim["claim_string"]) for claim in one["claims"]}


@needs_real
def test_the_splitter_for_lists_leaves_fewer_very_long_claims_in_real_answers() -> None:
    def long(splitter: str) -> float:
        claims = [text for given in released() for text in texts(given["answer_string"], splitter=splitter)]
        return sum(len(text) > 300 for text in claims) / len(claims)

    assert long("lists") < 0.8 * long("sentences")


# ---------------------------------------------------------------- the stage


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def source(number: int, **given: Any) -> dict[str, Any]:
    return {"number": number, "url": None, "passage_id": None, "title": None, "text": None} | given


def test_a_claim_has_the_sources_it_cites_and_names_the_numbers_that_no_source_has(home: Home) -> None:
    cited = [
        source(1, url="https://a.example", passage_id="p#0", text="Tin melts at 232 degrees."),
        source(2, url="https://b.example"),
    ]
    text = "Tin melts [2] [1] [7]. Lead melts [https://b.example]. Zinc melts."
    made = home.run(split_claims, home.table(ANSWERS, [answer("a1", "q", text=text, cited=cited)]), **RULES)
    first, second, third = made
    assert (first["claim_id"], first["position"], first["marks"], first["unmatched"]) == ("a1#0", 0, [2, 1, 7], [7])
    assert [piece["number"] for piece in first["evidence"]] == [2, 1]
    assert first["evidence"][1] == {
        "number": 1,
        "url": "https://a.example",
        "passage_id": "p#0",
        "text": "Tin melts at 232 degrees.",
        "given": None,
    }
    assert (second["marks"], [piece["number"] for piece in second["evidence"]]) == ([], [2])
    assert third["evidence"] == []
    assert text[third["start"] : third["end"]] == third["text"] == "Zinc melts."
    assert made.parts is not None
    assert dict(made.parts[0].counts) == {"marks without a source": 1}


def test_answers_that_abstain_or_say_nothing_are_set_aside(home: Home) -> None:
    given = [
        answer("a1", "q", text="I don't know. It is not there.", abstention="i don't know"),
        answer("a2", "q", text="What is tin?"),
        answer("a3", "q", text="Tin is a metal."),
        answer("a4", "q", text="Tin.", kind="released", claims="[]"),
    ]
    made = home.run(split_claims, home.table(ANSWERS, given), **RULES)
    assert [row["answer_id"] for row in made] == ["a3"]
    assert home.rejected(made) == {"a1": "abstains", "a2": "no claim", "a4": "no claim"}


def test_released_claims_are_kept_unchanged_with_their_spans(home: Home) -> None:
    evidence = "[1] https://a.example\n\nTin  melts.\n\nSoon."
    claims = [
        {"claim_string": "  Tin melts [1].", "evidence": [evidence], "support": None},
        {"claim_string": "Tin melts [1].", "evidence": []},
        {"claim_string": "Nowhere [3].", "evidence": None, "n": 1.0},
    ]  # fmt: skip
    text = "So.\n\nTin\nmelts [1]. Or: Tin melts [1]."
    row = answer(
        "a1", "q", text=text, kind="released", claims=json.dumps(claims), cited=[source(1, url="https://a.example")]
    )
    made = home.run(split_claims, home.table(ANSWERS, [row]), **RULES)
    first, second, third = made
    assert first["text"] == "  Tin melts [1]."
    assert text[first["start"] : first["end"]] == "Tin\nmelts [1]."
    assert second["start"] == text.index("Tin melts")
    assert (third["start"], third["end"], third["marks"], third["unmatched"]) == (None, None, [3], [3])
    assert [json.loads(claim["original"]) for claim in made] == claims
    assert first["evidence"] == [
        {
            "number": 1,
            "url": "https://a.example",
            "passage_id": None,
            "text": "Tin  melts.\n\nSoon.",
            "given": evidence,
        }
    ]
    assert made.parts is not None
    assert dict(made.parts[0].counts) == {"marks without a source": 1, "claims not found in their answer": 1}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[3] https://a.example/b", (3, "https://a.example/b", None)),
        ("[3] https://a.example/b\n\nTin melts.", (3, "https://a.example/b", "Tin melts.")),
        ("[3] https://a.example/b (a page)", (3, "https://a.example/b", "(a page)")),
        ("https://a.example/b", (None, "https://a.example/b", None)),
        ("Tin melts.", (None, None, "Tin melts.")),
        ("[3] Vane, On Tin", (3, None, "Vane, On Tin")),
        ("", (None, None, None)),
    ],
)  # fmt: skip
def test_evidence_as_released_is_read_and_kept(given: str, expected: tuple[int | None, str | None, str | None]) -> None:
    found = parse_evidence(given)
    assert (found["number"], found["url"], found["text"]) == expected
    assert found["given"] == given


@needs_real
def test_released_claims_keep_text_and_evidence_and_most_have_a_span(home: Home) -> None:
    from tasks.expertqa.answers.released import answer_columns

    rows = []
    for number, one in enumerate(released()):
        columns = answer_columns("expertqa/q", f"system{number}", one["answer_string"], one["attribution"])
        rows.append({**columns, "kind": "released", "claims": json.dumps(one["claims"])})
    made = list(home.run(split_claims, home.table(ANSWERS, rows), **RULES))
    published = [claim for given in released() for claim in given["claims"]]
    assert len(published) == 1_237
    assert [row["text"] for row in made] == [claim["claim_string"] for claim in published]
    assert [[piece["given"] for piece in row["evidence"]] for row in made] == [claim["evidence"] for claim in published]
    assert [json.loads(row["original"]) for row in made] == published
    assert sum(row["start"] is None for row in made) == 0
    answers = {row["answer_id"]: row["text"] for row in rows}
    for row in made:
        assert folded(answers[row["answer_id"]][row["start"] : row["end"]]) == folded(row["text"])
        assert all(piece["url"] and piece["number"] for piece in row["evidence"])


def _lists(text: str) -> list[str]:
    return [claim.text for claim in claims_of(text, splitter="lists")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('He said "It is late. [1]" She left.', ['He said "It is late. [1]"', "She left."]),
        ('He said "It is late." [1] She left.', ['He said "It is late." [1]', "She left."]),
        ("It fell in Dec. [1]. Prices rose.", ["It fell in Dec. [1].", "Prices rose."]),
        ("It fell in Dec. [1] 1990. Prices rose.", ["It fell in Dec. [1] 1990.", "Prices rose."]),
        ("It is approx. 3 m. Use version 2.0.", ["It is approx. 3 m.", "Use version 2.0."]),
        ("See p. 3 s. Vane for it.", ["See p. 3 s. Vane for it."]),
        (
            "He joined Yahoo! Inc. [1] in May. Hooray! It grew.",
            ["He joined Yahoo! Inc. [1] in May.", "Hooray!", "It grew."],
        ),
        ("Tin melts.\n\nSources: [1] a.example, [2] b.example", ["Tin melts."]),
        ("Sources: [1] says tin melts.", ["Sources: [1] says tin melts."]),
        (
            "It lives there now http://h/ok9. See also the sea.",
            ["It lives there now http://h/ok9.", "See also the sea."],
        ),
    ],
)
def test_stops_quotes_and_citations_side_by_side_are_cut_where_sentences_end(text: str, expected: list[str]) -> None:
    assert _lists(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "As an AI language model, I cannot judge.",
        "Hello!",
        "I hope this helps!",
        "I'm sorry, but as an AI, I can't say.",
        "**Great question!**",
        "I'm happy to help.",
    ],
)
def test_what_a_chatbot_says_of_itself_is_no_claim_of_a_new_answer(text: str) -> None:
    assert _lists(f"{text}\n\nTin melts.") == ["Tin melts."]


@pytest.mark.parametrize(
    "text",
    [
        "As an AI language model, GPT-4 was trained on text.",
        "As an AI language model, I cannot judge, but tin melts at low heat.",
        "As an AI language model, I note that tin melts [1].",
        "Hello is a greeting.",
        "I hope this helps the patient recover from it.",
        "Great questions are open ones.",
    ],
)
def test_what_only_begins_like_small_talk_is_a_claim(text: str) -> None:
    assert _lists(text) == [text]


def test_the_papers_splitter_keeps_the_small_talk_that_was_published() -> None:
    assert [claim.text for claim in claims_of("I hope this helps.", splitter="sentences")] == ["I hope this helps."]


def test_a_bare_address_at_the_end_of_a_claim_is_its_evidence() -> None:
    text = "It lives near the harbour http://h/ok9. Go to http://h/ok8."
    body, cited = cited_sources(text)
    first, second = (linked(claim, cited) for claim in claims_of(body, splitter="lists"))
    assert [one["url"] for one in first["evidence"]] == ["http://h/ok9"]
    assert second["evidence"] == []


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("[3] [Title of it](http://h/ok12)", (3, "Title of it", "http://h/ok12", "")),
        ("[Title](http://h/a_(b)) A passage.", (None, "Title", "http://h/a_(b)", "A passage.")),
        ("[3] http://h/ok12\n\nA passage", (3, None, "http://h/ok12", "A passage")),
        ("[3] Title (1911)", (3, None, None, "Title (1911)")),
    ],
)
def test_a_source_is_read_with_its_link(source: str, parts: tuple[object, ...]) -> None:
    assert parts_of(source) == parts


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("Take 5 mg (max. 400 mg) a day [1]. It is safe.",
         [("Take 5 mg (max. 400 mg) a day [1].", [1]), ("It is safe.", [])]),
        ("He left in Sept. [5]. In Oct. a successor came.",
         [("He left in Sept. [5].", [5]), ("In Oct. a successor came.", [])]),
        ("Children need more. [4] argues for nine.", [("Children need more.", []), ("[4] argues for nine.", [4])]),
        ("Smith et al. [3] found that it works.", [("Smith et al. [3] found that it works.", [3])]),
    ],
)  # fmt: skip
def test_abbreviations_before_numbers_and_marks_that_open_a_sentence(
    answer: str, claims: list[tuple[str, list[int]]]
) -> None:
    assert [(claim.text, claim.marks) for claim in claims_of(answer, splitter="lists")] == claims


@pytest.mark.parametrize(
    "sentence",
    [
        "The Univ. [3] of Leeds keeps the archive.",
        "A lot of 900 sq. ft. [1] costs less.",
        "Clostridium spp. [1] form spores.",
        "Adm. [2] Harlan led the fleet.",
        "The alt. [1] is 900 m.",
        "The drug is given b.i.d. [1] for ten days.",
        "In the 2nd ed. [1] there is an index.",
    ],
)
@pytest.mark.parametrize("following", ["", " Others agree."])
def test_the_stop_of_an_abbreviation_before_a_citation_ends_no_claim(sentence: str, following: str) -> None:
    found = [claim.text for claim in claims_of(f"It rained. {sentence}{following}", splitter="lists")]
    assert found == ["It rained.", sentence, *filter(None, [following.strip()])]


@pytest.mark.parametrize(
    "first",
    ["The plot has 900 sq. ft. [1].", "It was sold by Denby & Co. [2]", "The bottle holds 12 oz. [1].",
     "She got her Ph.D. [2].", "The deed was drawn by A. Denby, Esq. [1]"],
)  # fmt: skip
def test_an_abbreviation_before_a_citation_may_end_a_claim(first: str) -> None:
    found = [claim.text for claim in claims_of(f"{first} Later owners kept it.", splitter="lists")]
    assert found == [first, "Later owners kept it."]


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("[1] Tin melts. [2] [4] Lead is soft. [3] Ice floats.",
         [("[1] Tin melts.", [1]), ("[2] [4] Lead is soft.", [2, 4]), ("[3] Ice floats.", [3])]),
        ("[1] shows that tin melts. [2] shows that lead does.",
         [("[1] shows that tin melts.", [1]), ("[2] shows that lead does.", [2])]),
        ("[1] shows that tin melts [2].", [("[1] shows that tin melts [2].", [1, 2])]),
        ("Two facts:\n- [1] Tin melts.\n- [2] Lead is soft.",
         [("Two facts:", []), ("[1] Tin melts.", [1]), ("[2] Lead is soft.", [2])]),
        ("Tin melts. [1] [2] Lead is soft. [3]", [("Tin melts. [1] [2]", [1, 2]), ("Lead is soft. [3]", [3])]),
    ],
)  # fmt: skip
def test_citations_before_their_sentences_belong_to_these(answer: str, claims: list[tuple[str, list[int]]]) -> None:
    assert [(claim.text, claim.marks) for claim in claims_of(answer, splitter="lists")] == claims
