"""The table of what the audits of a version found: audit.parquet."""

import pyarrow as pa

from schemas import column, table

FINDINGS = table(
    "findings",
    column("audit", pa.string(), "name of the audit"),
    column("config", pa.string(), "config of the row, or stage that is concerned", null=True),
    column("split", pa.string(), "split of the row; null for rows that were left out, and for stages", null=True),
    column("key", pa.string(), "key of the row; null where no single row is concerned", null=True),
    column("what", pa.string(), "what was found"),
    key="audit",
)
