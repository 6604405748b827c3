"""Which machine and process this is, whether another process lives, and names of unfinished files that tell both."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def this_machine() -> str:
    """A name without dashes that no other host has, nor a container whose processes this one cannot see.

    Hosts may share a name, and containers of a host its start; both together with the table of processes are one's
    own.
    """
    host = re.sub(r"[^A-Za-z0-9_.]", "_", socket.gethostname())
    facts = "\n".join((host, boot(), _process_table()))
    return f"{host}_{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def boot() -> str:
    """Which start of this machine this is."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_table() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def temporary(machine: str | None = None) -> str:
    """A name beside a file's or folder's place, which tells whose it is: machine and process."""
    return f"{unfinished(machine or this_machine(), os.getpid())}{uuid.uuid4().hex}"


def unfinished(machine: str, process: int) -> str:
    """How the temporary names of a process begin."""
    return f".tmp-{machine}-{process}-"


def author_of(name: str) -> tuple[str, str]:
    """Machine and process of a temporary name; empty texts where it does not tell."""
    machine, _, rest = name.removeprefix(".tmp-").partition("-")
    return machine, rest.partition("-")[0]


def lives(process: int | str) -> bool:
    """Whether a process of this machine is alive."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return not _is_zombie(process)


def _is_zombie(process: int | str) -> bool:
    """Dead, but not yet waited for by its parent: where nothing adopts orphans, as in some containers, that lasts."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False
