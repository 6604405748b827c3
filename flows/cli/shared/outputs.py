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
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

DESCRIPTORS = (1, 2)
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
EXIT_CODES = {errno.EPIPE: 141, errno.EIO: 129}  # as shells name the ends by SIGPIPE and SIGHUP


@contextmanager
def outputs() -> Iterator[None]:
    """A context in which any text can be printed: characters that the encoding lacks are escaped as in JSON, and an
    output that was closed before takes everything and drops it. sys.stdout and sys.stderr stay changed afterwards.

    If the reader of an output goes away, the context ends with SystemExit and a code of EXIT_CODES; if a disk is full,
    or a file must not be read or written, with one sentence on stderr that says which, and code 1. Other errors pass
    through.
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
        if isinstance(error, OSError) and (message := _message(error)):
            _mute(1)
            print(message, file=sys.stderr)
            raise SystemExit(1) from None
        raise


def _message(error: OSError) -> str | None:
    """The sentence on a full disk, or a file that must not be read or written; None for any other error."""
    from longform.files import full, unwritable  # only where something failed

    path = None if error.filename is None else Path(os.fsdecode(error.filename))
    if not full(error):
        if path is None or error.errno not in FORBIDDEN:
            return None
        if error.errno == errno.EROFS:
            return str(unwritable(path, error))
        return f"{path} must not be used ({error.strerror}): name another path, or change its permissions."
    if path is not None:
        return str(unwritable(path, error))
    whose = "of the output" if any(map(_is_on_full_disk, DESCRIPTORS)) else "that the home or another file is on"
    return f"The disk {whose} is full: free some space and run the same command again."


def _is_on_full_disk(descriptor: int) -> bool:
    """Whether nothing more can be written to what a descriptor leads to."""
    try:
        os.write(descriptor, b"")
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and not os.fstatvfs(descriptor).f_bavail
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)


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
