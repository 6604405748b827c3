"""The dataset card: read by the libraries it names, and by a Markdown renderer."""

import dataclasses
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pytest
import yaml
from card_rows import ROWS, TABLES, example_version, version_of, write_files
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from schemas import column, table
from schemas.axioms import PAIRS
from tasks.publishing.card import (
    Config,
    File,
    Split,
    Wording,
    card,
    escaped,
    licence_url,
    type_name,
)


def rows_of_split(split: str) -> list[dict[str, Any]]:
    return [row for path, rows in ROWS.items() for row in rows if path.startswith(f"{split}/")]


def front_matter(text: str) -> Any:
    return yaml.safe_load(text.split("---\n")[1])


def rendered(text: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(text.split("---\n", 2)[2]))


READ = """
import sys, json
code = open("data/datasets/axioms/2026.11.20.2/README.md").read().split("```python\\n")[1].split("```")[0]
exec(code)
test = load_dataset(folder, split="test")
plain = lambda rows: json.dumps(rows, default=lambda value: value.isoformat())
print(plain({
    "datasets": in_datasets.to_list(),
    "test": test.to_list(),
    "polars": in_polars.to_dicts(),
    "duckdb": in_duckdb.to_arrow_table().to_pylist(),
    "pandas": [[row.pair_id, list(row.evidence), row.retrieved_at] for row in in_pandas.itertuples()],
    "authors": in_pandas.preferred_author.isna().tolist(),
}))
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every library read by the card's own lines of code, offline."""
    top = tmp_path_factory.mktemp("top")
    folder = top / "data" / "datasets" / "axioms" / "2026.11.20.2"
    text = card(version_of(write_files(folder)))
    (folder / "README.md").write_text(text, encoding="utf-8")
    home = str(tmp_path_factory.mktemp("home"))
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": home, "TZ": "UTC", "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-c", READ], cwd=top, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def as_json(rows: list[Any]) -> Any:
    return json.loads(json.dumps(rows, default=lambda value: value.isoformat()))


@pytest.mark.check
@pytest.mark.parametrize("library", ["datasets", "polars", "duckdb"])
def test_the_cards_own_code_reads_the_train_rows_as_they_were_written(read: dict[str, Any], library: str) -> None:
    assert read[library] == as_json(rows_of_split("train"))


def test_datasets_finds_the_test_split_by_the_cards_yaml(read: dict[str, Any]) -> None:
    assert read["test"] == as_json(rows_of_split("test"))


def test_pandas_keeps_empty_evidence_and_missing_authors(read: dict[str, Any]) -> None:
    rows = rows_of_split("train")
    assert read["pandas"] == as_json([[r["pair_id"], r["evidence"], r["retrieved_at"]] for r in rows])
    assert read["authors"] == [False, False, True]


def test_the_yaml_names_licence_size_and_one_glob_per_split() -> None:
    assert front_matter(card(example_version())) == {
        "pretty_name": "Axioms: preference pairs",
        "license": ["cc-by-sa-3.0", "cc-by-sa-4.0"],
        "task_categories": ["question-answering", "text-generation"],
        "language": ["en"],
        "size_categories": ["n<1K"],
        "configs": [
            {
                "config_name": "pairs",
                "default": True,
                "data_files": [
                    {"split": "train", "path": ["train/*.parquet"]},
                    {"split": "test", "path": ["test/*.parquet"]},
                ],
            }
        ],
    }


def test_a_licence_that_cards_have_no_identifier_for_is_named_and_linked() -> None:
    text = card(dataclasses.replace(example_version(), licence=["CC BY-SA 2.5", "CC BY-SA 4.0"]))
    head = front_matter(text)
    assert head["license"] == ["other", "cc-by-sa-4.0"]
    assert head["license_name"] == "cc-by-sa-2.5"
    assert head["license_link"] == "https://creativecommons.org/licenses/by-sa/2.5/"


@pytest.mark.parametrize(
    ("rows", "category"),
    [
        (0, "n<1K"),
        (999, "n<1K"),
        (1000, "1K<n<10K"),
        (99_999, "10K<n<100K"),
        (1_000_000, "1M<n<10M"),
        (10**12, "n>1T"),
    ],
)
def test_the_size_category_follows_the_rows(rows: int, category: str) -> None:
    file = File("train/a.parquet", 1, "0" * 64)
    version = dataclasses.replace(
        example_version(), configs=[Config("pairs", True, [Split("train", rows, [file])], PAIRS)]
    )
    assert front_matter(card(version))["size_categories"] == [category]


def test_a_further_config_is_found_by_its_own_folder() -> None:
    file = File("human_labels/test/a.parquet", 1, "0" * 64)
    more = Config("human_labels", False, [Split("test", 9, [file]), Split("empty", 0, [])], PAIRS)
    version = dataclasses.replace(example_version(), configs=[*example_version().configs, more])
    assert front_matter(card(version))["configs"][1] == {
        "config_name": "human_labels",
        "data_files": [{"split": "test", "path": ["human_labels/test/*.parquet"]}],
    }
    assert '# also: load_dataset(folder, "human_labels")' in card(version)


LABELLED = table(
    "labelled",
    column("label_id", pa.string(), "of a label"),
    column("judge_model", pa.string(), "who says so", null=True),
    key="label_id",
)


