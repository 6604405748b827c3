import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import paths
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import source_s2orc
from benchmarks.building import Silent
from longform.artifacts.rows import Rejected, Row, Shard
from longform.artifacts.store import Digests, Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from schemas.sources.papers import PAPERS
from tasks.sources.s2orc.s2_records import Unusable, from_doc2json
from tasks.sources.s2orc.s2_releases import merge_metadata, newest_papers, open_release, read_s2_metadata
from tasks.sources.s2orc.s2orc import from_record, loaded, read_s2orc, records_of, shape_of

SAMPLES = paths.SAMPLES / "s2orc"
DATA = paths.REAL_DATA / "s2orc"
real = pytest.mark.skipif(not DATA.exists(), reason="no real papers beside the repository")
FULL_TEXTS = ("s2orc.jsonl", "s2orc_v2.jsonl", "pdf_parses_2020.jsonl", "release_2019.jsonl", "doc2json.jsonl")


def sample(name: str) -> list[dict[str, Any]]:
    """The sample's records; its broken one is left out."""
    lines = (SAMPLES / name).read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def checked(row: Row) -> Row:
    """The row, after everything that must hold of any: a batch of the schema, spans in the text and apart."""
    batch = pa.RecordBatch.from_pylist([row], schema=PAPERS)
    batch.validate(full=True)
    assert row.keys() == set(PAPERS.names)
    text, last = row["text"], 0
    for paragraph in row["paragraphs"]:
        assert last <= paragraph["start"] < paragraph["end"] <= len(text)
        last = paragraph["end"]
        section = row["sections"][paragraph["section"]]
        assert section["start"] <= paragraph["start"] < paragraph["end"] <= section["end"]
        before = paragraph["start"]
        for citation in paragraph["citations"]:
            assert before <= citation["start"] < citation["end"] <= paragraph["end"]
            before = citation["start"]
    for section in row["sections"]:
        if section["head"] and section["number"] is None:
            assert (
                text[section["start"] : section["end"]].split()[: len(section["head"].split())]
                == section["head"].split()
            )
    return row


def heads(row: Row) -> list[tuple[str | None, str | None, str | None]]:
    return [(section["number"], section["head"], section["role"]) for section in row["sections"]]


def cited(row: Row) -> list[tuple[str, str | None]]:
    """(text of the citation, paper it leads to)."""
    linked = {entry["ref_id"]: entry["paper_id"] for entry in row["bibliography"]}
    return [
        (row["text"][one["start"] : one["end"]], linked.get(one["ref_id"]))
        for paragraph in row["paragraphs"]
        for one in paragraph["citations"]
    ]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    home = tmp_path / "home"
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    yield build
    build.close()


def read(build: Build, *paths: Path) -> tuple[list[Row], dict[tuple[str, str], int]]:
    """The papers of these files, and how many records became none by (kind, reason)."""
    files = open_release(paths, digest=Digests(build.store.home))
    metadata = merge_metadata(build, read_s2_metadata(build, files["metadata"]))
    records = read_s2orc(build, files["papers"])
    papers = newest_papers(build, records, records, metadata)
    reasons: dict[tuple[str, str], int] = {}
    for done in build.done:
        for reason, number in done.artifact.rejected().items():
            reasons[reason] = reasons.get(reason, 0) + number
    return sorted(papers, key=lambda row: str(row["paper_id"])), reasons


# ---------------------------------------------------------------- shapes


SECTIONS_1002 = [
    ("1", "INTRODUCTION", "introduction"),
    ("2", "RELATED WORK", "related_work"),
    ("2.1", "Light", "related_work"),
    ("2.2", "Sound", "related_work"),
    ("3", "RECORDING", None),
    ("4", "CONCLUSION", None),
]
CITED_1002 = [
    ("Lindqvist (1994)", None),
    ("Arden and Quill (2017)", "s2/1001"),
    ("(see the minutes of 1962)", None),
]


@pytest.mark.parametrize("name", FULL_TEXTS)
def test_each_shape_is_known_by_its_keys(name: str) -> None:
    expected = {"pdf_parses_2020.jsonl": "s2orc_2020", "release_2019.jsonl": "s2orc_2019"}
    for record in sample(name):
        assert shape_of(record) == expected.get(name, name.removesuffix(".jsonl"))
        checked(from_record(record))


