"""Criteria and demonstrations in the released layout: what is read, what is rejected, and back through the export."""

from __future__ import annotations

import json
import string
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home
from hypothesis import given, settings
from hypothesis import strategies as st
from revision_drafts import rejected

from longform.artifacts.rows import Row, Source
from longform.artifacts.versions import find
from longform.errors import SourceError
from longform.files import sha256_of, write_json
from schemas.llmcrit import DEMONSTRATIONS
from tasks.llmcrit.criteria import released
from tasks.llmcrit.criteria.released import EXPORTS, has_demonstrations
from tasks.publishing.exports import Export

STAGES = {name: getattr(released, f"released_{name}") for name in ("aspects", "criteria", "demonstrations")}
FRUIT, DATE = ("Fruit", "Is it named?"), ("Date", "Is there one?")
LIST, GUIDELINE = "1. **Fruit**: Is it named?\n\n2. **Date**: Is there one?", "## Labels\n- Name the fruit."
SHOWN = {"input": "Plum.", "output": "1. **Date**:\n    - There is none."}


def case(name: str, *given: Any) -> Any:
    return pytest.param(*given, id=name)


def source(path: Path, content: bytes | str, name: str = "criteria.jsonl") -> list[Source]:
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [Source("jars", str(path / name), sha256_of(path / name), (), ((0, -1),))]


def imported(path: Path, content: bytes | str, name: str = "criteria.jsonl") -> list[list[Row]]:
    return [list(Home(path / "home").run(stage, source(path, content, name))) for stage in STAGES.values()]


def pairs(criteria: list[Row]) -> list[tuple[str, str]]:
    return [(row["name"], row["check"]) for row in criteria]


@pytest.mark.parametrize(
    "criteria",
    [
        LIST,
        ["**Fruit**: Is it named?", "Date: Is there one?"],
        ["1. **Fruit**: Is it named?", "2. **Date**: Is there one?"],
        [LIST, LIST],
        [{"name": FRUIT[0], "check": FRUIT[1]}, {"name": DATE[0], "text": DATE[1]}, {}, {"name": ""}],
        case("the words of a text above bullets are lost", ["Fruit: Is it\n- named?", "Date: Is there one?"]),
        [{"name": FRUIT[0], "description": FRUIT[1]}, {"name": DATE[0], "criterion": DATE[1]}],
    ],
)
def test_criteria_may_be_a_list_in_one_text_or_texts_or_objects(tmp_path: Path, criteria: Any) -> None:
    record = {"aspect_id": 3, "aspect_guideline": GUIDELINE, "criteria": criteria, "demonstrations": [SHOWN, SHOWN]}
    (aspect,), found, shown = imported(tmp_path, json.dumps(record))
    assert [aspect[name] for name in ("aspect_id", "name", "guideline")] == ["jars/3", "Labels", GUIDELINE]
    assert [(row["aspect_id"], row["position"]) for row in (*found, *shown)] == [("jars/3", 1), ("jars/3", 2)] * 2
    assert pairs(found) == [FRUIT, DATE]
    assert [{"input": row["input"], "output": row["output"]} for row in shown] == [SHOWN] * 2
    home = Home(tmp_path / "home")
    assert (
        home.run(released.gather_demonstrations, home.table(DEMONSTRATIONS), home.table(DEMONSTRATIONS, shown)).count
        == 1
    )


TWO = [{"aspect_id": name, "criteria": f"1. **{name} one**: Is it?\n2. **{name} two**: So?"} for name in ("A", "B")]
LINES = "\n".join(map(json.dumps, TWO))
MARKED = b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n\r\n").encode()
MARKDOWN = "# Ours\n\n" + "\n\n".join(f"## {each['aspect_id']}\n{each['criteria']}" for each in TWO)
FILES = [(LINES, "c.jsonl"), (MARKED, "c.jsonl"), (json.dumps(TWO), "c.jsonl"), (json.dumps(TWO, indent=2), "c.json")]


