"""The offline model's rules for LLMCrit: criteria, changed texts, feedback, and verdicts, through the real prompts."""

from __future__ import annotations

import ast
import re
import time
from typing import Any

import paths
import pytest

from longform.llm import offline
from longform.llm.ask.prompts import load_prompt
from longform.llm.read.degenerate import degenerate
from longform.llm.read.replies import strip_end_mark
from longform.llm.read.structured import read_reply
from schemas import replies
from tasks.llmcrit.offline import RULES, _trait, compliance, traits_of
from tasks.text.markdown.named_items import named_items

NAMES = [name.removeprefix("llmcrit/") for name in RULES]
PROMPTS = {name: load_prompt(f"llmcrit/{name}", paths.ROOT / "prompts") for name in NAMES}

INTRO = """In recent years, kettles have attracted attention. A kettle boils faster with a lid [1], slower on hills.
However, it has not been measured what a lid saves. We present a study of 40 kettles. A lid saves 12 percent.
Section 2 describes the kettles. Section 3 reports the savings."""
CODE_TEXT = '''import json

def boil(litres, log=[]):
    """Return the minutes to the boil."""
    try:
        log.append(litres)
    except:
        return 0
    return litres * 3

def save(path, litres):
    target = open(path, "w")
    assert litres > 0, "no water"
    json.dump({"litres": litres}, target)
'''
POST = "Title: [WP] A lighthouse writes letters to the sea.\n\nMore at https://lamps.example/ and please upvote."
README = "# kettle\n\nBoils water for tea. Needs Python 3.11.\n\nInstall it with `pip install kettle`.\n\nLicence: MIT."
NOUNS = {INTRO: "introduction of a paper", CODE_TEXT: "Python file", POST: "post", README: "README of a library"}
OF_INTRO = [
    '**Opening**: Check that it does not open with a general remark such as "In recent years".',
    "**Gap**: Does the introduction say what is not known yet?",
    "**Overview**: Check that it closes with an overview of the sections.",
    "**No praise**: Check that it has no words of praise for the own work.",
]
OF_CODE = [
    "**Named exceptions**: Check that no bare `except:` is used.",
    "**Defaults**: Are there no lists or dictionaries as defaults of arguments?",
    "**Docstrings**: Does each function have a docstring?",
    "**Files**: Are files opened in a `with` statement?",
    "**No assertions**: Check that arguments are not checked with `assert`.",
]
OF_POST = ["**No links**: Post no links.", "**No votes**: Do not ask for votes.", "**No emoji**: Use no emoji."]
OF_README = [  # criteria of somebody else, of which the table knows few
    "**Licence**: Does the README name the licence?",
    "**Python version**: Check that the README says which version of Python is needed.",
    "**Contact**: Does the README say whom to ask about security problems?",
    "**No roadmap**: Check that the README has no plans for future releases.",
]
EVERY = [(INTRO, OF_INTRO), (CODE_TEXT, OF_CODE), (POST, OF_POST), (README, OF_README)]
MET, VIOLATED = "met", "violated"


def ask(name: str, sample: int = 0, **given: Any) -> Any:
    """The reply to a prompt, as text, or read into its class; inputs that are not given are blank."""
    prompt = PROMPTS[name]
    kind = None if prompt.reply == "WrittenAnswer" else getattr(replies, prompt.reply)
    blank = {each: [] if each in ("examples", "unhelpful", "violated", "required") else "-" for each in prompt.inputs}
    blank |= {each: ["-"] for each in ("specific", "not_specific") if each in prompt.inputs}
    inputs = {key: value for key, value in {**blank, **given}.items() if key in prompt.inputs}
    text, finish, *_ = offline.respond(RULES, prompt.request(offline.ENDPOINT, reply=kind, **inputs), sample)
    body = strip_end_mark(text)
    read = read_reply(body or "", kind, "tags") if kind else body
    assert finish == "stop"
    assert isinstance(read, kind or str), read
    return read


