"""Files that are written whole or not at all (beside their place, then renamed), and errors of a full or busy disk."""

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

PASSING = (errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT)
LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")


def unwritable(path: Path, error: OSError) -> StoreError:
    """A StoreError that says that `path` cannot be written, why, and what to do: free space if the disk is full, else
    choose another folder or make it writable.
    """
    if full(error):
        return StoreError(
            f"The disk of {path} is full: what was finished is kept; free some space and run the same command again."
        )
    return StoreError(f"Cannot write {path} ({error.strerror or error}): choose another folder, or make it writable.")


def full(error: BaseException) -> bool:
    """Whether an error of the operating system, of Arrow or of DuckDB means that a disk (or the user's share of it) is
    full.
    """
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)


def busy(error: BaseException) -> bool:
    """Whether an error of the operating system or of SQLite is a passing one: a lock, a timeout or a stale file handle
    (of a network file system).
    """
    return getattr(error, "errno", None) in PASSING or getattr(error, "sqlite_errorname", None) in LOCKED


def read_json(path: Path) -> Any:
    """The parsed JSON document of a file; None if the file does not exist. StoreError if it is no JSON or must not be
    read; other errors of the operating system are raised as they are.
    """
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise StoreError(f"{path} is damaged: delete it and run again.") from None
    except PermissionError as error:
        raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable.") from None


def write_json(path: Path, document: Any) -> None:
    """Write a document as indented JSON, whole or not at all. StoreError if it cannot be written, e.g. as the disk is
    full or the place is read-only.
    """
    write_bytes(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, content: bytes, *, mode: int = 0o666, replace: bool = True) -> None:
    """Write a file whole or not at all: to a temporary file beside it, synced, then renamed. Missing folders are
    created. StoreError if it cannot be written.

    `mode`: the permissions of the file, less the process's umask. With `replace=False` a file that is there already
    stays, also if another process writes it at this moment.
    """
    unfinished = path.with_name(temporary())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            unfinished.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(unfinished, path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Delete a file, or a folder with everything in it; does nothing if there is none. What cannot be deleted of a
    folder stays, without an error; OSError for a single file that cannot be deleted.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file or folder from the operating system's cache to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