@pytest.mark.parametrize(("name", "position"), [("s2orc.jsonl", 1), ("s2orc_v2.jsonl", 1), ("doc2json.jsonl", 0)])
def test_numbered_shapes_have_the_same_sections(name: str, position: int) -> None:
    row = checked(from_record(sample(name)[position]))
    assert heads(row) == SECTIONS_1002
    assert row["title"] == "A Microphone for Every Comb"
    assert row["authors"] == ["Leo Quill", "Tess Ostrow"]
    assert row["doi"] == "10.5555/sensors.2019.7"
    if name != "s2orc_v2.jsonl":
        assert row["abstract"] == "We hang microphones between combs and hear a swarm coming one day ahead."
    links = dict(CITED_1002)
    assert [text for text, _ in cited(row)] == list(links)
    if name != "doc2json.jsonl":
        assert cited(row) == CITED_1002


def test_the_apis_record() -> None:
    """Spans as the sample's maker put them down."""
    row = checked(from_record(sample("s2orc.jsonl")[1], retrieved_at=5))
    assert (row["paper_id"], row["corpus_id"], row["source"], row["parser"]) == ("s2/1002", 1002, "s2orc", "s2orc")
    assert (row["licence"], row["url"]) == ("CCBY", "https://api.semanticscholar.org/CorpusID:1002")
    assert row["retrieved_at"] == 5
    first = row["bibliography"][0]
    assert (first["ref_id"], first["paper_id"], first["title"]) == (
        "b0",
        "s2/1001",
        "Counting Bees at the Door of the Hive",
    )
    assert (first["authors"], first["venue"]) == (["M Arden", "L Quill"], "Journal of Garden Measurement")
    assert "Figure 1" not in {section["head"] for section in row["sections"]}
    assert from_record(sample("s2orc.jsonl")[2])["licence"] is None


def test_characters_beyond_the_basic_plane_count_once() -> None:
    for name in ("s2orc.jsonl", "s2orc_v2.jsonl"):
        row = checked(from_record(sample(name)[0]))
        texts = [row["text"][one["start"] : one["end"]] for one in row["paragraphs"]]
        assert texts[0].startswith("Whoever keeps bees")
        assert texts[0].endswith("no instrument.")
        assert texts[-1] == "Light barriers count well as long as nobody leans a rake against the hive."
        assert cited(row) == [("Lindqvist (1994)", None)]
        assert row["notes"] == []


def test_releases_are_assembled_from_paragraphs() -> None:
    row = checked(from_record(sample("pdf_parses_2020.jsonl")[2]))
    assert row["text"].startswith("Introduction\n\nBees do not fly in rain.")
    assert [role for _, _, role in heads(row)] == ["introduction", "related_work", "related_work", None, None]
    assert (row["title"], row["paper_id"]) == (None, "s2/1003")
    assert cited(row)[:2] == [("Quill and Ostrow (2019)", "s2/1002"), ("Arden and Quill (2017)", "s2/1001")]
    old = checked(from_record(sample("release_2019.jsonl")[1]))
    assert (old["title"], old["year"], old["venue"]) == (
        "A Microphone for Every Comb",
        2019,
        "Proceedings of the Workshop on Small Sensors",
    )
    assert cited(old) == CITED_1002


def test_a_closed_paper_of_2020_has_no_text() -> None:
    row = checked(from_record(sample("pdf_parses_2020.jsonl")[3]))
    assert (row["text"], row["sections"], row["paragraphs"]) == ("", [], [])


def test_doc2json_in_its_variants() -> None:
    record = sample("doc2json.jsonl")[1]
    row = checked(from_doc2json(record, paper_id="acl/x", licence="CC BY 4.0", url="https://papers.example/x"))
    assert (row["paper_id"], row["licence"], row["url"]) == ("acl/x", "CC BY 4.0", "https://papers.example/x")
    assert heads(row)[-1][:2] == (None, "Acknowledgements")
    assert row["bibliography"][0]["doi"] == "10.5555/garden.2017.1"
    assert row["bibliography"][0]["raw"].startswith("M Arden, L Quill. 2017.")
    parse = record.pop("pdf_parse")
    metadata = {name: record.pop(name) for name in ("title", "authors", "year", "venue")}
    flat = {**record, **parse, "metadata": metadata}
    assert shape_of(flat) == "doc2json"
    again = checked(from_doc2json(flat, paper_id="acl/x", licence="CC BY 4.0", url="https://papers.example/x"))
    assert again == row


