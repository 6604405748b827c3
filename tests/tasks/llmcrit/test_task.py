"""Tasks as folders: what their file may hold, and one clear sentence for each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import paths
import pytest

from longform.errors import UsageError
from tasks.llmcrit.task import load_task, load_tasks

SAMPLES = paths.ROOT / "data" / "samples" / "llmcrit"
TEXTS = '[texts]\nsource = "files"\npaths = ["texts.jsonl"]\n'


def folder(path: Path, content: str | bytes | None, *, name: str = "jars", beside: str = "guidelines/") -> Path:
    """A task's folder with this file, and with a folder or a file beside it."""
    place = path / name
    place.mkdir(parents=True)
    if content is not None:
        (place / "task.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    if beside.endswith("/"):
        (place / beside).mkdir()
    elif beside:
        (place / beside).write_text("{}")
    return place


def case(name: str, *given: Any) -> Any:
    return pytest.param(*given, id=name)


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("noun =", "is no TOML ("),
        ("[texts\n" + TEXTS, "is no TOML ("),
        ("noun = 'a'\nnoun = 'b'\n" + TEXTS, "is no TOML ("),
        (b"noun = '\xff'", "is no TOML ("),
        ("", "texts: Field required."),
        ("texts = 3", "texts: "),
        ("[texts]\npaths = ['a']", "texts.source: Field required."),
        ("[texts]\nsource = 'files'", "texts.paths: Field required."),
        ("[texts]\nsource = 'web'\npaths = ['a']", "source: Input should be 'papers', 'commits', 'posts' or 'files'."),
        ("[texts]\nsource = 'files'\npaths = 'a'", "texts.paths: "),
        ("[texts]\nsource = 'files'\npaths = ['']", "texts.paths.0: "),
        (TEXTS + "strata = [['a']]", "texts: strata has no effect with source = files: leave it out."),
        (TEXTS + "path = 'a'", "texts.path: Extra inputs are not permitted."),
        (TEXTS.replace("files", "commits") + "most_popular = 3", "most_popular has no effect with source = commits"),
        (TEXTS.replace("files", "papers") + "section = 'method'", "texts.section: Input should be 'introduction'"),
        (TEXTS.replace("files", "commits") + "least_lines = 0", "texts.least_lines: "),
        (TEXTS.replace("files", "posts") + "most_popular = 0", "texts.most_popular: "),
        ("nuon = 'label'\n" + TEXTS, "nuon: Extra inputs are not permitted."),
        ("noun = ''\n" + TEXTS, "noun: "),
        ("noun = 3\n" + TEXTS, "noun: Input should be a valid string."),
        ("kinds = [1, 5]\n" + TEXTS, "kinds.1: Input should be less than or equal to 4."),
        ("kinds = [0]\n" + TEXTS, "kinds.0: Input should be greater than or equal to 1."),
        ("mixed = 'unsure'\n" + TEXTS, "mixed: Input should be 'match' or 'not match'."),
        ("specific = ['']\n" + TEXTS, "specific.0: "),
        ("name = 'JARS'\n" + TEXTS, "name: "),
        (TEXTS + "[[judged]]\ntext = 'a'", "judged.0.feedback: Field required."),
        case("a part of the name is enough", "name = '../My jars'\n" + TEXTS, "name: "),
        case("a name with a slash is taken", "name = 'a/b'\n" + TEXTS, "name: "),
        case("a name longer than 40 is taken", f"name = '{'a' * 41}'\n" + TEXTS, "name: "),
        case("the key folder is ignored", "folder = 'a'\n" + TEXTS, "folder: "),
    ],
)  # fmt: skip
def test_a_fault_in_a_task_file_is_told_in_one_sentence_with_its_place(
    tmp_path: Path, content: str | bytes, says: str
) -> None:
    place = folder(tmp_path, content)
    with pytest.raises(UsageError) as error:
        load_task(place)
    told = str(error.value)
    assert told.startswith(str(place / "task.toml"))
    assert says in told
    assert told.endswith(".")
    assert "\n" not in told
    assert ".." not in told.removeprefix(str(place))
    assert "pydantic" not in told


@pytest.mark.parametrize("name", ["My jars", "jars-2", "2jars"])
def test_a_folder_whose_name_is_no_name_of_a_task_needs_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name: "):
        load_task(folder(tmp_path, TEXTS, name=name))


