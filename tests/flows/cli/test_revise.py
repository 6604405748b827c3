"""`longform revise` as users run it: distance, diffs, JSON, wrong inputs; offline and against a server."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from standin_server import serve

from flows.cli.revision.revise import CHANGED, _diff

LONGFORM = str(Path(sys.executable).with_name("longform"))
DRAFT = "Tea is old. Kettles whistle when they boil. Cups come in many sizes.\n"
REFERENCE = "Cups come in many sizes. Tea is old. Kettles sing when they boil. Spoons stir.\n"


def run(*arguments: str, cwd: Path, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run([LONGFORM, "revise", *arguments], cwd=cwd, input=given, capture_output=True)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "draft.txt").write_text(DRAFT, encoding="utf-8")
    (tmp_path / "final.txt").write_text(REFERENCE, encoding="utf-8")
    return tmp_path


def test_each_edit_is_shown_as_a_diff(texts: Path) -> None:
    done = run("draft.txt", "--reference", "final.txt", cwd=texts)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("distance 3 · weighted ")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "-  whistle" in lines
    assert "+  sing" in lines
    assert "+  Spoons stir." in lines
    assert "@  at the beginning" in lines
    assert lines[-1] == "Applied to the draft, they give the reference."
    assert "\x1b" not in done.stdout


def test_json_has_every_edit_with_its_place(texts: Path) -> None:
    found = json.loads(run("draft.txt", "--reference", "final.txt", "--json", cwd=texts).stdout)
    assert found["distance"] == len(found["edits"]) == 3
    assert found["reproduces"] == "exactly"
    assert found["revised"].split() == REFERENCE.split()
    assert found["not_placed"] == found["not_applied"] == 0
    for edit in found["edits"]:
        assert DRAFT[edit["start"] : edit["end"]] == edit["original_snippet"]
        assert edit["placed"] == "exactly"
    assert {edit["action_name"] for edit in found["edits"]} == {"move", "change", "add"}


def test_only_the_order_differs_and_rouge_sees_nothing(texts: Path) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    sentences = DRAFT.split(". ")
    (texts / "other.txt").write_text(". ".join([sentences[1], sentences[0], sentences[2]]), encoding="utf-8")
    found = json.loads(run("other.txt", "--reference", "draft.txt", "--json", cwd=texts).stdout)
    score = RougeScorer(["rouge1"]).score(DRAFT, (texts / "other.txt").read_text(encoding="utf-8"))
    assert score["rouge1"].fmeasure == 1
    assert found["distance"] == 1
    assert found["edits"][0]["action_name"] == "move"


def test_equal_texts_leave_nothing_to_do(texts: Path) -> None:
    (texts / "windows.txt").write_bytes(DRAFT.replace(" ", "\r\n").encode())
    for name, said in (
        ("draft.txt", "The draft is the reference."),
        ("windows.txt", "The draft has the words of the reference; only white space differs."),
    ):
        done = run(name, "--reference", "draft.txt", cwd=texts)
        assert done.stdout.startswith("distance 0 · ")
        assert done.stdout.splitlines()[-1] == said


def test_without_a_reference_a_short_word_is_shown_with_those_before_it(texts: Path) -> None:
    (texts / "doubled.txt").write_text("We wrote to the landlord on Monday. He said that the the boiler is new.")
    lines = [line.strip() for line in run("doubled.txt", cwd=texts).stdout.splitlines()]
    assert lines[lines.index("-  the") + 1].startswith("@  after “")
    assert "Monday. He said that the" in lines[lines.index("-  the") + 1]
    (texts / "sound.txt").write_text("The boiler is new.")
    assert run("sound.txt", cwd=texts).stdout.splitlines()[-1] == "The editor finds nothing to change."


@pytest.mark.parametrize(
    ("original", "revised", "marked", "marked_new"),
    [
        ("Come until Friday.", "Come by Friday, 7 May.", ["until"], ["by", ", 7 May"]),
        ("我昨天去了北京。", "我昨天去了上海。", ["北京"], ["上海"]),
        ("- a coat\n- a torch", "- a coat\n- a map", ["torch"], ["map"]),
        ("हिन्दी में है", "हिन्दी में था", ["है"], ["था"]),
        ("old", "", [], []),
        ("tea " * 5_000, "tea " * 4_999, [], []),
    ],
)
def test_the_words_that_differ_are_marked(
    original: str, revised: str, marked: list[str], marked_new: list[str]
) -> None:
    shown = _diff(original, revised)
    for text, given, expected in zip(shown, (original, revised), (marked, marked_new), strict=True):
        assert text.plain == given
        assert [text.plain[span.start : span.end] for span in text.spans if span.style == CHANGED] == expected


def test_a_draft_without_a_reference_from_standard_input(texts: Path) -> None:
    done = run("-", "--request", "A letter about the kettle", "--json", cwd=texts, given=b"The the kettle is")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["distance"] > 0
    assert found["reproduces"] is None


def test_control_characters_are_escaped(texts: Path) -> None:
    (texts / "draft.txt").write_text("Tea \x1b]0;gone\x07 is old. [red]Cups[/red] \u202eshine.", encoding="utf-8")
    done = run("draft.txt", "--reference", "final.txt", cwd=texts)
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)
    assert "[red]Cups[/red]" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.txt"], "gone.txt cannot be read (No such file or directory): give the text to measure, as a file or -"),
        (["draft.txt", "--reference", "gone.txt"], "gone.txt cannot be read"),
        (
            ["draft.txt", "--reference", "empty.txt"],
            "empty.txt holds no text: give the text it should become, or leave",
        ),
        (["."], ". cannot be read (Is a directory)"),
        (["-", "--reference", "-"], "Standard input is one text: name a file for the draft or for --reference."),
        (["-"], "Standard input holds no text: give the text to measure."),
        (["zero.bin"], "zero.bin is no text, it has a zero at byte 2: save it as UTF-8 text."),
        (["/dev/zero"], "/dev/zero has more than 1 MB, which is no one text: give the text to measure."),
        (["latin.txt"], "latin.txt is no UTF-8 at byte 1: save it as UTF-8 text."),
        (["empty.txt"], "empty.txt holds no text: give the text to measure."),
        (["draft.txt", "--reference", "final.txt", "--request", "x"], "leave out one of the two"),
        (["draft.txt", "--max-cost=-1"], "--max-cost -1.0 is no amount of US dollars"),
        (["draft.txt", "--set", "model=mine"], 'There is no endpoint "mine"'),
        (["draft.txt", "--set", "modell=offline"], 'did you mean "model"?'),
    ],
)
def test_wrong_inputs_say_what_to_do(texts: Path, arguments: list[str], said: str) -> None:
    (texts / "latin.txt").write_bytes(b"t\xe9")
    (texts / "empty.txt").write_text(" \n")
    (texts / "zero.bin").write_bytes(b"te\0a")
    done = run(*arguments, cwd=texts)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert not done.stdout
    assert "Traceback" not in done.stderr


def test_an_empty_draft_is_a_draft_where_it_is_said_what_it_should_become(texts: Path) -> None:
    (texts / "empty.txt").write_text("")
    found = json.loads(run("empty.txt", "--reference", "final.txt", "--json", cwd=texts).stdout)
    assert found["distance"] >= 1
    assert found["reproduces"] in ("exactly", "words")
    done = run("draft.txt", "--reference", "empty.txt", cwd=texts)
    assert (done.returncode, "empty.txt holds no text" in done.stderr) == (2, True)


def test_a_model_is_asked_once(texts: Path) -> None:
    with serve() as server:
        (texts / "c.toml").write_text(
            f'model = "mine"\n[endpoints.mine]\nbase_url = "{server.url}"\nmodel = "m"\n'
            'capabilities = ["json_schema"]\n'
        )
        arguments = ("draft.txt", "--reference", "final.txt", "--config", "c.toml", "--home", "home", "--json")
        first = run(*arguments, cwd=texts)
        assert first.returncode == 0, first.stderr
        assert json.loads(first.stdout)["distance"] == 3
        asked = server.counters()["requests"]["POST /v1/chat/completions"]
        assert run(*arguments, cwd=texts).stdout == first.stdout
        assert server.counters()["requests"]["POST /v1/chat/completions"] == asked == 1


@pytest.mark.soak
def test_five_thousand_words_take_less_than_a_second(texts: Path) -> None:
    sentences = [f"Sentence {n} speaks of kettle {n * 7} and of the spoon that goes with it." for n in range(380)]
    (texts / "draft.txt").write_text(" ".join(sentences))
    (texts / "final.txt").write_text(" ".join(reversed(sentences)).replace("spoon", "ladle"))
    seconds = []
    for _ in range(3):
        started = _cpu_seconds_of_children()
        assert run("draft.txt", "--reference", "final.txt", "--json", cwd=texts).returncode == 0
        seconds.append(_cpu_seconds_of_children() - started)
    assert min(seconds) < 1


def _cpu_seconds_of_children() -> float:
    """CPU time of ended child processes, which does not count other programs on the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
