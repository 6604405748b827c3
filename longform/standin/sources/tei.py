"""TEI of a paper, in the form in which GROBID writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from longform.standin.sources.papers import CITATION, Paper, Reference, Section

_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")  # in XML 1.0, Char (2.2)

_DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xml:space="preserve" xmlns="http://www.tei-c.org/ns/1.0" xmlns:xlink="http://www.w3.org/1999/xlink">
\t<teiHeader xml:lang="en">
\t\t<fileDesc>
\t\t\t<titleStmt><title level="a" type="main">{title}</title></titleStmt>
\t\t\t<publicationStmt><publisher/><availability status="unknown"><licence/></availability></publicationStmt>
\t\t\t<sourceDesc><biblStruct><analytic>{authors}<title level="a" type="main">{title}</title></analytic>
\t\t\t\t<monogr><imprint><date/></imprint></monogr><idno type="MD5">{md5}</idno></biblStruct></sourceDesc>
\t\t</fileDesc>
\t\t<encodingDesc><appInfo><application version="{version}" ident="GROBID"/></appInfo></encodingDesc>
\t\t<profileDesc><abstract><div xmlns="http://www.tei-c.org/ns/1.0">{abstract}</div></abstract></profileDesc>
\t</teiHeader>
\t<text xml:lang="en">
\t\t<body>
{body}
\t\t</body>
\t\t<back><div type="references"><listBibl>
{references}
\t\t</listBibl></div></back>
\t</text>
</TEI>
"""


def tei_of(paper: Paper, md5: str, version: str) -> bytes:
    """The TEI document of a paper, without the characters that XML 1.0 forbids: texts of PDFs hold such. `md5`: of its
    PDF; `version`: of the GROBID that is said to have written it.
    """
    known = len(paper.references)
    document = _DOCUMENT.format(
        title=escape(paper.title),
        authors="".join(f"<author>{_person(name)}</author>" for name in paper.authors),
        md5=md5.upper(),
        version=escape(version),
        abstract=_paragraphs(paper.abstract, known),
        body="\n".join(_division(section, known) for section in paper.sections),
        references="\n".join(_entry(number, reference) for number, reference in enumerate(paper.references)),
    )
    return _FORBIDDEN.sub("", document).encode()


def _person(name: str) -> str:
    """A person's name as GROBID marks it up: first names, and the last word as surname."""
    *first, last = name.split()
    forenames = [
        f'<forename type="{"middle" if place else "first"}">{escape(word)}</forename>'
        for place, word in enumerate(first)
    ]
    return f"<persName>{''.join(forenames)}<surname>{escape(last)}</surname></persName>"


def _division(section: Section, known: int) -> str:
    """The flat division of a section. `known`: how many references there are."""
    number = f' n="{section.number}"' if section.number else ""
    head = f"<head{number}>{escape(section.head)}</head>" if section.head else ""
    return f'<div xmlns="http://www.tei-c.org/ns/1.0">{head}{_paragraphs(section.paragraphs, known)}</div>'


def _paragraphs(texts: Iterable[str], known: int) -> str:
    """Paragraphs, with their citations marked."""
    return "".join(f"<p>{_marked(text, known)}</p>" for text in texts)


def _marked(text: str, known: int) -> str:
    """The text with a `ref` around each cited number, brackets inside as GROBID has it: [1, 2] becomes "[1," and "2]".
    A number without an entry has no target.
    """
    parts, end = [], 0
    for found in CITATION.finditer(text):
        numbers = [int(number) for number in found[1].split(",")]
        last = len(numbers) - 1
        refs = [_ref(number, known, place == 0, place == last) for place, number in enumerate(numbers)]
        parts += [escape(text[end : found.start()], quote=False), " ".join(refs)]
        end = found.end()
    return "".join([*parts, escape(text[end:], quote=False)])


def _ref(number: int, known: int, first: bool, last: bool) -> str:
    """One cited number as a `ref`, the first of its brackets with "[", the last with "]", others with a comma."""
    target = f' target="#b{number - 1}"' if 0 < number <= known else ""
    return f'<ref type="bibr"{target}>{"[" if first else ""}{number}{"]" if last else ","}</ref>'


def _entry(number: int, reference: Reference) -> str:
    """An entry of the bibliography; `number` counts from 0."""
    people = "".join(f"<author>{_person(name)}</author>" for name in reference.authors)
    title = f'<title level="a" type="main">{escape(reference.title)}</title>' if reference.title else "<title/>"
    when = f'<date type="published" when="{reference.year}"/>' if reference.year else "<date/>"
    venue = f'<title level="m">{escape(reference.venue)}</title>' if reference.venue else "<title/>"
    return (
        f'<biblStruct xml:id="b{number}"><analytic>{title}{people}</analytic>'
        f"<monogr>{venue}<imprint>{when}</imprint></monogr>"
        f'<note type="raw_reference">[{number + 1}] {escape(reference.raw)}</note></biblStruct>'
    )
