"""The store: parts appear whole or not at all, damage is told, and one build of a dataset runs at a time."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import paths
import pytest
from processes import started

from longform.artifacts.recipe import Recipe
from longform.artifacts.store import Artifact, Digests, Part, Store
from longform.errors import BusyError, StoreError
from longform.files import read_json, write_json
from longform.machines import temporary

ROOT = paths.ROOT


def part(content: bytes, **changed: object) -> Part:
    made = Part("notes", "ale/0-00000", "f00d", 1, len(content), sha256(content).hexdigest())
    return replace(made, **changed)  # type: ignore[arg-type]


def commit(store: Store, rows: bytes, rejected: bytes | None = None) -> Part:
    """Commit a part with these bytes, which need not be Parquet."""
    folder = store.new_folder("notes")
    (folder / "rows.parquet").write_bytes(rows)
    made = part(rows)
    if rejected is not None:
        (folder / "rejected.parquet").write_bytes(rejected)
        made = part(rows, rejected_sha256=sha256(rejected).hexdigest(), rejected=(("defect", "odd", 1),))
    store.commit(folder, made)
    return made


def names(store: Store) -> list[str]:
    return sorted(path.name for path in (store.home / "stages" / "notes" / "parts").iterdir())


# ---------------------------------------------------------------- parts


def test_a_committed_part_is_there_with_its_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = commit(store, b"rows", b"rejected")
    assert store.has(made)
    assert store.rows_path(made).read_bytes() == b"rows"
    assert store.rejected_path(made).read_bytes() == b"rejected"
    assert names(store) == ["f00d"]
    assert Part.of(json.loads((store.part(made) / "part.json").read_text())) == made


def test_an_equal_part_is_left_as_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = commit(store, b"rows")
    before = store.rows_path(first).stat()
    commit(store, b"rows")
    after = store.rows_path(first).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert names(store) == ["f00d"]


def test_a_differing_part_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    commit(store, b"rows", b"rejected")
    made = commit(store, b"other")
    assert store.rows_path(made).read_bytes() == b"other"
    assert not store.rejected_path(made).exists()
    assert names(store) == ["f00d"]


@pytest.mark.parametrize("damage", ["changed", "gone"])
@pytest.mark.parametrize("file", ["rows.parquet", "rejected.parquet"])
def test_an_equal_part_takes_the_place_of_a_damaged_one(tmp_path: Path, file: str, damage: str) -> None:
    store = Store(tmp_path)
    path = store.part(commit(store, b"rows", b"rejected")) / file
    path.write_bytes(b"wors") if damage == "changed" else path.unlink()
    made = commit(store, b"rows", b"rejected")
    assert store.rows_path(made).read_bytes() == b"rows"
    assert store.rejected_path(made).read_bytes() == b"rejected"


def test_a_folder_that_is_half_written_is_no_part(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = store.new_folder("notes")
    (folder / "rows.parquet").write_bytes(b"rows")
    assert not store.has(part(b"rows"))
    assert all(name.startswith(".tmp-") for name in names(store))
    (tmp_path / "stages" / "notes" / "parts" / "f00d").mkdir()  # as a part of an object store, before its part.json
    assert not store.has(part(b"rows"))


def test_an_artifact_is_there_only_with_all_its_parts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = commit(store, b"rows", b"rejected")
    artifact = Artifact("abcd", Recipe("notes", 1, [], {"k": 1}, {"lines": "x"}), "contents", {"lines": 7}, [made])
    store.commit_artifact(artifact)
    assert store.artifact("notes", "abcd") == artifact
    assert store.artifacts("notes") == [artifact]
    assert store.artifact("notes", "other") is None
    (store.part(made) / "part.json").unlink()
    assert store.artifact("notes", "abcd") is None


def test_a_unit_is_done_only_while_all_its_parts_are_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = commit(store, b"rows")
    store.commit_unit("notes", "u1", [made])
    assert store.unit("notes", "u1") == [made]
    assert store.unit("notes", "u2") is None
    (store.part(made) / "part.json").unlink()
    assert store.unit("notes", "u1") is None


def test_an_artifact_adds_up_its_parts() -> None:
    parts = [
        part(b"a", rows=3, rejected=(("defect", "odd", 1), ("filtered", "short", 4)), counts=(("read", 8),)),
        part(b"b", rows=2, rejected=(("defect", "odd", 2),), counts=(("read", 4), ("repaired", 1))),
    ]
    made = Artifact("abcd", Recipe("notes", 1, [], {}, {}), "", {}, parts)
    assert made.rows == 5
    assert list(made.rejected().items()) == [(("filtered", "short"), 4), (("defect", "odd"), 3)]
    assert made.counts() == {"read": 12, "repaired": 1}


# ---------------------------------------------------------------- leftovers


def test_what_a_dead_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    commit(store, b"rows")
    mine = temporary()
    with subprocess.Popen(["true"]) as gone:
        pass
    dead = mine.replace(f"-{os.getpid()}-", f"-{gone.pid}-")
    elsewhere = ".tmp-another_machine-" + dead.split("-", 2)[2]
    folders = [tmp_path / "stages" / "notes" / "parts" / name for name in (dead, mine, elsewhere)]
    for folder in folders:
        folder.mkdir()
        (folder / "rows.parquet").write_bytes(b"half")
    (tmp_path / "stages" / "notes" / dead).write_text("{")
    store.sweep()
    assert {path.name for path in tmp_path.rglob(".tmp-*")} == {mine, elsewhere}
    assert store.has(part(b"rows"))


def test_what_another_machine_left_is_swept_after_a_day_unless_it_is_at_work(tmp_path: Path) -> None:
    store, places = Store(tmp_path), tmp_path / "stages" / "notes" / "parts"
    made = {
        (machine, age): places / temporary(machine) for machine in ("dead", "alive") for age in ("old", "new", "mixed")
    }
    day_ago = time.time() - 25 * 3600
    for (_, age), folder in made.items():
        folder.mkdir(parents=True)
        (folder / "rows.parquet").write_bytes(b"half")
        for path in {"old": [folder / "rows.parquet", folder], "new": [], "mixed": [folder]}[age]:
            os.utime(path, (day_ago, day_ago))
    with Store(tmp_path, machine="alive").lock("axioms"):
        store.sweep()
        assert {key for key, folder in made.items() if not folder.exists()} == {("dead", "old")}
    store.sweep()
    assert {key for key, folder in made.items() if not folder.exists()} == {("dead", "old"), ("alive", "old")}


def test_a_lock_does_not_travel_with_a_copy_of_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.lock("axioms"):
        copy = pickle.loads(pickle.dumps(store))
        assert copy.home == store.home
        with pytest.raises(BusyError), copy.lock("axioms"):
            pass


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "\x00\x00\x00", "NaN?"])
def test_the_error_of_a_damaged_file_names_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stages" / "notes" / "abcd.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(StoreError, match=r"abcd.json is damaged: delete it and run again"):
        Store(tmp_path).artifact("notes", "abcd")


def test_bytes_that_are_no_text_are_damage(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"a": "\xff\xfe"}')
    with pytest.raises(StoreError, match="damaged"):
        read_json(tmp_path / "x.json")


def test_reading_a_missing_file_gives_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_json(tmp_path / "x.json") is None
    assert read_json(tmp_path / "file" / "x.json") is None


def test_the_store_of_another_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).prepare()
    assert json.loads((tmp_path / "format.json").read_text()) == {"format": 1}
    write_json(tmp_path / "format.json", {"format": 2})
    with pytest.raises(StoreError, match=r"has format 2, this release writes format 1: use the release that made it"):
        Store(tmp_path)


def test_json_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x.json"
    write_json(path, {"name": "é"})
    with pytest.raises(TypeError):
        write_json(path, {"name": object()})
    assert read_json(path) == {"name": "é"}
    assert [found.name for found in path.parent.iterdir()] == ["x.json"]


# ---------------------------------------------------------------- homes that cannot be written


@pytest.mark.parametrize("below", ["", "home"])
def test_a_file_in_place_of_the_home_is_an_error_that_names_it(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Cannot write .*: choose another folder"):
        Store(tmp_path / "file" / below).prepare()


def test_a_file_in_place_of_a_store_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    (tmp_path / "locks").write_text("")
    (tmp_path / "stages" / "notes").write_text("")
    with pytest.raises(StoreError, match="Cannot write"), store.lock("axioms"):
        pass
    with pytest.raises(StoreError, match="Cannot write"):
        store.new_folder("notes")
    with pytest.raises(StoreError, match="Cannot write"):
        store.commit_unit("notes", "u1", [])


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A prepared home on a read-only disk."""
    home = tmp_path / "home"
    home.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "toy", str(home)], capture_output=True).returncode:
        pytest.skip("only root may mount the read-only disk that this test needs")
    try:
        with Store(home).lock("axioms"):
            Store(home).prepare()
        subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        yield home
    finally:
        subprocess.run(["umount", str(home)], check=True)


