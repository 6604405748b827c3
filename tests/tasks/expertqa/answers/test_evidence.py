"""Corpora and evidence: hostile files, rankings beside BM25 by its definition, a web that fails and returns."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd
from http_server import Answer, Asked, Server, document, serve
from hypothesis import given
from hypothesis import strategies as st
from toy_stages import building

from longform.artifacts.rows import Rows, Source
from longform.engine.build import Build
from longform.engine.jobs import jobs_of, walk
from longform.engine.plan import Plan
from longform.engine.stage import Row, Shard, StageContext, stage
from longform.errors import EndpointError, Incomplete, SourceError, UsageError
from longform.files import sha256_of
from longform.llm.ask.types import Endpoint, Price
from longform.net.web import Manners
from schemas.expertqa import CLAIMS, FACTS, QUESTIONS
from tasks.expertqa.answers.evidence import Search, find_for_claims, find_for_facts, find_for_questions, link_evidence
from tasks.expertqa.corpora import Document, document_of, open_corpora, passages_of, read_corpus, read_pages
from tasks.retrieval.counts import STOP_WORDS
from tasks.sources.web.web import Crawl, WebBackend

CUT = {"tokenizer": "spacy-en", "size": 1000, "overlap": 200}
QUICK = Manners(per_second=None, tries=2, patience_seconds=600.0, timeout_seconds=(600.0, 600.0))
OPEN = Crawl(private_hosts=True, robots=False, manners=QUICK)
SYSTEMS = {"post_hoc_sphere_gpt4": "sphere", "post_hoc_gs_gpt4": "gs"}


@stage(QUESTIONS, revision=1)
def read_asked(context: StageContext, file: Shard) -> Iterator[Row]:
    yield from json.loads(Path(file.source.path).read_text())


@stage(CLAIMS, revision=1)
def read_claimed(context: StageContext, file: Shard) -> Iterator[Row]:
    yield from json.loads(Path(file.source.path).read_text())


@stage(FACTS, revision=1)
def read_facts(context: StageContext, file: Shard) -> Iterator[Row]:
    yield from json.loads(Path(file.source.path).read_text())


def question(name: str, text: str) -> Row:
    row = dict.fromkeys(QUESTIONS.names)
    own = {"question_id": name, "question": text, "field": "Tea", "question_types": [], "source": "own", "position": 0}
    return {**row, **own}


def claim(name: str, system: str, text: str, **more: Any) -> Row:
    row = {
        **dict.fromkeys(CLAIMS.names),
        "claim_id": name,
        "answer_id": "a",
        "question_id": "expertqa/q",
        "position": 0,
    }
    return {**row, "system": system, "text": text, "marks": [], "unmatched": [], "evidence": [], **more}


def fact(name: str, text: str) -> Row:
    row = {**dict.fromkeys(FACTS.names), "fact_id": name, "claim_id": "c", "answer_id": "a", "position": 0}
    return {**row, "question_id": "expertqa/q", "system": "gpt4", "text": text}


def page(name: str, text: str, **more: Any) -> Row:
    return {"url": f"https://tea.example/{name}", "title": f"Of {name}", "text": text, **more}


@dataclass
class Toy:
    """A folder with a home and files of rows."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def jsonl(self, name: str, records: Iterable[Any]) -> Path:
        path = self.folder / name
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        return path

    def rows(self, builder: Build, read: Any, *parts: list[Row]) -> Rows:
        """These rows, part by part."""
        sources = []
        for number, rows in enumerate(parts):
            path = self.folder / f"{read.name}-{number}.json"
            path.write_text(json.dumps(rows))
            sources.append(Source("expertqa", str(path), sha256_of(path), (), ((0, -1),)))
        found: Rows = read(builder, sources)
        return found

    def corpus(self, builder: Build, records: list[Row], read: Any = read_corpus, **cut: Any) -> Rows:
        sources = (
            open_corpora([self.jsonl(f"{read.name}.jsonl", records)], group="corpus", digest=sha256_of)
            if records
            else []
        )
        found: Rows = read(builder, sources, **{**CUT, **cut})
        return found

    def found(self, work: Any, rows: Any, corpus: list[Row], pages: list[Row], **arguments: Any) -> list[Row]:
        """What the stage finds for `rows`, a (reader, parts) pair."""
        named = {"search": Search(), "embedding": None, "web": None, "crawl": None, **arguments}
        named |= {} if work is find_for_claims else {"corpora": named.get("corpora", ["sphere", "gs"])}
        with building(self.home) as run:
            held = self.corpus(run, corpus), self.corpus(run, pages, read_pages)
            return list(work(run, self.rows(run, rows[0], *rows[1]), *held, **named))


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def bag(text: str) -> Counter[str]:
    return Counter(word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS)


