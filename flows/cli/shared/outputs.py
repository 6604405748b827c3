"""Standard output and error as they are found: of few letters, closed, without a reader, on a terminal that is gone."""

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

PLACES = (1, 2)
ENDS = {errno.EPIPE: 141, errno.EIO: 129}  # as shells name the ends by SIGPIPE and SIGHUP


@contextmanager
def outputs() -> Iterator[None]:
    """What is printed in here may hold any text; once nobody can read it, the end is SystemExit with a code of ENDS.

    A disk that is full is said in one sentence.
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
        gone = [place for place in PLACES if _is_gone(place)]
        for place in gone:
            _mute(place)
        if gone and (code := _code(error)):
            raise SystemExit(code) from None
        if isinstance(error, OSError) and _is_full(error):
            _mute(1)
            said = (
                "A disk is full, of the output or of what is written: free some space and run the same command again."
            )
            print(said, file=sys.stderr)
            raise SystemExit(1) from None
        raise


def _is_full(error: OSError) -> bool:
    from longform.files import full  # only where something failed

    return full(error)


def _as_json(error: UnicodeError) -> tuple[str, int]:
    """Letters that an encoding has not, as JSON spells them: \\u00e9."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(json.dumps(letter)[1:-1] for letter in error.object[error.start : error.end]), error.end


def _ready(stream: TextIO | None) -> TextIO:
    if stream is None:  # it was closed before the start
        return open(os.devnull, "w")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="as-json")
    return stream


def _is_gone(place: int) -> bool:
    """Whether what is written there reaches nobody."""
    watch = select.poll()
    watch.register(place, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def _mute(place: int) -> None:
    """From now on what is written there goes nowhere, and raises nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, place)
    os.close(nowhere)


def _code(error: BaseException | None) -> int | None:
    """Of the OSError that ended it, also where typer made an exit of it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in ENDS:
            return ENDS[error.errno]
        error = error.__context__
    return None
