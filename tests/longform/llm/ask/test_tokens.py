"""Counting tokens offline; the numbers expected are those of two public vocabularies, o200k_base and cl100k_base."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.llm.ask.keys import canonical
from longform.llm.ask.tokens import count, upper_bound

PROSE = (
    "The bitterness units of a beer tell you how much iso-alpha acid it holds, not how bitter it tastes. A stout with "
    "60 IBU may seem milder than a pale ale with 40, because roasted malt and residual sugar hide the hops. If you "
    "want to compare two beers, look at the ratio of bitterness to original gravity instead."
)
CODE = (
    "def mean(values: list[float]) -> float:\n"
    '    """The arithmetic mean, or 0.0 of nothing."""\n'
    "    if not values:\n"
    "        return 0.0\n"
    "    return sum(values) / len(values)\n"
)
JSON = '{"question_id": "beer/1042", "votes": 17, "tags": ["hops", "brewing"], "accepted": true, "parent": null}'
GERMAN = "Die Gärung bei niedriger Temperatur dauert länger, dafür entstehen weniger unerwünschte Nebenprodukte."
RUSSIAN = "Брожение при низкой температуре длится дольше, зато образуется меньше побочных продуктов."
CHINESE = "低温发酵需要更长的时间，但产生的副产物较少。"


@pytest.mark.parametrize(
    ("text", "tokens", "error"),
    [
        (PROSE, (70, 70), 0.05),
        (CODE, (46, 45), 0.1),
        (JSON, (37, 37), 0.1),
        (GERMAN, (21, 29), 0.25),
        (RUSSIAN, (21, 42), 0.8),
        (CHINESE, (19, 26), 0.5),
    ],
)
def test_a_count_is_near_that_of_real_vocabularies(text: str, tokens: tuple[int, int], error: float) -> None:
    assert min(tokens) * (1 - error) <= count(text) <= max(tokens) * (1 + error)
    assert count(text * 50) == pytest.approx(50 * count(text), rel=0.05)


def test_nothing_is_no_token() -> None:
    assert count("") == 0


@given(st.text(st.characters(), max_size=300))
def test_every_text_has_a_count_and_a_bound_above_its_bytes(text: str) -> None:
    bound = upper_bound(text)
    assert bound >= len(text.encode("utf-8", "surrogatepass"))
    assert bound >= count(text) >= (1 if text else 0)
    sent = canonical({"messages": [{"role": "user", "content": text}] * 20})
    assert upper_bound(sent) >= 20 * (len(text.encode("utf-8", "surrogatepass")) + 16)


def test_half_a_surrogate_pair_can_be_counted() -> None:
    assert count("\ud83d tea") >= 1
    assert upper_bound("\ud83d tea") > 4
