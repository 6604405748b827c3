"""The state of a training on disk, whole or not at all: weights, optimizer, step and what was reported so far.

What is random in a step comes from its seed and number, so that no generator's state is kept. One file is enough: it is
written beside its place and renamed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from longform.errors import StoreError
from longform.files import sync, unwritable
from longform.machines import temporary


def save(path: Path, state: dict[str, Any]) -> None:
    """Write the state, in place of an earlier one. StoreError if it cannot be written."""
    unfinished = path.with_name(temporary())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync(path.parent)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any] | None:
    """The state, its tensors on the CPU; None if there is none. StoreError if it is damaged."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise StoreError(f"{path} is damaged ({error}): delete it, and the training begins anew.") from None
    return state
