"""A child process that answers requests, a line of JSON each: one that crashes or hangs it costs that request only."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

BLOCK_BYTES = 1 << 20


class WorkerProcess:
    """Runs `command` and sends requests to it, each a line of JSON to which it answers with a line of JSON. The process
    starts with the first request (`ask`). It is killed when its answer is late or too long, or its output ends, and by
    `close`; the next request then starts another.

    An answer has at most `max_bytes` bytes. The terminal's Ctrl-C does not reach the process, as its end would look
    like a failure.
    """

    def __init__(self, command: Sequence[str], *, max_bytes: int) -> None:
        self._command, self._max_bytes = list(command), max_bytes
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Any, seconds: float) -> Any:
        """Send the request, wait for the answer, and return it; both are JSON values. TimeoutError if there is none
        after `seconds`, EOFError if the process ends or its answer is too long; in both cases the process is killed.
        ValueError if the answer is no JSON; the process then runs on.
        """
        pipe = subprocess.PIPE
        process = self._process = self._process or subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
        )
        assert process.stdin
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            return json.loads(self._line(process, time.monotonic() + seconds))
        except (TimeoutError, EOFError):
            self.close()
            raise

    def _line(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        """The process's next line of output, with its line feed. TimeoutError if it is not complete at `until` (a time
        of time.monotonic); EOFError if the output ends before, or it has more than `max_bytes` bytes.
        """
        assert process.stdout
        line = bytearray()
        while not line.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError
            block = process.stdout.read1(BLOCK_BYTES)  # type: ignore[attr-defined]
            line += block
            if not block or len(line) > self._max_bytes:
                raise EOFError
        return bytes(line)

    def close(self) -> None:
        """Kill the process, if one runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()
