"""longform: rebuilds published datasets for long-form question answering and writing from raw public sources."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from longform.versions import load

        return load
    raise AttributeError(f"module longform has no attribute {name}")