def bm25(passages: dict[str, str], query: str) -> list[tuple[str, float]]:
    """By the definition, Lucene's form, k1 1.5, b 0.75; best first, ties by id."""
    bags = {name: bag(text) for name, text in passages.items()}
    mean = sum(map(Counter.total, bags.values())) / len(bags)
    scores: dict[str, float] = {}
    for word, asked in bag(query).items():
        df = sum(word in one for one in bags.values())
        idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for name, one in bags.items():
            if one[word]:
                weight = one[word] / (one[word] + 1.5 * (0.25 + 0.75 * one.total() / mean))
                scores[name] = scores.get(name, 0.0) + asked * idf * weight
    return sorted(scores.items(), key=lambda item: (-round(item[1], 4), item[0]))


def cut_pages(records: list[Row], **cut: Any) -> dict[str, str]:
    """Texts of the windows by id."""
    named = {**CUT, **cut}
    documents = [document_of(record, None) for record in records]
    rows = [row for one in documents if isinstance(one, Document) for row in passages_of(one, **named)]
    return {row["passage_id"]: row["text"] for row in rows}


def ranking(row: Row, corpus: str) -> list[tuple[str, float]]:
    return [(one["passage_id"], one["score"]) for one in row["passages"] if one["corpus"] == corpus]


def approximately(ranked: list[tuple[str, float]]) -> list[tuple[str, Any]]:
    return [(name, pytest.approx(score, abs=2e-4)) for name, score in ranked]


# ---------------------------------------------------------------- corpora

LONG = " ".join(f"leaf{number}" for number in range(2_100))
RECORDS = [
    page("steep", "Leaves are left in hot water.", licence="CC BY 4.0", retrieved_at="2024-05-01", id="7"),
    page("long", f"\n\n {LONG} \n", license="MIT", title=None),
    {"url": "urn:tea:1", "text": "A pot of 茶 is shared."},
]


def write(folder: Path, kind: str) -> Path:
    content = "".join(json.dumps(one) + "\n" for one in RECORDS).encode()
    path = folder / f"corpus.{kind}"
    if kind == "parquet":
        columns = ("url", "title", "text", "id", "licence", "license", "retrieved_at")
        table = {name: [one.get(name) for one in RECORDS] for name in columns}
        moments = [datetime(2024, 5, 1, tzinfo=UTC), None, None]
        pq.write_table(pa.table({**table, "retrieved_at": moments, "vector": [[1.0]] * 3}), path)
    else:
        path.write_bytes({"jsonl": bytes, "jsonl.gz": gzip.compress, "jsonl.zst": zstd.compress}[kind](content))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_a_corpus_is_read_as_windows(toy: Toy, kind: str) -> None:
    with building(toy.home) as run:
        rows = list(read_corpus(run, open_corpora([write(toy.folder, kind)], group="sphere", digest=sha256_of), **CUT))
    short, *long, bare = rows
    assert (short["url"], short["title"], short["licence"]) == ("https://tea.example/steep", "Of steep", "CC BY 4.0")
    assert short["retrieved_at"] == datetime(2024, 5, 1, tzinfo=UTC)
    words = LONG.split()  # the white space before them is a token
    assert [row["text"].split() for row in long] == [words[:999], words[799:1799], words[1599:]]
    assert all(RECORDS[1]["text"][row["start"] :].startswith(row["text"]) for row in long)
    assert [row["passage_id"].split("#")[1] for row in long] == ["0", "1", "2"]
    assert {row["licence"] for row in long} == {"MIT"}
    assert (bare["url"], bare["title"], bare["licence"], bare["retrieved_at"]) == ("urn:tea:1", None, None, None)
    assert len({row["passage_id"] for row in rows}) == 5


def test_a_parquet_corpus_is_the_same(toy: Toy) -> None:
    with building(toy.home) as run:
        plain, packed = (
            list(read_corpus(run, open_corpora([write(toy.folder, kind)], group="sphere", digest=sha256_of), **CUT))
            for kind in ("jsonl", "parquet")
        )
    assert plain == packed


