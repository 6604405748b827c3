"""Categories of edits to related work, by names and descriptions as models write them, sorted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.replies import INTENTIONS, ProposedEdit
from tasks.revision_distance.drafts import categories
from tasks.revision_distance.drafts.categories import CATEGORIES, Category, category, unquoted


def edit(action: str, description: str = "", original: str = "", revised: str = "", **given: str) -> ProposedEdit:
    told = {"revision_level": "sentence", "revision_intention": "clarity", **given}
    return ProposedEdit.model_validate(
        {
            "action_name": action,
            "revision_description": description,
            "original_snippet": original,
            "revised_snippet": revised,
            "preceding_snippet": None,
            **told,
        }
    )


NAMES = {
    "order": [
        "reorder",
        "Reorder",
        "re-order references",
        "Rearrange citations",
        "move",
        "move and change",
        "Moved sentence",
        "swap",
        "reposition",
        "relocate",
        "resequence",
        "restructure",
        "Reorganise paragraph",
        "reorganize",
        "group",
        "regroup references",
        "chronological ordering",
        "change_order",
        "transpose",
        "sort by year",
    ],
    "comparison": [
        "compare",
        "add comparison",
        "Add Contrast",
        "contrast references",
        "relate",
        "connect references",
        "link studies",
        "juxtapose",
        "integrate",
        "synthesize",
        "differentiate",
        "expand comparison",
        "add_comparative_discussion",
        "highlight differences",
        "state relationship between works",
    ],
    "description": [
        "simplify",
        "Simplify",
        "elaborate",
        "expand",
        "condense",
        "shorten description",
        "summarise",
        "summarize",
        "add detail",
        "Specify",
        "clarify",
        "make concise",
        "trim",
        "paraphrase",
        "generalise",
        "cite",
        "add citation",
        "reduce",
    ],
    "other": [
        "fix grammar",
        "correct spelling",
        "punctuation",
        "Fix typo",
        "capitalise",
        "format",
        "remove greeting",
        "proofread",
        "delete heading",
        "change tense",
    ],
}


@pytest.mark.parametrize(("wanted", "name"), [(wanted, name) for wanted, names in NAMES.items() for name in names])
def test_what_the_editor_calls_an_edit_decides(wanted: str, name: str):
    assert category(edit(name)) == wanted
    assert category(edit(name, "Compared the two papers in another order, in detail.")) == wanted


DESCRIPTIONS = {
    "order": [
        ("revise", "Puts the references in chronological order."),
        ("change", "Moved the discussion of parsing before that of tagging."),
        ("rewrite", "Reordered the sequence of references to match the human-written text"),
        ("modify", "The older work now comes first."),
        ("adjust", "Grouped by method, not by year."),
        ("edit", "Swapped the two sentences on evaluation, which also shortens the comparison."),
        ("improve", "The studies are rearranged so that each problem is followed by its solutions."),
    ],
    "comparison": [
        ("add", "Adds how the two methods differ in their supervision."),
        ("add", "States what both studies have in common."),
        ("insert", "Contrasts the neural models with the earlier feature-based ones."),
        ("rewrite", "Relates the second paper to the first, which it builds on."),
        ("revise", "Explains the relationship between these works instead of listing them."),
        ("add", "Points out similarities and differences among the three corpora."),
        ("replace", "Links the references into one argument."),
    ],
    "description": [
        ("remove", "Removed details regarding the benchmark."),
        ("add", "Adds a longer description of the annotation scheme of Lee et al."),
        ("change", "Describes the method by what it optimises."),
        ("rewrite", "Made the account of Park (2014) more concise."),
        ("replace", "Simplified the text in order to focus on the features."),
        ("correct", "Attributes the corpus to the right group."),
        ("add", "Mentions that the study was on speech."),
        ("revise", "Summarises the paper in one sentence, compared to the human-written text too long before."),
        ("update", "Elaborates on the sequence-to-sequence model with contrastive learning."),
        ("change", 'Shortens the sentence "we compare the order of words" a little.'),
    ],
    "other": [
        ("fix", "Corrects the grammar of a sentence that describes the corpus."),
        ("change", "Adds a comma."),
        ("remove", "Takes out the greeting at the beginning."),
        ("correct", "Fixed a typo."),
        ("add", "Adds a closing line that thanks the reader."),
        ("revise", "Makes the sentence sound better."),
        ("remove", "Takes out a remark on the weather."),
    ],
}


@pytest.mark.parametrize(
    ("wanted", "name", "description"),
    [(wanted, *said) for wanted, pairs in DESCRIPTIONS.items() for said in pairs],
)
def test_the_description_decides_where_the_name_does_not(wanted: str, name: str, description: str):
    assert category(edit(name, description)) == wanted


def test_the_papers_own_examples():
    simplified = "Simplified the text by removing details regarding CDSMs and the inclusion of the SICK benchmark."
    assert category(edit("simplify", simplified, revision_level="reference")) == "description"
    reordered = "Reordered the sequence of references to match the human-written text"
    assert category(edit("Reorder", reordered)) == "order"


def test_where_neither_says_it_the_words_themselves_may():
    cites = "Lee et al. (2014) parse news."
    assert category(edit("remove", "The draft says too much.", original=cites)) == "description"
    assert category(edit("add", "It is missing.", revised="Parsers of news are older [3].")) == "description"
    assert category(edit("add", "It is missing.", revised="(Lee and Park, 2014) is of interest.")) == "description"
    assert category(edit("change", "", original="Such studies abound.")) == "description"
    assert category(edit("change", "It is better.", original="The sun shines.", revised="The moon shines.")) == "other"
    assert category(edit("change", "", revision_level="reference")) == "description"
    assert category(edit("change", "", original=cites, revision_intention="fluency")) == "other"


def test_quoted_words_of_the_draft_are_not_the_editors():
    assert unquoted("Removes “the order” and 'a link', it's fine.").split() == ["Removes", "and", ",", "it's", "fine."]
    assert category(edit("remove", "The reference does not have the sentence “We compare the order.”")) == "other"


def test_a_quotation_may_hold_quotations():
    """Words of titles inside what an edit quotes are not the editor's."""
    said = 'Where the draft says "In "Learning to Order Lists" one reads: bring it…", the reference is otherwise.'
    assert unquoted(said).split() == ["Where", "the", "draft", "says", ",", "the", "reference", "is", "otherwise."]
    assert unquoted('Says ""A Grammar of Signs" puts it thi…" here.').split() == ["Says", "here."]
    assert unquoted('Says "In "Moving Pict…", then ends.').split() == ["Says", ",", "then", "ends."]
    assert unquoted('Puts "a" for "b" and (“c”, "d").').split() == ["Puts", "for", "and", "(", ",", ")."]
    assert unquoted('A 5" disk, a 3" disk').split() == ["A", '5"', "disk,", "a", '3"', "disk"]
    cites = "Roe et al. (2010) read signs."
    for title in ("Learning to Order Lists", "A Grammar of Signs", "Comparing Bells"):
        told = f'Where the draft says "In "{title}" one reads: bring it…", the reference says something else.'
        assert category(edit("rewrite", told, original=cites)) == "description"


