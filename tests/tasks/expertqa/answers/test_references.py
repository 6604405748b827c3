"""Lists of sources and closing notes go from the answers to train on; lists that are what was asked for stay."""

from __future__ import annotations

import time

import pytest

from tasks.expertqa.answers.plain import plain
from tasks.expertqa.answers.references import cited_sources, references

BODY = "Tin melts at 232 degrees [1]. Lead melts later [2]."
PLAIN = "Tin melts at 232 degrees. Lead melts later."


@pytest.mark.parametrize("tail", [
    'References: [1] Smith 2010, [2] Jones 2012',
    '**References:** [1] Smith 2010; [2] Jones 2012.',
    'Sources: 1. Roe, On Tin (2010) 2. Doe, On Lead (2012)',
    'Sources: [1] Handbook of Tin, [2] Lead Today',
    'References\n[1] Roe, A. On the melting of tin in the\n    modern world. Tin, 2010.\n[2] Doe, B. Lead.',
    'References\n1. Roe, A. On tin in the\nworld. Tin 12: 3-9.\n2. Doe, B. Lead and\nits uses. Lead 4: 1-2.',
    '---\n\n## Works Cited\n\nRoe, Anna. *On Tin*. Vane Press, 2010.\n\nDoe, Ben. "Lead." Lead Review, 2012.',
    '---\n**Sources**\n[1] Handbook of Tin\n[2] Lead Today',
    '**Notes**\n\n1. Roe, On Tin, 2010, p. 3.\n2. Doe, Lead, 2012.',
    '### Further reading\n- Roe, A. (2010). On Tin. Vane Press.\n- Doe, B. (2012). Lead.',
    '**Sources**\n\n| # | Source |\n|---|---|\n| 1 | Handbook of Tin |\n| 2 | Lead Today |',
    '| No. | Title | URL |\n|---|---|---|\n| [1] | Tin | https://a.example/x |\n| [2] | Lead | https://b.example |',
    '| **Sources** |\n|---|\n| [1] Handbook of Tin |\n| [2] Lead Today |',
    'Note: the numbers refer to the sources above.',
    '*Note: Numbers in brackets correspond to the references listed above.*',
    'References:\n[1] Handbook of Tin\n[2] Lead Today\n\nNote: numbers in square brackets refer to these sources.',
    'Sources:\n[1] https://a.example\n[2] https://b.example\n\nI hope this helps! Let me know if not.',
    'Sources used:\n- Handbook of Tin (2010)\n- https://b.example/y',
    '5. References\n\n[1] Handbook of Tin\n[2] Lead Today',
    '📚 **Sources:**\n1. [Handbook](https://a.example/x)\n2. [Lead](https://b.example/y)',
    'Quellen:\n[1] Handbuch des Zinns\n[2] Blei heute\n\nHinweis: Die Zahlen beziehen sich auf die Quellen oben.',
    'Références : [1] Roe 2010, [2] Doe 2012',
    '<h3>References</h3>\n[1] Handbook of Tin\n[2] Lead Today',
    'Sources: Roe (2010); Doe (2012).',
    '---\nReferences\n\n[1]: Handbook of Tin\n\n[2]: Lead Today\n---',
    'Notes:\n[1] Handbook of Tin, ch. 3\n[2] Lead Today',
    '---\n*Sources: [1] Meadow Museum; [2] Insect Notes, vol. 8.*',
    '(Sources: [1] Meadow Museum, [2] Insect Notes)',
    '### Footnotes\n\n[^1]: von Hagen, The Dance of Bees, ch. 2.\n[^2]: Orr, Angles, p. 14.',
    '**References used in this answer**\n\n[1] The Dance of Bees\n[2] Insect Notes',
    'Sources:\n\n[1] **The Dance of Bees** - a classic study.\n\n[2] **Insect Notes** - a journal of the museum.',
    '| Reference | Source |\n|:--|:--|\n| [1] | The Dance of Bees, 1967 |\n| [2] | Insect Notes 8, 1971 |',
    'The bracketed numbers above correspond to the documents in the prompt.',
    'Citation numbers refer to the search results provided.',
    '_Numbers in square brackets indicate the passages used._',
    'Please note: citations [1] and [2] refer to the sources listed above.',
    'Nota: los números entre corchetes se refieren a las fuentes citadas.',
    'Źródła:\n1. Hagen, K., Taniec pszczół, 1967\n2. Orr, L., Kąty, 1971',
    '参考文献：\n[1] 哈根，《蜜蜂的舞蹈》，1967年。\n[2] 奥尔，《角度》，1971年。',
    'References [1] The Dance of Bees [2] Insect Notes',
    'REFERENCES\n----------\n1 - The Dance of Bees, 1967\n2 - Insect Notes, 1971',
])  # fmt: skip
def test_a_list_of_sources_goes_with_its_rules_and_notes(tail: str) -> None:
    text = f"{BODY}\n\n{tail}"
    assert plain(text, {1, 2}) == PLAIN
    assert plain(f"{PLAIN}\n\n{PLAIN}\n\n{tail}").startswith(f"{PLAIN}\n\n{PLAIN}")