HOSTILE: list[tuple[Any, str]] = [
    ({"url": "https://e.example/1"}, "missing or ill-formed text"),
    ({"text": "tea"}, "missing or ill-formed url"),
    ({"url": "https://e.example/1", "text": " \n"}, "missing or ill-formed text"),
    ({"url": "https://e.example/1", "text": ["tea"]}, "missing or ill-formed text"),
    ({"url": 7, "text": "tea"}, "missing or ill-formed url"),
    ({"url": "x" * 3_000, "text": "tea"}, "missing or ill-formed url"),
    ({"url": "java\u0001script:alert(1)", "text": "tea"}, "missing or ill-formed url"),
    ({"url": " Data :text/html,<b>", "text": "tea"}, "missing or ill-formed url"),
    ({"url": "\u0000", "text": "tea"}, "missing or ill-formed url"),
    ({"url": "https://e.example/1", "text": "tea", "title": {"a": 1}}, "missing or ill-formed title"),
    ({"url": "https://e.example/1", "text": "tea", "licence": 7}, "missing or ill-formed licence"),
    ({"url": "https://e.example/1", "text": "tea", "retrieved_at": "soon"}, "missing or ill-formed retrieved_at"),
    ({"url": "https://e.example/1", "text": "tea", "retrieved_at": 1}, "missing or ill-formed retrieved_at"),
    ([1], "no record"),
    ("tea", "no record"),
    (None, "no record"),
]
LINES = [
    b"{",
    b'{"url": "https://e.example/1", "text": "\\ud800"}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"url":NaN}',
    b"\0" * 9,
]


def test_hostile_records_are_rejected_each_with_its_reason(toy: Toy) -> None:
    good = page("good", "<script>alert(1)</script> {{ tea }} \x00 ../../etc ```")
    path = toy.jsonl("hostile.jsonl", [record for record, _ in HOSTILE])
    with path.open("ab") as file:
        file.write(b"\n".join(LINES) + b"\n\n" + json.dumps(good).encode())
    with building(toy.home) as run:
        corpus = read_corpus(run, open_corpora([path], group="sphere", digest=sha256_of), **CUT)
        assert [row["text"] for row in corpus] == [good["text"]]
        (part,) = corpus.parts or ()
        rejected = pq.read_table(run.store.rejected_path(part)).to_pylist()
    assert [row["reason"] for row in rejected] == [*(why for _, why in HOSTILE), *["unreadable line"] * len(LINES)]
    assert [row["key"].rpartition("/")[2] for row in rejected] == [f"line {n + 1}" for n in range(len(rejected))]
    assert {row["kind"] for row in rejected} == {"defect"}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
       | st.dictionaries(st.sampled_from(["url", "text", "title", "licence", "retrieved_at"]), inner)))  # fmt: skip
def test_any_record_is_a_document_or_none(record: Any) -> None:
    found = document_of(record, None)
    assert isinstance(found, str) or (found.url and found.text.strip())


@pytest.mark.parametrize("damage", ["truncated", "no gzip", "half a parquet", "empty", "odd columns"])
def test_a_broken_file_is_named(toy: Toy, damage: str) -> None:
    path = toy.folder / ("c.jsonl.gz" if damage in ("truncated", "no gzip") else "c.parquet")
    whole = write(toy.folder, "parquet").read_bytes()
    content = {"truncated": gzip.compress(b"x" * 9_999)[:20], "no gzip": b"{}", "half a parquet": whole[:300]}
    path.write_bytes(content.get(damage, b""))
    if damage == "odd columns":
        pq.write_table(pa.table({"a": [1]}), path)
    with building(toy.home) as run, pytest.raises(SourceError, match=path.name):
        list(read_corpus(run, open_corpora([path], group="sphere", digest=sha256_of), **CUT))


def test_a_date_that_none_is_has_a_name(toy: Toy) -> None:
    far = pa.array([2**62], pa.timestamp("ms"))
    pq.write_table(pa.table({"url": ["u"], "text": ["t"], "retrieved_at": far}), toy.folder / "c.parquet")
    with building(toy.home) as run, pytest.raises(SourceError, match=r"c\.parquet"):
        list(read_corpus(run, open_corpora([toy.folder / "c.parquet"], group="sphere", digest=sha256_of), **CUT))


