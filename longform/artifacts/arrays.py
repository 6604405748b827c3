"""Arrow arrays of texts, built without `pa.array`, which imports pandas (a third of a second for each process)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def text_array(values: Sequence[str | None]) -> pa.Array:
    """A string array of the values, None as null. OverflowError from 2 GB on, UnicodeEncodeError for a lone
    surrogate.
    """
    valid = None
    if None in values:
        if values.count(None) == len(values):
            return pa.nulls(len(values), pa.string())
        valid = bitmap(values)
        values = [value or "" for value in values]
    texts: Sequence[Any] = values
    if not all(map(str.isascii, texts)):
        texts = [text.encode() for text in texts]
    content = b"".join(texts) if texts and isinstance(texts[0], bytes) else "".join(texts).encode()
    if len(content) >= 2**31:
        raise OverflowError("a batch of 2 GB and more: make it smaller")
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(content), valid)


def bitmap(values: Sequence[Any]) -> pa.Buffer:
    """Arrow's validity bitmap of the values: a set bit for every value that is not None."""
    return pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
