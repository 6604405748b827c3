"""Files of drafts: what is read of them, and what is left out, with its name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longform.artifacts.rows import Rejected
from longform.errors import SourceError, StoreError
from tasks.revision_distance.own.files import Bad, keep, kept_records
from tasks.revision_distance.own.records import Reader


def bad(given: Path, folder: Path) -> dict[str | None, str]:
    """Detail -> reason of the records of a file that are none."""
    lines = keep(given, folder, {}).path.read_bytes().splitlines()
    return {record.detail: record.reason for _, record in kept_records(lines) if isinstance(record, Bad)}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    folder = tmp_path / "pairs"
    for name in ("a/one.txt", "a/two.txt", "references/one.txt", "references/two.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("Tea is old.")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key.txt").write_text("a secret")
    return folder


def test_links_in_a_folder_are_not_followed_and_each_is_a_row_with_its_name(pairs: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    (pairs / "a" / "key.txt").symlink_to(private / "key.txt")
    (pairs / "b").symlink_to(private)
    (pairs / "a" / "three.txt").write_text("Tea is new.")
    (pairs / "references" / "three.txt").symlink_to(private / "key.txt")
    (pairs / "a" / "four.txt").write_text("Tea is new.")
    (pairs / "references" / "four").symlink_to(private)
    (pairs / "a" / "five.txt").write_text("Tea is new.")
    (pairs / "references" / "five").mkdir()
    (pairs / "references" / "five" / "key.txt").symlink_to(private / "key.txt")
    found = keep(pairs, tmp_path / "kept", {})
    assert bad(pairs, tmp_path / "kept") == dict.fromkeys(
        ["a/key.txt", "b", "references/three.txt", "references/four", "references/five/key.txt"],
        "a link, which is not followed",
    )
    assert found.records == 7
    assert b"secret" not in found.path.read_bytes()


def test_a_linked_folder_of_references_is_not_followed(pairs: Path, tmp_path: Path) -> None:
    (pairs / "references").rename(tmp_path / "elsewhere")
    (pairs / "references").symlink_to(tmp_path / "elsewhere")
    assert bad(pairs, tmp_path / "kept") == {"references": "a link, which is not followed"}


def test_a_file_that_is_no_text_is_named(pairs: Path, tmp_path: Path) -> None:
    (pairs / "a" / "one.txt").write_bytes(b"\xff\xfe\xff")
    (pairs / "references" / "two.txt").write_bytes(b"\xff")
    assert bad(pairs, tmp_path / "kept") == {"a/one.txt": "no UTF-8", "references/two.txt": "no UTF-8"}


@pytest.mark.parametrize(("name", "text"), [("d.jsonl", '{"text": "a", "id": 1}\n'), ("d.json", '[{"text": "a"}]')])
def test_a_column_that_no_record_has_is_named_with_those_that_are_there(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=r"has no column draft \(it has text.* --column draft=NAME"):
        keep(tmp_path / name, tmp_path / "kept", {})
    with pytest.raises(SourceError, match=r"has no column nope \(it has text"):
        keep(tmp_path / name, tmp_path / "kept", {"draft": "nope"})
    assert keep(tmp_path / name, tmp_path / "kept", {"draft": "text"}).records == 1


def test_a_column_that_only_some_records_have_is_a_matter_of_the_others(tmp_path: Path) -> None:
    many = {f"n{number}": number for number in range(300)}
    (tmp_path / "d.jsonl").write_text(f"{json.dumps(many)}\n" + '{"late": "a", "id": 2}\n')
    kept = keep(tmp_path / "d.jsonl", tmp_path / "kept", {"draft": "late"})
    read = [Reader(False).read(record, row) for row, record in kept_records(kept.path.read_bytes().splitlines())]  # type: ignore[arg-type]
    assert [isinstance(row, Rejected) for row in read] == [True, False]


def test_what_cannot_be_read_and_what_cannot_be_written_are_told_apart(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("a")
    with pytest.raises(StoreError, match=r"Cannot write .*d.txt/kept"):
        keep(pairs, tmp_path / "d.txt" / "kept", {})
    (tmp_path / "d.jsonl").symlink_to(tmp_path / "d.jsonl")
    with pytest.raises(SourceError, match=r"does not exist|cannot be read"):
        keep(tmp_path / "d.jsonl", tmp_path / "kept", {})


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("Id,draft,reference", "--column id=Id"),
        ("id,draft,draft", "2 columns draft"),
        ("draft,System", "system=System"),
    ],
)
def test_columns_that_would_be_taken_wrongly_are_refused(header: str, said: str, tmp_path: Path) -> None:
    given = tmp_path / "drafts.csv"
    given.write_text(f"{header}\na,b,c\n")
    with pytest.raises(SourceError, match=said):
        keep(given, tmp_path / "kept", {})


def test_texts_that_parquet_holds_as_bytes_are_texts(tmp_path: Path) -> None:
    given = tmp_path / "drafts.parquet"
    pq.write_table(pa.table({"draft": [b"Tea.", b"\xff", b""], "references": [[b"Milk."]] * 3}), given)
    kept = keep(given, tmp_path / "kept", {})
    found = [record for _, record in kept_records(kept.path.read_bytes().splitlines())]
    assert [isinstance(each, Bad) for each in found] == [False, True, False]
    assert found[0] == {"draft": "Tea.", "references": ["Milk."]}