def test_sections_of_latex_are_lists() -> None:
    paragraph = {"section": [["2", "Related work"], ["2.1", "Bees"]], "text": "Some fly.", "cite_spans": []}
    record = {"paper_id": "7", "_pdf_hash": "x", "abstract": [], "body_text": [paragraph], "bib_entries": {}}
    assert heads(checked(from_record(record))) == [("2.1", "Bees", None)]


def test_an_unknown_shape_names_its_keys() -> None:
    with pytest.raises(Unusable) as caught:
        from_record({"corpusid": 7, "pages": []})
    assert (caught.value.reason, caught.value.detail) == ("unknown record shape", "keys: corpusid, pages")


# ---------------------------------------------------------------- offsets


WORDS = st.lists(st.text("ab😀é 𝔘\u2029", min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=5)


@given(st.lists(st.tuples(st.text("Heads 😀", max_size=9), WORDS), max_size=5), st.data())
def test_random_spans_are_kept(sections: list[tuple[str, list[str]]], data: st.DataObject) -> None:
    """What is written at a span is read at it, whatever planes the characters are of."""
    text, paragraphs, headers, refs = "\n", [], [], []
    for head, words in sections:
        headers += [{"start": len(text), "end": len(text) + len(head)}] if head else []
        text += head + "\n\n"
        start = len(text)
        for word in words:
            if data.draw(st.booleans()):
                refs.append({"start": len(text), "end": len(text) + len(word), "attributes": {"ref_id": "b0"}})
            text += word + " "
        paragraphs.append({"start": start, "end": len(text)})
        text += "\n\n"
    spans = {"paragraph": paragraphs, "sectionheader": headers, "bibref": refs}
    annotations = {name: json.dumps(found) if found else None for name, found in spans.items()}
    row = checked(from_record({"corpusid": 1, "content": {"text": text, "annotations": annotations}}))
    expected = [(one["start"], one["end"]) for one in paragraphs]
    assert [(one["start"], one["end"]) for one in row["paragraphs"]] == expected
    found = [(one["start"], one["end"]) for paragraph in row["paragraphs"] for one in paragraph["citations"]]
    assert found == [(one["start"], one["end"]) for one in refs]


@pytest.mark.parametrize(("unit", "measure"), [
    ("UTF-16", lambda text: len(text.encode("utf-16-le")) // 2),
    ("bytes", lambda text: len(text.encode())),
])  # fmt: skip
def test_offsets_of_other_units_are_converted(unit: str, measure: Any) -> None:
    record = sample("s2orc.jsonl")[1]
    expected = from_record(record)
    content = record["content"]
    shift = "😀🐝é" * 5 + " "
    content["text"] = shift + content["text"]
    for name, value in content["annotations"].items():
        spans = json.loads(value) if value else []
        for span in spans:
            for end in ("start", "end"):
                span[end] = measure(content["text"][: span[end] + len(shift)])
        content["annotations"][name] = json.dumps(spans)
    row = checked(from_record(record))
    assert row["notes"] == [f"offsets converted from {unit}"]
    assert heads(row) == heads(expected)
    assert cited(row) == cited(expected)
    parts = [[row["text"][one["start"] : one["end"]] for one in row["paragraphs"]] for row in (row, expected)]
    assert parts[0] == parts[1]
    assert row["bibliography"] == expected["bibliography"]


def test_cite_spans_of_other_units_are_converted_by_their_text() -> None:
    record = sample("pdf_parses_2020.jsonl")[1]
    paragraph = record["body_text"][2]
    paragraph["text"] = "🐝🐝 " + paragraph["text"]
    span = paragraph["cite_spans"][0]
    span["start"], span["end"] = span["start"] + 5, span["end"] + 5
    row = checked(from_record(record))
    assert ("Arden and Quill (2017)", "s2/1001") in cited(row)
    assert row["notes"] == ["offsets converted from UTF-16"]


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("bibref", '[{"start": 5, "end": 99999}]', "bib_ref spans dropped"),
        ("bibref", '[{"start": -5, "end": 9}]', "bib_ref spans dropped"),
        (
            "bibref",
            '[{"start": "x", "end": 9}, {"end": 4}, 7]',
            "bib_ref spans dropped; unreadable bib_ref annotations: 2",
        ),
        ("bibref", "[{", "unreadable bib_ref annotations"),
        ("bibref", "7", "unreadable bib_ref annotations"),
        ("sectionheader", '[{"start": 5, "end": 2}]', "section_header spans dropped"),
        (
            "bibentry",
            '[{"start": 0, "end": 99999, "attributes": 4}]',
            "bib_entry spans dropped; citations of no entry: 2",
        ),
    ],
)
def test_single_bad_spans_are_dropped_and_noted(name: str, value: str, note: str) -> None:
    record = sample("s2orc.jsonl")[1]
    record["content"]["annotations"][name] = value
    assert "; ".join(checked(from_record(record))["notes"]) == note