def test_a_repeated_document_is_rejected_and_counted_once(toy: Toy) -> None:
    twice = [page("a", "tea pot"), page("a", "tea pot"), page("a", "tea cup")]
    one, two = toy.jsonl("one.jsonl", twice), toy.jsonl("two.jsonl", [*twice[:1], page("b", "ale")])
    with building(toy.home) as run:
        corpus = read_corpus(run, open_corpora([one, two], group="sphere", digest=sha256_of), **CUT)
        assert [row["text"] for row in corpus] == ["tea pot", "tea cup", "tea pot", "ale"]
        files = [run.store.rejected_path(part) for part in corpus.parts or () if part.rejected_sha256]
        assert [row["reason"] for file in files for row in pq.read_table(file).to_pylist()] == [
            "url and text seen before"
        ]
        questions = toy.rows(run, read_asked, [question("expertqa/q", "tea")])
        given = {"search": Search(), "corpora": ["sphere"], "embedding": None, "web": None, "crawl": None}
        (row,) = find_for_questions(run, questions, corpus, read_pages(run, [], **CUT), **given)
    assert sorted(one["text"] for one in row["passages"]) == ["tea cup", "tea pot"]


@pytest.mark.parametrize(
    ("cut", "said"),
    [({"size": 5, "overlap": 5}, "overlap must be less"), ({"tokenizer": "no-such-one"}, '"no-such-one"')],
)
def test_windows_that_cannot_be_cut_are_refused(toy: Toy, cut: dict[str, Any], said: str) -> None:
    with building(toy.home) as run, pytest.raises(UsageError, match=said):
        toy.corpus(run, RECORDS, **cut)


# ---------------------------------------------------------------- what is at hand

CORPUS = [page(f"c{n}", " ".join(["tea"] * (n % 5) + ["pot"] * (n % 3) + [f"x{n}"] * (n % 7))) for n in range(1, 40)]
PAGES = [page(f"p{n}", " ".join(["tea"] * (n % 4) + ["cup"] * (n % 6) + ["leaf"] * n)) for n in range(1, 30)]
ASKED = [
    [question("expertqa/1", "Is tea poured from a pot?"), question("expertqa/2", "cup x39, cup")],
    [question("expertqa/3", "zebra"), question("expertqa/4", ' "tea AND (pot')],
]


def test_questions_find_what_the_definition_of_bm25_finds(toy: Toy) -> None:
    rows = toy.found(find_for_questions, (read_asked, ASKED), CORPUS, PAGES, search=Search(corpus_k=3, pages_k=4))
    assert [row["question_id"] for row in rows] == [f"expertqa/{n}" for n in (1, 2, 3, 4)]
    for row, asked in zip(rows, [one["question"] for part in ASKED for one in part], strict=True):
        for corpus, records, k in (("sphere", CORPUS, 3), ("gs", PAGES, 4)):
            assert ranking(row, corpus) == approximately(bm25(cut_pages(records), asked)[:k])
    held = cut_pages(CORPUS) | cut_pages(PAGES)
    assert all(one["text"] == held[one["passage_id"]] for row in rows for one in row["passages"])
    assert [one["corpus"] for one in rows[0]["passages"]] == ["sphere"] * 3 + ["gs"] * 4
    assert rows[2]["passages"] == []
    assert rows[0]["passages"][0]["url"].startswith("https://tea.example/c")
    assert rows[0]["passages"][0]["title"].startswith("Of c")


def test_an_index_is_built_once_for_all_parts_and_stages_of_a_build(toy: Toy) -> None:
    parts = [[question(f"expertqa/{number}", f"How is tea steeped in {number} pots?")] for number in range(3)]
    given = {"search": Search(), "corpora": ["sphere", "gs"], "embedding": None, "web": None, "crawl": None}

    def built(builder: Build) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in builder.shared.iterdir() if path.is_dir()}

    with building(toy.home) as run:
        held = toy.corpus(run, CORPUS), toy.corpus(run, PAGES, read_pages)
        assert len(list(find_for_questions(run, toy.rows(run, read_asked, *parts), *held, **given))) == 3
        first = built(run)
        assert len(first) == 2
        facts = toy.rows(run, read_facts, [fact("f", "Tea is steeped.")])
        assert ranking(*find_for_facts(run, facts, *held, **given), "sphere") == approximately(
            bm25(cut_pages(CORPUS), "Tea is steeped.")[:5]
        )
        assert built(run) == first
    assert not run.shared.exists()


