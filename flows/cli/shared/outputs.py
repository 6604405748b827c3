"""Standard output and error made safe to print to: with an encoding that lacks characters, closed, without a reader, on
a lost terminal, on a full disk.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

DESCRIPTORS = (1, 2)
EXIT_CODES = {errno.EPIPE: 141, errno.EIO: 129}  # as shells name the ends by SIGPIPE and SIGHUP


@contextmanager
def outputs() -> Iterator[None]:
    """A context in which any text can be printed: characters that the encoding lacks are escaped as in JSON, and an
    output that was closed before takes everything and drops it. sys.stdout and sys.stderr stay changed afterwards.

    If the reader of an output goes away, the context ends with SystemExit and a code of EXIT_CODES; if a disk is full,
    with one sentence on stderr and code 1. Other errors pass through.
    """
    codecs.register_error("as-json", _as_json)
    sys.stdout, sys.stderr = _ready(sys.stdout), _ready(sys.stderr)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    except BaseException as error:
        lost = [descriptor for descriptor in DESCRIPTORS if _is_gone(descriptor)]
        for descriptor in lost:
            _mute(descriptor)
        if lost and (code := _code(error)):
            raise SystemExit(code) from None
        if isinstance(error, OSError) and _is_full(error):
            _mute(1)
            message = (
                "A disk is full, of the output or of what is written: free some space and run the same command again."
            )
            print(message, file=sys.stderr)
            raise SystemExit(1) from None
        raise


def _is_full(error: OSError) -> bool:
    """Whether an error says that a disk is full."""
    from longform.files import full  # only where something failed

    return full(error)


def _as_json(error: UnicodeError) -> tuple[str, int]:
    """The codec error handler: (escapes as in JSON (\\u00e9) for the characters that an encoding lacks, the index at
    which to go on). An error of decoding is raised again.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(json.dumps(letter)[1:-1] for letter in error.object[error.start : error.end]), error.end


def _ready(stream: TextIO | None) -> TextIO:
    """The stream, changed to escape characters that its encoding lacks; the null device for None, which stands for a
    stream that was closed before the start.
    """
    if stream is None:  # it was closed before the start
        return open(os.devnull, "w")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="as-json")
    return stream


def _is_gone(descriptor: int) -> bool:
    """Whether the reader of a descriptor (the other end of a pipe, a terminal) is gone; False for a file."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _mute(descriptor: int) -> None:
    """Redirect a descriptor to the null device, so that writing to it raises nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _code(error: BaseException | None) -> int | None:
    """The exit code (of EXIT_CODES) for a lost reader or terminal, if such an OSError is the error itself or one
    during whose handling it was raised; None if there is none.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in EXIT_CODES:
            return EXIT_CODES[error.errno]
        error = error.__context__
    return None
