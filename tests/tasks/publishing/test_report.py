"""report.html, parsed by lxml."""

import dataclasses
import json
import math
import re
from typing import Any

import pandas
import pytest
from card_rows import example_version
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from tasks.publishing.card import Config, Example, Passage, ReportTable, table_of
from tasks.publishing.report import as_data, report

TABLE_10 = table_of(
    "Sites (table 10)",
    "Mean and standard deviation.",
    ("site", "questions", "answers", "answers, sd"),
    [("tea.example", 12_345, 2.5, 1.0), ("beer.stackexchange.com", 41, None, math.nan)],
)
NONE = table_of("Rejected rows by reason", "", ("stage", "reason", "rows"), [])


def page(*tables: ReportTable) -> Any:
    return html.document_fromstring(report(example_version(), tables))


def cells(table: Any) -> list[list[str]]:
    return [[cell.text_content() for cell in row] for row in table.xpath(".//tbody/tr")]


def test_figures_have_thousands_separators_and_stand_to_the_right() -> None:
    shown = page(TABLE_10).xpath("//table")[0]
    assert cells(shown) == [
        ["tea.example", "12,345", "2.50", "1.00"],
        ["beer.stackexchange.com", "41", "–", "–"],
    ]
    classes = [cell.get("class") for cell in shown.xpath(".//tbody/tr[1]/*")]
    assert classes == [None, "figure", "figure", "figure"]
    assert [head.get("class") for head in shown.xpath(".//thead//th")] == classes
    assert re.search(r"\.figure \{[^}]*text-align: right", report(example_version(), []))


def test_each_table_is_named_by_its_caption_and_reached_from_the_top() -> None:
    document = page(TABLE_10, NONE)
    captions = [caption.text_content() for caption in document.xpath("//figcaption/h2")]
    assert captions == ["Sites (table 10)", "Rejected rows by reason", "Splits", "Stages"]
    assert [link.text_content() for link in document.xpath("//nav//a")] == captions
    for link in document.xpath("//nav//a"):
        assert document.get_element_by_id(link.get("href")[1:]).tag == "figure"
    for frame in document.xpath("//div[@class='frame']"):
        assert document.get_element_by_id(frame.get("aria-labelledby")).text_content() in captions


def test_a_table_without_rows_says_so() -> None:
    frame = page(NONE).xpath("//div[@class='frame']")[0]
    assert frame.text_content().strip() == "None."


def test_splits_and_stages_come_from_the_version() -> None:
    splits, stages = page().xpath("//table")
    assert cells(splits) == [["pairs", "train", "3", "2", "2,001"], ["pairs", "test", "2", "1", "1,002"]]
    assert cells(stages)[0] == ["read_posts", "6a116a116a11", "1,044", "8", "3"]


def test_the_page_asks_nobody_for_anything() -> None:
    text = report(example_version(), [TABLE_10])
    document: Any = html.document_fromstring(text)
    assert not document.xpath("//script | //link | //img | //iframe | //object | //base | //form")
    assert [link for _, _, link, _ in document.iterlinks() if not link.startswith("#")] == []
    assert not re.search(r"url\(|@import|https?:", text)
    policy = document.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_no_attribute_runs_code() -> None:
    assert not [name for node in page(TABLE_10).iter() for name in node.attrib if name.startswith("on")]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60))
def test_any_text_is_shown_as_it_stands(text: str) -> None:
    hostile = f"{text}<script>alert(1)</script>\"'>&amp;"
    version = dataclasses.replace(example_version(), title=hostile, summary=hostile)
    table = table_of(hostile, hostile, (hostile,), [(hostile,)])
    document: Any = html.document_fromstring(report(version, [table]))
    assert not document.xpath("//script")
    assert document.xpath("//h1")[0].text_content() == hostile
    assert document.xpath("//figcaption/h2")[0].text_content() == hostile
    assert cells(document.xpath("//table")[0]) == [[hostile]]


def test_rows_of_the_offline_model_are_marked_at_the_top() -> None:
    warning = page().xpath("//p[@class='warn']")[0].text_content()
    assert "rule-based offline model (offline-rules-1), not by a language model" in warning
    without = report(dataclasses.replace(example_version(), offline=False), [])
    assert 'class="warn"' not in without


