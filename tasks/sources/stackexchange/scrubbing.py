"""Stages that scrub a source's texts (tasks/text/scrub.py) before anything is made of them, prompts included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.engine.stage import Rows, StageContext, stage
from schemas.sources.stackexchange import POSTS
from tasks.text.scrub import SUSPECT, Scrubbed, scrub


@stage(POSTS, revision=1)
def scrub_posts(context: StageContext, posts: Rows, *, regions: list[str]) -> Iterator[pa.RecordBatch]:
    """Title and text of every post; `scrubbed` says how many marks were put into them.

    `regions`: countries whose national telephone numbers are known, as ISO 3166 codes.
    """
    for batch in posts.batches():
        yield scrubbed(context, batch.cast(POSTS), ["title", "text"], regions)


def scrubbed(context: StageContext, batch: pa.RecordBatch, columns: list[str], regions: list[str]) -> pa.RecordBatch:
    """The batch with these columns scrubbed, and their marks added to its column `scrubbed`."""
    marks = np.zeros(len(batch), np.int32)
    for name in columns:
        done = scrubbed_texts(batch.column(name), regions)
        if done:
            _count(context, list(done.values()))
            marks[list(done)] += [found.marks for found in done.values()]
            texts = [
                done[place].text if place in done else text for place, text in enumerate(batch.column(name).to_pylist())
            ]
            batch = _with(batch, name, pa.array(texts, batch.schema.field(name).type))
    if not marks.any():
        return batch
    return _with(batch, "scrubbed", pa.array(batch.column("scrubbed").to_numpy() + marks, pa.int32()))


def scrubbed_texts(texts: pa.Array, regions: list[str]) -> dict[int, Scrubbed]:
    """Place -> what it becomes, of the texts that change; the others are only looked through, by Arrow."""
    suspect = pc.fill_null(pc.match_substring_regex(texts, SUSPECT, ignore_case=True), False)
    places = np.flatnonzero(suspect.to_numpy(zero_copy_only=False))
    found = (
        (int(place), scrub(text, regions)) for place, text in zip(places, texts.take(places).to_pylist(), strict=True)
    )
    return {place: each for place, each in found if each.marks}


def _with(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    columns = [values if field.name == name else batch.column(field.name) for field in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _count(context: StageContext, found: list[Scrubbed]) -> None:
    for name in ("mails", "phones", "handles"):
        context.count(f"{name} scrubbed", sum(getattr(each, name) for each in found))
