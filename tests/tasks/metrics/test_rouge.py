"""ROUGE: in Latin script the package's figures to the last digit; in others by counting words or characters by hand."""

from collections import Counter
from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.metrics.rouge import KINDS, rouge

Tokens = list[str]


def found(text: str, reference: str) -> dict[str, float]:
    return next(rouge([(text, [reference])]))


def f(common: int, own: int, wanted: int) -> float:
    return 2 * common / (own + wanted) if own + wanted else 0.0


def by_hand(own: Tokens, wanted: Tokens) -> dict[str, float]:
    """ROUGE by its definition, with the longest common subsequence in a full table."""
    pairs, wanted_pairs = (list(pairwise(one)) for one in (own, wanted))
    row = [0] * (len(wanted) + 1)
    for token in own:
        new = [0]
        for at, other in enumerate(wanted):
            new.append(row[at] + 1 if token == other else max(row[at + 1], new[-1]))
        row = new
    return {
        "rouge1": f((Counter(own) & Counter(wanted)).total(), len(own), len(wanted)),
        "rouge2": f((Counter(pairs) & Counter(wanted_pairs)).total(), len(pairs), len(wanted_pairs)),
        "rougeL": f(row[-1], len(own), len(wanted)),
    }


ENGLISH = st.text(st.sampled_from("abc ABC 12.,-'_\n"), max_size=60)
WITH_ACCENTS = [
    "A naïve café, e.g. Müller's.",
    "The α-helix of Gdańsk (王) is here, as a naïve reader of café menus says.",
]


@given(ENGLISH | st.sampled_from(WITH_ACCENTS), ENGLISH | st.sampled_from(WITH_ACCENTS))
def test_english_has_the_packages_figures(text: str, reference: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    theirs = RougeScorer(list(KINDS)).score(reference, text)
    assert found(text, reference) == {kind: theirs[kind].fmeasure for kind in KINDS}


@pytest.mark.parametrize(
    ("text", "reference", "own", "wanted"),
    [
        ("猫在垫子上睡觉。", "狗在垫子上。", "猫 在 垫 子 上 睡 觉", "狗 在 垫 子 上"),
        ("猫はPython 3を読む", "犬はPython 3を読んだ。", "猫 は python 3 を 読 む", "犬 は python 3 を 読 ん だ"),
        ("Старый паром, 1987 г.", "старый ПАРОМ ушёл", "старый паром 1987 г", "старый паром ушёл"),
        ("पुरानी नाव चली।", "पुरानी नाव डूबी।", "पुरानी नाव चली", "पुरानी नाव डूबी"),
        ("عبر المركب النهر؟", "عبر القارب النهر.", "عبر المركب النهر", "عبر القارب النهر"),
        ("낡은 배가 떠났다.", "낡은 배가 왔다.", "낡은 배가 떠났다", "낡은 배가 왔다"),
        ("กินข้าว", "กินน้ำ", "กิ น ข้ า ว", "กิ น น้ ำ"),
        ("ខ្ញុំ", "ខ្ញុំទៅ", "ខ្ ញុំ", "ខ្ ញុំ ទៅ"),
    ],
)
def test_other_scripts_are_counted_by_words_or_by_characters_with_their_marks(
    text: str, reference: str, own: str, wanted: str
) -> None:
    words, others = own.split(), wanted.split()
    assert found(text, reference) == pytest.approx(by_hand(words, others))
    assert found(normalize("NFD", text), reference) == pytest.approx(by_hand(words, others))


def test_a_text_in_another_script_than_its_reference_has_nothing_in_common_with_it() -> None:
    assert set(found("The cat sleeps on the mat.", "猫在垫子上睡觉。").values()) == {0.0}
    assert found("猫在垫子上", "猫在垫子上") == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}


def test_texts_without_words_score_0() -> None:
    assert set(found("", "猫").values()) == set(found("。", "…").values()) == {0.0}