def test_a_folder_without_a_file_and_a_file_without_criteria_say_what_to_add(tmp_path: Path) -> None:
    missing, bare = folder(tmp_path, None), folder(tmp_path, TEXTS, name="bare", beside="")
    (tmp_path / "odd" / "task.toml").mkdir(parents=True)
    for place, says in (
        (missing, "has no readable task.toml (No such file or directory): name a folder that has one."),
        (tmp_path / "none", "has no readable task.toml (No such file or directory): name a folder that has one."),
        (tmp_path / "odd", "has no readable task.toml (Is a directory): name a folder that has one."),
        (bare, "has neither guidelines/ nor criteria.jsonl: add one of the two."),
    ):
        with pytest.raises(UsageError) as error:
            load_task(place)
        assert str(error.value) == f"The task {place} {says}"


def test_two_tasks_of_one_name_are_refused_and_keep_their_order_else(tmp_path: Path) -> None:
    one, two = folder(tmp_path / "a", TEXTS), folder(tmp_path / "b", TEXTS)
    with pytest.raises(UsageError, match='Two tasks have the name "jars": give one of them another `name`'):
        load_tasks([str(one), str(two)])
    (two / "task.toml").write_text("name = 'aaa'\n" + TEXTS)
    assert [task.name for task in load_tasks([str(one), str(two)])] == ["jars", "aaa"]


# ---------------------------------------------------------------- what is read


def test_a_task_takes_its_name_from_its_folder_and_its_paths_from_there(tmp_path: Path) -> None:
    place = folder(tmp_path, TEXTS)
    task = load_task(place)
    assert (task.name, task.kinds, task.mixed) == ("jars", [1, 2, 3, 4], "match")
    assert task.paths == [place / "texts.jsonl"]
    assert (task.guidelines, task.criteria) == ([place / "guidelines"], [])


def test_criteria_of_somebody_else_take_the_place_of_guidelines(tmp_path: Path) -> None:
    place = folder(tmp_path, TEXTS, beside="criteria.jsonl")
    (place / "guidelines").mkdir()
    task = load_task(place)
    assert (task.guidelines, task.criteria) == ([], [place / "criteria.jsonl"])


def test_an_example_of_a_judgement_is_shown_with_nothing_for_an_empty_extraction(tmp_path: Path) -> None:
    judged = "\n".join(f"{name} = '{name}.'" for name in ("text", "feedback", "criterion", "reasoning"))
    judged = f"[[judged]]\n{judged}\nextraction = ''\ncritique = 'no'\nhelpful = 'no'"
    (example,) = load_task(folder(tmp_path, f"{TEXTS}{judged}")).judged
    judgement = "reasoning.\nextraction: nothing\ncritique: no\nhelpful: no"
    assert example.shown() == ["text.", "feedback.", "criterion.", judgement]


@pytest.mark.parametrize(
    ("place", "source", "settings"),
    [
        (paths.ROOT / "tests" / "data" / "readmes", "files", {}),
        (SAMPLES / "introductions", "papers", {"section": "introduction"}),
        (SAMPLES / "code", "commits", {"language": "Python", "least_lines": 30}),
        (SAMPLES / "posts", "posts", {"tags": ["WP"]}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_tasks_of_the_project_load_with_texts_and_guidelines_that_exist(
    place: Path, source: str, settings: dict[str, Any]
) -> None:
    task = load_task(place)
    assert (task.name, task.texts.source) == (place.name, source)
    assert {name: getattr(task.texts, name) for name in settings} == settings
    assert all(path.exists() for path in (*task.paths, *task.guidelines))
    assert all(list(path.glob("*.md")) for path in task.guidelines)
    assert {(each.critique, each.helpful) for each in task.judged} >= {("yes", "yes"), ("yes", "no")}
    assert all(each.extraction.strip() in each.feedback for each in task.judged)
    assert all(each.critique == "yes" or (each.helpful, each.extraction) == ("no", "") for each in task.judged)


def test_only_introductions_have_demonstrations_of_two_kinds_as_in_the_paper() -> None:
    kinds = {task.name: task.kinds for task in load_tasks([str(path) for path in sorted(SAMPLES.iterdir())])}
    assert kinds == {"code": [1, 2, 3, 4], "introductions": [1, 2], "posts": [1, 2, 3, 4]}
