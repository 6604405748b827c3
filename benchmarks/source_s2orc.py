"""S2ORC from the Datasets API: a generated shard of it, and how it is read."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = 20_000
TEMPLATES = 240
HEADS = ("Introduction", "Related Work", "Neural models", "Method", "Data", "Experiments", "Results", "Conclusion")
NULL = (
    "authoraffiliation",
    "figure",
    "figurecaption",
    "figureref",
    "formula",
    "publisher",
    "table",
    "tableref",
    "venue",
)

Span = dict[str, Any]


def generate(folder: Path, megabytes: float) -> Path:
    """shard.jsonl.gz: papers of 60 kB of text with 90 paragraphs, 100 citations and 55 references, as the real ones
    have; a third with characters outside ASCII. Some hundred papers under ever new ids."""
    path, written, number = folder / "shard.jsonl.gz", 0, 0
    draw = random.Random(11)
    words = ["".join(draw.choices("etaoinshrdlucmfwyp", k=draw.randint(2, 11))) for _ in range(WORDS)]
    papers = [json.dumps(_paper(draw, words, wide=n % 3 == 0), ensure_ascii=False) for n in range(TEMPLATES)]
    with gzip.open(path, "wb", compresslevel=6) as file:
        while written < megabytes * 1e6:
            record = f'{{"corpusid": {number + 1}, {papers[number % TEMPLATES][1:]}\n'
            written, number = written + file.write(record.encode()), number + 1
    return path


def _paper(draw: random.Random, words: list[str], *, wide: bool) -> dict[str, Any]:
    spans: dict[str, list[Span]] = {}
    text = _front(draw, words, spans)
    for n, head in enumerate(HEADS, 1):
        text = _put(text, head, spans, "sectionheader", n=str(n)) + "\n\n"
        for _ in range(11):
            start = len(text)
            text = _paragraph(draw, words, text, spans, wide)
            spans.setdefault("paragraph", []).append({"end": len(text), "start": start})
            text += "\n\n"
    text = _references(draw, words, text, spans)
    annotations = {name: json.dumps(found) for name, found in spans.items()} | dict.fromkeys(NULL)
    source = {"pdfurls": None, "pdfsha": "0" * 40, "oainfo": {"license": "CCBY", "openaccessurl": "", "status": "GOLD"}}
    ids = {"arxiv": None, "mag": None, "acl": None, "pubmed": None, "dblp": None, "doi": "10.5555/x"}
    content = {"source": source, "text": text, "annotations": annotations}
    return {"externalids": ids, "content": content, "updated": "2023-02-16T07:15:19Z"}


def _put(text: str, what: str, spans: dict[str, list[Span]], name: str, **attributes: Any) -> str:
    span: Span = {"attributes": attributes} if attributes else {}
    spans.setdefault(name, []).append({**span, "end": len(text) + len(what), "start": len(text)})
    return text + what


def _front(draw: random.Random, words: list[str], spans: dict[str, list[Span]]) -> str:
    text = _put("\n", " ".join(draw.choices(words, k=9)), spans, "title") + "\n"
    for _ in range(5):
        first, last = draw.choices(words, k=2)
        _put(text, f"{first} {last} ", spans, "author")
        text = _put(_put(text, first, spans, "authorfirstname") + " ", last, spans, "authorlastname") + " \n"
    return _put(text, " ".join(draw.choices(words, k=150)), spans, "abstract") + "\n\n"


def _paragraph(draw: random.Random, words: list[str], text: str, spans: dict[str, list[Span]], wide: bool) -> str:
    text += " ".join(draw.choices(words, k=60)) + (" – naïve " if wide else " ")
    if draw.random() < 0.9:
        named = {"ref_id": f"b{draw.randrange(55)}"} if draw.random() < 0.9 else {}
        text = _put(text, "(Roe, 2019)", spans, "bibref", **named) + " "
    return text + " ".join(draw.choices(words, k=30)) + "."


def _references(draw: random.Random, words: list[str], text: str, spans: dict[str, list[Span]]) -> str:
    for n in range(55):
        start = len(text)
        text = _put(text, " ".join(draw.choices(words, k=10)), spans, "bibtitle") + ". "
        for _ in range(3):
            first, last = draw.choices(words, k=2)
            _put(text, f"{first} {last}, ", spans, "bibauthor")
            text = _put(_put(text, first, spans, "bibauthorfirstname") + " ", last, spans, "bibauthorlastname") + ", "
        text = _put(text, " ".join(draw.choices(words, k=4)), spans, "bibvenue") + " ".join(draw.choices(words, k=20))
        matched = {"matched_paper_id": draw.randrange(1, 2_000)} if n % 6 else {}
        spans.setdefault("bibentry", []).append(
            {"attributes": {"id": f"b{n}", **matched}, "end": len(text), "start": start}
        )
        text += "\n\n"
    return text


def ours(path: Path, home: Path) -> int:
    """The stages read_s2orc and newest_papers; the records accounted for."""
    from benchmarks.building import building
    from longform.artifacts.store import Digests
    from tasks.sources.s2orc.s2_releases import merge_metadata, newest_papers, open_release, read_s2_metadata
    from tasks.sources.s2orc.s2orc import read_s2orc

    files = open_release([path], digest=Digests(home))
    with building(home) as build:
        metadata = merge_metadata(build, read_s2_metadata(build, files["metadata"]))
        records = read_s2orc(build, files["papers"])
        papers = newest_papers(build, records, records, metadata)
    return papers.count + sum(sum(stage.artifact.rejected().values()) for stage in build.done)


def bare(path: Path) -> int:
    """The file unpacked and each line parsed as JSON by orjson, and nothing else."""
    return sum(1 for _ in _parsed(path))


def _parsed(path: Path) -> Iterator[Any]:
    import orjson

    with gzip.open(path) as file:
        for line in file:
            yield orjson.loads(line)
