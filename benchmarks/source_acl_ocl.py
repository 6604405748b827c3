"""ACL OCL's papers: a folder of JSON files, one a paper, as doc2json made them of GROBID's TEI."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from benchmarks.source_openreview import WORDS

HEADS = ("Introduction", "Related Work", "Model", "Experiments", "Results", "Analysis", "Discussion", "Conclusion")
PARAGRAPHS, ENTRIES, PAPERS_A_VOLUME = 6, 40, 500


def generate(folder: Path, megabytes: float) -> Path:
    """Base_JSON of about `megabytes` MB (10^6 bytes): papers of some 90 kB, indented as the released ones."""
    root, size, number = folder / "Base_JSON" / "prefixW" / "json", 0, 0
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=length)) for length in (8, 70, 130) for _ in range(60)]
    while size < megabytes * 1e6:
        volume = root / f"W{number // PAPERS_A_VOLUME:02}"
        volume.mkdir(parents=True, exist_ok=True)
        number += 1
        name = f"{volume.name}-{1000 + number % PAPERS_A_VOLUME + 1}"
        size += (volume / f"{name}.json").write_bytes(
            orjson.dumps(paper(name, number, chance, texts), option=orjson.OPT_INDENT_2)
        )
    return folder / "Base_JSON"


def paper(name: str, number: int, chance: random.Random, texts: list[str]) -> dict[str, Any]:
    body = [
        paragraph(chance, texts, head, place) for place, head in enumerate(HEADS, start=1) for _ in range(PARAGRAPHS)
    ]
    entries = {f"BIBREF{place}": entry(place, chance, texts) for place in range(ENTRIES)}
    said = {"text": f"{number}: {chance.choice(texts)}", "section": "Abstract", "sec_num": None}
    return {
        "paper_id": name,
        "header": {"generated_with": "S2ORC 1.0.0", "date_generated": "2023-01-01T00:00:00.000000Z"},
        "title": f"On {chance.choice(texts)}",
        "authors": [person() for _ in range(3)],
        "year": "",
        "venue": None,
        "identifiers": {},
        "abstract": said["text"],
        "pdf_parse": {
            "paper_id": name,
            "_pdf_hash": "",
            "abstract": [{**said, "cite_spans": [], "ref_spans": [], "eq_spans": []}],
            "body_text": body,
            "back_matter": [],
            "bib_entries": entries,
            "ref_entries": {},
        },
    }


def paragraph(chance: random.Random, texts: list[str], head: str, place: int) -> dict[str, Any]:
    before, cited = chance.choice(texts), f"(Moss, {chance.randrange(1980, 2024)})"
    start = len(before) + 1
    span = {"start": start, "end": start + len(cited), "text": cited, "ref_id": f"BIBREF{chance.randrange(ENTRIES)}"}
    text = f"{before} {cited} {chance.choice(texts)}."
    return {
        "text": text,
        "cite_spans": [span],
        "ref_spans": [],
        "eq_spans": [],
        "section": head,
        "sec_num": str(place),
    }


def entry(place: int, chance: random.Random, texts: list[str]) -> dict[str, Any]:
    title = chance.choice(texts)
    named = {"authors": [person() for _ in range(3)], "year": chance.randrange(1980, 2024), "venue": "An Invented Day"}
    empty = {"volume": "", "issue": "", "pages": "", "other_ids": {}, "num": None, "urls": [], "links": None}
    return {"ref_id": f"b{place}", "title": title, **named, **empty, "raw_text": f"Moss. {title}."}


def person() -> dict[str, Any]:
    return {"first": "A", "middle": ["B"], "last": "Moss", "suffix": "", "affiliation": {}, "email": ""}


def ours(path: Path, home: Path) -> int:
    """The stage read_acl_papers over the folder; files accounted for."""
    from benchmarks.building import built
    from flows.sources.acl_ocl import Read, read

    return built(home, lambda build: read(build, [path], Read()))


def bare(path: Path) -> int:
    """orjson over the files, and nothing else; how many there were."""
    return sum(1 for file in path.rglob("*.json") if orjson.loads(file.read_bytes()))
