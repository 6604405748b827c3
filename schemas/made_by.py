"""The columns that say which model, prompt and response a row was made from; null in rows that no model wrote."""

import pyarrow as pa

from schemas import column

MADE_BY = (
    column("response", pa.string(), "key of the model's response; null where no model of ours wrote it", null=True),
    column("prompt", pa.string(), "name of the prompt file", null=True),
    column("prompt_hash", pa.string(), "hash of the prompt file", null=True),
    column("endpoint", pa.string(), "name of the endpoint", null=True),
    column("model", pa.string(), "model that answered, as it named itself", null=True),
)
