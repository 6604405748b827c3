"""The command line as users run it, in processes of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import paths
import psutil
import py7zr
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from processes import gone, started, wait_for
from standin_server import Server, serve

from benchmarks.make_dump import write_dump
from flows.axioms import AxiomsConfig
from flows.config.endpoints import StageConfig
from flows.registry import config_class
from longform.artifacts.store import Store
from longform.artifacts.versions import find, versions

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
SITE = "site=tea.example"
STAGES = [
    "read_posts",
    "admit_posts",
    "scrub_posts",
    "read_users",
    "join_threads",
    "select_questions",
    "sign_questions",
    "find_paraphrases",
    "read_links",
    "join_duplicates",
    "find_same",
    "assign_splits",
    "list_texts",
    "find_copies",
    "list_candidates",
    "pair_by_votes",
    "find_related",
    "pair_with_related",
    "retrieve_passages",
    "answer_open_book",
    "answer_closed_book",
    "corrupt_answers",
    "pair_generated",
    "combine_answers",
    "read_passages",
    "find_repeated",
    "read_queries",
    "join_queries",
    "read_qrels",
    "join_qrels",
    "select_queries",
    "retrieve_candidates",
    "choose_passages",
    "attribute_posts",
    "answer_from_relevant",
    "answer_from_irrelevant",
    "pair_by_evidence",
    "pair_combined",
    "list_generated",
    "find_generated_copies",
    "list_grounded",
    "find_grounded_copies",
    "assemble_pairs",
    "pair_for_validation",
    "assemble_validation_pairs",
    "rank_held_out",
    "read_items",
    "join_reddit",
    "select_eli5",
    "select_discussions",
    "find_related_discussions",
    "rank_discussions",
    "attribute_discussions",
    "rank_passages",
    "read_comparisons",
    "select_comparisons",
    "read_research_questions",
    "read_evaluation_texts",
    "list_evaluation_texts",
    "decontaminate",
    "sample_validation",
    "view_as_chats",
    "draw_one_a_question",
    "view_as_texts",
]  # of a dump of one's own, in the order of the flow
KEYS = {"train": "pair_id", "test": "pair_id", "ranking/test": "ranking_id", "validation/validation": "validation_id"}
HEAVY = {"prefect", "pyarrow", "duckdb", "pandas", "numpy", "openai", "lxml", "rich", "sklearn"}


@dataclass
class Shell:
    """Runs `longform` in an empty folder, without the environment of whoever runs the tests."""

    folder: Path
    environment: dict[str, str]

    def __call__(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [LONGFORM, *map(str, arguments)]
        given = {**self.environment, **environment}
        return subprocess.run(command, cwd=self.folder, env=given, capture_output=True, text=True, timeout=600)

    def json(self, *arguments: object, **environment: str) -> Any:
        done = self(*arguments, "--json", **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def longform(top: Path) -> Shell:
    (top / "work").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM"))}
    return Shell(top / "work", {**kept, "PREFECT_HOME": str(top / "prefect")})


@pytest.fixture(scope="module")
def dump(top: Path) -> str:
    return write_dump(top / "tea.example" / "Posts.xml", 400_000, seed=3).path


@pytest.fixture(scope="module")
def first(top: Path, longform: Shell, dump: str) -> dict[str, Any]:
    """The JSON that `longform build --json` printed for the first version in `home`."""
    made: dict[str, Any] = longform.json(
        "build", "axioms", "--home", top / "home", "--set", f"dump={dump}", "--set", SITE, "--version", "first"
    )
    return made


@pytest.fixture(scope="module")
def home(top: Path, first: dict[str, Any], dump: str) -> Path:
    """A home with two versions: `second` takes fewer pairs by votes, and more passages, than `first`."""
    build_axioms(top / "home", "second", dump=dump, site="tea.example", pairs_per_question=1, passages=2)
    return top / "home"


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    """A copy of the home that a test may damage."""
    return Path(shutil.copytree(home, tmp_path / "home"))


def contents(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


# ---------------------------------------------------------------- help and configuration

IMPORTED = """
import sys
from flows.cli.main import app
sys.argv = ["longform", *sys.argv[1:]]
try:
    app()
except SystemExit as end:
    assert not end.code