def test_a_corpus_may_be_the_web_as_well(toy: Toy) -> None:
    (row,) = toy.found(find_for_questions, (read_asked, [[question("q", "How is tea steeped?")]]), CORPUS, CORPUS)
    assert ranking(row, "sphere") == ranking(row, "gs")[:5]
    assert len(ranking(row, "gs")) == 10


def test_only_the_corpora_that_are_named_are_looked_in(toy: Toy) -> None:
    for corpus, other in (("sphere", "gs"), ("gs", "sphere")):
        rows = toy.found(find_for_questions, (read_asked, ASKED), CORPUS, PAGES, corpora=[corpus])
        assert ranking(rows[0], corpus)
        assert ranking(rows[0], other) == []


def test_a_claim_finds_passages_of_its_systems_own_corpus_only(toy: Toy) -> None:
    claims = [
        claim("1", "gpt4", "Tea is in the pot."),
        claim("2", "post_hoc_sphere_gpt4", "Tea is in the pot [1] [2, 3]."),
        claim("3", "post_hoc_gs_gpt4", "Tea is in the pot [39]."),
        claim("4", "post_hoc_gs_gpt4", "Tea is in the pot.", original="{}"),
        claim("5", "rr_sphere_gpt4", "Tea is in the pot."),
        claim("6", "post_hoc_sphere_gpt4", "[1]"),
    ]
    found = toy.found(find_for_claims, (read_claimed, [claims]), CORPUS, PAGES, systems=SYSTEMS)
    assert [row["claim_id"] for row in found] == list("123456")
    asked = "Tea is in the pot."
    assert ranking(found[1], "sphere") == approximately(bm25(cut_pages(CORPUS), asked)[:5])
    assert ranking(found[2], "gs") == approximately(bm25(cut_pages(PAGES), asked)[:10])
    assert len(found[1]["passages"]) == 5
    assert len(found[2]["passages"]) == 10
    assert [row["passages"] for row in found[:1] + found[3:]] == [[]] * 4


def test_what_was_found_becomes_the_evidence_of_post_hoc_claims(toy: Toy) -> None:
    own = {
        "number": 1,
        "url": "https://e.example/",
        "passage_id": None,
        "text": None,
        "given": "[1] https://e.example/",
    }
    claims = [
        claim("1", "gpt4", "Tea [1].", evidence=[own], marks=[1]),
        claim("2", "post_hoc_sphere_gpt4", "Tea and pot."),
        claim("3", "post_hoc_sphere_gpt4", "Zebra."),
        claim("4", "post_hoc_gs_gpt4", "Tea.", original="{}", evidence=[own]),
    ]
    given = {"search": Search(), "systems": SYSTEMS, "embedding": None, "web": None, "crawl": None}
    with building(toy.home) as run:
        held = toy.corpus(run, CORPUS), toy.corpus(run, PAGES, read_pages)
        before = toy.rows(run, read_claimed, claims[:3], claims[3:])
        found = find_for_claims(run, before, *held, **given)
        after = list(link_evidence(run, before, found))
        passages = {row["claim_id"]: row["passages"] for row in found}
    assert after[0] == claims[0]
    assert after[2] == claims[2]
    assert after[3] == claims[3]
    assert {name: value for name, value in after[1].items() if name != "evidence"} == {
        name: value for name, value in claims[1].items() if name != "evidence"
    }
    assert [list(one.values()) for one in after[1]["evidence"]] == [
        [None, one["url"], one["passage_id"], one["text"], None] for one in passages["2"]
    ]
    assert len(after[1]["evidence"]) == 5


def test_an_atomic_claim_finds_three_passages(toy: Toy) -> None:
    facts = [fact("c.0", "Tea is in a pot."), fact("c.1", "zebra")]
    search = Search(corpus_k=3, pages_k=3)
    found = toy.found(find_for_facts, (read_facts, [facts]), CORPUS, PAGES, corpora=["sphere"], search=search)
    assert [row["fact_id"] for row in found] == ["c.0", "c.1"]
    assert ranking(found[0], "sphere") == approximately(bm25(cut_pages(CORPUS), "Tea is in a pot.")[:3])
    assert found[1]["passages"] == []