def test_offsets_may_be_digits_in_strings() -> None:
    record = sample("s2orc.jsonl")[1]
    expected = from_record(record)
    annotations = record["content"]["annotations"]
    for name, value in annotations.items():
        spans = [{**span, "start": str(span["start"]), "end": str(span["end"])} for span in json.loads(value or "[]")]
        annotations[name] = spans  # a list, not a string, as some mirrors have it
    record["corpusid"] = "1002"
    assert from_record(record) == expected


def test_overlapping_paragraphs_are_kept_apart() -> None:
    record = sample("s2orc.jsonl")[1]
    spans = json.loads(record["content"]["annotations"]["paragraph"])
    spans.append(dict(spans[0]))
    record["content"]["annotations"]["paragraph"] = json.dumps(spans)
    row = checked(from_record(record))
    assert len(row["paragraphs"]) == len(spans) - 1
    assert row["notes"] == ["paragraph spans dropped"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r: r["content"].update(text="short"), "spans beyond the text"),
        (lambda r: r["content"].update(text=None), "no text"),
        (lambda r: r.update(content=None), "no text"),
        (lambda r: r.update(corpusid=None), "no id"),
        (lambda r: r.update(corpusid="x/../y"), "no id"),
        (lambda r: r.update(corpusid=1 << 70), "no id"),
    ],
)
def test_unusable_records(change: Any, reason: str) -> None:
    record = sample("s2orc.jsonl")[1]
    change(record)
    with pytest.raises(Unusable) as caught:
        from_record(record)
    assert caught.value.reason == reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["text", "annotations", "abstract", "body_text", "bib_entries", "section", "cite_spans", "authors"]
)


@given(
    st.sampled_from(["content", "grobid_parse", "pdf_parse", "body_text", "body"]),
    st.dictionaries(KEYS, JSON) | st.lists(st.dictionaries(KEYS, JSON)) | JSON,
)
def test_any_json_is_a_row_or_a_rejected_row(key: str, value: Any) -> None:
    from tasks.sources.s2orc.s2orc import converted

    record = {"corpusid": 7, "paper_id": "7", key: value, "bibliography": value}
    line = (
        orjson.dumps(record, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS, default=str)
        if all_finite(record)
        else b"{"
    )
    item = converted(line, from_record)
    if not isinstance(item, Rejected):
        checked(item)
    elif item.reason == "unexpected form":
        pytest.fail(f"{item.detail}: {record}")


