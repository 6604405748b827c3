"""Processes that no test leaves behind, whatever becomes of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def started(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that is killed and waited for at the end of the block, with its pipes closed."""
    with subprocess.Popen([str(word) for word in command], **options) as process:
        try:
            yield process
        finally:
            process.kill()
