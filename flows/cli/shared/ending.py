"""How a command ends: with its exit code, whatever still runs, and within seconds of a signal, whatever hangs."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

from longform.errors import LongformError

INTERRUPTED, TERMINATED = 130, 143  # as shells name the ends by SIGINT and SIGTERM
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
SECONDS_AFTER_SIGNAL = 30.0
SECONDS_TO_LEAVE = 10.0
SECONDS_TO_END = 20.0
SENTENCE = "Interrupted. What was finished is kept; run the same command again to go on."


class Ending:
    """Made before anything else of a process, so that its exit function is the last of all to run."""

    def __init__(self) -> None:
        self.code = 1  # of an error that nobody caught
        self.last_words = threading.Lock()
        atexit.register(self._exit)
        signal.signal(signal.SIGTERM, self._terminate)
        heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(heard,), name="ending", daemon=True).start()

    def leave(self, code: int) -> NoReturn:
        """End the process with this code: after its threads and exit functions, or in 10 seconds without them."""
        for number in CODES:
            signal.signal(number, signal.SIG_IGN)  # it ends already
        self.code = code
        _flush()
        if "logging" in sys.modules:
            sys.modules["logging"].disable()  # Prefect counts aloud what it still has to send
        last = threading.Timer(SECONDS_TO_LEAVE, self._gone)
        last.daemon = True
        last.start()
        sys.exit(code)

    def _exit(self) -> None:
        """Leave before the interpreter is taken down.

        Threads that Prefect leaves running would else make DuckDB's binding report leaked objects at the end.
        """
        _flush()
        self._gone()

    def _gone(self) -> NoReturn:
        """The last words, once, and the end; without sys.stderr, whose lock a thread that hangs may hold."""
        self.last_words.acquire()
        if self.code in CODES.values():
            with suppress(OSError):
                os.write(2, f"{SENTENCE}\n".encode())
        os._exit(self.code)

    def _terminate(self, *_: object) -> NoReturn:
        """What Prefect, which takes SIGTERM first while a flow runs, hands on to when the flow has ended."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another one would break off the cleaning up
        self.code = TERMINATED
        raise SystemExit(TERMINATED)

    def _watch(self, heard: int) -> None:
        """End the process some seconds after a signal.

        It hears of one from Python itself, whoever handles it, and wherever the main thread hangs: Prefect raises an
        exception in it, which may leave a lock locked for good, or be lost in a finalizer.
        """
        number = 0
        while number not in CODES:
            number = os.read(heard, 1)[0]
        time.sleep(SECONDS_AFTER_SIGNAL)
        self.code = CODES[signal.Signals(number)]
        self._gone()


def end_soon(error: LongformError) -> None:
    """End this process with an error's sentence and code, unless it has ended by itself within 20 seconds."""

    def end() -> NoReturn:
        _flush()
        os.write(2, f"{error}\n".encode())
        os._exit(error.exit_code)

    last = threading.Timer(SECONDS_TO_END, end)
    last.daemon = True
    last.start()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a reader that went away; a stream that is closed
            stream.flush()
