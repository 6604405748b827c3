"""Output to pipes whose reader has left, to lost terminals, and in small encodings."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms

from benchmarks.make_dump import write_dump
from longform.artifacts.store import Store
from longform.artifacts.versions import artifact, find

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
TEXT = "naïve ‘tea’ 茶 👩\u200d🌾 – cup"
ORPHAN = f'<row Id="999999" PostTypeId="2" ParentId="888888" CreationDate="2020-01-01T00:00:00.000" Body="{TEXT}" />'
PRINTING = (["--help"], ["ls"], ["show", "axioms"], ["rejects", "axioms"], ["rejects", "axioms", "--json"], ["sources"])
MILLION = 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a version whose rejected rows contain characters of many scripts."""
    top = tmp_path_factory.mktemp("outputs")
    dump = Path(write_dump(top / "tea.example" / "Posts.xml", 200_000, seed=3).path)
    text = dump.read_text("utf-8")
    dump.write_text(text.replace("</posts>", f"{ORPHAN}\n</posts>"), "utf-8")
    build_axioms(top / "home", "first", dump=str(dump), site="tea.example")
    return top / "home"


@pytest.fixture
def many(home: Path, tmp_path: Path) -> tuple[Path, int]:
    """(a copy of the home with a part of 100 MB of rejected rows, the number of rejected rows in all parts)."""
    copied = Path(shutil.copytree(home, tmp_path / "home"))
    version = find(copied, "axioms")
    made = {stage: artifact(Store(copied), version, stage) for stage in version.stages}
    parts = [part for each in made.values() for part in each.parts if part.rejected]
    path = Store(copied).rejected_path(parts[0])
    before = pq.read_table(path)
    rows = [{**before.to_pylist()[0], "raw": f"{number} " + "tea " * 500} for number in range(1_000)]
    with pq.ParquetWriter(path, before.schema) as writer:
        for _ in range(50):
            writer.write_table(pa.Table.from_pylist(rows, schema=before.schema))
    return copied, sum(number for part in parts[1:] for _, _, number in part.rejected) + 50_000


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM", "PYTHON"))}
    return {**kept, **more}


def run(home: Path, words: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    command = [LONGFORM, "--home", str(home), *words]
    return subprocess.run(command, env=environment(**more), capture_output=True, encoding="utf-8", timeout=600)


# ---------------------------------------------------------------- a closed pipe


@contextmanager
def no_reader() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_closed_pipe_ends_every_command_without_a_word(home: Path, words: list[str]) -> None:
    with no_reader() as out:
        command = [LONGFORM, "--home", str(home), *words]
        done = subprocess.run(command, env=environment(), stdout=out, stderr=subprocess.PIPE, timeout=600)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_reader_that_leaves_in_the_middle_has_what_it_read(many: tuple[Path, int]) -> None:
    command = [LONGFORM, "--home", str(many[0]), "rejects", "axioms", "--json"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert json.loads(process.stdout.readline())["raw"]
        process.stdout.close()
        output = process.stderr.read()
    assert (process.returncode, output) == (128 + signal.SIGPIPE, b"")


def test_an_error_that_nobody_reads_keeps_its_exit_code(home: Path) -> None:
    with no_reader() as errors:
        command = [LONGFORM, "--home", str(home), "show", "axioms@none"]
        done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=errors, timeout=600)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
@pytest.mark.parametrize("words", [["ls"], ["sources"]], ids=" ".join)
def test_output_that_goes_to_a_full_disk_is_reported_in_one_sentence(home: Path, words: list[str]) -> None:
    with open("/dev/full", "wb") as out:
        command = [LONGFORM, "--home", str(home), *words]
        done = subprocess.run(command, env=environment(), stdout=out, stderr=subprocess.PIPE, text=True, timeout=600)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("The disk of the output is full: ")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("errno.EROFS, 'Read-only file system', '/mnt/x'", "Cannot write /mnt/x (Read-only file system): "),
        ("errno.EACCES, 'Permission denied', '/mnt/x'", "/mnt/x must not be used (Permission denied): "),
        ("errno.ENOSPC, 'No space left on device', '/mnt/x'", "The disk of /mnt/x is full: "),
        ("errno.ENOSPC, 'No space left on device'", "The disk that the home or another file is on is full: "),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_one_sentence(raised: str, said: str) -> None:
    script = f"import errno\nfrom flows.cli.shared.outputs import outputs\nwith outputs(): raise OSError({raised})"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(said)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_an_output_that_was_closed_before_the_start_is_no_error(home: Path, closed: str) -> None:
    command = ["sh", "-c", f'"{LONGFORM}" --home "{home}" ls {closed}']
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("axioms" in done.stdout) == (closed == "2>&-")


# ---------------------------------------------------------------- a terminal that is gone


def on_a_terminal(command: list[str], errors: Any, *, own: bool) -> tuple[subprocess.Popen[bytes], int]:
    """(the command running on a terminal, the end that the window holds). `own`: losing it sends SIGHUP."""
    window, terminal = pty.openpty()

    def take() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        command,
        env=environment(),
        stdin=terminal,
        stdout=terminal,
        stderr=errors,
        start_new_session=True,
        preexec_fn=take if own else None,
    )
    os.close(terminal)
    return process, window