def all_finite(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


# ---------------------------------------------------------------- files


def test_records_of_a_line_each_or_one_document(tmp_path: Path) -> None:
    record = sample("doc2json.jsonl")[0]
    for name, content in (("a.json", json.dumps(record, indent=2)), ("b.jsonl", json.dumps(record) + "\r\n\n")):
        (tmp_path / name).write_text(content)
        files = open_release([tmp_path / name], digest=lambda path: "0" * 64)["papers"]
        assert [loaded(line) for line in records_of(Shard(files[0], 0))] == [record]


def test_halves_of_surrogates_and_nan_are_repaired() -> None:
    assert loaded(b'{"a": "x\\ud83dy", "b": NaN, "c": "\\ud83d\\ude00"}') == {"a": "x\ufffdy", "b": None, "c": "😀"}
    for line in (b"[1]", b"{", b"\xff\xfe", b'{"a":' * 100_000):
        with pytest.raises(Unusable):
            loaded(line)


def test_every_line_is_accounted_for(build: Build, tmp_path: Path) -> None:
    lines = [*(SAMPLES / "s2orc.jsonl").read_bytes().splitlines(), b"[]", b'{"corpusid": 9, "x": 1}', b"\xff"]
    (tmp_path / "shard.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    rows, reasons = read(build, tmp_path / "shard.gz")
    assert [row["paper_id"] for row in rows] == ["s2/1001", "s2/1002", "s2/1003", "s2/1004"]
    assert reasons == {
        ("defect", "unreadable JSON"): 2,
        ("defect", "no JSON object"): 1,
        ("defect", "unknown record shape"): 1,
    }
    for row in rows:
        checked({**row, "retrieved_at": None})


def test_a_truncated_file_is_no_shorter_one(build: Build, tmp_path: Path) -> None:
    packed = gzip.compress((SAMPLES / "s2orc.jsonl").read_bytes())
    (tmp_path / "shard.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(SourceError, match="truncated"):
        read(build, tmp_path / "shard.gz")


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "empty.gz").touch()
    for path, kind in ((tmp_path / "empty.gz", SourceError), (tmp_path / "absent", SourceError)):
        with pytest.raises(kind):
            open_release([path], digest=lambda path: "0" * 64)
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="holds no JSON lines"):
        open_release([tmp_path / "folder"], digest=lambda path: "0" * 64)
    with pytest.raises(UsageError):
        open_release([], digest=lambda path: "0" * 64)


def test_files_are_known_by_their_records(tmp_path: Path) -> None:
    for number, file in enumerate(sorted(SAMPLES.glob("*.jsonl"))):
        shutil.copy(file, tmp_path / f"{number}.jsonl")
    (tmp_path / "manifest.json").write_text("{}")
    found = open_release([tmp_path], digest=lambda path: path.name)
    assert {kind: len(files) for kind, files in found.items()} == {"papers": 5, "metadata": 3, "citations": 1}


def test_metadata_completes_the_release_of_2020(build: Build) -> None:
    rows, reasons = read(build, SAMPLES / "pdf_parses_2020.jsonl", SAMPLES / "metadata_2020.jsonl")
    assert reasons == {}
    assert [row["title"] for row in rows][:2] == [
        "Counting Bees at the Door of the Hive",
        "A Microphone for Every Comb",
    ]
    assert (rows[0]["authors"], rows[0]["year"]) == (["Mira Arden", "Leo Quill"], 2017)
    assert rows[3]["title"] is None


# ---------------------------------------------------------------- versions


def v1(corpus_id: int, word: str, updated: str | None = None) -> str:
    spans = json.dumps([{"start": 0, "end": len(word)}])
    record = {"corpusid": corpus_id, "content": {"text": word, "annotations": {"paragraph": spans}}}
    return json.dumps({**record, **({"updated": updated} if updated else {})}) + "\n"


def test_of_equal_ids_the_later_counts_else_the_first(build: Build, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(v1(1, "old", "2023-01-01T00:00:00Z") + v1(2, "first") + v1(3, "only"))
    (tmp_path / "b.jsonl").write_text(v1(1, "new", "2023-01-02T00:00:00Z") + v1(2, "second") + v1(1, "silent"))
    rows, reasons = read(build, tmp_path)
    assert [row["text"] for row in rows] == ["new", "first", "only"]
    assert reasons == {("filtered", "duplicate id"): 3}


def test_authors_are_those_of_papers_where_two_datasets_have_some(build: Build, tmp_path: Path) -> None:
    papers = {"corpusid": 1, "title": "Hives", "authors": [{"authorId": "7", "name": "Ada Bell"}]}
    metadata = {"paper_id": "1", "title": "Hives", "authors": [{"first": "Zoe", "middle": [], "last": "Wick"}]}
    for name, record in (("papers", papers), ("metadata", metadata)):
        folder = tmp_path / "2025-01-07" / name
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "s2orc.jsonl").write_text(v1(1, "text"))
    rows, _ = read(build, tmp_path)
    assert rows[0]["authors"] == ["Ada Bell"]


def test_differences_are_put_in_then_deleted(build: Build, tmp_path: Path) -> None:
    """Applied by hand: {1 a, 2 b, 3 c, 4 d} + week 1 {2 B, 5 e; delete 3, 5} + week 2 {3 C; delete 4}."""
    write = {
        "2025-01-07/s2orc/x.jsonl": v1(1, "a") + v1(2, "b") + v1(3, "c") + v1(4, "d"),
        "2025-01-07-to-2025-01-14/s2orc/update/u.jsonl": v1(2, "B") + v1(5, "e"),
        "2025-01-07-to-2025-01-14/s2orc/delete/d.jsonl": '{"corpusid": 3}\n{"corpusid": 5}\n',
        "2025-01-14-to-2025-01-21/s2orc/update/u.jsonl": v1(3, "C"),
        "2025-01-14-to-2025-01-21/s2orc/delete/d.jsonl": v1(4, "d"),
    }
    for name, content in write.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    rows, reasons = read(build, tmp_path)
    assert [row["text"] for row in rows] == ["a", "B", "C"]
    assert reasons == {
        ("filtered", "replaced upstream"): 2,
        ("filtered", "deleted upstream"): 2,
        ("filtered", "deletion record"): 3,
    }


# ---------------------------------------------------------------- real papers


@real
def test_real_papers_against_a_naive_parse() -> None:
    """Every span and every link of AI2's own samples, found again by other means."""
    with gzip.open(DATA / "s2orc-sample.jsonl.gz") as file:
        records = [json.loads(line) for line in file]
    inside = []
    for record in records:
        row = checked(from_record(record))
        content = record["content"]
        spans = {name: json.loads(value) if value else [] for name, value in content["annotations"].items()}
        assert row["text"] == content["text"]
        given = [(one["start"], one["end"]) for one in spans["paragraph"]]
        assert [(one["start"], one["end"]) for one in row["paragraphs"]] == given
        matched = {one["attributes"]["id"]: one["attributes"].get("matched_paper_id") for one in spans["bibentry"]}
        assert {entry["ref_id"]: entry["paper_id"] for entry in row["bibliography"]} == {
            ref_id: None if paper is None else f"s2/{paper}" for ref_id, paper in matched.items()
        }
        naive = [
            (ref["start"], ref["end"], matched.get(ref.get("attributes", {}).get("ref_id")))
            for ref in spans["bibref"]
            if any(start <= ref["start"] and ref["end"] <= end for start, end in given)
        ]
        linked = {entry["ref_id"]: entry["paper_id"] for entry in row["bibliography"]}
        ours = [
            (one["start"], one["end"], linked.get(one["ref_id"]))
            for paragraph in row["paragraphs"]
            for one in paragraph["citations"]
        ]
        assert ours == [(start, end, None if paper is None else f"s2/{paper}") for start, end, paper in naive]
        inside.append((len(ours), len(spans["bibref"])))
        titles = {row["text"][one["start"] : one["end"]] for one in spans["bibtitle"]}
        assert {entry["title"] for entry in row["bibliography"] if entry["title"]} == {
            " ".join(t.split()) for t in titles
        }
    assert inside == [(0, 0), (67, 78), (121, 123)]


@real
def test_real_files_of_all_datasets(build: Build) -> None:
    rows, reasons = read(build, DATA)
    assert (len(rows), reasons) == (3, {})
    assert rows[2]["title"].startswith("CiteSee: Augmenting Citations")
    assert rows[2]["authors"][2] == "Amy X Zhang"


def test_the_generated_shard_is_read(tmp_path: Path) -> None:
    path = source_s2orc.generate(tmp_path, 0.3)
    home = tmp_path / "home"
    home.mkdir()
    assert source_s2orc.ours(path, home) == source_s2orc.bare(path) > 2