def test_a_read_only_home_can_be_read_and_writing_to_it_is_an_error(read_only: Path) -> None:
    store = Store(read_only)
    assert store.artifacts("notes") == []
    with pytest.raises(StoreError, match="Read-only file system"):
        store.prepare()
    with pytest.raises(StoreError, match="Read-only file system"), store.lock("axioms"):
        pass


# ---------------------------------------------------------------- one build at a time

HOLD = """
import sys
from pathlib import Path
from longform.artifacts.store import Store
with Store(Path(sys.argv[1])).lock(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of axioms."""
    command = [sys.executable, "-c", HOLD, tmp_path, "axioms"]
    options = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "text": True}
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_second_build_is_refused_with_the_owner_of_the_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(BusyError, match=rf"axioms is being built in .* by process {holder.pid} on \S+: wait for it"):
        Store(tmp_path).lock("axioms").__enter__()
    with Store(tmp_path).lock("another dataset"):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with Store(tmp_path).lock("axioms"):
        pass


def test_a_lock_is_free_again_when_its_build_ends_however_it_ends(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="a bug"), store.lock("axioms"):
        raise ValueError("a bug")
    with store.lock("axioms"), pytest.raises(BusyError), store.lock("axioms"):
        pass


# ---------------------------------------------------------------- digests of sources


