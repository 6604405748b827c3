"""How a process ends: with its exit code even if threads still run, and within seconds of a signal even if it hangs."""

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
    """Controls the end of the process. The constructor sets the handler of SIGTERM, an exit function, and a thread
    that waits for signals. To be created first, so that its exit function runs last. `leave` ends the process; `code`
    is the exit code if it ends in another way.
    """

    def __init__(self) -> None:
        self.code = 1  # of an error that nobody caught
        self._ended = threading.Lock()
        atexit.register(self._exit)
        signal.signal(signal.SIGTERM, self._terminate)
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(read_end,), name="ending", daemon=True).start()

    def leave(self, code: int) -> NoReturn:
        """End the process with this exit code once its other threads and exit functions have ended, at the latest
        after 10 seconds. Signals are ignored from here on.
        """
        for number in CODES:
            signal.signal(number, signal.SIG_IGN)  # it ends already
        self.code = code
        _flush()
        if "logging" in sys.modules:
            sys.modules["logging"].disable()  # Prefect counts aloud what it still has to send
        last = threading.Timer(SECONDS_TO_LEAVE, self._exit_now)
        last.daemon = True
        last.start()
        sys.exit(code)

    def _exit(self) -> None:
        """The exit function: ends the process at once, before the interpreter is torn down.

        Threads that Prefect leaves running would else make DuckDB's binding report leaked objects.
        """
        _flush()
        self._exit_now()

    def _exit_now(self) -> NoReturn:
        """End the process at once with the code `self.code`; prints SENTENCE first if that is the code of a signal
        (CODES).

        It writes to the descriptor, not to sys.stderr, whose lock a hanging thread may hold.
        """
        self._ended.acquire()
        if self.code in CODES.values():
            with suppress(OSError):
                os.write(2, f"{SENTENCE}\n".encode())
        os._exit(self.code)

    def _terminate(self, *_: object) -> NoReturn:
        """The handler of SIGTERM: ends the command with SystemExit and the code 143; further SIGTERMs are ignored.
        While a flow runs, Prefect handles the signal first and calls this when the flow has ended.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another one would break off the cleaning up
        self.code = TERMINATED
        raise SystemExit(TERMINATED)

    def _watch(self, read_end: int) -> None:
        """Wait for SIGINT or SIGTERM, then end the process with that signal's code 30 seconds later if it still runs.

        Python writes each signal to the pipe `read_end`, whatever handles it and wherever the main thread hangs:
        Prefect raises an exception in that thread, which may leave a lock locked, or be lost in a finalizer.
        """
        number = 0
        while number not in CODES:
            number = os.read(read_end, 1)[0]
        time.sleep(SECONDS_AFTER_SIGNAL)
        self.code = CODES[signal.Signals(number)]
        self._exit_now()


def end_soon(error: LongformError) -> None:
    """Start a timer that ends this process in 20 seconds, with the error's message on stderr and its exit code, unless
    the process ends before.
    """

    def end() -> NoReturn:
        _flush()
        os.write(2, f"{error}\n".encode())
        os._exit(error.exit_code)

    last = threading.Timer(SECONDS_TO_END, end)
    last.daemon = True
    last.start()


def _flush() -> None:
    """Flush standard output and error; errors of a lost reader or a closed stream are ignored."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a reader that went away; a stream that is closed
            stream.flush()
