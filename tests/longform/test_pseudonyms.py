"""Keyed hashes of names: one key a home, never shown, equal in every process."""

import hashlib
import hmac
import pickle
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import started

from longform.errors import StoreError, UsageError
from longform.pseudonyms import Pseudonyms

KEY = bytes(range(32))


def test_a_hash_is_the_start_of_an_hmac_under_the_homes_key(tmp_path: Path) -> None:
    (tmp_path / "author.key").write_bytes(KEY)
    names = Pseudonyms(tmp_path)
    assert names.of("somebody") == hmac.new(KEY, b"somebody", hashlib.sha256).hexdigest()[:16]
    assert names.of("Somebody") != names.of("somebody")


def test_the_key_is_made_once_whole_and_for_the_owner_alone(tmp_path: Path) -> None:
    first, second = Pseudonyms(tmp_path / "new"), Pseudonyms(tmp_path / "new")
    path = tmp_path / "new" / "author.key"
    assert len(path.read_bytes()) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert (first.of("x"), first.identity()) == (second.of("x"), second.identity())
    assert [each.name for each in path.parent.iterdir()] == ["author.key"]


def test_two_homes_have_two_keys_and_two_identities(tmp_path: Path) -> None:
    one, other = Pseudonyms(tmp_path / "one"), Pseudonyms(tmp_path / "other")
    assert one.of("x") != other.of("x")
    assert one.identity() != other.identity()


def test_processes_that_begin_at_once_agree_on_one_key(tmp_path: Path) -> None:
    code = "import sys, pathlib; sys.stdin.read(); from longform.pseudonyms import Pseudonyms; "
    code += "print(Pseudonyms(pathlib.Path(sys.argv[1])).of('x'))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        running = [stack.enter_context(started(command, text=True, **pipes)) for _ in range(6)]
        for process in running:
            assert process.stdin is not None
            process.stdin.close()
        said = {process.stdout.read().strip() for process in running if process.stdout is not None}
    assert len(said) == 1
    assert len(said.pop()) == 16


def test_the_key_is_shown_nowhere(tmp_path: Path) -> None:
    (tmp_path / "author.key").write_bytes(KEY)
    names = Pseudonyms(tmp_path)
    for shown in (repr(names), str(names), names.identity(), f"{[names]}"):
        assert KEY.hex() not in shown
        assert repr(KEY)[2:-1] not in shown
    assert names.identity() in repr(names)
    assert names.identity() not in (names.of(""), hashlib.sha256(KEY).hexdigest()[:16])


def test_a_worker_gets_the_same_hashes(tmp_path: Path) -> None:
    names = Pseudonyms(tmp_path)
    sent = pickle.loads(pickle.dumps(names))
    assert (sent.of("x"), sent.identity()) == (names.of("x"), names.identity())


def test_a_key_from_outside_wins_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGFORM_AUTHOR_KEY", KEY.hex())
    names = Pseudonyms(tmp_path)
    assert names.of("x") == hmac.new(KEY, b"x", hashlib.sha256).hexdigest()[:16]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["abc", "zz" * 32, KEY.hex() + "00", KEY.hex() + "\n"])
def test_a_wrong_key_from_outside_is_reported_without_being_shown(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGFORM_AUTHOR_KEY", wrong)
    with pytest.raises(UsageError, match="64 hexadecimal digits") as error:
        Pseudonyms(tmp_path)
    assert wrong not in str(error.value)


def test_a_damaged_key_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "author.key").write_bytes(KEY[:31])
    with pytest.raises(StoreError, match="31 bytes, not 32"):
        Pseudonyms(tmp_path)


@given(name=st.text())
def test_any_name_has_a_hash(name: str) -> None:
    made = object.__new__(Pseudonyms)
    made._key = KEY
    assert len(made.of(name)) == 16


def test_broken_unicode_has_a_hash(tmp_path: Path) -> None:
    assert len(Pseudonyms(tmp_path).of("\ud800")) == 16
