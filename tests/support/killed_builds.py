"""Builds in processes of their own that are killed while they ask a model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import paths
import psutil
from processes import started
from standin_server import Server

CHAT = "POST /v1/chat/completions"


def start(code: str, *arguments: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return run([sys.executable, "-c", code, *arguments])


def run(command: Sequence[object], **more: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    quiet = subprocess.DEVNULL
    return started(
        command,
        env={**os.environ, "PYTHONPATH": paths.PYTHONPATH, **more},
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def answered(server: Server) -> int:
    return int(server.counters()["answered_bodies"])


def calls(server: Server) -> int:
    return int(server.counters()["requests"].get(CHAT, 0))


def asked_twice(server: Server) -> int:
    return sum(times - 1 for times in server.counters()["repeated"].values())


def killed_when(process: subprocess.Popen[bytes], due: Callable[[], bool]) -> None:
    """Kill a process and all its children once `due` is true, and wait until they are gone; fails if it ended
    before.
    """
    wait_for(lambda: due() or process.poll() is not None, seconds=600)
    family = family_of(process)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(lives, family)), seconds=600)
    assert process.returncode == -signal.SIGKILL


def family_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
