"""Table schemas of the records in Semantic Scholar's files before merging: one row a record, of all releases."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.papers import METADATA, PAPERS
from schemas.sources.stackexchange import MOMENT

_VERSION = (
    column("release", pa.string(), "release of the file, e.g. 2025-01-07; empty where unknown"),
    column("change", pa.string(), "base; or, for a difference between releases, update or delete"),
    column("updated", MOMENT, "when the record was last changed, as it says", null=True),
)

RECORDS = table("records", *PAPERS, *_VERSION, key="paper_id", level=0)

METADATA_RECORDS = table(
    "metadata_records",
    *METADATA,
    *_VERSION,
    column("dataset", pa.string(), "papers or abstracts (Datasets API), metadata (release of 2020)"),
    column("paper_hash", pa.uint64(), "xxh3 of paper_id: the order of parts and rows from here on"),
    key="paper_id",
)

CITATIONS = table(
    "citations",
    column("citation_id", pa.string(), "<group>/<citing>-<cited>; with a question mark for an unknown cited paper"),
    column("paper_id", pa.string(), "the citing paper: s2/<corpus id>"),
    column("cited_id", pa.string(), "the cited paper: s2/<corpus id>", null=True),
    column("contexts", pa.int32(), "number of sentences that cite it, as Semantic Scholar counts"),
    column("influential", pa.bool_(), "whether Semantic Scholar calls the citation influential", null=True),
    key="citation_id",
)