def test_a_title_in_quotes_names_a_reference():
    assert category(edit("remove", original='"Timing Jokes" puts it this way: they are short.')) == "description"
    assert category(edit("remove", original="In “Hedges and Ditches” one reads more.")) == "description"
    assert category(edit("remove", original='They say "Once more" and go.')) == "other"
    assert category(edit("remove", original="All in all it is short.")) == "other"


def test_stored_edits_have_the_category_of_replies():
    told = edit("move")
    assert category(told.model_dump()) == category(told) == "order"


def test_every_word_of_the_lexicon_is_found_as_its_own_category():
    """Nothing in it is dead: shadowed by what is ignored, or of two categories."""
    document = json.loads(Path(categories.__file__).with_name("categories.json").read_text())
    assert [name for name in document if name in CATEGORIES] == ["order", "comparison", "other", "description"]
    for name in CATEGORIES:
        for words in document[name].values():
            assert len(words) == len(set(words))
            for word in words:
                assert category(edit(f"all {word.removesuffix('*')} here")) == name, word


@given(st.text(max_size=80), st.text(max_size=80), st.sampled_from(INTENTIONS), st.text(max_size=80))
def test_every_edit_has_one_category(action: str, description: str, intention: str, snippet: str):
    told = edit("x", description, snippet, revision_intention=intention).model_dump() | {"action_name": action}
    assert category(told) in get_args(Category)


def test_long_words_are_read_in_no_time():
    told = edit("x", "“" * 1_000_000, "(" * 1_000_000, "[" * 1_000_000)
    assert category(told) == "other"
    assert unquoted('"' * 1_000_000).strip('" ') == ""