def ask_on(name: str, text: str, sample: int = 0, **given: Any) -> Any:
    return ask(name, sample, text=text, noun=NOUNS[text], **given)


def test_each_prompt_has_a_rule_that_reads_its_labels_and_replies_in_its_form() -> None:
    files = {path.stem for path in (paths.ROOT / "prompts" / "llmcrit").glob("*.md")}
    assert set(NAMES) == files
    for name, rule in RULES.items():
        labels = set(re.findall(r"^([A-Z][\w ]*?)(?: \{\{.*)?:$", PROMPTS[name.removeprefix("llmcrit/")].user, re.M))
        assert rule.reads == labels, name


def test_every_trait_is_chosen_by_its_own_subject() -> None:
    for code, table in ((True, traits_of("code")), (False, traits_of("prose"))):
        strays = [trait.subject for trait in table if _trait(f"**{trait.subject}**: -", code, "text") != trait]
        assert strays == []


def test_bullet_points_become_criteria_with_names_of_their_own_and_sentences_do_where_there_are_none() -> None:
    section = "## Use\n\nMost scroll.\n\n- **Example.** Show one.\n- Name the licence of it.\n- Name the licence."
    found = named_items(ask("propose_criteria", guideline=section, noun="README"))
    assert [name for name, _ in found] == ["Example", "Name the licence", "Name the licence 3"]
    section = "## Use\n\nMost scroll. A README should name its licence. Never boast."
    assert len(named_items(ask("propose_criteria", guideline=section, noun="README"))) == 2


def test_compliance_is_judged_by_a_place_of_the_text() -> None:
    verdicts = [(each[2:8], ask_on("verify", text, criterion=each).verdict) for text, of in EVERY for each in of]
    violated = ["Openin", "Named ", "Defaul", "Docstr", "Files*", "No ass", "No lin", "No vot", "Contac"]
    assert [name for name, verdict in verdicts if verdict != MET] == violated
    assert all(compliance(each, text, NOUNS[text])[1] in text for text, of in EVERY for each in of)
    assert compliance(OF_CODE[0], "import os\n\nvalue = os.name\n")[0] == "not applicable"


@pytest.mark.parametrize(("text", "criteria"), EVERY)
@pytest.mark.parametrize(("name", "verdict"), [("violate", VIOLATED), ("meet", MET)])
def test_changed_texts_are_seen_to_violate_or_meet(text: str, criteria: list[str], name: str, verdict: str) -> None:
    for chosen in (criteria, *([each] for each in criteria)):
        changed = ask_on(name, text, criteria=chosen, required=chosen)
        assert changed != text
        assert degenerate(changed, text) is None
        assert {compliance(each, changed, NOUNS[text])[0] for each in chosen} == {verdict}
        if text == CODE_TEXT:
            ast.parse(changed)


def test_what_meets_all_criteria_may_stay() -> None:
    assert ask_on("meet_or_leave", README, criteria=OF_README[:2]) == README
    assert compliance(OF_CODE[0], ask_on("meet_or_leave", CODE_TEXT, criteria=OF_CODE[:1]))[0] == MET


@pytest.mark.parametrize(("text", "criteria"), EVERY)
def test_feedback_goes_through_the_criteria_and_judges_see_it(text: str, criteria: list[str]) -> None:
    feedback = ask_on("demonstrate", text, criteria=criteria)
    assert [name for name, _ in named_items(feedback)] == [each.split("**")[1] for each in criteria]
    assert ask("judge_validity", noun=NOUNS[text], feedback=feedback).verdict == "specific"
    assert ask_on("judge_context", text, feedback=feedback, mixed="not match").verdict == "match"
    other = next(each for each in (INTRO, CODE_TEXT) if each != text)
    assert ask("judge_context", text=other, noun="text", feedback=feedback, mixed="not match").verdict == "not match"
    for each in criteria:
        said = ask_on("judge_critique", text, feedback=feedback, criterion=each)
        violated = compliance(each, text, NOUNS[text])[0] == VIOLATED
        assert (said.critique, said.helpful) == (("yes", "yes") if violated else ("no", "no"))
        assert (said.extraction or "") in feedback


