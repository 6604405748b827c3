"""The body of a paper as a parser gives it, by sections and paragraphs, and the columns of PAPERS it becomes: one text,
and offsets into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from longform.artifacts.rows import Row
from schemas.sources.papers import PAPERS
from tasks.sources.files.batches import bitmap, text_array
from tasks.text.headings import role_of, roles

BREAK = "\n\n"

Cite = tuple[int, int, str | None]


class UnreadableError(Exception):
    """Raised for a file that cannot be read as a paper. `reason`: a short fixed phrase, by which reports count."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


class Paragraph:
    """Text, and its citations: (start, end, id of the bibliography's entry or None) each, with offsets into the text.
    `length`: of the text, in characters.
    """

    __slots__ = ("citations", "length", "parts")

    def __init__(self, text: str, citations: Iterable[Cite] = ()) -> None:
        self.parts, self.length, self.citations = [text], len(text), list(citations)

    @property
    def text(self) -> str:
        """The whole text, with a space between the pieces that were added."""
        if len(self.parts) > 1:
            self.parts = [" ".join(self.parts)]
        return self.parts[0]

    def append(self, text: str, citations: Iterable[Cite] = ()) -> None:
        """Add text to the end, after a space, with citations whose offsets count from the start of the added text."""
        shift = self.length + 1
        self.parts.append(text)
        self.length = shift + len(text)
        self.citations += [(start + shift, end + shift, ref) for start, end, ref in citations]


@dataclass(slots=True)
class Section:
    """A section: number and head as printed (None if there is none), and paragraphs. `role`: introduction or
    related_work, only set if the head does not say it. `alone`: the role that its head gives does not extend to later
    sections, as to its sub-sections.
    """

    number: str | None
    head: str | None
    paragraphs: list[Paragraph] = field(default_factory=list)
    role: str | None = None
    alone: bool = False


def laid_out(body: Sequence[Section], back: Sequence[Section], outside: Iterable[Paragraph]) -> Row:
    """The columns text, sections and paragraphs of a row of PAPERS; all offsets are into the text.

    The text has the body, the back matter, then `outside`: paragraphs of no section, such as captions and footnotes. A
    section's role (introduction, related_work) is its own `role`, else it comes from the heads. In `body` a head's role
    extends to the section's sub-sections (not if it is `alone`), and if no head says Introduction, another first
    section may count as it (`roles`); in `back` only a section's own head counts.
    """
    text = _Text()
    led = iter(roles([(section.number, section.head) for section in body if not section.alone]))
    found = [role_of(section.head) if section.alone else next(led) for section in body]
    found += [role_of(section.head) for section in back]
    sections = [
        text.section(section, section.role or role, position)
        for position, (section, role) in enumerate(zip([*body, *back], found, strict=True))
    ]
    for paragraph in outside:
        text.paragraph(paragraph, None)
    return {"text": BREAK.join(text.blocks), "sections": sections, "paragraphs": text.paragraphs}


def text_of_role(paper: Row, role: str) -> str:
    """The paragraphs of the sections of a row of PAPERS that have this role, with blank lines between them; "" if
    there is none.
    """
    chosen = {place for place, section in enumerate(paper["sections"]) if section["role"] == role}
    spans = (paper["text"][each["start"] : each["end"]] for each in paper["paragraphs"] if each["section"] in chosen)
    return "\n\n".join(filter(None, map(str.strip, spans)))


class _Text:
    """Lays out the text of a paper: `blocks`, the heads and paragraphs so far, which are joined by BREAK; `end`, the
    offset at which the last block ends; `paragraphs`, the rows of the paragraphs so far.
    """

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.paragraphs: list[Row] = []
        self.end = -len(BREAK)

    def block(self, text: str) -> int:
        """Add a block of text; return the offset at which it starts."""
        start = self.end + len(BREAK)
        self.blocks.append(text)
        self.end = start + len(text)
        return start

    def section(self, section: Section, role: str | None, position: int) -> Row:
        """Add the head and the paragraphs of a section; return the section's row, whose span includes both. `position`:
        its index among all sections.
        """
        start = self.end + len(BREAK)
        if section.head:
            self.block(section.head)
        for paragraph in section.paragraphs:
            self.paragraph(paragraph, position)
        end = max(start, self.end)
        return {"number": section.number, "head": section.head, "role": role, "start": start, "end": end}

    def paragraph(self, paragraph: Paragraph, position: int | None) -> None:
        """Add a paragraph and its row. `position`: the index of its section, None if it is in none."""
        start = self.block(paragraph.text)
        citations = [{"start": start + a, "end": start + b, "ref_id": ref} for a, b, ref in paragraph.citations]
        self.paragraphs.append({"section": position, "start": start, "end": self.end, "citations": citations})


OF_FILES: Row = {"author_ids": [], "note_id": None, "decision": None, "file": None, "file_sha256": None}


def papers_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of PAPERS as a record batch; those of OF_FILES that a row does not have are empty."""
    full = [{**OF_FILES, **row} for row in rows]
    columns = [_array([row[name] for row in full], PAPERS.field(name).type) for name in PAPERS.names]
    return pa.RecordBatch.from_arrays(columns, schema=PAPERS)


def _array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """The values as an Arrow array of this type (structs, lists, strings and integers), as from `pa.array`, which takes
    five times as long for structs in lists. No list and no struct may be null.

    `pa.array` also costs every process the import of pandas, if that is installed: hence the buffers.
    """
    if pa.types.is_struct(type):
        fields = list(type)
        columns = (
            zip(*map(itemgetter(*(field.name for field in fields)), values), strict=True) if values else repeat(())
        )
        inner = [_array(column, field.type) for field, column in zip(fields, columns, strict=False)]
        return pa.StructArray.from_arrays(inner, fields=fields)
    if pa.types.is_list(type):
        items = _array(list(chain.from_iterable(values)), type.value_type)
        offsets = _numbers(accumulate(map(len, values), initial=0), len(values) + 1, pa.int32())
        return pa.ListArray.from_arrays(offsets, items, type=type)
    if pa.types.is_string(type):
        return text_array(values)
    if None not in values:
        return _numbers(values, len(values), type)
    return _numbers((value or 0 for value in values), len(values), type, bitmap(values))


def _numbers(values: Iterable[int], number: int, type: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """The first `number` values as an Arrow array of an integer type. `valid`: Arrow's validity bitmap (None: no value
    is null).
    """
    content = np.fromiter(values, np.dtype(f"i{type.bit_width // 8}"), number)
    return pa.Array.from_buffers(type, number, [valid, pa.py_buffer(content)])
