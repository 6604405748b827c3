"""Files that are whole or not there: written beside their place and renamed; what a full or busy disk means."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from longform.errors import StoreError
from longform.machines import temporary

LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")


def unwritable(path: Path, error: OSError) -> StoreError:
    """The error of the store for one of the system: a full disk, a folder that must not be written."""
    if full(error):
        return StoreError(
            f"The disk of {path} is full: what was finished is kept; free some space and run the same command again."
        )
    return StoreError(f"Cannot write {path} ({error.strerror or error}): choose another folder, or make it writable.")


def full(error: BaseException) -> bool:
    """Whether an error of the system, of Arrow or of DuckDB means that a disk is full."""
    number = getattr(error, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)


def busy(error: BaseException) -> bool:
    """Whether an error of the system or of SQLite means that a file or a disk did not answer in time, or was moved."""
    passing = (errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT)
    return getattr(error, "errno", None) in passing or getattr(error, "sqlite_errorname", None) in LOCKED


def read_json(path: Path) -> Any:
    """The document, or None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise StoreError(f"{path} is damaged: delete it and run again.") from None
    except PermissionError as error:
        raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable.") from None


def write_json(path: Path, document: Any) -> None:
    write_bytes(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, content: bytes) -> None:
    """Written whole or not at all: beside its place, then renamed."""
    beside = path.with_name(temporary())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Ask the system to put a file or folder on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
