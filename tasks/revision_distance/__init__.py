"""Revision Distance: the number of edits that a reader would still make to a text.

`distance` measures one text, `measure` the drafts of a DataFrame, `compute` lists of predictions and references. They
are imported when they are first used.
"""

from __future__ import annotations

from typing import Any

__all__ = ["compute", "distance", "measure"]


def __getattr__(name: str) -> Any:
    """One of `__all__`, imported when it is first used; AttributeError for any other name."""
    if name == "distance":
        from tasks.revision_distance.drafts.measure import distance

        return distance
    if name in __all__:
        from tasks.revision_distance.own import frames

        return getattr(frames, name)
    raise AttributeError(f"module tasks.revision_distance has no attribute {name}")