def test_samples_differ_some_are_vague_base_touches_less_and_icl_takes_its_names_from_examples() -> None:
    samples = [ask_on("feedback_crit", CODE_TEXT, sample, criteria=OF_CODE) for sample in range(20)]
    assert len(set(samples)) > 10
    assert any("could" in each for each in samples)
    base = ask_on("feedback_base", CODE_TEXT)
    touched = [ask_on("judge_critique", CODE_TEXT, feedback=base, criterion=each).critique for each in OF_CODE]
    assert 0 < touched.count("yes") < len(OF_CODE)
    examples = [POST, "1. **Gap**:\n    - Fine.\n2. **Overview**:\n    - Fine."]
    assert [name for name, _ in named_items(ask_on("feedback_icl", INTRO, examples=examples))] == ["Gap", "Overview"]


def test_planted_feedback_is_told_apart() -> None:
    in_line = "1. **Gap**:\n    - In “{}” this introduction of a paper could be plainer; the rest should be rewritten."
    own = in_line.format("A kettle boils faster with a lid [1], slower")
    foreign = in_line.format("A lighthouse writes letters to the sea.")
    advice = 'Writers should keep to this rule. Check that the introduction of a paper opens without "In recent years".'
    specific = [ask("judge_validity", noun=NOUNS[INTRO], feedback=each).verdict for each in (own, foreign, advice)]
    assert specific == ["specific", "specific", "not specific"]
    match = [ask_on("judge_context", INTRO, feedback=each, mixed="match").verdict for each in (own, foreign)]
    assert match == ["match", "not match"]
    praise = "The introduction of a paper does this well; nothing has to be changed."
    for remark, expected in ((praise, ("no", "no")), ("This could be better.", ("yes", "no"))):
        said = ask_on("judge_critique", INTRO, feedback=f"1. **Opening**:\n    - {remark}", criterion=OF_INTRO[0])
        assert (said.critique, said.helpful) == expected


def test_feedback_that_belongs_in_part_counts_as_the_task_says_and_general_feedback_is_unsure() -> None:
    mixed = "In “We present a study of 40 kettles” and in “We present a study of forty ships” too much is said."
    assert ask_on("judge_context", INTRO, feedback=mixed, mixed="match").verdict == "match"
    assert ask_on("judge_context", INTRO, feedback=mixed, mixed="not match").verdict == "not match"
    assert ask_on("judge_context", INTRO, feedback="This could be better.", mixed="match").verdict == "unsure"


def test_a_critique_of_what_the_text_does_is_no_help_and_praise_of_other_criteria_is_no_critique() -> None:
    wrong = "1. **Overview**:\n    - In “Section 2 describes the kettles” the overview should be added."
    said = ask_on("judge_critique", INTRO, feedback=wrong, criterion=OF_INTRO[2])
    assert (said.critique, said.helpful) == ("yes", "no")
    assert ask_on("judge_critique", INTRO, feedback=wrong, criterion=OF_INTRO[0]).critique == "no"


@pytest.mark.parametrize("text", ["a" * 20_000, "“" * 5_000, "(" * 20_000, "def f(" * 3_000, "#\n" * 9_000])
def test_rules_take_little_time_on_any_text(text: str) -> None:
    start = time.perf_counter()
    for criterion in (*OF_INTRO, *OF_CODE, *OF_POST, *OF_README):
        ask("verify", text=text, noun="text", criterion=criterion)
    ask("judge_context", text=text, noun="text", feedback=text[:8_000], mixed="match")
    assert time.perf_counter() - start < 3
