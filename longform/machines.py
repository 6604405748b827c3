"""Names of this machine, user and process, whether a process is alive, and names of temporary files that carry both."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import socket
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def this_machine() -> str:
    """A name of this machine without dashes, unique among hosts and containers: the host's name (other characters than
    letters, digits, underscores and dots as underscores), an underscore and 12 hex digits.

    Hosts may share a name, and containers of one host share its boot id. The digits are a hash of host name, boot id
    and process namespace, which together tell them apart.
    """
    host = re.sub(r"[^A-Za-z0-9_.]", "_", socket.gethostname())
    facts = "\n".join((host, boot(), _process_table()))
    return f"{host}_{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def this_user() -> str:
    """The name of the user of the operating system who runs this process; the number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def boot() -> str:
    """The kernel's id of this machine's current boot; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_table() -> str:
    """The id of this process's PID namespace, which tells containers of one host apart; empty if the system
    has none.
    """
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def temporary(machine: str | None = None) -> str:
    """A unique name for a file or folder of this process that is still being written:
    `.tmp-<machine>-<process>-<random>`. `machine`: None for this machine.
    """
    return f"{temporary_prefix(machine or this_machine(), os.getpid())}{uuid.uuid4().hex}"


def temporary_prefix(machine: str, process: int) -> str:
    """The text with which all temporary names of a process begin: `.tmp-<machine>-<process>-`."""
    return f".tmp-{machine}-{process}-"


def writer_of(name: str) -> tuple[str, str]:
    """(machine, process id as text) in a name made by `temporary`; for any other name the parts may be empty or
    meaningless.
    """
    machine, _, rest = name.removeprefix(".tmp-").partition("-")
    return machine, rest.partition("-")[0]


def is_alive(process: int | str) -> bool:
    """Whether a process of this machine (its id) is alive; False if the id is no number.

    A zombie is not alive: it has ended, but its parent has not collected it. In containers zombies may stay for long.
    """
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