@pytest.mark.parametrize(("content", "name"), [*FILES, (MARKDOWN, "c.md"), (MARKDOWN, "c.txt")])
def test_a_file_may_have_lines_or_an_array_or_be_a_markdown_list(tmp_path: Path, content: Any, name: str) -> None:
    aspects, criteria, shown = imported(tmp_path, content, name)
    assert [(row["aspect_id"], row["file"]) for row in aspects] == [("jars/a", name), ("jars/b", name)]
    of = [("jars/a", "A one"), ("jars/a", "A two"), ("jars/b", "B one"), ("jars/b", "B two")]
    assert [(row["aspect_id"], row["name"]) for row in criteria] == of
    assert shown == []
    assert not has_demonstrations(source(tmp_path, content, name))


def test_a_markdown_list_without_sections_is_one_aspect_with_the_facts_of_its_front_matter(tmp_path: Path) -> None:
    head = "---\ntitle: On jars\nlicence: MIT\nsource: a cook\n---\n"
    (aspect,), criteria, _ = imported(tmp_path, f"{head}### 1. Fruit\nIs it named?\n\n### 2. Lid\nIs it on?", "a.md")
    assert [aspect[name] for name in ("aspect_id", "licence", "source")] == ["jars/on-jars", "MIT", "a cook"]
    assert pairs(criteria) == [FRUIT, ("Lid", "Is it on?")]


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"name": "Own"}, "Own"),
        ({"aspect_guideline": "# Top\n\ntext"}, "Top"),
        ({"aspect_guideline": "text"}, "aspect 7"),
        case("the name is that of a subsection", {"aspect_guideline": "## Top\n### One\na\n### Two\nb"}, "Top"),
        case("a name that is no text ends the build", {"name": 5}, "aspect 7"),
        case("a licence that is no text ends the build", {"licence": ["MIT"]}, "aspect 7"),
    ],
)
def test_an_aspect_is_named_by_itself_or_its_guideline_or_its_id(tmp_path: Path, record: Row, name: str) -> None:
    aspects, _, _ = imported(tmp_path, json.dumps({"aspect_id": 7, "criteria": LIST, **record}))
    assert [row["name"] for row in aspects] == [name]


def test_a_line_that_is_no_aspect_is_rejected_with_its_place_reason_and_words(tmp_path: Path) -> None:
    good = json.dumps({"aspect_id": 1, "criteria": LIST})
    content = [good, '{"aspect_id": 2, "crit', "", "[1]", '"text"', '{"criteria": "All is well"}', "{}", good]
    home, files = Home(tmp_path / "home"), source(tmp_path, "\n".join(content))
    made = home.run(STAGES["aspects"], files)
    assert [row["aspect_id"] for row in made] == ["jars/1", "jars/1-2"]
    found = list(rejected(home, made).values())
    assert [(row["key"], row["kind"]) for row in found] == [(f"jars/criteria.jsonl#{n}", "defect") for n in range(2, 7)]
    assert [row["reason"] for row in found] == ["no object of JSON"] * 3 + ["no list of criteria"] * 2
    assert (found[0]["raw"], "All is well" in found[3]["raw"]) == (content[1], True)
    criteria = home.run(STAGES["criteria"], files)
    assert [row["aspect_id"] for row in criteria] == ["jars/1"] * 2 + ["jars/1-2"] * 2


@pytest.mark.parametrize("content", ["{}", "null", "[]", '{"criteria": []}', '{"criteria": "none"}', "broken"])
def test_a_file_without_a_criterion_is_refused_with_what_to_give(tmp_path: Path, content: str) -> None:
    with pytest.raises(SourceError, match=r"criteria\.jsonl holds no aspect with criteria: give JSON lines with"):
        imported(tmp_path, content)


VANISHES = case("a demonstration that is a text vanishes", "Plum. Say more.")


