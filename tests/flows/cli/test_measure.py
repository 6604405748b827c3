"""`longform measure` as users run it: files of all kinds, bad rows, bad servers, killed and resumed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from endpoint_server import Server, Verdict
from killed_builds import answered, asked_twice, calls, killed_when, run
from standin_server import serve

LONGFORM = str(Path(sys.executable).with_name("longform"))
REFERENCE = ["The tea is old.", "Kettles sing at noon.", "Cups come in sizes.", "Spoons are bent here."]


def record(number: int, system: str, changed: int) -> dict[str, Any]:
    draft = [f"Nobody knew of {n} and {number}." if n < changed else text for n, text in enumerate(own(number))]
    return {"id": f"q{number}", "system": system, "draft": "\n\n".join(draft), "reference": "\n\n".join(own(number))}


def own(number: int) -> list[str]:
    return [text.replace("The ", f"The {number}th ") for text in REFERENCE]


def records(number: int) -> list[dict[str, Any]]:
    return [record(n, system, changed) for n in range(number) for system, changed in (("good", 1), ("bad", 3))]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def longform(*words: Any, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([LONGFORM, *map(str, words)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def measured(*words: Any, cwd: Path, code: int = 0) -> dict[str, Any]:
    return dict(json.loads(longform("measure", *words, "--home", cwd / "home", "--json", cwd=cwd, code=code).stdout))


def systems(found: dict[str, Any], editor: str = "offline") -> dict[str, dict[str, Any]]:
    return {row["system"]: row for row in found["editors"][editor]["systems"]}


def config(folder: Path, url: str, **more: str) -> Path:
    endpoints = {"mine": "m", **more}
    text = 'model = "mine"\n' + "".join(
        f'[endpoints.{name}]\nbase_url = "{url}"\nmodel = "{model}"\ncapabilities = ["json_schema"]\n'
        "price = { input = 1, output = 2 }\n"
        for name, model in endpoints.items()
    )
    (folder / "c.toml").write_text(text)
    return folder / "c.toml"


def test_systems_are_ranked_and_a_folder_holds_it_all(tmp_path: Path) -> None:
    lines(tmp_path / "d.jsonl", records(6))
    done = longform("measure", "d.jsonl", "--home", "home", "--to", "out", cwd=tmp_path)
    assert "good before bad by 2" in done.stdout
    assert "signature revdist|editor:offline-rules-1(lexical baseline)" in done.stdout
    rows = pq.read_table(tmp_path / "out" / "drafts.parquet")
    assert rows.num_rows == 12
    assert b"revdist" in rows.schema.metadata[b"signature"]
    assert {row["corrected"] for row in rows.to_pylist() if row["system"] == "good"} == {1}
    assert set(rows["signature"].to_pylist()) == {rows.schema.metadata[b"signature"].decode()}
    assert "revdist" in (tmp_path / "out" / "report.html").read_text()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "drafts.parquet", "rejected.parquet", "tables.json", "report.html", "measure.json"
    }  # fmt: skip
    longform("measure", "d.jsonl", "--home", "home", "--to", "out", cwd=tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("x")
    refused = longform("measure", "d.jsonl", "--home", "home", "--to", "other", cwd=tmp_path, code=2)
    assert "holds something else" in refused.stderr


def as_csv(folder: Path, rows: list[dict[str, Any]]) -> str:
    import csv

    with (folder / "d.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, ["id", "system", "draft", "reference"])
        writer.writeheader()
        writer.writerows(rows)
    return "d.csv"


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), folder / "d.parquet")
    return "d.parquet"


def as_array(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "d.json").write_text(json.dumps(rows, indent=1))
    return "d.json"


def as_folder(folder: Path, rows: list[dict[str, Any]]) -> str:
    for row in rows:
        for kind, name in ((row["system"], "draft"), ("references", "reference")):
            (folder / "pairs" / kind).mkdir(parents=True, exist_ok=True)
            (folder / "pairs" / kind / f"{row['id']}.txt").write_text(row[name])
    return "pairs"


@pytest.mark.parametrize("written", [as_csv, as_parquet, as_array, as_folder])
def test_all_kinds_of_files_say_the_same(written: Callable[[Path, list[dict[str, Any]]], str], tmp_path: Path) -> None:
    found = systems(measured(written(tmp_path, records(3)), cwd=tmp_path))
    assert {name: (row["corrected"], row["cases"]) for name, row in found.items()} == {"good": (1, 3), "bad": (3, 3)}


def test_the_nearest_of_several_references_counts(tmp_path: Path) -> None:
    row = record(1, "a", 0)
    lines(tmp_path / "d.jsonl", [{**row, "reference": None, "references": ["Far away. All else.", row["draft"]]}])
    measured("d.jsonl", "--to", "out", cwd=tmp_path)
    (found,) = pq.read_table(tmp_path / "out" / "drafts.parquet").to_pylist()
    assert (found["corrected"], found["reference_number"], found["valid"]) == (0, 1, True)


def test_rows_that_cannot_be_measured_are_rejected_with_their_reasons(tmp_path: Path) -> None:
    good = records(2)
    bad = [
        "not json",
        '"a text"',
        json.dumps({**good[0], "system": "c", "draft": None}),
        json.dumps({**good[0], "system": "d", "draft": 7}),
        json.dumps({**good[0], "system": "e", "reference": None}),
        json.dumps({**good[0], "system": "f", "reference": ["x"]}),
        json.dumps(good[0]),
        json.dumps({**good[0], "system": "g", "draft": "\ud800"}),
        json.dumps({**good[0], "system": "h", "draft": "x" * 130_000}),
    ]
    text = "".join(json.dumps(row) + "\n" for row in good) + "\n".join(bad) + "\n"
    (tmp_path / "d.jsonl").write_text(text)
    found = measured("d.jsonl", "--to", "out", cwd=tmp_path)
    assert {row["reason"]: row["drafts"] for row in found["left_out"]} == {
        "the line is no JSON": 1,
        "the line is no JSON object": 1,
        "no draft": 1,
        "the draft is no text": 1,
        "no reference, although other drafts have one": 1,
        "a reference is no text": 1,
        "id and system stand there twice": 1,
        "no valid Unicode": 1,
        "too long to revise": 1,
    }
    assert len(systems(found)) == 2
    told = pq.read_table(tmp_path / "out" / "rejected.parquet").to_pylist()
    assert next(row for row in told if row["reason"] == "the line is no JSON")["raw"] == "not json"
    assert next(row["detail"] for row in told if row["reason"] == "no draft") == "row 7, id q0, system c"


def test_a_line_break_in_a_name_forges_no_line_and_ties_are_told_as_such(tmp_path: Path) -> None:
    names = ["a\nz before a by 9", "b", "c\x1b[2J", "d", "e", "f\tf"]
    rows = [{**record(n, "x", 1), "system": name} for n in range(2) for name in names]
    lines(tmp_path / "d.jsonl", [*rows, {"id": "x\ny", "system": "g\nh", "draft": 7, "reference": "A."}])
    done = longform("measure", "d.jsonl", "--home", "home", "--to", "out", cwd=tmp_path)
    assert not [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("z before", "h ", "y,"))]
    assert "a\\u000az before" in done.stdout
    assert "f\\u0009f" in done.stdout
    assert "15 pairs of systems, none of them clear, in the report" in done.stdout
    assert "left out 1 the draft is no text (row 13, id x\\u000ay, system g\\u000ah)" in done.stderr
    assert (
        re.findall(r"<td[^>]*>([0-9.]+)</td>\s*<td[^>]*>a\n", (tmp_path / "out" / "report.html").read_text())[0] == "1"
    )


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder here takes no files")
def test_places_that_take_no_files_are_named_in_one_sentence(tmp_path: Path) -> None:
    lines(tmp_path / "d.jsonl", records(2))
    done = longform("measure", "d.jsonl", "--home", "/proc/h", cwd=tmp_path, code=1)
    assert done.stderr.startswith("Cannot write /proc/h/measured (")
    done = longform("measure", "d.jsonl", "--home", "home", "--to", "/proc/x", cwd=tmp_path, code=2)
    assert done.stderr.startswith("--to /proc/x: /proc is no folder that can be written to (")
    assert not (tmp_path / "home").exists()


def test_an_empty_draft_is_a_draft(tmp_path: Path) -> None:
    lines(tmp_path / "d.jsonl", [*records(2), {**record(0, "none", 0), "draft": ""}])
    found = systems(measured("d.jsonl", cwd=tmp_path))
    assert found["none"]["drafts"] == 1
    assert found["none"]["corrected"] >= 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.jsonl", "", "holds no draft, it is empty"),
        ("d.jsonl", '{"text": "a"}\n', "has no column draft (it has text): its texts to measure stand in `draft`, or"),
        ("d.jsonl", '{"draft": null}\n', "holds no draft that can be measured: no draft (row 1)"),
        ("d.csv", "text,reference\na,b\n", "has no column draft (it has text, reference)"),
        ("d.csv", "draft,reference\na,b\n", None),
        ("d.txt", "a", "is no file of drafts by its name"),
        ("d.parquet", "a", "is no Parquet file that can be read"),
        ("d.json", "[{]", "is no JSON"),
    ],
)
def test_files_that_cannot_be_used_say_what_to_do(name: str, content: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    done = subprocess.run([LONGFORM, "measure", name, "--home", "h"], cwd=tmp_path, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    if said is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode in (2, 5)
        assert said in " ".join(done.stderr.split())


def test_columns_of_other_names(tmp_path: Path) -> None:
    lines(tmp_path / "d.jsonl", [{"prediction": "A b c.", "gold": "A b d."}])
    found = measured("d.jsonl", "--column", "draft=prediction", "--column", "reference=gold", cwd=tmp_path)
    assert systems(found)["draft"]["corrected"] == 1
    longform("measure", "d.jsonl", "--column", "daft=x", cwd=tmp_path, code=2)


def test_the_price_comes_first_and_a_model_is_asked_once(tmp_path: Path) -> None:
    with serve() as server:
        settings = config(tmp_path, server.url)
        lines(tmp_path / "d.jsonl", records(4))
        words = ("d.jsonl", "--config", settings)
        plan = measured(*words, "--plan", cwd=tmp_path)
        assert [each["calls"] for each in plan["stages"] if each["stage"] == "measure_drafts"] == [8]
        refused = longform("measure", *words, "--home", "home", cwd=tmp_path, code=2)
        assert "Nothing was asked" in refused.stderr
        assert calls(server) == 0
        found = measured(*words, "--yes", cwd=tmp_path)
        assert calls(server) == 8
        assert measured(*words, "--yes", cwd=tmp_path) == found
        assert calls(server) == 8
        (signature,) = found["signatures"]
        assert "editor:mine/m(seed=41,temperature=0)" in signature
        two = measured(*words, "--repeats", 3, "--yes", cwd=tmp_path)
        (variance,) = two["reliability"]["Variance within the editor"]
        assert variance["corrected: within"] == 0
        longform("measure", *words, "--home", "h2", "--yes", "--max-cost", "0.000001", cwd=tmp_path, code=4)


def test_two_editors_and_how_far_they_agree(tmp_path: Path) -> None:
    with serve() as server:
        settings = config(tmp_path, server.url)
        lines(tmp_path / "d.jsonl", records(4))
        words = ("--config", settings, "--editor", "mine", "--editor", "offline", "--yes")
        found = measured("d.jsonl", *words, cwd=tmp_path)
    agreement = {row["measure"]: row for row in found["reliability"]["Agreement between editors"]}
    assert agreement["corrected"]["Spearman"] == pytest.approx(1)
    assert agreement["corrected"]["ICC"] == pytest.approx(1)
    assert set(found["editors"]) == {"mine", "offline"}


# ---------------------------------------------------------------- servers that answer wrongly


@contextmanager
def serve_endpoint() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def replying(say: Callable[[str], str]) -> Callable[[dict[str, Any]], Verdict]:
    """For `Server.fails`: each reply as `say` makes it of the prompt."""

    def fails(body: dict[str, Any]) -> Verdict:
        text = say(body["messages"][1]["content"] if len(body["messages"]) == 2 else body["messages"][-3]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return 200, {}, json.dumps({"model": "m", "choices": [choice], "usage": {}}).encode()

    return fails


def edits(*pairs: tuple[str, str]) -> str:
    told = {"action_name": "x", "revision_description": "", "revision_level": "word", "revision_intention": "meaning"}
    return json.dumps({"edits": [
        {**told, "original_snippet": old, "revised_snippet": new, "preceding_snippet": None} for old, new in pairs
    ]})  # fmt: skip


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def texts_of(prompt: str) -> tuple[str, str]:
    """The draft and the reference in a prompt."""
    from longform.llm.ask.fence import unfenced

    inside = dict(unfenced(prompt))
    return inside["Draft"], inside["Reference"]


def honest(prompt: str) -> str:
    draft, reference = (text.split("\n\n") for text in texts_of(prompt))
    return edits(*((old.rstrip("."), new.rstrip(".")) for old, new in zip(draft, reference, strict=True) if old != new))


HOSTILE: dict[str, Callable[[str], str]] = {
    "silent": lambda prompt: edits(),
    "no-ops": lambda prompt: edits(("Spoons", "Spoons")),
    "a thousand no-ops": lambda prompt: edits(*[("Spoons", "Spoons")] * 1_000),
    "white space": lambda prompt: edits(("Spoons are", "Spoons  are")),
    "no place": lambda prompt: edits(("never said in there", "x")),
    "unusable": lambda prompt: "I like it.",
    "one edit": lambda prompt: edits(("Spoons", "Forks")),
    "replace all": lambda prompt: edits(texts_of(prompt)),
    "duplicates": lambda prompt: edits(*[("Spoons", "Forks")] * 30),
}


def editing(server: Server, say: Callable[[str], str], tmp_path: Path) -> dict[str, Any]:
    """What is measured where the editor is honest about good drafts, and says `say` about bad ones."""
    server.fails = replying(lambda prompt: say(prompt) if "Nobody knew of 2" in texts_of(prompt)[0] else honest(prompt))
    done = subprocess.run(
        [LONGFORM, "measure", "d.jsonl", "--home", "home", "--config", "c.toml", "--yes", "--json"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_reply_improves_the_rank_of_a_system(name: str, tmp_path: Path) -> None:
    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", records(6))
        found = systems(editing(server, HOSTILE[name], tmp_path), "mine")
    assert found["good"]["rank"] == 1
    assert found["good"]["corrected"] == 1
    assert found["bad"]["rank"] is None
    assert found["bad"]["why not ranked"]
    if name != "unusable":
        assert found["bad"]["corrected"] >= 3


def test_a_lead_by_an_editor_that_is_coarser_for_one_system_is_told(tmp_path: Path) -> None:
    """Both systems have three wrong words in each draft; for `coarse` the editor lists one edit, for `fine` three."""
    reference = "The mill of the {} stands by the river, and its wheel is of oak."
    rest = " " + " ".join(f"Barge {n} brought tea and rope." for n in range(20))
    wrong = {"mill": "barn", "river": "market", "oak": "elm"}

    def spoilt(text: str) -> str:
        return " ".join(wrong.get(word.strip(",."), word) + word[len(word.rstrip(",.")) :] for word in text.split())

    def say(prompt: str) -> str:
        draft, right = texts_of(prompt)
        if "coarse" in draft:
            return edits((draft.partition(" Barge")[0], right.partition(" Barge")[0]))
        return edits(*((new, old) for old, new in wrong.items()))

    rows = [
        {"id": str(n), "system": name, "draft": spoilt(reference.format(f"{name}{n}")) + rest,
         "reference": reference.format(f"{name}{n}") + rest}
        for n in range(8)
        for name in ("coarse", "fine")
    ]  # fmt: skip
    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", rows)
        server.fails = replying(say)
        done = longform("measure", "d.jsonl", "--home", "home", "--config", "c.toml", "--yes", cwd=tmp_path)
    assert "coarse is before fine by the editor's lists alone" in done.stdout
    assert "The editor may list finer edits for fine" in done.stdout


def test_a_server_of_which_no_reply_is_of_use_is_refused_with_an_example(tmp_path: Path) -> None:
    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", records(3))
        server.fails = replying(lambda prompt: "I like it.")
        words = ("d.jsonl", "--home", "home", "--config", "c.toml", "--yes", "--to", "out")
        done = longform("measure", *words, cwd=tmp_path, code=7)
        assert "I like it." in done.stderr
        done = longform("measure", *words, "--accept", "measure_drafts", cwd=tmp_path, code=7)
        assert "No reply of mine is a list of edits" in done.stderr
        assert pq.read_table(tmp_path / "out" / "rejected.parquet")["raw"].to_pylist() == ["I like it."] * 6
        server.fails = replying(HOSTILE["silent"])
        done = longform("measure", *words, "--retry-errors", cwd=tmp_path, code=7)
        assert "No system is ranked by mine" in done.stderr


def test_one_unusable_reply_costs_one_row(tmp_path: Path) -> None:
    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", records(12))
        server.fails = replying(
            lambda prompt: (
                "No." if "The 7th" in texts_of(prompt)[1] and "Nobody knew of 2" in prompt else honest(prompt)
            )
        )
        found = measured("d.jsonl", "--config", "c.toml", "--yes", cwd=tmp_path)
    assert [row["drafts"] for row in found["left_out"]] == [1]
    assert found["editors"]["mine"]["cases"] == 12  # the baseline stands in
    assert {row["rank"] for row in systems(found, "mine").values()} == {1, 2}


def test_lists_are_kept_edit_by_edit_and_losses_are_counted(tmp_path: Path) -> None:
    def cut(prompt: str) -> str:
        return honest(prompt)[:-30] if "Nobody knew of 2" in prompt else honest(prompt)

    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", records(4))
        server.fails = replying(cut)
        done = longform(
            "measure", "d.jsonl", "--home", "home", "--config", "c.toml", "--yes", "--to", "out", cwd=tmp_path
        )
    assert "4 edits could not be read" in done.stdout
    rows = pq.read_table(tmp_path / "out" / "drafts.parquet").to_pylist()
    bad = [row for row in rows if row["system"] == "bad"]
    assert {(row["lost_edits"], row["distance"], row["residual"], row["corrected"], row["valid"]) for row in bad} == {
        (1, 2, 1, 3, False)
    }


def test_a_reply_that_is_too_large_is_paid_once_and_costs_one_row(tmp_path: Path) -> None:
    asked = Counter[bool]()

    def fails(body: dict[str, Any]) -> Verdict:
        large = "The 7th" in json.dumps(body) and "Nobody knew of 2" in json.dumps(body)
        asked[large] += 1
        status, headers, reply = replying(honest)(body)
        return status, headers, reply + b" " * 5_000_000 * large

    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", records(18))
        server.fails = fails
        words = ("d.jsonl", "--config", "c.toml", "--yes", "--to", "out")
        found = measured(*words, cwd=tmp_path)
        assert measured(*words, cwd=tmp_path) == found
    assert asked == {True: 1, False: 35}
    (row,) = pq.read_table(tmp_path / "out" / "rejected.parquet").to_pylist()
    assert row["reason"] == "model: oversized"
    assert re.fullmatch(r"bad, q7: 200 with more than [0-9,]+ bytes", row["detail"])


@pytest.mark.check
def test_a_draft_that_gets_no_answer_is_left_out_after_three_runs_and_the_command_says_so(tmp_path: Path) -> None:
    def fails(body: dict[str, Any]) -> Verdict:
        fails_always = "The 7th" in json.dumps(body) and "Nobody knew of 2" in json.dumps(body)
        return (200, {}, b"no JSON") if fails_always else replying(honest)(body)

    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", records(18))
        server.fails = fails
        words = ("d.jsonl", "--config", "c.toml", "--yes")
        for number in (1, 2):
            done = longform("measure", *words, "--home", "home", cwd=tmp_path, code=6)
            assert f"after 3 runs without an answer, this was number {number}, it is left out." in done.stderr
        assert measured(*words, cwd=tmp_path)["left_out"] == [
            {"editor": "mine", "reason": "model: unanswered", "drafts": 1}
        ]


@pytest.mark.check
def test_killed_and_resumed_it_asks_nothing_twice(tmp_path: Path) -> None:
    with serve(latency_seconds=0.02) as server:
        config(tmp_path, server.url)
        lines(tmp_path / "d.jsonl", records(400))
        words = [
            LONGFORM, "measure", tmp_path / "d.jsonl", "--home", tmp_path / "home", "--config", tmp_path / "c.toml",
            "--yes",
        ]  # fmt: skip
        for due in (60, 400):
            with run(words) as process:
                killed_when(process, lambda due=due: answered(server) >= due)  # type: ignore[misc]
        before = calls(server)
        found = measured(tmp_path / "d.jsonl", "--config", tmp_path / "c.toml", "--yes", cwd=tmp_path)
        assert calls(server) - before < 800 - 400 + 20
        assert asked_twice(server) <= 2 * (16 + 2)  # what was in flight when it was killed: concurrency and a tenth
        assert {row["corrected"] for row in systems(found, "mine").values()} == {1, 3}


WRONG = {"mill": "barn", "river": "market", "oak": "elm", "sand": "tar"}
FOR_ONE: dict[str, Callable[[list[tuple[str, str]], int], list[tuple[str, str]]]] = {
    "half": lambda found, number: found[: len(found) // 2],
    "alternating": lambda found, number: found if number % 2 else [],
    "three no-ops each": lambda found, number: [each for edit in found for each in (*[(edit[0], edit[0])] * 3, edit)],
}


@pytest.mark.check
@pytest.mark.parametrize("mode", ["context", "merged", *FOR_ONE])
def test_an_editor_that_is_hostile_for_one_system_is_told_or_leaves_it_unranked(mode: str, tmp_path: Path) -> None:
    """`worst` has four wrong words, `middle` three, `best` two; only the lists for `worst` are bad."""
    rest = " " + " ".join(f"Barge {n} brought tea and rope." for n in range(20))

    def spoilt(text: str, number: int) -> str:
        for right, wrong in list(WRONG.items())[:number]:
            text = text.replace(right, wrong)
        return text

    def say(prompt: str) -> str:
        draft, right = texts_of(prompt)
        found = [(wrong, old) for old, wrong in WRONG.items() if wrong in draft]
        if "worst" not in draft:
            return edits(*found)
        first = draft.partition(" Barge")[0], right.partition(" Barge")[0]
        if mode == "merged":
            return edits(first)
        if mode == "context":
            return edits(*((first[0], first[0].replace(wrong, old)) for wrong, old in found))
        return edits(*FOR_ONE[mode](found, int(draft.partition("worst")[2].partition(" ")[0])))

    rows = [
        {"id": str(n), "system": name, "draft": spoilt(text, wrong) + rest, "reference": text + rest}
        for n in range(8)
        for name, wrong in (("worst", 4), ("middle", 3), ("best", 2))
        for text in [f"The mill of the {name}{n} stands by the river on sand, and its wheel is of oak."]
    ]
    with serve_endpoint() as server:
        config(tmp_path, url_of(server))
        lines(tmp_path / "d.jsonl", rows)
        server.fails = replying(say)
        done = longform("measure", "d.jsonl", "--home", "home", "--config", "c.toml", "--yes", cwd=tmp_path)
    expected = "worst is before best by the editor's lists alone" if mode == "merged" else "worst is not ranked"
    assert expected in done.stdout
