"""Exporting and importing responses: exports can be imported, altered files are refused."""

import asyncio
import hashlib
import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from typer.testing import CliRunner

from benchmarks.make_dump import write_dump
from flows.cli.main import app
from longform.artifacts.store import Store
from longform.artifacts.versions import find, keys_used
from longform.errors import StoreError, UsageError
from longform.llm.ask.keys import canonical, key_of
from longform.llm.responses.exchange import SCHEMA, export_parquet, import_parquet
from longform.llm.responses.records import TOMBSTONE, Paid, Record
from longform.llm.responses.store import ResponseStore, open_responses

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"


def entry(number: int, path: str = CHAT, *, sample: int = 0, attempt: int = 0, **fields: Any) -> tuple[str, Record]:
    body = {"model": "m", "messages": [{"role": "user", "content": f"Fragè {number}"}], "metadata": {"task": "t"}}
    sent = canonical(body)
    record = Record(
        endpoint="test",
        model="m",
        task="axioms/corrupt",
        prompt="hash",
        request=sent.encode(),
        body=json.dumps({"choices": [{"message": {"content": f"Antwort {number}"}}]}).encode(),
        finish="stop",
        served_model="m-1",
        fingerprint="fp",
        input_tokens=7,
        cached_tokens=0,
        output_tokens=3,
        reasoning_tokens=None,
        token_limit=99,
        milliseconds=12,
        cost_nano=1234,
        created=1_700_000_000.125 + number,
    )
    return key_of("test", path, sent, sample=sample, attempt=attempt), replace(record, **fields)


ENTRIES = dict(
    [
        *(entry(n) for n in range(20)),
        entry(20, EMBEDDINGS),
        entry(21, sample=63, attempt=3),
        entry(22, sample=200),
        entry(23, body=b"\xff\x00 not text", batch=True, cost_nano=None),
        entry(24, state=TOMBSTONE, code="filter", body=b"held back", finish=None, input_tokens=None),
    ]
)


@pytest.fixture
def new_store(tmp_path: Path) -> Iterator[Callable[[], ResponseStore]]:
    opened: list[ResponseStore] = []

    def make() -> ResponseStore:
        opened.append(open_responses(tmp_path / f"{len(opened)}.sqlite"))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def full(new_store: Callable[[], ResponseStore]) -> ResponseStore:
    store = new_store()
    store.add(ENTRIES.items())
    return store


@pytest.fixture
def exported(full: ResponseStore, tmp_path: Path) -> Path:
    path = tmp_path / "responses.parquet"
    assert export_parquet(full, path) == len(ENTRIES)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---------------------------------------------------------------- there and back


def test_an_export_imported_elsewhere_and_exported_again_has_the_same_bytes(
    exported: Path, new_store: Callable[[], ResponseStore], tmp_path: Path
) -> None:
    other = new_store()
    assert import_parquet(other, exported) == (len(ENTRIES), 0)
    assert dict(other.scan()) == ENTRIES
    assert export_parquet(other, tmp_path / "again.parquet") == len(ENTRIES)
    assert digest(tmp_path / "again.parquet") == digest(exported)
    assert import_parquet(other, exported) == (0, len(ENTRIES))


def test_an_export_is_a_plain_sorted_table_without_anything_of_an_account(exported: Path) -> None:
    table = pq.read_table(exported)
    keys = table["key"].to_pylist()
    assert keys == sorted(ENTRIES)
    assert not {"request_id", "headers"} & set(table.column_names)
    row = table.slice(keys.index(entry(3)[0]), 1).to_pylist()[0]
    assert json.loads(row["response"])["choices"][0]["message"]["content"] == "Antwort 3"
    assert row["created"].isoformat() == "2023-11-14T22:13:23.125000+00:00"
    assert (row["state"], row["batch"], row["cost_nano"], row["reasoning_tokens"]) == (0, False, 1234, None)
    assert table.schema.field("cost_nano").metadata[b"doc"]


def test_only_the_keys_asked_for_are_exported(full: ResponseStore, tmp_path: Path) -> None:
    chosen = {*sorted(ENTRIES)[3:7], "ff" * 32}
    path = tmp_path / "some.parquet"
    assert export_parquet(full, path, chosen) == 4
    assert set(pq.read_table(path)["key"].to_pylist()) == chosen - {"ff" * 32}
    assert export_parquet(full, path, set()) == 0
    assert import_parquet(full, path) == (0, 0)


def test_an_import_overwrites_nothing_and_pays_nothing(exported: Path, new_store: Callable[[], ResponseStore]) -> None:
    store = new_store()
    key, record = entry(5)
    paid = Paid("run", "axioms", "corrupt", "abc", "test", "m", key, True, 7, 2, 3, 40)
    asyncio.run(store.put([(key, replace(record, body=b"mine"))], [paid]))
    before = store.ledger("axioms")
    assert import_parquet(store, exported) == (len(ENTRIES) - 1, 1)
    assert store.get([key])[key].body == b"mine"
    assert store.ledger("axioms") == before


