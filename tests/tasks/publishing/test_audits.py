"""What audits find is left out, counted, written down, and refused where it is too much."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_stages import building, source

from longform.artifacts.rows import Rejected, Shard, read_parquet
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact, problems
from longform.engine.stage import Row, Rows, StageContext, stage
from longform.errors import GateError
from schemas import column, table
from tasks.publishing.audits import Audit, Audits, Files, Finding, VersionAudit, audited, worse_than_published
from tasks.publishing.card import Paper
from tasks.publishing.publish import About, Published, Table, publish_version, set_publication

POEMS = table("poems", column("poem_id", pa.string(), "number"), column("text", pa.string(), "of it"), key="poem_id")
PUBLISHED = table(
    "published",
    column("row_id", pa.string(), "of the row"),
    column("poem_id", pa.string(), "parent: poems.poem_id"),
    column("text", pa.string(), "of it"),
    column("split", pa.string(), "train or test"),
    key="row_id",
    cut="poem_id",
)


def fence(row: Row) -> str | None:
    return "a fence" if row["text"].startswith("```") else None


def on_both_sides(files: Files) -> Iterator[Finding]:
    paths = [path for of in files["poems"].values() for path in of]
    both = f"SELECT text FROM {read_parquet(paths)} GROUP BY text HAVING count(DISTINCT split) > 1"
    query = f"SELECT split, row_id FROM {read_parquet(paths)} WHERE text IN ({both}) ORDER BY row_id"
    for split, key in duckdb.sql(query).fetchall():
        yield Finding("both_sides", "poems", split, key, "its text is on the other side, too")


FENCES = (Audit("fences", 0.1, fence),)
AUDITS = Audits({"poems": FENCES}, [VersionAudit("both_sides", 0.0, on_both_sides)])
ABOUT = About("poems", "Poems", "Poems, written for these tests.", Paper("On poems", "On poems, 2024."))


@stage(POEMS, revision=1)
def read_poems(context: StageContext, files: Shard) -> Iterator[Row]:
    for number, line in enumerate(Path(files.source.path).read_text().splitlines()):
        yield {"poem_id": f"poems/{number}", "text": line}


@stage(PUBLISHED, revision=1, split_by="split")
def assemble(context: StageContext, poems: Rows) -> Iterator[Row | pa.RecordBatch | Rejected]:
    yield from audited(map(_row, poems), FENCES, "poem_id")


def _row(poem: Row) -> Row:
    number = int(poem["poem_id"].split("/")[1])
    return {"row_id": f"r_{number}", **poem, "split": "test" if number % 5 == 0 else "train"}


def build(home: Path, lines: list[str], accept: Collection[str] = (), name: str = "v1") -> Published:
    home.mkdir(parents=True, exist_ok=True)
    file = home / "poems.txt"
    file.write_text("\n".join(lines))
    with building(home, accept=accept) as run:
        poems = read_poems(run, [source(file, "poems")])
        set_publication(run, ABOUT, [Table("poems", assemble(run, poems))], poems, tables=list, audits=AUDITS)
        return publish_version(run, name)


def lines(*changed: str) -> list[str]:
    return [*changed, *(f"poem {number}" for number in range(40 - len(changed)))]


def found(version: Version) -> list[tuple[str, str | None, str | None]]:
    return [
        (row["audit"], row["split"], row["key"]) for row in pq.read_table(version.folder / "audit.parquet").to_pylist()
    ]


def test_what_is_found_in_a_few_rows_is_left_out_and_the_card_says_so(tmp_path: Path) -> None:
    version = build(tmp_path, lines("```poem", "```another")).version
    texts = pq.read_table(version.folder / "train")["text"].to_pylist()
    texts += pq.read_table(version.folder / "test")["text"].to_pylist()
    assert len(texts) == 38
    assert not any(text.startswith("```") for text in texts)
    assert found(version) == [("fences", None, "poems/0"), ("fences", None, "poems/1")]
    assert "- fences: 2 of 40 rows (5 %)" in (version.folder / "README.md").read_text()
    assert artifact(Store(tmp_path), version, "assemble").reasons("defect") == {"audit: fences": 2}
    assert list(problems(Store(tmp_path), version)) == []


def test_too_many_are_refused_and_nothing_is_left_half_written(tmp_path: Path) -> None:
    with pytest.raises(
        GateError, match=r"poems was not published: fences: 5 of 40 rows \(12\.5 %\), ceiling 10 %"
    ) as e:
        build(tmp_path, lines(*["```a"] * 5))
    assert "--accept fences" in str(e.value)
    assert not any(path.is_file() for path in (tmp_path / "datasets").rglob("*"))
    version = build(tmp_path, lines(*["```a"] * 5), accept=["fences"]).version
    assert "fences: 5 of 40 rows (12.5 %), accepted" in (version.folder / "README.md").read_text()


def test_a_text_on_both_sides_is_refused_at_once_and_published_where_it_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(GateError, match=r"both_sides: 2 of 40 rows \(5 %\), ceiling 0 %.*r_0.*r_1"):
        build(tmp_path, lines("same", "same"))
    version = build(tmp_path, lines("same", "same"), accept=["both_sides"]).version
    assert found(version) == [("both_sides", "test", "r_0"), ("both_sides", "train", "r_1")]
    (gate,) = [gate for gate in version.manifest["gates"] if gate["gate"] == "both_sides"]
    assert (gate["found"], gate["checked"], gate["share"], gate["accepted"]) == (2, 40, 0.05, True)


def test_where_nothing_is_found_the_list_is_empty_and_equal_in_bytes(tmp_path: Path) -> None:
    one, two = (build(tmp_path / name, lines()).version for name in "ab")
    assert found(one) == []
    for name in ("audit.parquet", "README.md", "croissant.json"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()
    assert "nothing found: fences, both\\_sides, missing\\_kinds" in (one.folder / "README.md").read_text().replace(
        "both_sides", "both\\_sides"
    ).replace("missing_kinds", "missing\\_kinds")


def test_a_published_version_in_which_an_audit_finds_more_is_not_sound(tmp_path: Path) -> None:
    version = build(tmp_path, lines("same", "other")).version
    artifacts = [artifact(Store(tmp_path), version, name) for name in version.stages]
    assert list(worse_than_published(Store(tmp_path), version, artifacts, AUDITS)) == []
    (path,) = (version.folder / "train").glob("*.parquet")
    rows = pq.read_table(path)
    texts = ["same" if text == "other" else "```" if text == "poem 1" else text for text in rows["text"].to_pylist()]
    pq.write_table(rows.set_column(rows.schema.names.index("text"), "text", pa.array(texts)), path)
    told = list(worse_than_published(Store(tmp_path), version, artifacts, AUDITS))
    assert told == ["both_sides: 2 of 40 rows (5 %); the manifest says 0", 'fences: r_3 of poems train: "a fence"']


def test_batches_are_audited_row_by_row() -> None:
    batch = pa.RecordBatch.from_pylist([{"poem_id": "a", "text": "```"}, {"poem_id": "b", "text": "x"}])
    kept, rejected = audited([batch], FENCES, "poem_id")
    assert isinstance(kept, pa.RecordBatch)
    assert kept.to_pylist() == [{"poem_id": "b", "text": "x"}]
    assert rejected == Rejected("a", "defect", "audit: fences", detail="a fence")