@pytest.mark.parametrize("backend", ["bm25", "tantivy"])
def test_ties_go_by_id_and_equal_builds_have_equal_bytes(toy: Toy, backend: str) -> None:
    same = [page(f"s{n}", "tea pot") for n in range(50)]
    bytes_of = []
    for records in (same, same[::-1]):
        with building(toy.folder / f"home{len(bytes_of)}") as run:
            held = toy.corpus(run, records), toy.corpus(run, [], read_pages)
            given = {"search": Search(backend), "corpora": ["sphere"], "embedding": None, "web": None, "crawl": None}
            found = find_for_questions(run, toy.rows(run, read_asked, *ASKED), *held, **given)
            bytes_of.append([part.sha256 for part in found.parts or ()])
            (first, *_) = found
    assert [one["passage_id"] for one in first["passages"]] == sorted(cut_pages(same))[:5]
    assert bytes_of[0] == bytes_of[1]


def test_nothing_to_ask_and_nothing_to_find(toy: Toy) -> None:
    assert toy.found(find_for_questions, (read_asked, [[]]), CORPUS, PAGES) == []
    rows = toy.found(find_for_questions, (read_asked, ASKED), [], [])
    assert [row["passages"] for row in rows] == [[]] * 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"corpora": ["bing"]}, 'no corpus "bing": choose one of sphere, gs'),
        ({"search": Search("best")}, 'no search backend "best"'),
        ({"search": Search("dense")}, '"dense" needs an embedding'),
        ({"search": Search(overlap=1000)}, "overlap must be less"),
        ({"web": WebBackend("searxng", "http://127.0.0.1:9")}, "set crawl"),
    ],
)
def test_a_search_that_cannot_work_is_refused(toy: Toy, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        toy.found(find_for_questions, (read_asked, ASKED), CORPUS, PAGES, **arguments)


# ---------------------------------------------------------------- embeddings


def embedding(asked: Asked) -> Answer:
    """Counts of words as vectors: tea, pot, cup."""
    texts = json.loads(asked.body)["input"]
    vectors = [[float(bag(text)[word]) for word in ("tea", "pot", "cup")] for text in texts]
    rows = [{"index": place, "embedding": vector, "object": "embedding"} for place, vector in enumerate(vectors)]
    return document({"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 9, "total_tokens": 9}})


def cosines(passages: dict[str, str], query: str) -> list[tuple[str, float]]:
    def vector(text: str) -> list[int]:
        return [bag(text)[word] for word in ("tea", "pot", "cup")]

    asked, scores = vector(query), {}
    for name, text in passages.items():
        one = vector(text)
        lengths = math.hypot(*one) * math.hypot(*asked)
        scores[name] = (
            round(sum(map(float.__mul__, map(float, one), map(float, asked))) / lengths, 5) if lengths else 0.0
        )
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def test_embeddings_rank_both_corpora(toy: Toy, server: Server) -> None:
    server.on("/v1/embeddings", embedding)
    endpoint = Endpoint("local", "m", base_url=f"{server.url}/v1")
    rows = toy.found(
        find_for_questions, (read_asked, ASKED[:1]), CORPUS, PAGES, search=Search("dense"), embedding=endpoint
    )
    for corpus, records, k in (("sphere", CORPUS, 5), ("gs", PAGES, 10)):
        assert ranking(rows[0], corpus) == cosines(cut_pages(records), ASKED[0][0]["question"])[:k]


@pytest.mark.parametrize("web", [False, True])
def test_a_plan_counts_the_texts_to_embed(toy: Toy, web: bool) -> None:
    """Those of pages that are not fetched yet are not known; all others are."""
    endpoint = Endpoint("local", "m", base_url="http://127.0.0.1:9/v1", price=Price(1.0, 1.0))
    told: list[str] = []
    with building(toy.home) as run:
        held = toy.corpus(run, CORPUS), toy.corpus(run, PAGES, read_pages)
        inputs = {"questions": toy.rows(run, read_asked, ASKED[0]), "corpus": held[0], "pages": held[1]}
    backend = WebBackend("searxng", "http://127.0.0.1:9", manners=QUICK) if web else None
    given = {"search": Search("hybrid"), "corpora": ["sphere", "gs"], "embedding": endpoint}
    given |= {"web": backend, "crawl": OPEN}
    call = find_for_questions.called(run.store, inputs, given)
    (job,) = jobs_of(run.store, call)
    walk(run.store, find_for_questions, job, lambda *_: None, lambda endpoint, texts: told.extend(texts))
    corpora = [*cut_pages(CORPUS).values(), *([] if web else cut_pages(PAGES).values())]
    assert sorted(told) == sorted([one["question"] for one in ASKED[0]] + corpora)
    assert call.endpoints == [endpoint]
    assert call.asks_web
    plan = Plan(run.store, responses=toy.folder / "responses")
    find_for_questions(plan, *inputs.values(), **given)
    plan.close()
    assert (plan.stages[0].calls, plan.stages[0].exact) == (1 if web else 2, True)  # 64 texts a call


def test_where_the_web_and_the_embedding_are_is_no_identity() -> None:
    def identity(search: Search, url: str, **more: Any) -> str:
        web = WebBackend("searxng", f"http://{url}", manners=replace(QUICK, at_once=7) if url == "b" else QUICK)
        endpoint = Endpoint("local", "m", base_url=f"http://{url}/v1")
        given = {"search": search, "corpora": ["gs"], "embedding": endpoint, "web": web, "crawl": OPEN, **more}
        return find_for_questions.recipe({}, given).fingerprint

    assert identity(Search(), "a") == identity(Search(), "b")
    changed = [Search("hybrid"), Search(corpus_k=4), Search(pages_k=9), Search(results=9), Search(size=900)]
    changed += [Search(overlap=100), Search(tokenizer="cl100k_base")]
    assert len({identity(search, "a") for search in [Search(), *changed]}) == 8


# ---------------------------------------------------------------- the web

SENTENCE = "Water is heated until it boils, and then it is poured over the leaves of {0}, which stay in it. "


def html(word: str, sentences: int = 5) -> Answer:
    text = SENTENCE.format(word) * sentences
    return Answer(
        body=f"<html><head><title>Of {word}</title></head><body><article><p>{text}</p>".encode(),
        headers={"Content-Type": "text/html; charset=utf-8"},
    )


@dataclass
class Net(Toy):
    """A search engine that finds, for each word of a query, the pages of that word."""

    server: Server
    pages: dict[str, list[str]]

    def __post_init__(self) -> None:
        self.server.on("/search", self.answer)

    def answer(self, asked: Asked) -> Answer:
        words = asked.query["q"].lower().rstrip("?.").split()
        paths = [path for word in words for path in self.pages.get(word, [])] if asked.query["pageno"] == "1" else []
        found = [{"url": f"{self.server.url}{path}", "title": f"T {path}", "content": "c"} for path in paths]
        return document({"results": found, "unresponsive_engines": []})

    def search(self, *asked: str, url: str | None = None, force: bool = False, **cut: Any) -> list[list[Row]]:
        """Passages of each query."""
        search = Search(**{"size": 40, "overlap": 10, **cut})
        web = WebBackend("searxng", url or self.server.url, manners=QUICK)
        rows = [question(f"expertqa/{number}", text) for number, text in enumerate(asked)]
        given = {"search": search, "corpora": ["gs"], "embedding": None, "web": web, "crawl": OPEN}
        with building(self.home, force="find_for_questions" if force else None) as run:
            held = self.corpus(run, CORPUS), self.corpus(run, [], read_pages)
            found = find_for_questions(run, self.rows(run, read_asked, rows), *held, **given)
            self.bytes = [part.sha256 for part in found.parts or ()]
            return [row["passages"] for row in found]

    def asked_for(self) -> list[str]:
        return [asked.query.get("q", asked.path) for asked in self.server.asked]


@pytest.fixture
def net(tmp_path: Path, server: Server) -> Net:
    for word in ("tea", "ale", "mead"):
        server.on(f"/{word}", html(word))
    server.on("/teapot", html("teapot", 9))
    return Net(
        tmp_path, server, {"tea": ["/tea", "/teapot", "/gone"], "ale": ["/ale"], "all": ["/ale", "/mead", "/tea"]}
    )


def windows_of(net: Net, words: dict[str, int]) -> dict[str, str]:
    """Texts by id of the windows that the pages of these words have."""
    records = [
        {"url": f"{net.server.url}/{word}", "text": (SENTENCE.format(word) * times).strip()}
        for word, times in words.items()
    ]
    return cut_pages(records, size=40, overlap=10)


def test_the_web_gives_the_best_windows_of_the_pages_of_each_query(net: Net) -> None:
    tea, nothing, all_of_them = net.search("tea poured teapot", "zebra", "all of tea mead", pages_k=4)
    assert nothing == []
    own = windows_of(net, {"tea": 5, "teapot": 9})
    assert ranking({"passages": tea}, "gs") == approximately(bm25(own, "tea poured teapot")[:4])
    own = windows_of(net, {"ale": 5, "mead": 5, "tea": 5, "teapot": 9})
    assert ranking({"passages": all_of_them}, "gs") == approximately(bm25(own, "all of tea mead")[:4])
    assert {one["title"] for one in tea} <= {"Of tea", "Of teapot"}
    assert all(one["text"] == own[one["passage_id"]] for one in tea)
    assert net.asked_for().count("/tea") == 1


def test_at_most_so_many_results_are_read(net: Net) -> None:
    net.pages["tea"] = [f"/{n}" for n in range(30)]
    net.server.on("*", html("tea"))
    net.search("tea")
    assert {path for path in net.asked_for() if path.startswith("/")} == {f"/{n}" for n in range(10)}


def test_what_was_asked_is_replayed_to_equal_bytes(net: Net) -> None:
    first = net.search("tea", "ale")
    made, asked = net.bytes, len(net.server.asked)
    assert net.search("tea", "ale", url="http://127.0.0.1:9", force=True) == first
    assert net.bytes == made
    assert len(net.server.asked) == asked


@pytest.mark.parametrize("down", ["search", "page"])
def test_a_server_that_is_down_leaves_the_part_open_and_only_it_is_asked_again(net: Net, down: str) -> None:
    def broken(asked: Asked) -> Answer:
        return Answer(503) if down == "page" or asked.query["q"] == "ale" else net.answer(asked)

    net.server.on("/ale" if down == "page" else "/search", broken)
    with pytest.raises(Incomplete, match="1 web calls got no answer"):
        net.search("tea", "ale")
    net.server.on("/ale", html("ale"))
    net.server.on("/search", net.answer)
    net.server.asked.clear()
    tea, ale = net.search("tea", "ale")
    assert tea
    assert ale
    pages = {"/ale": 1} if down == "page" else {"ale": 2, "/tea": 1, "/teapot": 1, "/gone": 1, "/ale": 1}
    assert Counter(net.asked_for()) == pages


def test_a_server_that_refuses_is_named(net: Net) -> None:
    net.server.on("/search", Answer(403))
    with pytest.raises(EndpointError, match="searxng refused"):
        net.search("tea")


def test_pages_that_are_none_give_no_passage(net: Net) -> None:
    net.pages["tea"] = ["/gone", "/image", "/empty", "/tags", "/loop"]
    net.server.on("/image", Answer(body=b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}))
    net.server.on("/empty", Answer(headers={"Content-Type": "text/html"}))
    net.server.on("/tags", Answer(body=b"<i>" * 150_000, headers={"Content-Type": "text/html"}))
    net.server.on("/loop", Answer(302, headers={"Location": "/loop"}))
    assert net.search("tea") == [[]]


def test_a_claims_marks_are_not_sent_and_embeddings_rank_the_web(net: Net) -> None:
    net.server.on("/v1/embeddings", embedding)
    endpoint = Endpoint("local", "m", base_url=f"{net.server.url}/v1")
    web = WebBackend("searxng", net.server.url, manners=QUICK)
    given = {"search": Search("dense", size=40, overlap=10), "embedding": endpoint, "web": web, "crawl": OPEN}
    claims = [claim("1", "post_hoc_gs_gpt4", "tea [1]."), claim("2", "gpt4", "ale [2].")]
    rows = net.found(find_for_claims, (read_claimed, [claims]), CORPUS, [], systems=SYSTEMS, **given)
    assert any(asked.startswith("tea") for asked in net.asked_for())
    assert not any("ale" in asked or "[" in asked for asked in net.asked_for())
    assert ranking(rows[0], "gs") == cosines(windows_of(net, {"tea": 5, "teapot": 9}), "tea")[:10]
    assert rows[1]["passages"] == []