def test_light_and_dark_define_the_same_colours() -> None:
    blocks = re.findall(r":root \{(.*?)\}", report(example_version(), []), re.DOTALL)
    light, dark = (set(re.findall(r"--[a-z-]+(?=:)", block)) for block in blocks)
    assert light == dark
    assert light


# ---------------------------------------------------------------- gates and examples


HOSTILE = '<img src=x onerror="alert(1)">{{ 40961 * 40961 }}</p><script>alert(1)</script>\u202egnp.exe'


def example(title: str, text: str, credit: str = "by Bo") -> Example:
    return Example(title, [("margin", "0.25"), ("pair", HOSTILE)], [Passage("Question", text, credit)])


def test_texts_of_examples_are_shown_as_they_stand() -> None:
    document: Any = html.document_fromstring(report(example_version(), [], (), [example(HOSTILE, HOSTILE, HOSTILE)]))
    assert not document.xpath("//script | //img")
    (shown,) = document.xpath("//details")
    assert shown.xpath(".//p[@class='text']")[0].text_content() == HOSTILE
    assert shown.xpath(".//p[@class='credit']")[0].text_content() == HOSTILE
    assert shown.xpath(".//strong")[0].text_content() == HOSTILE
    assert "margin: 0.25" in shown.xpath(".//summary")[0].text_content()


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    whole, long = "so it is. " * 60, "x" * 2_000
    document: Any = html.document_fromstring(
        report(example_version(), [], (), [example("a", whole), example("a", long), example("b", "")])
    )
    texts = [node.text_content() for node in document.xpath("//p[@class='text']")]
    assert texts == [whole, f"{'x' * 600} … 1,400 more characters", ""]
    assert [node.get("open") is not None for node in document.xpath("//details")] == [True, False, True]


def test_what_the_gates_found_stands_in_the_report_and_is_reached_from_the_top() -> None:
    found = "equal_texts found 2 of 90 rows (2.2 %) <b>accepted</b>"
    document: Any = html.document_fromstring(
        report(dataclasses.replace(example_version(), gates=[found]), [], (), [example("a", "b")])
    )
    assert [node.text_content() for node in document.xpath("//ul[@class='gates']/li")] == [found]
    links = [link.get("href") for link in document.xpath("//nav//a")]
    assert links[-2:] == ["#gates", "#examples"]
    assert all(document.get_element_by_id(link[1:]) is not None for link in links)
    without = report(example_version(), [])
    assert 'id="gates"' not in without
    assert 'id="examples"' not in without


def test_a_view_of_other_rows_does_not_count_again() -> None:
    version = example_version()
    (config,) = version.configs
    view = Config("view", False, config.splits, config.schema, view=True)
    document: Any = html.document_fromstring(report(dataclasses.replace(version, configs=[config, view]), []))
    assert "5 rows" in document.xpath("//p[@class='facts']")[0].text_content()
    assert [tile.text_content() for tile in document.xpath("//ul[@class='tiles']/li")] == [
        "3rows, train",
        "2rows, test",
    ]
    assert [row[0] for row in cells(document.xpath("//table")[0])] == ["pairs", "pairs", "view", "view"]


def test_tables_as_data_round_nothing_and_tell_what_is_missing() -> None:
    columns = ("system", "Yes", "Yes %", "Yes % from", "again")
    table = table_of("Labels <b>", "", columns, [("gpt4", 1, 100 / 3, None, math.nan)])
    frame = ReportTable("T", "note", pandas.DataFrame({"n": pandas.array([2, None], "Int64"), "mean": [0.1, math.nan]}))
    found, typed = json.loads(as_data([table, frame]))
    assert found["title"] == "Labels <b>"
    assert found["rows"] == [{"system": "gpt4", "Yes": 1, "Yes %": 100 / 3, "Yes % from": None, "again": None}]
    assert typed == {"title": "T", "note": "note", "rows": [{"n": 2, "mean": 0.1}, {"n": None, "mean": None}]}


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.warns(UserWarning, match="columns are not unique"):
        as_data([table_of("T", "", ("Yes", "Yes"), [(1, 2)])])


def test_a_heading_leaves_out_the_name_that_stands_before_it() -> None:
    columns = (
        "mean",
        "mean from",
        "mean paper",
        "over strong",
        "answers",
        "answers ±",
        "answers ± paper",
        "from",
        "to %",
    )
    assert table_of("", "", columns, []).headings == [
        *("mean", "from", "paper", "over strong", "answers", "±", "paper"),
        *("from", "to %"),
    ]
