"""longform: rebuilds published datasets for long-form question answering and writing from raw public sources."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longform.artifacts.versions import load as load

__version__ = "0.1.0"
__all__ = ["load"]


def __dir__() -> list[str]:
    """The module's names, sorted, with those of `__all__` also before they are imported."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """`load`, imported when it is first asked for; AttributeError for any other name that the module does not have."""
    if name == "load":
        from longform.artifacts.versions import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
