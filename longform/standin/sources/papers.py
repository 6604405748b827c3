"""Papers as short Markdown texts, of which the stand-in makes PDFs and TEI.

    # Stirring Clockwise
    Yara Zell, Otto Dorn

    ## Abstract
    It makes no difference [1].

    ## 2 Related Work
    ### 2.1 Spoons
    Spoons were measured before [1, 2].

    ## References
    - Ana Bell and Otto Dorn. Pouring without Dripping. Kettle Workshop, 2018.

A line of text is a paragraph. References are numbered in their order, from 1; citations are numbers in brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

CITATION = re.compile(r"\[(\d{1,3}(?:, ?\d{1,3})*)\]")
_HEAD = re.compile(r"#{2,}\s+(?:(\d+(?:\.\d+)*)\.?\s+)?(.+)")
_REFERENCE = re.compile(r"(?P<authors>.+?)\. (?P<title>.+?)[.?] (?P<venue>.+?), (?P<year>\d{4})\.?")


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its printed number ("" if it has none), head, and paragraphs; sub-sections are sections too."""

    number: str
    head: str
    paragraphs: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reference:
    """An entry of the bibliography: `raw` as printed; its parts are empty where they cannot be told apart."""

    raw: str
    authors: tuple[str, ...] = ()
    title: str = ""
    venue: str = ""
    year: str = ""


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: title, full names of its authors, paragraphs of its abstract, sections, references."""

    title: str
    authors: tuple[str, ...]
    abstract: list[str]
    sections: list[Section]
    references: list[Reference]


def read_paper(text: str) -> Paper:
    """The paper that a text in the form above holds."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    title = lines[0].lstrip("# ")
    first = next((place for place, line in enumerate(lines[1:], 1) if line.startswith("##")), len(lines))
    sections = _sections(lines[first:])
    back = [section for section in sections if section.head.casefold() in ("references", "bibliography")]
    return Paper(
        title=title,
        authors=tuple(name.strip() for line in lines[1:first] for name in line.split(",") if name.strip()),
        abstract=[text for section in sections if section.head.casefold() == "abstract" for text in section.paragraphs],
        sections=[section for section in sections if section not in back and section.head.casefold() != "abstract"],
        references=[read_reference(line.lstrip("- ")) for section in back for line in section.paragraphs],
    )


def _sections(lines: list[str]) -> list[Section]:
    """The sections of these lines, each with the paragraphs below its head."""
    found: list[Section] = []
    for line in lines:
        if head := _HEAD.fullmatch(line):
            found.append(Section(head[1] or "", head[2]))
        elif found:
            found[-1].paragraphs.append(line)
    return found


def read_reference(raw: str) -> Reference:
    """The entry of a bibliography that is printed as "A. Author and B. Author. Title. Venue, 2018."."""
    found = _REFERENCE.fullmatch(raw)
    if not found:
        return Reference(raw)
    authors = tuple(name.strip() for name in re.split(r", and |, | and ", found["authors"]) if name.strip())
    return Reference(raw, authors, found["title"], found["venue"], found["year"])
