"""The pages of Look tell what the command line tells, and stay whole whatever a home holds."""

from __future__ import annotations

import html
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from look_homes import SCRIPT, axioms_home, made_version
from ports import nobody
from starlette.testclient import TestClient

from flows.builds.building import gate_lines
from flows.inspection.comparison import compare
from flows.inspection.describe import describe, rejected_rows
from flows.inspection.tracing import example_row_id, trace_row
from flows.page.application import Serving, create_app
from flows.page.look.runs import prefect_page
from longform.artifacts.store import Store
from longform.artifacts.versions import find

BASE = "/datasets/axioms"


def client_of(home: Path) -> TestClient:
    return TestClient(create_app(Serving(home)), base_url="http://127.0.0.1:8010", follow_redirects=True)


def text_of(page: str) -> str:
    """What a reader sees: no tags, no entities, single blanks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return axioms_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with client_of(home) as client:
        yield client


def addresses(client: TestClient) -> list[str]:
    """The addresses of one page of each kind, found by following links from the start page."""
    seen: dict[str, str] = {}
    left = ["/"]
    while left:
        address = left.pop(0)
        kind = re.sub(r"/(read|answer)_\w+", "/STAGE", address.partition("?")[0].partition("#")[0])
        kind = re.sub(r"\d{8}T\w+-\w+", "RUN", kind).replace("/v1", "/V").replace("/v2", "/V")
        if kind in seen or address.startswith(("/static", "/work")) or kind.count("/stages/") > kind.count("STAGE"):
            continue
        seen[kind] = address
        page = client.get(address)
        assert page.status_code == 200, (address, page.text)
        left += [html.unescape(found) for found in re.findall(r'(?:href|src)="(/[^"]*)"', page.text)]
    return list(seen.values())


def test_every_page_is_read_only(client: TestClient) -> None:
    found = addresses(client)
    assert len(found) > 15
    for address in found:
        assert client.head(address).status_code == 200, address
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            sent = client.request(method, address, headers={"origin": "http://127.0.0.1:8010"})
            assert sent.status_code == 405, (method, address)


def test_a_version_shows_the_sentences_of_its_gates_and_its_lock(client: TestClient, home: Path) -> None:
    version = find(home, "axioms@v2")
    page = text_of(client.get(f"{BASE}/v2").text)
    assert all(line in page for line in gate_lines(home, version))
    assert all(f"{name} {mark}" in page for name, mark in version.stages.items())
    assert all(facts["sha256"] in page for facts in version.manifest["files"].values())
    assert "CC BY-SA 4.0" in page
    assert "offline model" in text_of(client.get(BASE).text)


def test_stages_have_the_rows_and_costs_that_the_command_line_shows(client: TestClient, home: Path) -> None:
    version = find(home, "axioms@v2")
    page = client.get(f"{BASE}/v2/stages").text
    for stage in describe(Store(home), version):
        rows = re.search(rf">{stage['stage']}</a></th>(.*?)</tr>", page, re.DOTALL)
        assert rows is not None
        cells = text_of(rows[1])
        assert f" {stage['rows_out']:,} " in cells
        drawn = re.search(rf'>{stage["stage"]}</text>\s*<text class="rows"[^>]*>([\d,]+) row', page)
        assert drawn is not None
        assert drawn[1] == f"{stage['rows_out']:,}"
    assert re.search(r"answer_open_book</text>\s*<text[^>]*>\d+ rows · USD 0\.\d+", page)


def test_a_row_shows_prompts_replies_price_licence_and_sources(client: TestClient, home: Path) -> None:
    version = find(home, "axioms@v2")
    key = example_row_id(version)
    traced = trace_row(Store(home), version, key)
    page = client.get(f"{BASE}/v2/row", params={"id": key}).text
    seen = text_of(page)
    assert all(" ".join(text.split()) in seen for _, text in traced["lines"])
    (prompt, *_) = (line for line in page.splitlines() if "You answer" in line or "Question:" in line)
    assert prompt
    reply = traced["preferred"]["text"]
    assert " ".join(reply.split()) in seen
    call = traced["calls"][traced["preferred"]["response"]]
    assert f"{call['input_tokens']:,} + {call['output_tokens']:,} tokens" in seen
    assert f"USD {call['cost_nano'] / 1e9:,.4f}" in seen
    assert f"{traced['pair']['question_id']}" in seen
    assert "CC BY-SA 4.0" in seen
    by_start = client.get(f"{BASE}/v2/row", params={"id": key[:18]}).text
    assert key in by_start


def test_what_the_offline_model_wrote_is_said_not_to_be_stored(client: TestClient, home: Path) -> None:
    key = example_row_id(find(home, "axioms@v1"))
    assert "computed at each build and not stored" in client.get(f"{BASE}/v1/row", params={"id": key}).text


def test_rows_left_out_are_counted_by_reason_and_shown_with_their_text(client: TestClient, home: Path) -> None:
    version = find(home, "axioms@v1")
    left = list(rejected_rows(Store(home), version, None))
    page = text_of(client.get(f"{BASE}/v1/left-out").text)
    for (stage, kind, reason), number in Counter((r["stage"], r["kind"], r["reason"]) for r in left).items():
        kind_name = {"defect": "rejected", "filtered": "filtered"}[kind]
        assert f"{reason} {kind_name} {stage} {number:,}" in page
    broken = next(row for row in left if row["raw"])
    asked = {name: broken[name] for name in ("stage", "kind", "reason")}
    shown = text_of(client.get(f"{BASE}/v1/left-out", params=asked).text)
    assert " ".join(html.unescape(broken["raw"]).split())[:60] in html.unescape(shown)
    assert broken["key"] in shown


def test_two_versions_are_compared_as_diff_does_it(client: TestClient, home: Path) -> None:
    found = compare(Store(home), find(home, "axioms@v1"), find(home, "axioms@v2"))
    page = text_of(client.get("/compare", params={"a": "axioms@v1", "b": "axioms@v2"}).text)
    for split in found["splits"]:
        numbers = [f"{split[name]:,}" for name in ("before", "after", "added", "removed", "changed")]
        assert " ".join([split["split"], *numbers]) in page
    assert all(f"{each['stage']} {each['why']}" in page for each in found["stages"])
    assert "neighbours 10 3" in page


def test_a_report_shows_our_figures_beside_those_of_the_paper(client: TestClient, home: Path) -> None:
    (table, *_) = json.loads((find(home, "axioms@v1").folder / "tables.json").read_text())
    page = client.get(f"{BASE}/v1/report").text
    assert '<th scope="col" class="number paper">questions paper</th>' in page
    first = table["rows"][0]
    assert f"{first['axiom']} {first['split']} {first['questions']:,} {first['questions paper']:,}" in text_of(page)
    assert "<svg" not in page
    assert page.count("<img ") >= 4
    plot = client.get(re.findall(r'<img src="([^"]+)"', page)[0])
    assert plot.headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize(
    "path",
    [
        "/datasets/..",
        "/datasets/nothing",
        f"{BASE}/v9",
        f"{BASE}/..",
        f"{BASE}/v1/../../../format.json",
        f"{BASE}/v1/rows/pairs/none",
        f"{BASE}/v1/rows/../train",
        f"{BASE}/v1/stages/nothing",
        f"{BASE}/v1/stages/../rows",
        f"{BASE}/v1/figures/..%2Fmanifest.svg",
        f"{BASE}/v1/figures/nothing.svg",
        f"{BASE}/v1/row?id=nothing",
        f"{BASE}/v1/row",
        "/compare?a=axioms@v1&b=../x@v1",
        "/runs/axioms/..%2F..%2Fformat",
        "/runs/../x",
    ],
)
def test_an_address_of_nothing_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    found = client.get(path.replace("..", "%2e%2e"))  # a client takes plain dots out of an address
    assert found.status_code == 404
    assert "<h1>" in found.text
    assert "Traceback" not in found.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8010", "", "192.168.0.1"])
def test_another_name_for_this_machine_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("question", ["column=axiom&how=equals&value=x", "sort=nothing", "show=nothing", "page=x"])
def test_a_question_that_does_not_fit_is_answered_beside_the_form(client: TestClient, question: str) -> None:
    found = client.get(f"{BASE}/v1/rows/pairs/train?{question}")
    assert found.status_code == 400
    assert "holds numbers" in found.text or "has no column" in found.text or "does not fit" in found.text


NAMES = [SCRIPT, "../../etc/passwd", "a b&c?d=e#f%2F\"'", "", "x" * 400, "ä/…/\u202e", "{{ 7*7 }}", "1' OR '1'='1"]


def test_texts_of_others_are_never_html_and_any_id_opens_its_row(tmp_path: Path) -> None:
    rows = [
        {"pair_id": name, "text": SCRIPT * 40, SCRIPT: SCRIPT, "url": f"javascript:alert('{SCRIPT}')", "of": [SCRIPT]}
        for name in NAMES
    ]
    made_version(tmp_path, rows, terms=SCRIPT, gates=[gate(SCRIPT)])
    tables = [{"title": SCRIPT, "note": SCRIPT, "rows": [{SCRIPT: SCRIPT, "n": 1}]}]
    (tmp_path / "datasets" / "axioms" / "v1" / "tables.json").write_text(json.dumps(tables))
    with client_of(tmp_path) as client:
        listed = client.get(f"{BASE}/v1/rows/pairs/train?show=pair_id&show={quote(SCRIPT)}&q={quote(SCRIPT)}").text
        pages = [listed, *(client.get(f"{BASE}/v1{part}").text for part in ("", "/report", "/stages", "/left-out"))]
        links = [html.unescape(link) for link in re.findall(r'href="([^"]+/row\?id=[^"]*)"', listed)]
        assert len(links) == len(rows)
        for name, link in zip(NAMES, links, strict=True):
            page = client.get(link)
            assert page.status_code == (200 if name else 404), link
            assert not name or text_of(f"<h1>{html.escape(name)}</h1>") in text_of(page.text)
            pages.append(page.text)
    for page in pages:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert 'href="javascript' not in page


def gate(name: str) -> dict[str, Any]:
    fields = {"gate": name, "of": "version", "what": "rows", "found": 1, "checked": 2, "ceiling": 0.5}
    return {**fields, "accepted": False, "share": 0.5}


STRANGE: list[dict[str, Any]] = [
    {"number": "first"},
    {"stages": {"../../x": "aa"}},
    {"stages": {"read": "../../aa"}},
    {"stages": []},
    {"splits": {"train": "many"}},
    {"configs": {"..": {"train": 1}}},
    {"configs": {"pairs": {"../..": 1}}},
    {"keys": {"pairs": 'id") UNION SELECT 1 --'}},
    {"files": {"../../x": {"bytes": 1, "sha256": ""}}},
    {"files": {"a": 1}},
    {"gates": [{"gate": "x"}]},
    {"gates": {"x": 1}},
    {"served": [{"stage": 1}]},
    {"offline": "no"},
    {"inputs": {"a": {"b": "../c"}}},
]


@pytest.mark.parametrize("fields", STRANGE)
def test_a_strange_manifest_is_named_with_what_to_do_and_hides_nothing_else(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    made_version(tmp_path, [{"pair_id": "p", "text": "t"}], "odd", **fields)
    made_version(tmp_path, [{"pair_id": "p", "text": "t"}], "sound")
    with client_of(tmp_path) as client:
        assert client.get("/").status_code == 200
        listed = text_of(client.get(BASE).text)
        assert "odd cannot be shown." in listed
        assert "sound" in listed
        for part in ("", "/stages", "/report", "/rows", "/row?id=p", "/left-out"):
            found = client.get(f"{BASE}/odd{part}")
            assert found.status_code == 503, part
            assert "longform withdraw axioms@odd" in found.text
            assert client.get(f"{BASE}/sound{part}").status_code == 200, part
        assert client.get("/compare?a=axioms@odd&b=axioms@sound").status_code == 503


def test_a_version_without_stages_or_with_stages_that_are_gone_still_shows_its_rows(tmp_path: Path) -> None:
    made_version(tmp_path, [{"pair_id": "p", "text": "some text"}], stages={"unheard_of": "ab" * 10})
    with client_of(tmp_path) as client:
        stages = client.get(f"{BASE}/v1/stages")
        assert stages.status_code == 200
        assert "no longer in" in stages.text
        assert client.get(f"{BASE}/v1/stages/unheard_of").status_code == 200
        assert client.get(f"{BASE}/v1/stages/unheard_of/rows").status_code == 503
        row = client.get(f"{BASE}/v1/row?id=p")
        assert row.status_code == 200
        assert "some text" in row.text


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"recipe": 3}', b'{"recipe": {}, "parts": [1]}'])
def test_damaged_records_of_stages_are_pages_not_failures(tmp_path: Path, content: bytes) -> None:
    made_version(tmp_path, [{"pair_id": "p", "text": "t"}], stages={"read": "ab" * 10})
    (tmp_path / "stages" / "read").mkdir(parents=True)
    (tmp_path / "stages" / "read" / f"{'ab' * 10}.json").write_bytes(content)
    with client_of(tmp_path) as client:
        for part in ("", "/stages", "/stages/read", "/left-out", "/row?id=p", "/rows"):
            assert client.get(f"{BASE}/v1{part}").status_code == 200, part


def test_damaged_files_of_a_version_are_said_to_be_damaged(tmp_path: Path) -> None:
    folder = made_version(tmp_path, [{"pair_id": "p", "text": "t"}])
    (folder / "train" / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    (folder / "attribution.parquet").write_bytes(b"nothing")
    (folder / "tables.json").write_text('[{"title": 1}]')
    with client_of(tmp_path) as client:
        for part, status in (("", 200), ("/report", 200), ("/rows", 503), ("/row?id=p", 503)):
            found = client.get(f"{BASE}/v1{part}")
            assert found.status_code == status
            assert "cannot be read" in found.text or "does not hold tables" in found.text


def test_plots_are_called_by_the_title_in_their_file_else_by_their_name_in_words(tmp_path: Path) -> None:
    titles = {"ratings_by_model": "<title>Ratings &amp; models</title>", "what-went_wrong": "<g/>", "evil": ""}
    files = {f"figures/{name}.svg": {"bytes": 1, "sha256": "0"} for name in titles}
    folder = made_version(tmp_path, [{"pair_id": "p"}], files=files)
    (folder / "figures").mkdir()
    for name, title in titles.items():
        (folder / "figures" / f"{name}.svg").write_text(f"<svg>{title}</svg>")
    (folder / "figures" / "evil.svg").write_text(f"<svg><title>{html.escape(SCRIPT)}</title></svg>")
    with client_of(tmp_path) as client:
        page = client.get(f"{BASE}/v1/report").text
    captions = re.findall(r'alt="Plot: ([^"]*)"[^>]*><figcaption>([^<]*)</figcaption>', page)
    assert [[html.unescape(each) for each in of] for of in captions] == [
        [SCRIPT] * 2, ["Ratings & models"] * 2, ["What went wrong"] * 2
    ]  # fmt: skip


def test_a_plot_outside_its_version_is_not_sent(tmp_path: Path) -> None:
    files = {"figures/a.svg": {"bytes": 1, "sha256": "0"}}
    folder = made_version(tmp_path, [{"pair_id": "p"}], files=files)
    (folder / "figures").mkdir()
    (tmp_path / "secret.svg").write_text("<svg/>")
    os.symlink(tmp_path / "secret.svg", folder / "figures" / "a.svg")
    with client_of(tmp_path) as client:
        assert client.get(f"{BASE}/v1/figures/a.svg").status_code == 404


def test_a_build_is_running_while_its_process_holds_the_lock(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    record = {"dataset": "axioms", "started": "2026-11-26T10:00:00+00:00", "outcome": "interrupted"}
    record |= {"host": platform.node(), "process": os.getpid(), "config": {"k": {"a": {"b": {"c": {"d": 1}}}}}}
    (tmp_path / "runs" / "axioms").mkdir(parents=True)
    (tmp_path / "runs" / "axioms" / "20261126T1000-ab.json").write_text(json.dumps(record))
    (tmp_path / "runs" / "axioms" / "20261126T1001-ab.json").write_text("{")
    with client_of(tmp_path) as client:
        with store.lock("axioms"):
            assert "axioms is being built" in text_of(client.get("/").text)
            assert "Made so far" in client.get("/runs/axioms/20261126T1000-ab").text
        assert "is being built" not in text_of(client.get("/").text)
        assert "goes on from the parts" in client.get("/runs/axioms/20261126T1000-ab").text
        assert client.get("/runs").status_code == 200


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("http://127.0.0.1:4200/api", "http://127.0.0.1:4200/runs"),
        ("https://me:secret@prefect.example/api/", "https://prefect.example/runs"),
        ("javascript:alert(1)", None),
        ("", None),
    ],
)
def test_the_link_to_prefect_is_a_web_page_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str, page: str | None
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", url)
    assert prefect_page() == page


def test_an_empty_home_says_how_to_begin(tmp_path: Path) -> None:
    with client_of(tmp_path / "none") as client:
        assert "longform build axioms" in client.get("/").text
        assert client.get("/compare").status_code == client.get("/runs").status_code == 200


def test_while_the_answers_cannot_be_reached_the_rest_is_shown_at_once(
    home: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = example_row_id(find(home, "axioms@v2"))
    with nobody() as nowhere:
        monkeypatch.setenv("LONGFORM_RESPONSES", f"postgresql://me:secret@{nowhere.removeprefix('http://')}/x")
        started = time.monotonic()
        row = client.get(f"{BASE}/v2/row", params={"id": key}).text
        stages = client.get(f"{BASE}/v2/stages").text
        assert time.monotonic() - started < 15
    for page in (row, stages):
        assert "cannot be reached" in page
        assert "secret" not in page
    assert "join_threads" in row
    assert "select_questions" in stages