def test_a_digest_is_the_sha256_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    file.write_bytes(b"<posts />")
    assert Digests(tmp_path / "home")(file) == sha256(b"<posts />").hexdigest()


def test_a_remembered_digest_is_not_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    file.write_bytes(b"<posts />")
    digests = Digests(tmp_path)
    digests(file)
    digests.keep()
    (key,) = read_json(tmp_path / "digests.json")
    write_json(tmp_path / "digests.json", {key: "remembered"})
    assert Digests(tmp_path)(file) == "remembered"


@pytest.mark.parametrize("change", ["longer", "as long", "replaced"])
def test_a_changed_file_has_another_digest(tmp_path: Path, change: str) -> None:
    file, other = tmp_path / "Posts.xml", tmp_path / "new"
    file.write_bytes(b"one")
    digests = Digests(tmp_path)
    digests(file)
    digests.keep()
    stat = file.stat()
    if change == "replaced":  # by one of equal size and time: only the inode tells
        other.write_bytes(b"two")
        os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        other.rename(file)
    else:
        file.write_bytes(b"two" if change == "as long" else b"three")
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + (change == "as long")))
    for known in (digests, Digests(tmp_path)):
        assert known(file) == sha256(file.read_bytes()).hexdigest()


def test_digests_are_remembered_only_after_keep(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    file.write_bytes(b"one")
    Digests(tmp_path / "home")(file)
    assert not (tmp_path / "home").exists()