@pytest.mark.parametrize("content", [
    'Sources of iron: spinach, lentils and beans.',
    'Sources of iron:\n1. Spinach\n2. Lentils\n3. Beans',
    'Sources:\n- Spinach\n- Lentils\n- Beans',
    '**Sources**\n1. Spinach\n2. Red meat\n3. Beans',
    'Notes:\n- Keep it in the fridge.\n- It serves four people.',
    'Notes\n1. Let the dough rest.\n2. Use cold water.',
    'Here are five books:\n1. *On Tin* by Anna Roe (2010)\n2. *Lead* by Ben Doe (2012)',
    'Recommended books:\n- Roe, A. (2010). On Tin.\n- Doe, B. (2012). Lead.',
    '| Food | Source |\n|---|---|\n| Iron | Spinach |\n| Zinc | Oysters |',
    '| Metal | Melts at | Source |\n|---|---|---|\n| Tin | 232 | Roe 2010 |\n| Lead | 327 | Doe 2012 |',
    'A thesis has these parts:\n- Introduction\n- Methods\n- References',
    'The numbers refer to the year of the harvest.',
    'Sources: spinach, lentils and beans.',
    'See also the sea.\n\nLinks:\n- The first link is made of iron.\n- The second is made of tin.',
    'Source: the spring lies at 900 m. It feeds the lake.',
    '## Sources\nThe river has two sources in the hills.\n\n## Mouth\nIt ends in the sea.',
    'References: ask two former employers.',
    'Further reading of the meter shows 12 units.',
    'First step.\n\n---\n\nSecond step.',
    'Note: the numbers in the table are rounded.',
    'Sources:\n1. Sunlight heats the water.\n2. Geothermal heat does, too.',
    '| Title | Author | Year |\n|---|---|---|\n| On Tin | Roe | about forty |\n| Lead | Doe | old |',
    'Protein comes from many foods.\n\nSources:\n* eggs\n* lentils\n* tofu',
    'Vitamin D.\n\n**Sources:** oily fish, egg yolk and sunlight.',
    '| Mineral | Best sources | Amount |\n|---|---|---|\n| Iron | lentils | 6 mg |\n| Zinc | oysters | 70 mg |',
    'The report needs:\n1. Title page\n2. Abstract\n3. References',
    'Cook the rice.\n\nNotes:\n1) Rinse it before.\n2) Let it stand for ten minutes.',
    'A citation shows where a claim is from. The numbers in the margin refer to lines of the poem.',
    'Water is noise-free here.\n\nSources of noise: traffic (2 of 3), aircraft and neighbours.',
    'Three films won: Meadow (2001), River (2005) and Hill (2010).',
    'Useful links in a chain:\n- the hook, made in 1890\n- the ring',
    'For a CV, write:\n\nReferences:\n- Your last employer\n- A teacher',
    'The tables of the law.\n\n---\n\nHe broke them.',
    'See www.meadow.example for opening hours, or write to the museum.',
    'Dates:\n1. 1967\n2. 1971\n3. 1980',
    'Energy sources\n1. Wind\n2. Sun\n3. Water',
])  # fmt: skip
def test_a_list_that_is_what_was_asked_for_stays(content: str) -> None:
    text = f"Iron is needed.\n\n{content}"
    assert plain(text) == text
    assert references(text) == (len(text), {})


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("References: [1] Roe 2010, [2] Doe 2012", {1: (None, "Roe 2010"), 2: (None, "Doe 2012")}),
        (
            "Sources:\n[1] Roe, On Tin, in the\n    Tin Review. https://a.example/x\n[2] Doe 2012",
            {1: ("https://a.example/x", "Roe, On Tin, in the Tin Review"), 2: (None, "Doe 2012")},
        ),
        (
            "| No. | Title | URL |\n|---|---|---|\n| 1 | Tin | https://a.example/x |\n| 2 | Lead | doi:10.1000/y |",
            {1: ("https://a.example/x", "Tin"), 2: ("https://doi.org/10.1000/y", "Lead")},
        ),
        (
            "References\n[1] Roe 2010\n\nFurther reading\n- Doe (2012). Lead. www.b.example/y",
            {1: (None, "Roe 2010"), 2: ("https://www.b.example/y", "Doe (2012). Lead")},
        ),
    ],
)
def test_sources_are_read_from_every_form_of_a_list(tail: str, expected: dict[int, tuple[str | None, str]]) -> None:
    body, cited = cited_sources(f"{BODY}\n\n{tail}")
    assert body == BODY
    assert {row["number"]: (row["url"], row["title"]) for row in cited} == expected


def test_a_list_that_is_all_of_an_answer_is_split_off_and_hostile_lists_take_no_time() -> None:
    assert references("References:\n1. Roe, On Tin, 2010")[0] == 0
    started = time.process_time()
    for text in ("| a " * 50_000, "\n| 1 | b |" * 20_000, "\nSources: [1] A" * 5_000, "Note: the numbers " * 10_000):
        references(text)
    assert time.process_time() - started < 8