print(*{name.split(".")[0] for name in sys.modules}, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"]])
def test_help_answers_without_importing_anything_heavy(longform: Shell, arguments: list[str]) -> None:
    command = [sys.executable, "-c", IMPORTED, *arguments]
    done = subprocess.run(command, env=longform.environment, capture_output=True, text=True, check=True)
    assert "DATASET" in done.stdout or "build" in done.stdout
    assert not HEAVY & set(done.stderr.split())


def test_the_release_is_printed(longform: Shell) -> None:
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    done = longform("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"longform {project['version']}\n", "")


def test_home_may_stand_before_the_command_and_after_it_where_it_wins(longform: Shell, home: Path, top: Path) -> None:
    there, nowhere = ("--home", home), ("--home", top / "nowhere")
    listed = longform.json("ls", *there)
    assert len(listed) == 2
    assert longform.json(*there, "ls") == longform.json(*nowhere, "ls", *there) == listed
    assert longform.json(*there, "ls", LONGFORM_HOME=str(top / "nowhere")) == listed
    assert longform.json(*there, "ls", *nowhere) == longform.json(*nowhere, "ls") == []
    in_group = longform(*there, "responses", "stats")
    assert in_group.stdout == longform("responses", "stats", *there).stdout != ""


COMPLETE = """
eval "$(longform --show-completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_longform_completion longform
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(("words", "offered"), [
    ("rej", "rejects"),
    ("--home HOME show ax", "axioms axioms@first axioms@second"),
    ("show --home HOME axioms@s", "axioms@second"),
    ("show --home HOME/none ''", "axioms expertqa revision-distance llmcrit kiwi"),
    (
        "--home HOME rejects axioms --stage pair_",
        "pair_by_votes pair_with_related pair_generated pair_by_evidence pair_combined pair_for_validation",
    ),
    ("build revision-distance --until read_s2", "read_s2_metadata read_s2orc"),
    ("build nothing --until read_w", ""),
    ("fetch webg", "webgpt"),
    ("--version", "--version"),
])  # fmt: skip
def test_a_shell_offers_what_can_be_typed(longform: Shell, home: Path, words: str, offered: str) -> None:
    path = f"{Path(LONGFORM).parent}{os.pathsep}{os.environ['PATH']}"
    script = COMPLETE.format(words=f"longform {words.replace('HOME', str(home))}")
    done = subprocess.run(
        ["bash", "-c", script], env={**longform.environment, "PATH": path}, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == offered.split()


def test_config_prints_the_defaults_as_toml_with_every_setting_explained(longform: Shell) -> None:
    text = longform("config", "axioms").stdout
    given = tomllib.loads(text)
    defaults = AxiomsConfig().model_dump()
    assert {name: value for name, value in given.items() if value != {}} == {
        name: value for name, value in defaults.items() if value not in (None, {})
    }
    for name, field in AxiomsConfig.model_fields.items():
        assert f"# {field.description}\n" in text
        assert re.search(rf"^(# )?(\[endpoints\.local\]|{name} =)", text, re.MULTILINE)


@pytest.mark.parametrize("dataset", ["axioms", "expertqa", "revision-distance"])
def test_each_setting_of_the_printed_configuration_stands_right_below_its_meaning(
    longform: Shell, dataset: str
) -> None:
    text, model = longform("config", dataset).stdout, config_class(dataset)
    for name, field in model.model_fields.items():
        if name not in ("stages", "endpoints"):
            assert re.search(
                rf"^# {re.escape(str(field.description))}\n+(# )?(\[{name}\]|{name} =)", text, re.MULTILINE
            )
    for name in (name for name, field in model.model_fields.items() if field.default is None):
        text = re.sub(rf"^# {name} =$", f'{name} = "x"', text, flags=re.MULTILINE)
    assert tomllib.loads(text).keys() >= {name for name, field in model.model_fields.items() if field.default is None}


def test_the_example_of_an_endpoint_can_be_uncommented(longform: Shell, tmp_path: Path, dump: str) -> None:
    text = longform("config", "axioms").stdout
    start = text.index("# [endpoints.local]")
    (tmp_path / "axioms.toml").write_text(text[:start] + text[start:].replace("# ", "", 1).replace("\n# ", "\n"))
    done = longform(
        "plan", "axioms", "--config", tmp_path / "axioms.toml", "--home", tmp_path / "home",
        *("--set", f"dump={dump}", "--set", SITE, "--set", "model=local"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "against endpoint local" in done.stdout


def test_the_example_of_a_stage_shows_each_of_its_settings(longform: Shell) -> None:
    text = longform("config", "axioms").stdout
    (line,) = re.findall(r"^# \[stages\.(.*)$", text, re.MULTILINE)
    assert set(re.findall(r"\w+", line)) >= set(AxiomsConfig.MODEL_STAGES)
    for name, field in StageConfig.model_fields.items():
        assert f"# {name} =    # {field.description}\n" in text + "\n"


def test_building_from_the_printed_configuration_gives_the_same_plan(
    longform: Shell, home: Path, dump: str, tmp_path: Path
) -> None:
    file = tmp_path / "axioms.toml"
    text = longform("config", "axioms").stdout
    file.write_text(re.sub(r"^dump = .*$", f'dump = "{dump}"\nsite = "tea.example"', text, flags=re.MULTILINE))
    from_file = longform.json("plan", "axioms", "--config", file, "--home", home)
    assert from_file == longform.json("plan", "axioms", "--set", f"dump={dump}", "--set", SITE, "--home", home)
    assert from_file["nothing_to_do"]


def test_set_wins_over_the_file_and_limit_is_a_setting(longform: Shell, dump: str, tmp_path: Path) -> None:
    file = tmp_path / "axioms.toml"
    file.write_text(f'dump = "{dump}"\nsite = "tea.example"\nneighbours = 3\nseed = 1\n')
    options = ("--home", tmp_path / "home")
    by_file = longform.json("plan", "axioms", "--config", file, "--set", "neighbours=4", "--limit", 7, *options)
    settings = (f"dump={dump}", SITE, "neighbours=4", "seed=1", "limit=7")
    by_set = longform.json("plan", "axioms", *(word for s in settings for word in ("--set", s)), *options)
    assert by_file == by_set


# ---------------------------------------------------------------- wrong inputs


@pytest.fixture(scope="module")
def files(top: Path, dump: str) -> Path:
    """Files that a user may mistake for a dump or a configuration."""
    folder = top / "files"
    folder.mkdir()
    whole = Path(dump).read_bytes()
    (folder / "notes.txt").write_text("Dear diary,\n")
    (folder / "truncated.xml").write_bytes(whole[: len(whole) // 2])
    (folder / "nothing.xml").write_bytes(b"")
    (folder / "empty.xml").write_text('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n</posts>')
    (folder / "users.xml").write_text('<?xml version="1.0" encoding="utf-8"?>\n<users>\n  <row Id="1" />\n</users>')
    with py7zr.SevenZipFile(folder / "whole.7z", "w") as archive:
        archive.write(dump, "Posts.xml")
    packed = (folder / "whole.7z").read_bytes()
    (folder / "truncated.7z").write_bytes(packed[: len(packed) // 2])
    (folder / "damaged.7z").write_bytes(packed[:5_000] + bytes(200) + packed[5_200:])
    (folder / "broken.toml").write_text("seed = 1\nneighbours = = 3\n")
    return folder


WRONG: list[tuple[str, int, str]] = [
    ("axiom", 2, r'There is no dataset "axiom"; did you mean "axioms"\?'),
    ("sonnets", 2, r'no dataset "sonnets"; there is axioms'),
    ("axioms --set neighbors=12", 2, r'has no setting "neighbors"; did you mean "neighbours"\? .longform config'),
    ("axioms --set zzz=1", 2, r'axioms has no setting "zzz"\. .longform config axioms. shows all'),
    ("axioms --set neighbours=many", 2, r'neighbours = "many" does not fit: input should be a valid integer'),
    ("axioms --set test_share=2", 2, r"test_share = 2 does not fit: .* less than or equal to 1"),
    ("axioms --set neighbours", 2, r'--set takes key=value, not "neighbours"'),
    ("axioms --set model=far", 2, r'no endpoint "far"; there is offline\. Add \[endpoints\.far\]'),
    ("axioms --set dump=FILES/none.7z", 5, r"FILES/none\.7z does not exist: give"),
    ("axioms --set dump=[]", 2, r"dump is an empty list: name at least one"),
    ("axioms --config FILES/none.toml", 2, r"There is no configuration .*none\.toml: write one with .longform config"),
    ("axioms --config FILES/broken.toml", 2, r"broken\.toml is no TOML: .*line 2"),
    ("axioms --config FILES", 2, r"The configuration .* cannot be read"),
    ("axioms --retry-errors answer_open_bok length", 2, r'no stage "answer_open_bok" that asks a model'),
    ("axioms --set dump=DUMP --set site=tea", 2, r'site "tea" of dump .* is no host'),
    ("axioms --set dump=FILES/notes.txt", 5, r"notes\.txt is no dump of posts"),
    ("axioms --set dump=FILES/truncated.xml", 5, r"truncated\.xml is truncated"),
    ("axioms --set dump=FILES/nothing.xml", 5, r"nothing\.xml is empty: fetch the dump again"),
    ("axioms --set dump=FILES/empty.xml", 5, r"empty\.xml is an empty dump"),
    ("axioms --set dump=FILES/users.xml", 5, r"root element is <users>, not <posts>"),
    ("axioms --set dump=FILES/truncated.7z", 5, r"truncated\.7z is truncated: it has \d+ of \d+ bytes"),
    ("axioms --set dump=FILES", 5, r"FILES holds no Posts\.xml and 3 \.7z archives, not one"),
    ("axioms --set dump=DUMP --version a/b", 2, r'"a/b" cannot name a version'),
    ("axioms --set dump=DUMP --version latest", 2, r'"latest" cannot name a version'),
    ("axioms --set dump=DUMP --until join_thread", 2, r'no stage "join_thread" \(--until\); .* "join_threads"\?'),
    ("axioms --set dump=DUMP --force combined", 2, r'no stage "combined" \(--force\); did you mean "pair_combined"\?'),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "sentence"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_a_wrong_input_is_one_sentence_and_leaves_nothing(
    longform: Shell, files: Path, dump: str, tmp_path: Path, arguments: str, code: int, sentence: str
) -> None:
    given = [word.replace("FILES", str(files)).replace("DUMP", dump) for word in arguments.split()]
    if not any(word.startswith("site=") for word in given):
        given += ["--set", SITE]
    done = longform("build", *given, "--home", tmp_path / "home")
    says(done, code, sentence.replace("FILES", re.escape(str(files))))
    assert not (tmp_path / "home").exists()


def says(done: subprocess.CompletedProcess[str], code: int, sentence: str) -> None:
    """Assert that a command ended with this exit code, this one sentence on stderr and nothing on stdout."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert re.search(sentence, done.stderr), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_the_site_must_be_given_where_no_name_tells_it(longform: Shell, files: Path, tmp_path: Path) -> None:
    done = longform("build", "axioms", "--set", f"dump={files / 'whole.7z'}", "--home", tmp_path / "home")
    says(done, 2, r"The name of dump .*whole\.7z does not say which site it is: set site")
    assert not (tmp_path / "home").exists()


def test_a_home_that_cannot_be_written_is_said_before_anything_starts(longform: Shell, files: Path, dump: str) -> None:
    place = files / "notes.txt" / "home"
    done = longform("build", "axioms", "--home", place, "--set", f"dump={dump}", "--set", SITE)
    says(done, 1, rf"Cannot write {re.escape(str(place))}.*: choose another folder, or make it writable")


def test_a_home_of_another_release_is_left_alone(longform: Shell, dump: str, tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 99}')
    done = longform("build", "axioms", "--home", tmp_path, "--set", f"dump={dump}", "--set", SITE)
    says(done, 1, r"has format 99, this release writes format 1: use the release that made it")
    assert [path.name for path in tmp_path.iterdir()] == ["format.json"]


def test_a_versions_name_is_not_given_to_another_recipe(longform: Shell, copy: Path, dump: str) -> None:
    before = contents(copy)
    settings = ("--set", f"dump={dump}", "--set", SITE, "--set", "neighbours=3")
    done = longform("build", "axioms", "--home", copy, "--version", "first", *settings)
    says(done, 2, r"axioms first was built by another recipe \(it differs from find_related on\): choose another")
    assert contents(copy) == before


def test_a_second_build_at_once_names_the_first(longform: Shell, dump: str, tmp_path: Path) -> None:
    with Store(tmp_path / "home").lock("axioms"):
        done = longform("build", "axioms", "--home", tmp_path / "home", "--set", f"dump={dump}", "--set", SITE)
    says(done, 1, rf"axioms is being built in .*home by process {os.getpid()} on .*: wait for it, or stop it")
    assert not (tmp_path / "home" / "datasets").exists()


@pytest.mark.parametrize(("command", "code", "sentence"), [
    (["trace", "axioms", "p_none"], 2, r"axioms second has no row p_none: take a pair_id"),
    (["trace", "axioms", "p_"], 2, r"More than one row of axioms second begins with p_: give more of it"),
    (["show", "axioms@frist"], 2, r'axioms has no version frist; did you mean "first"\?'),
    (["rejects", "axioms", "--kind", "broken"], 2, r'no kind "broken" .*; there is rejected and filtered'),
    (["rejects", "axioms", "--stage", "read_post"], 2, r'second has no stage read_post; did you mean "read_posts"\?'),
    (["diff", "axioms@first", "axioms@third"], 2, r"axioms has no version third; there are first, second"),
    (["ls", "pears"], 2, r'There is no dataset "pears"; there is axioms'),
    (["withdraw", "axioms"], 2, r"Name the version to withdraw, as axioms@VERSION"),
    (["withdraw", "axioms@latest"], 2, r"Name the version to withdraw"),
])  # fmt: skip
def test_unknown_datasets_versions_and_stages_are_one_sentence(
    longform: Shell, home: Path, command: list[str], code: int, sentence: str
) -> None:
    before = contents(home)
    says(longform(*command, "--home", home), code, sentence)
    assert contents(home) == before


# ---------------------------------------------------------------- wrong inputs that show while a build runs


def failed(done: subprocess.CompletedProcess[str], code: int, sentence: str) -> None:
    """Assert that a started build ended with this exit code, and with this sentence as the last line on stderr."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(sentence, done.stderr.splitlines()[-1]), done.stderr


def test_a_dump_without_a_usable_pair_publishes_nothing(longform: Shell, tmp_path: Path) -> None:
    rows = "".join(
        f'<row Id="{n}" PostTypeId="{kind}" {more} CreationDate="2020-01-01T00:00:00.000" Score="1" Body="Yes." />\n'
        for n, kind, more in ((1, 1, 'Title="Is it?"'), (2, 2, 'ParentId="1"'), (3, 1, 'Title="Why?"'))
    )
    (tmp_path / "Posts.xml").write_text(f"<posts>\n{rows}</posts>")
    done = longform("build", "axioms", "--home", tmp_path / "home", "--set", f"dump={tmp_path}", "--set", SITE)
    failed(done, 1, r"axioms has no row to publish: every one was left out or rejected")
    assert longform("ls", "--home", tmp_path / "home").stdout.startswith("No version in")
    assert not list((tmp_path / "home").glob("datasets/*/*"))


def test_damage_that_shows_only_while_an_archive_is_read_ends_the_build(
    longform: Shell, files: Path, tmp_path: Path
) -> None:
    settings = ("--set", f"dump={files / 'damaged.7z'}", "--set", SITE)
    done = longform("build", "axioms", "--home", tmp_path / "home", *settings)
    failed(done, 5, r"damaged\.7z is damaged \(.*\): fetch it again")
    assert not (tmp_path / "home" / "datasets").exists()
    assert not list((tmp_path / "home" / "stages").glob("*/parts/*"))


# ---------------------------------------------------------------- Ctrl-C and SIGTERM


@dataclass
class Unanswered:
    """A build that cannot end by itself, as its model never answers."""

    folder: Path
    dumps: list[str]
    server: Server
    process: subprocess.Popen[bytes]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def said(self) -> str:
        return (self.folder / "stderr").read_text()

    def works_on(self, stage: str) -> bool:
        """Whether the stage has started and the server has received a question."""
        asked = stage != "answer_open_book" or self.server.counters()["in_flight"] > 0
        return (asked and f"\n{stage}:" in self.said()) or self.process.poll() is not None

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def ended(self, code: int, family: list[psutil.Process]) -> None:
        """Assert that the build ended with this exit code, said how to go on, and left no process and no version."""
        assert self.process.wait(600) == code
        assert self.said().splitlines()[-1] == (
            "Interrupted. What was finished is kept; run the same command again to go on."
        )
        assert "Traceback" not in self.said()
        wait_for(lambda: gone(family), seconds=600)
        assert not versions(self.home, "axioms")


@pytest.fixture
def unanswered(longform: Shell, tmp_path: Path) -> Iterator[Unanswered]:
    names = ("tea.stackexchange.com", "bees.stackexchange.com")
    dumps = [write_dump(tmp_path / name / "Posts.xml", 2_000_000, seed=name).path for name in names]
    with (tmp_path / "stderr").open("w") as errors, serve(latency_seconds=86_400) as never:
        sets = [f"dump={json.dumps(dumps)}", "model=never", f"endpoints.never.base_url={never.url}"]
        sets += ["endpoints.never.model=m", "endpoints.never.timeout_seconds=86400"]
        command = [LONGFORM, "build", "axioms", "--home", tmp_path / "home"]
        command += [word for each in sets for word in ("--set", each)]
        with started(command, env=longform.environment, stderr=errors, start_new_session=True) as build:
            yield Unanswered(tmp_path, dumps, never, build)


@pytest.mark.parametrize(
    ("number", "send", "code", "stage"),
    [
        (signal.SIGINT, os.killpg, 130, "join_threads"),  # as a terminal does: to every process of the command
        (signal.SIGTERM, os.killpg, 143, "join_threads"),  # as `timeout` does
        (signal.SIGTERM, os.kill, 143, "answer_open_book"),
    ],
)
def test_a_signal_ends_a_build_and_it_says_how_to_go_on(
    number: int, send: Callable[[int, int], None], code: int, stage: str, unanswered: Unanswered
) -> None:
    wait_for(lambda: unanswered.works_on(stage))
    family = unanswered.family()
    send(unanswered.process.pid, number)
    unanswered.ended(code, family)
    records = [json.loads(path.read_text()) for path in (unanswered.home / "runs" / "axioms").iterdir()]
    assert {record["outcome"] for record in records} <= {"interrupted"}
    version, worked, _ = build_axioms(unanswered.home, dump=unanswered.dumps)
    assert version is not None
    assert "read_posts" not in worked.begun


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_build_although_prefects_server_hangs(number: int, code: int, unanswered: Unanswered) -> None:
    wait_for(lambda: unanswered.works_on("answer_open_book"))
    family = unanswered.family()
    (server,) = [each for each in family if "flows.builds.server" in each.cmdline()]
    server.suspend()
    try:
        os.kill(unanswered.process.pid, number)
        assert unanswered.process.wait(600) == code
    finally:
        server.resume()
    unanswered.ended(code, family)


# ---------------------------------------------------------------- plan and nothing to do


def test_plan_writes_nothing_not_even_the_home(longform: Shell, dump: str, tmp_path: Path) -> None:
    found = longform.json("plan", "axioms", "--set", f"dump={dump}", "--set", SITE, "--home", tmp_path / "home")
    assert [stage["stage"] for stage in found["stages"]] == STAGES
    assert {stage["state"] for stage in found["stages"]} == {"run"}
    assert {stage["stage"] for stage in found["stages"] if stage["endpoint"] == "offline"} == {
        "answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers", "answer_from_relevant",
        "answer_from_irrelevant",
    }  # fmt: skip
    assert (found["version"], found["nothing_to_do"]) == (None, False)
    assert not (tmp_path / "home").exists()
    assert list(longform.folder.iterdir()) == []


def test_plan_says_what_becomes_of_questions_that_a_batch_leaves(longform: Shell, dump: str, tmp_path: Path) -> None:
    endpoint = ["base_url=http://127.0.0.1:9/v1", "model=m", 'capabilities=["batch"]']
    chosen = ["mode=batch", "model=e", *(f"endpoints.e.{each}" for each in endpoint), f"dump={dump}", SITE]
    chosen += ["stages.combine_answers.unbatched=online", "stages.corrupt_answers.mode=online"]
    words = ["--home", tmp_path / "home", *(word for each in chosen for word in ("--set", each))]
    found = longform.json("plan", "axioms", *words)
    assert {stage["stage"]: stage["unbatched"] for stage in found["stages"] if stage["endpoint"]} == {
        "answer_open_book": "wait", "answer_closed_book": "wait", "corrupt_answers": None, "combine_answers": "online",
        "answer_from_relevant": "wait", "answer_from_irrelevant": "wait",
    }  # fmt: skip
    assert {stage["unbatched"] for stage in found["stages"] if not stage["endpoint"]} == {None}
    printed = " ".join(longform("plan", "axioms", *words).stdout.split())
    assert ' answer_open_book, answer_closed_book in batches, unbatched = "wait"' in printed  # no stage with no calls
    assert 'combine_answers in batches, unbatched = "online"' in printed


def test_plan_names_what_changed_and_what_it_reaches(longform: Shell, home: Path, dump: str) -> None:
    before = contents(home)
    settings = ("--set", f"dump={dump}", "--set", SITE, "--set", "neighbours=3")
    found = longform.json("plan", "axioms", "--home", home, *settings)
    states = {stage["stage"]: (stage["state"], stage["why"]) for stage in found["stages"]}
    assert states["find_related"] == ("run", "k: 10 -> 3")
    assert {name for name, (state, _) in states.items() if state != "reuse"} == {
        "find_related", "pair_with_related", "assemble_pairs", "view_as_chats", "draw_one_a_question", "view_as_texts",
        "pair_for_validation", "assemble_validation_pairs", "sample_validation", "rank_held_out",
        "find_related_discussions", "rank_discussions", "list_evaluation_texts", "decontaminate",
    }  # fmt: skip
    assert states["pair_with_related"] == ("run", "its input related changes")
    assert sum(stage["calls"] or 0 for stage in found["stages"]) == 0
    assert contents(home) == before


def test_a_build_with_nothing_to_do_says_so_and_starts_no_server(
    longform: Shell, home: Path, dump: str, first: dict[str, Any]
) -> None:
    before = contents(home)
    nowhere = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    command = ("build", "axioms", "--home", home, "--set", f"dump={dump}", "--set", SITE)
    done = longform(*command, **nowhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"Nothing to do: axioms first has this recipe \(\d+\.\d s\)\.\n", done.stdout)
    again = longform.json(*command, **nowhere)
    assert {**again, "seconds": None} == {**first, "new": False, "seconds": None}
    assert contents(home) == before


# ---------------------------------------------------------------- looking


def published(home: Path, name: str) -> dict[str, pandas.DataFrame]:
    folder = home / "datasets" / "axioms" / name
    return {split: pandas.read_parquet(folder / split) for split in ("train", "test")}


def test_build_and_ls_print_what_was_published(longform: Shell, home: Path, first: dict[str, Any]) -> None:
    splits = {split: len(rows) for split, rows in published(home, "first").items()}
    assert (first["dataset"], first["version"], first["new"], first["offline"]) == ("axioms", "first", True, True)
    assert {split: rows for split, rows in first["splits"].items() if "/" not in split} == splits
    assert first["rows"] == sum(first["splits"].values())
    assert first["folder"] == str(home / "datasets" / "axioms" / "first")
    listed = longform.json("ls", "--home", home)
    assert [version["version"] for version in listed] == ["first", "second"]
    assert listed[0] == {name: first[name] for name in listed[0]}
    for name in ("first", "second", f"{splits['train']:,}"):
        assert name in longform("ls", "axioms", "--home", home).stdout


def test_show_counts_rows_in_rows_out_and_rows_left_out(longform: Shell, home: Path, dump: str) -> None:
    stages = {stage["stage"]: stage for stage in longform.json("show", "axioms@first", "--home", home)["stages"]}
    rows = len(re.findall(r"<row ", Path(dump).read_text(encoding="utf-8")))
    assert stages["read_posts"]["rows_in"] == rows
    assert list(stages) == STAGES
    for name in ("read_posts", "select_questions", "answer_open_book", "combine_answers"):
        stage = stages[name]
        assert stage["rows_in"] == stage["rows_out"] + stage["filtered"] + stage["rejected"]
        assert sum(reason["rows"] for reason in stage["reasons"]) == stage["filtered"] + stage["rejected"]
    text = longform("show", "axioms@first", "--home", home).stdout
    assert all(name in text for name in stages)
    assert max(map(len, text.splitlines())) <= 100


def test_rejects_are_json_lines_as_many_as_show_counts(longform: Shell, home: Path) -> None:
    done = longform("rejects", "axioms", "--home", home, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for stage in longform.json("show", "axioms", "--home", home)["stages"]:
        mine = [row for row in rows if row["stage"] == stage["stage"]]
        assert len(mine) == stage["filtered"] + stage["rejected"]
        assert sum(row["kind"] == "defect" for row in mine) == stage["rejected"]
    orphans = [row for row in rows if row["kind"] == "defect" and row["stage"] == "join_threads"]
    assert orphans
    assert all(row["reason"] == "orphan answer" and row["raw"] for row in orphans)
    assert {row["file"] for row in orphans} == {None}
    assert all("file" in row for row in rows)
    told = longform("rejects", "axioms", "--home", home, "--limit", 3).stdout
    assert f"… and {len(rows) - 3:,} more" in told
    assert [json.loads(line) for line in _lines(longform, home, "--json", "--limit", 3)] == rows[:3]


def test_rejects_come_by_kind_and_then_by_stage(longform: Shell, home: Path) -> None:
    """Rejected rows come before filtered ones; the words for both kinds are those of `show`."""
    rows = [json.loads(line) for line in _lines(longform, home, "--json")]
    kinds = [row["kind"] for row in rows]
    assert kinds == sorted(kinds)
    assert {"defect", "filtered"} == {*kinds}
    for kind in ("defect", "filtered"):
        stages = [row["stage"] for row in rows if row["kind"] == kind]
        assert stages == sorted(stages, key=STAGES.index)
    first = _lines(longform, home, "--limit", 1)[1]
    assert re.search(r"read_posts|join_threads", first)
    assert " rejected " in first
    for said, kind in (("rejected", "defect"), ("defect", "defect"), ("filtered", "filtered")):
        mine = [json.loads(line) for line in _lines(longform, home, "--json", "--kind", said)]
        assert mine == [row for row in rows if row["kind"] == kind]
    assert "defect" not in longform("show", "axioms", "--home", home).stdout


def _lines(longform: Shell, home: Path, *options: object) -> list[str]:
    done = longform("rejects", "axioms", "--home", home, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_trace_goes_back_from_every_kind_of_row(longform: Shell, home: Path) -> None:
    rows = pandas.concat(published(home, "first").values())
    for _, of_kind in rows.groupby("pair_type"):
        row = of_kind.iloc[0]
        found = longform.json("trace", "axioms@first", row.pair_id, "--home", home)
        assert found["pair"]["preferred"] == row.preferred
        for side in ("preferred", "rejected"):
            assert found[side]["text"] == row[side]
            assert found[side].get("response") == row[f"{side}_response"] or pandas.isna(row[f"{side}_response"])
        text = longform("trace", "axioms@first", row.pair_id[:12], "--home", home).stdout
        assert text.startswith(f"pair       {row.pair_id}   axiom {row.axiom}")
        assert re.search(r"^built by   .* <- read_posts [0-9a-f]{8} <- tea\.example sha256 ", text, re.MULTILINE)


def test_diff_counts_what_two_versions_have_not_in_common(longform: Shell, home: Path) -> None:
    found = longform.json("diff", "axioms@first", "axioms@second", "--home", home)
    before, after = (home / "datasets" / "axioms" / name for name in ("first", "second"))
    assert [change["split"] for change in found["splits"]] == [*KEYS]
    for change in found["splits"]:
        old, new = (by_id(version, change["split"]) for version in (before, after))
        assert (change["before"], change["after"]) == (len(old), len(new))
        assert (change["added"], change["removed"]) == (len(new.keys() - old.keys()), len(old.keys() - new.keys()))
        assert change["changed"] == sum(old[key] != new[key] for key in old.keys() & new.keys())
    assert sum(change["removed"] for change in found["splits"]) > 0
    why = {change["stage"]: change["why"] for change in found["stages"]}
    assert (why["pair_by_votes"], why["retrieve_passages"]) == ("pairs_per_question: None -> 1", "passages: 5 -> 2")
    assert "find_related" not in why
    same = longform.json("diff", "axioms@first", "axioms@first", "--home", home)
    assert (same["same_recipe"], same["stages"]) == (True, [])
    assert {(c["added"], c["removed"], c["changed"]) for c in same["splits"]} == {(0, 0, 0)}


def by_id(version: Path, split: str) -> dict[str, dict[str, Any]]:
    rows = [row for file in (version / split).glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert rows
    return {row[KEYS[split]]: row for row in rows}


# ---------------------------------------------------------------- checking and clearing


def test_verify_finds_both_versions_sound_and_a_changed_byte(longform: Shell, copy: Path) -> None:
    found = longform.json("verify", "--home", copy)
    assert [(entry["version"], entry["problems"]) for entry in found] == [("first", []), ("second", [])]
    file = next((copy / "datasets" / "axioms" / "first" / "train").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100] + b"?" + file.read_bytes()[-99:])
    done = longform("verify", "axioms@first", "--home", copy)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "axioms first: NOT sound"
    assert f"{file} was changed: its checksum is not that of the manifest" in done.stdout
    assert longform("verify", "axioms@second", "--home", copy).returncode == 0


def test_verify_sees_that_a_stage_lost_its_rows(longform: Shell, copy: Path) -> None:
    part = next((copy / "stages" / "join_threads" / "parts").iterdir())
    shutil.rmtree(part)
    done = longform("verify", "axioms@first", "--home", copy, "--json")
    assert done.returncode == 1
    assert "the rows of stage join_threads" in json.loads(done.stdout)[0]["problems"][0]


def test_verify_names_every_problem_also_after_a_damaged_record(longform: Shell, copy: Path) -> None:
    folder = copy / "stages" / "join_threads"
    for record in folder.glob("parts/*/part.json"):
        record.write_text("{")
    shutil.rmtree(copy / "stages" / "pair_by_votes" / "parts")
    (found,) = json.loads(longform("verify", "axioms@first", "--home", copy, "--json").stdout)
    assert any("join_threads" in problem and "part.json" in problem for problem in found["problems"])
    assert any("the rows of stage pair_by_votes" in problem for problem in found["problems"])


def test_verify_of_a_version_with_a_stage_of_another_release_names_the_stage(longform: Shell, copy: Path) -> None:
    manifest = copy / "datasets" / "axioms" / "first" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"pair_by_votes":', '"pair_by_stars":'))
    (copy / "stages" / "pair_by_votes").rename(copy / "stages" / "pair_by_stars")
    for record in (copy / "stages" / "pair_by_stars").rglob("*.json"):
        record.write_text(record.read_text().replace("pair_by_votes", "pair_by_stars"))
    done = longform("verify", "axioms@first", "--home", copy)
    assert done.returncode == 2
    assert "axioms first has stages that this release does not have (pair_by_stars)" in done.stderr


def test_gc_frees_what_only_a_withdrawn_version_needed(longform: Shell, copy: Path) -> None:
    assert longform.json("gc", "--dry-run", "--home", copy)["paths"] == []
    done = longform("withdraw", "axioms@second", "--home", copy)
    assert (done.returncode, done.stdout.split(".")[0]) == (0, "Withdrew axioms second")
    before = contents(copy / "stages")
    would = longform.json("gc", "--dry-run", "--home", copy)
    assert contents(copy / "stages") == before
    freed = longform.json("gc", "--home", copy)
    assert (freed["paths"], freed["bytes"]) == (would["paths"], would["bytes"])
    assert freed["bytes"] > 0
    assert not any(Path(path).exists() for path in freed["paths"])
    assert longform.json("verify", "--home", copy) == [{"dataset": "axioms", "version": "first", "problems": []}]
    assert find(copy, "axioms").name == "first"


def test_a_reader_that_goes_away_gets_no_traceback(longform: Shell, home: Path) -> None:
    command = f'"{LONGFORM}" rejects axioms --json --home "{home}" | head -n 1'
    done = subprocess.run(["sh", "-c", command], env=longform.environment, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


MODELS = [
    (["--set", "endpoints.e.parameters.n=3"], {}, "n is set by the build itself"),
    (["--set", "endpoints.e.parameters.stream=true"], {}, "stream is set by the build itself"),
    (["--set", "endpoints.e.base_url=localhost:8000"], {}, "begins with http"),
    (["--set", "endpoints.offline.base_url=http://127.0.0.1:9", "--set", "endpoints.offline.model=m"], {}, "built-in"),
    (["--set", "mode=batch"], {}, 'add "batch" to [endpoints.e] capabilities'),
    (["--set", "stages.combine_answers.mode=batch"], {}, "combine_answers is in batch mode"),
    (["--set", "stages.find_related.model=e"], {}, "asks no model"),
    (["--max-cost", "inf"], {}, "no amount of US dollars"),
    (["--max-cost", "-1"], {}, "no amount of US dollars"),
    (["--max-cost", "5"], {}, "price of model m"),
    ([], {"LONGFORM_RESPONSES": "mysql://u:secret-word@h/x"}, "holds no URL of a PostgreSQL database"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "environment", "told"), MODELS, ids=[told for _, _, told in MODELS])
def test_a_wrong_setting_of_models_is_one_sentence_and_sends_nothing(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], told: str
) -> None:
    endpoint = [
        "--set",
        "model=e",
        "--set",
        "endpoints.e.base_url=http://127.0.0.1:9/v1",
        "--set",
        "endpoints.e.model=m",
    ]
    command = [
        sys.executable,
        "-m",
        "flows.cli.main",
        "build",
        "axioms",
        "--home",
        str(tmp_path / "home"),
        *endpoint,
        *arguments,
    ]
    done = subprocess.run(command, cwd=paths.ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret-word" not in done.stderr
    assert not (tmp_path / "home" / "stages").exists()