def test_each_schema_has_its_own_columns_section_which_names_its_configs() -> None:
    splits = example_version().configs[0].splits
    again, other = Config("by_site", False, splits, PAIRS), Config("labels", False, splits, LABELLED)
    page = rendered(card(dataclasses.replace(example_version(), configs=[*example_version().configs, again, other])))
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert [head for head in heads if head.startswith("Columns")] == [
        "Columns of pairs and by_site",
        "Columns of labels",
    ]
    shown = page.split("<h2>Columns of labels</h2>")[1].split("</table>")[0]
    assert re.findall(r"<tr>\n<td>(.*?)</td>", shown) == ["label_id", "judge_model"]
    assert "<code>longform trace axioms &lt;pair_id&gt;</code> or <code>longform trace axioms &lt;label_id&gt;" in page
    assert "says offline-rules-1 in preferred_model or rejected_model or judge_model." in page


def test_what_is_said_of_the_sources_is_the_datasets_own() -> None:
    wording = Wording("Each says its licence.", "Name *them*.", "Blanks were folded.", "what it was made from")
    page = rendered(card(dataclasses.replace(example_version(), wording=wording)))
    for said in (
        "Each says its licence.",
        "<p>Name <em>them</em>.",
        "<p>Blanks were folded.",
        "what it was made from.",
    ):
        assert said in page
    assert "post" not in page.split("<h2>Licence and attribution</h2>")[1].split("<h2>")[0]


def test_a_version_that_nothing_dates_says_no_day() -> None:
    text = card(dataclasses.replace(example_version(), date_published=""))
    assert "Version 2026.11.20.2, 5 rows." in text


def test_every_column_is_shown_with_type_nullability_and_meaning() -> None:
    page = rendered(card(example_version()))
    cells = re.findall(r"<tr>\n<td>(.*?)</td>\n<td>(.*?)</td>\n<td>(.*?)</td>\n<td>(.*?)</td>\n</tr>", page)
    shown = {html.unescape(name): [html.unescape(cell) for cell in rest] for name, *rest in cells}
    assert list(shown) == PAIRS.names
    assert shown["question_id"] == ["string", "never null", "<site>/<upstream id>; msmarco/q<qid>"]
    assert shown["evidence"][0] == "list of string"
    assert shown["retrieved_at"][:2] == ["timestamp (ms, UTC)", "may be null"]
    for name in PAIRS.names:
        assert shown[name][2] == PAIRS.field(name).metadata[b"doc"].decode()


def test_rows_of_the_offline_model_are_marked_before_anything_else() -> None:
    page = rendered(card(example_version()))
    note = "Rows of kind closed_book were written by a rule-based offline model (offline-rules-1), not by a language"
    assert note in page
    assert page.index(note) < page.index("<h2>")
    assert "offline" not in card(dataclasses.replace(example_version(), offline=False))


def test_stages_licences_attribution_tables_and_tracing_are_reported() -> None:
    page = rendered(card(example_version(), TABLES))
    assert '<td>read_posts</td>\n<td>6a116a116a11</td>\n<td style="text-align:right">1,044</td>' in page
    assert '<a href="https://creativecommons.org/licenses/by-sa/4.0/">CC BY-SA 4.0</a>' in page
    assert "share-alike" in page
    assert "<code>attribution.parquet</code>" in page
    assert "<h2>Pairs by axiom</h2>" in page
    assert "<code>longform trace axioms &lt;pair_id&gt;</code>" in page


def test_a_site_name_cannot_add_markup_to_the_card() -> None:
    site = "<img src=x onerror=alert(1)> [a](javascript:b) `c` | **d**\n\n# e"
    page = rendered(card(dataclasses.replace(example_version(), sites=[site])))
    assert html.escape(" ".join(site.split()), quote=False) in page
    assert "<img" not in page


@given(st.text(max_size=40))
def test_escaped_text_is_shown_by_a_markdown_renderer_as_it_stands(text: str) -> None:
    line = " ".join(text.replace("\0", "").split())
    assert html.unescape(MarkdownIt("commonmark").renderInline(escaped(line))) == line


def test_creative_commons_deeds_are_known_in_both_spellings() -> None:
    assert licence_url("CC BY-SA 3.0") == licence_url("CC-BY-SA-3.0")
    assert licence_url("CC BY 4.0") == "https://creativecommons.org/licenses/by/4.0/"
    assert licence_url("MIT") is None


WRITE_ALL = """
import card_rows, hashlib
from tasks.publishing.card import card
from tasks.publishing.croissant import croissant
from tasks.publishing.report import report
version = card_rows.example_version()
text = card(version, card_rows.TABLES) + croissant(version) + report(version, card_rows.TABLES)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_bytes_depend_on_no_hash_seed_time_zone_or_folder(tmp_path: Path) -> None:
    digests = set()
    for seed, zone in (("1", "Asia/Tokyo"), ("2", "America/Lima")):
        env = os.environ | {"PYTHONPATH": paths.PYTHONPATH, "PYTHONHASHSEED": seed, "TZ": zone}
        done = subprocess.run(
            [sys.executable, "-c", WRITE_ALL], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_a_struct_is_named_by_its_fields() -> None:
    span = pa.struct([pa.field("start", pa.int32(), nullable=False), pa.field("end", pa.int32())])
    assert type_name(pa.list_(span)) == "list of {start, end}"