@pytest.mark.parametrize("own", [True, False], ids=["SIGHUP", "EIO"])
@pytest.mark.parametrize("words", [["rejects", "axioms", "--json"], ["rejects", "axioms", "--limit", "60000"]])
def test_a_terminal_that_goes_away_ends_a_command_without_a_word(
    many: tuple[Path, int], tmp_path: Path, words: list[str], own: bool
) -> None:
    with (tmp_path / "stderr").open("wb") as errors:
        process, window = on_a_terminal([LONGFORM, "--home", str(many[0]), *words], errors, own=own)
        assert os.read(window, 100)
        os.close(window)
        code = process.wait(600)
    assert code in ({-signal.SIGHUP, 128 + signal.SIGHUP} if own else {128 + signal.SIGHUP})
    assert (tmp_path / "stderr").read_bytes() == b""


# ---------------------------------------------------------------- few letters


ASCII = {"PYTHONIOENCODING": "ascii"}


@pytest.mark.parametrize(
    "letters", [ASCII, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"}, {"LC_ALL": "C", **ASCII}], ids=str
)
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_any_text_is_printed_with_any_letters(home: Path, words: list[str], letters: dict[str, str]) -> None:
    command = [LONGFORM, "--home", str(home), *words]
    done = subprocess.run(command, env=environment(**letters), capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
    if "ascii" in letters.values():
        assert done.stdout.isascii()


@pytest.mark.parametrize("letters", ["ascii", "latin-1", "utf-8"])
def test_the_json_of_a_terminal_with_few_letters_says_the_same(home: Path, letters: str) -> None:
    command = [LONGFORM, "--home", str(home), "rejects", "axioms", "--kind", "rejected", "--json"]
    done = subprocess.run(command, env=environment(PYTHONIOENCODING=letters), capture_output=True, timeout=600)
    rows = [json.loads(line) for line in done.stdout.decode(letters).splitlines()]
    assert TEXT in {re.search('Body="(.*?)"', row["raw"])[1] for row in rows if "Body" in row["raw"]}  # type: ignore[index]


def test_a_text_is_compared_on_a_terminal_with_few_letters(home: Path, tmp_path: Path) -> None:
    (tmp_path / "draft").write_text(f"{TEXT} is old. Cups are round.", "utf-8")
    (tmp_path / "final").write_text(f"{TEXT} is green. Cups are round.", "utf-8")
    words = ["revise", str(tmp_path / "draft"), "--reference", str(tmp_path / "final")]
    done = run(home, words, PYTHONIOENCODING="ascii", TERM="dumb")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u8336" in done.stdout


def test_a_file_name_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    done = subprocess.run([LONGFORM, "ls", "--home", folder], env=environment(), capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"/caf\udce9. Build one" in done.stdout


# ---------------------------------------------------------------- JSON lines, however many


def test_rejects_are_printed_in_the_memory_of_a_few(home: Path, many: tuple[Path, int]) -> None:
    copied, number = many
    few, lines = peak([LONGFORM, "--home", str(home), "rejects", "axioms", "--json"])
    most, more = peak([LONGFORM, "--home", str(copied), "rejects", "axioms", "--json"])
    assert lines < 10_000
    assert more == number
    assert most - few < 60 * MILLION, "of 100 MB"


def peak(command: list[str]) -> tuple[int, int]:
    """(most bytes of memory, number of printed lines)."""
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE)
    assert process.stdout
    lines = sum(1 for line in process.stdout if json.loads(line))
    _, status, used = os.wait4(process.pid, 0)
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss * 1024, lines


def test_the_help_of_rejects_says_what_its_json_is(home: Path) -> None:
    output = " ".join(run(home, ["rejects", "--help"]).stdout.split())
    assert "--json print JSON lines: one document a row" in output
    assert "--json print one JSON document" in " ".join(run(home, ["show", "--help"]).stdout.split())