@pytest.mark.parametrize("bad", [{"input": "a"}, {"output": "a"}, {"input": " ", "output": "a"}, {}, VANISHES])
def test_a_demonstration_without_input_or_output_is_rejected(tmp_path: Path, bad: Any) -> None:
    files = source(tmp_path, json.dumps({"aspect_id": 1, "criteria": LIST, "demonstrations": [bad, SHOWN]}))
    home = Home(tmp_path / "home")
    made = home.run(STAGES["demonstrations"], files)
    assert [(row["position"], row["input"]) for row in made] == [(2, "Plum.")]
    assert list(home.rejected(made).values()) == ["a demonstration without input or output"]
    assert has_demonstrations(files)


def exported(path: Path, *tables: list[Row]) -> bytes:
    """The export of a version with these aspects, criteria and demonstrations, which has no split without rows."""
    home, folder, counts = Home(path), path / "datasets" / "llmcrit" / "v1", {"feedback": {}}
    for (config, stage), rows in zip(STAGES.items(), tables, strict=True):
        counts[config] = {"jars": len(rows)} if rows else {}
        (folder / config / "jars").mkdir(parents=True)
        (written,) = home.table(stage.schema, rows).paths
        (folder / config / "jars" / "jars-0.parquet").write_bytes(Path(written).read_bytes())
    facts = {"number": 1, "recipe": "r", "stages": {}, "splits": {}, "offline": True, "files": {}, "configs": counts}
    write_json(folder / "manifest.json", facts)
    form, of = EXPORTS["llmcrit-jsonl"], Export(home.store, find(path, "llmcrit"), None, "criteria", frozenset())
    return b"".join(map(form.line, form.rows(of)))


def back(path: Path, *records: Row) -> tuple[list[list[Row]], list[list[Row]]]:
    before = imported(path / "before", "\n".join(map(json.dumps, records)))
    return before, imported(path / "after", exported(path / "version", *before))


TEXTS = st.text(string.printable + "é語", min_size=1, max_size=20).map(lambda text: f"{text}.")
WORDS = st.lists(st.sampled_from(["plums", "`code`", "2.5 kg", "“so”", "**bold**", "http//a", "1. -"]), min_size=1)
CHECKS = WORDS.map(lambda words: f"Is it {' '.join(words)}?")
ITEMS = st.fixed_dictionaries({"name": st.sampled_from(["", "Fruit", "Use of `with`", "Date: day"]), "check": CHECKS})
DEMONSTRATED = st.fixed_dictionaries({"input": TEXTS, "output": TEXTS})
FACTS: Row = {name: st.none() | TEXTS for name in ("name", "licence", "source")}
FACTS |= {"criteria": st.lists(ITEMS, min_size=1, max_size=4), "demonstrations": st.lists(DEMONSTRATED, min_size=1)}
KEPT = ("position", "name", "guideline", "licence", "source", "check", "input", "output")


@settings(max_examples=25)
@given(st.lists(st.fixed_dictionaries({**FACTS, "aspect_guideline": TEXTS}), min_size=1, max_size=3))
def test_what_was_imported_is_exported_so_that_it_comes_back(records: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before, after = map(chain.from_iterable, back(Path(folder), *records))
    for one, other in zip(before, after, strict=True):
        assert [one.get(name) for name in KEPT] == [other.get(name) for name in KEPT]


@pytest.mark.parametrize(
    ("column", "more"),
    [
        case("a check with a colon gets a name", "check", {"criteria": [{"name": "", "check": "Is it so: sweet?"}]}),
        case("a second paragraph is lost", "check", {"criteria": [{"name": "Fruit", "check": "Is it?\n\nWhich?"}]}),
        case("criteria without demonstrations are not exported", "check", {"demonstrations": []}),
        case("an id gets the name of the task once more each time", "aspect_id", {}),
    ],
)
def test_criteria_come_back_as_they_were(tmp_path: Path, column: str, more: Row) -> None:
    before, after = back(tmp_path, {"aspect_id": 1, "criteria": LIST, "demonstrations": [SHOWN], **more})
    assert [row[column] for row in before[1]] == [row[column] for row in after[1]]