def test_a_body_stored_in_the_order_it_was_sent_can_be_imported(
    new_store: Callable[[], ResponseStore], tmp_path: Path
) -> None:
    body = {"model": "m", "messages": [], "max_tokens": 5, "user": "somebody"}
    key = key_of("test", CHAT, canonical(body))
    old = replace(entry(0)[1], request=json.dumps(body, separators=(",", ":")).encode())
    first, second = new_store(), new_store()
    first.add([(key, old)])
    export_parquet(first, tmp_path / "old.parquet")
    assert import_parquet(second, tmp_path / "old.parquet") == (1, 0)
    assert second.get([key]) == {key: old}


def test_large_stores_take_little_memory_and_bounded_row_groups(
    new_store: Callable[[], ResponseStore], tmp_path: Path
) -> None:
    first, second, path = new_store(), new_store(), tmp_path / "large.parquet"
    first.add(entry(n, body=b"%d" % n + b"x" * 200_000) for n in range(500))
    tracemalloc.start()
    export_parquet(first, path)
    import_parquet(second, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6
    assert pq.read_metadata(path).num_row_groups == 3
    assert dict(second.scan()) == dict(first.scan())


def test_a_half_character_does_not_hinder_an_export(tmp_path: Path) -> None:
    class Odd:
        def scan(self, keys: object) -> Iterator[tuple[str, Record]]:
            yield entry(1, served_model="half \ud800")

    export_parquet(Odd(), tmp_path / "odd.parquet")  # type: ignore[arg-type]
    assert pq.read_table(tmp_path / "odd.parquet")["served_model"].to_pylist() == ["half ?"]


# ---------------------------------------------------------------- what is refused


def altered(exported: Path, **columns: Any) -> Path:
    """A copy of the export with every value of some columns replaced."""
    table = pq.read_table(exported)
    for name, value in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.column_names.index(name), field, pa.array([value] * len(table), field.type))
    path = exported.with_name("altered.parquet")
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"request": b'{"messages":[],"model":"m"}'}, r"holds at key [0-9a-f]{64} a request of another key"),
        ({"request": b"\xff"}, "a request of another key"),
        ({"request": b"[1]"}, "a request of another key"),
        ({"request": b"[" * 100_000}, "a request of another key"),
        ({"endpoint": "other"}, "a request of another key"),
        ({"key": "f" * 64}, "a request of another key"),
        ({"key": "F" * 64}, "not 64 hex digits"),
        ({"key": "abc"}, "not 64 hex digits"),
        ({"state": 7}, "has state 7 at key"),
    ],
)
def test_a_row_that_is_not_what_its_key_says_is_refused_and_nothing_imported(
    exported: Path, new_store: Callable[[], ResponseStore], columns: dict[str, Any], why: str
) -> None:
    store = new_store()
    with pytest.raises(UsageError, match=why):
        import_parquet(store, altered(exported, **columns))
    assert list(store.scan()) == []


def test_one_altered_request_among_many_is_refused_with_its_key(
    exported: Path, new_store: Callable[[], ResponseStore]
) -> None:
    table = pq.read_table(exported)
    requests = table["request"].to_pylist()
    requests[-1] = requests[-1].replace(b"Frag", b"Trag")
    place = table.column_names.index("request")
    pq.write_table(table.set_column(place, table.schema.field("request"), pa.array(requests, pa.binary())), exported)
    store = new_store()
    with pytest.raises(UsageError, match=table["key"].to_pylist()[-1]):
        import_parquet(store, exported)
    assert list(store.scan()) == []


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda table: table.replace_schema_metadata({}), "is no export of responses"),
        (lambda table: table.replace_schema_metadata({**SCHEMA.metadata, b"longform.responses": b"9"}), "has format 9"),
        (lambda table: table.replace_schema_metadata({**SCHEMA.metadata, b"longform.key_version": b"2"}), "version 2"),
        (lambda table: table.drop_columns(["created"]), "see created"),
        (lambda table: table.cast(SCHEMA.set(20, pa.field("response", pa.string()))), "see response"),
        (lambda table: table.select(table.column_names[::-1]), "the order of columns"),
    ],
)
def test_a_file_that_is_no_export_of_this_release_is_refused(
    full: ResponseStore, tmp_path: Path, made: Callable[[pa.Table], pa.Table], why: str
) -> None:
    path = tmp_path / "other.parquet"
    export_parquet(full, path, [entry(1)[0]])
    pq.write_table(made(pq.read_table(path)), path)
    with pytest.raises(UsageError, match=why):
        import_parquet(full, path)


