"""Revision Distance: the number of edits that a reader would still make to a text.

`distance` is imported when it is first used.
"""

from __future__ import annotations

from typing import Any

__all__ = ["distance"]


def __getattr__(name: str) -> Any:
    """`distance`, imported when it is first used; AttributeError for any other name."""
    if name == "distance":
        from tasks.revision_distance.drafts.measure import distance

        return distance
    raise AttributeError(f"module tasks.revision_distance has no attribute {name}")
