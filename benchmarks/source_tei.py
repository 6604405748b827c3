"""TEI documents in a .zip: what the benchmark of all sources generates, reads with our stage, and reads bare."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

WORDS = (
    *("wind", "kite", "paper", "string", "tail", "loop", "sail", "field", "rise", "fall", "angle", "weight", "model"),
    *("result", "method", "sample", "measure", "graph", "node", "the", "of", "and", "in", "to", "a", "for", "with"),
    *("on", "that", "by", "as", "is", "are", "was", "we", "this", "from", "at", "which", "it", "or", "have", "not"),
)
DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xml:space="preserve" xmlns="http://www.tei-c.org/ns/1.0"
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xmlns:xlink="http://www.w3.org/1999/xlink">
\t<teiHeader xml:lang="en">
\t\t<fileDesc>
\t\t\t<titleStmt>
\t\t\t\t<title level="a" type="main">{title}</title>
\t\t\t</titleStmt>
\t\t\t<publicationStmt>
\t\t\t\t<publisher/>
\t\t\t\t<availability status="unknown"><licence/></availability>
\t\t\t</publicationStmt>
\t\t\t<sourceDesc>
\t\t\t\t<biblStruct>
\t\t\t\t\t<analytic>
{authors}
\t\t\t\t\t</analytic>
\t\t\t\t\t<monogr>
\t\t\t\t\t\t<imprint>
\t\t\t\t\t\t\t<date/>
\t\t\t\t\t\t</imprint>
\t\t\t\t\t</monogr>
\t\t\t\t\t<idno type="MD5">{number:032X}</idno>
\t\t\t\t</biblStruct>
\t\t\t</sourceDesc>
\t\t</fileDesc>
\t\t<encodingDesc>
\t\t\t<appInfo>
\t\t\t\t<application version="0.8.2" ident="GROBID" when="2026-01-04T19:23+0000">
\t\t\t\t\t<ref target="https://github.com/kermitt2/grobid"/>
\t\t\t\t</application>
\t\t\t</appInfo>
\t\t</encodingDesc>
\t\t<profileDesc>
\t\t\t<abstract>
<div xmlns="http://www.tei-c.org/ns/1.0"><p>{abstract}</p></div>
\t\t\t</abstract>
\t\t</profileDesc>
\t</teiHeader>
\t<text xml:lang="en">
\t\t<body>
{body}
\t\t</body>
\t\t<back>
\t\t\t<div type="references">

\t\t\t\t<listBibl>
{references}
\t\t\t\t</listBibl>
\t\t\t</div>
\t\t</back>
\t</text>
</TEI>
"""
REFERENCE = """
<biblStruct xml:id="b{number}">
\t<analytic>
\t\t<title level="a" type="main">{title}</title>
\t\t{authors}
\t</analytic>
\t<monogr>
\t\t<title level="m">{venue}</title>
\t\t<imprint>
\t\t\t<date type="published" when="{year}">{year}</date>
\t\t\t<biblScope unit="volume">{number}</biblScope>
\t\t</imprint>
\t</monogr>
\t<note type="raw_reference">{raw}</note>
</biblStruct>
"""
HEADS = ("Introduction", "Related Work", "Model", "Experiments", "Results", "Analysis", "Discussion", "Conclusion")
REFERENCES, AUTHORS, PARAGRAPHS = 55, 4, 6
VARIANTS = 40


def generate(folder: Path, megabytes: float) -> Path:
    """A .zip of made-up documents of about 110 kB, `megabytes` before packing; with as many elements as real ones."""
    path = folder / f"tei-{megabytes:g}.zip"
    draw, written, number = random.Random(1), 0, 0
    pieces = _pieces(draw)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        while written < megabytes * 1_000_000:
            content = _document(draw, pieces, number).encode()
            archive.writestr(f"papers/{number:07}.tei.xml", content)
            written, number = written + len(content), number + 1
    return path


def ours(path: Path, home: Path) -> int:
    """The stage read_tei in a home of its own; the documents accounted for."""
    from benchmarks.building import accounted, building
    from longform.artifacts.store import Digests
    from tasks.sources.files.bundles import open_bundles
    from tasks.sources.papers.tei import ENDINGS, FILES_PER_BUNDLE, GROUP, read_tei

    digest = Digests(home)
    sources = open_bundles([path], group=GROUP, endings=ENDINGS, digest=digest, mean=FILES_PER_BUNDLE)
    with building(home) as build:
        read_tei(build, sources)
    return accounted(build)


def bare(path: Path) -> int:
    """Unpack and parse every document with lxml, nothing else; how many there were."""
    from lxml import etree

    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            etree.fromstring(archive.read(info))
        return len(archive.infolist())


def _pieces(draw: random.Random) -> dict[str, list[str]]:
    """Parts of documents, made once and put together anew for each."""
    return {
        "body": [_section(draw, n, head) for _ in range(VARIANTS) for n, head in enumerate(HEADS, start=1)],
        "references": [_reference(draw, n) for _ in range(VARIANTS) for n in range(REFERENCES)],
        "abstracts": [_text(draw, 150) for _ in range(VARIANTS)],
    }


def _document(draw: random.Random, pieces: dict[str, list[str]], number: int) -> str:
    body = [pieces["body"][len(HEADS) * draw.randrange(VARIANTS) + n] for n in range(len(HEADS))]
    references = [pieces["references"][REFERENCES * draw.randrange(VARIANTS) + n] for n in range(REFERENCES)]
    return DOCUMENT.format(
        title=_text(draw, 8),
        authors=_authors(draw, AUTHORS),
        number=number,
        abstract=draw.choice(pieces["abstracts"]),
        body="\n".join(body),
        references="".join(references),
    )


def _section(draw: random.Random, number: int, head: str) -> str:
    paragraphs = "".join(f"<p>{_cited(draw)}</p>" for _ in range(PARAGRAPHS))
    return f'<div xmlns="http://www.tei-c.org/ns/1.0"><head n="{number}">{head}</head>{paragraphs}</div>'


def _cited(draw: random.Random) -> str:
    entry, year = draw.randrange(REFERENCES), draw.randrange(1980, 2024)
    cited = f'<ref type="bibr" target="#b{entry}">(Moss et al., {year})</ref>'
    return f'{_text(draw, 60)} {cited}. {_text(draw, 60)} <ref type="bibr">(Vale, {year})</ref>, {_text(draw, 30)}.'


def _reference(draw: random.Random, number: int) -> str:
    title, venue, year = _text(draw, 9), _text(draw, 5), draw.randrange(1980, 2024)
    return REFERENCE.format(
        number=number,
        title=title,
        venue=venue,
        year=year,
        authors=_authors(draw, AUTHORS),
        raw=f"Moss. {title}. {venue}.",
    )


def _authors(draw: random.Random, number: int) -> str:
    return "\n\t\t".join(
        '<author>\n\t\t\t<persName xmlns="http://www.tei-c.org/ns/1.0">'
        f'<forename type="first">{draw.choice(WORDS).title()}</forename>'
        f"<surname>{draw.choice(WORDS).title()}</surname></persName>\n\t\t</author>"
        for _ in range(number)
    )


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words)).capitalize()