def test_a_truncated_a_damaged_and_a_missing_file_are_refused(
    exported: Path, new_store: Callable[[], ResponseStore]
) -> None:
    store, whole = new_store(), exported.read_bytes()
    damages = [whole[:1000], whole[:-1], b"", b"key,created\n", whole[:2000] + b"\0\0\0\0" + whole[2004:]]
    for content in damages:
        exported.write_bytes(content)
        with pytest.raises(UsageError, match="cannot be read as an export"):
            import_parquet(store, exported)
    exported.unlink()
    with pytest.raises(UsageError, match="There is no"):
        import_parquet(store, exported)
    assert list(store.scan()) == []


@pytest.mark.parametrize("name", ["folder", "missing/file.parquet"])
def test_an_export_to_an_unwritable_place_is_an_error_that_names_it(
    full: ResponseStore, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=name):
        export_parquet(full, tmp_path / name)


def test_an_export_that_fails_leaves_the_earlier_file(exported: Path, full: ResponseStore) -> None:
    before = digest(exported)

    class Failing:
        def scan(self, keys: object) -> Iterator[tuple[str, Record]]:
            yield from list(ENTRIES.items())[:3]
            raise StoreError("The disk went away.")

    with pytest.raises(StoreError, match="went away"):
        export_parquet(Failing(), exported)  # type: ignore[arg-type]
    assert digest(exported) == before
    assert sorted(path.name for path in exported.parent.glob("*parquet*")) == [exported.name]
    assert not list(exported.parent.glob(".tmp-*"))


# ---------------------------------------------------------------- the command line


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["responses", *map(str, arguments)])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LONGFORM_RESPONSES", raising=False)
    home = tmp_path / "home"
    with closing(open_responses(home / "llm" / "responses.sqlite")) as store:
        store.add(ENTRIES.items())
    return home


def test_export_import_and_stats_on_the_command_line(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.parquet"
    with closing(open_responses(home / "llm" / "responses.sqlite")):
        assert run("export", file, "--home", home).output == f"Exported 25 responses (0.0 MB) to {file}.\n"
    other = tmp_path / "other"
    assert run("import", file, "--home", other).output == "Imported 25 responses; 0 were there already.\n"
    assert run("import", file, "--home", other).output == "Imported 0 responses; 25 were there already.\n"
    shown = run("stats", "--home", other)
    assert "axioms/corrupt" in shown.output
    (counted,) = json.loads(run("stats", "--home", other, "--json").output)
    assert (counted["answers"], counted["errors"], counted["output_tokens"]) == (24, 1, 75)
    assert run("stats", "--home", tmp_path / "nothing").output == "No response is stored.\n"
    assert not (tmp_path / "nothing").exists()


def test_wrong_words_are_explained(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    for words, why in [
        (("axioms",), "Name the file to write"),
        (("axioms@v1",), "Name the file to write"),
        (("axioms", file, "more"), "not 3 words"),
        (("axiom", file), 'did you mean "axioms"'),
        (("axioms", file), "has no version"),
    ]:
        done = run("export", *words, "--home", home)
        assert isinstance(done.exception, UsageError)
        assert why in str(done.exception)
    assert run("export", "--home", home).exit_code == 2
    assert not file.exists()


def test_a_file_that_cannot_be_imported_makes_no_home(tmp_path: Path) -> None:
    done = run("import", tmp_path / "typo.parquet", "--home", tmp_path / "home")
    assert isinstance(done.exception, UsageError)
    assert not (tmp_path / "home").exists()


def test_a_version_ships_the_responses_it_used_and_tells_what_is_missing(home: Path, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "tea.example" / "Posts.xml", 100_000, seed=3).path
    build_axioms(home, dump=dump, site="tea.example")
    unit = next((home / "stages" / "select_questions" / "units").glob("*.json"))
    unit.with_suffix(".responses").write_bytes(bytes.fromhex(entry(1)[0]) + b"\xff" * 32)
    file = tmp_path / "of_version.parquet"
    done = run("export", "axioms@v1", file, "--home", home)
    assert done.output.startswith("Exported 1 responses")
    assert "1 more that axioms@v1 used are not stored here" in done.output
    assert pq.read_table(file)["key"].to_pylist() == [entry(1)[0]]


def test_responses_of_a_version_of_0_1_0_are_found_by_its_rows(tmp_path: Path) -> None:
    home = tmp_path / "home"
    build_axioms(home)
    for path in home.glob("stages/*/*.json"):
        document = json.loads(path.read_text())
        del document["units"]
        path.write_text(json.dumps(document))
    store = Store(home)
    version = find(home, "axioms@v1")
    rows = pq.read_table(version.folder / "train", columns=["preferred_response", "rejected_response"])
    published = {key for column in rows.columns for key in column.to_pylist() if key}
    assert published <= keys_used(store, version)
