"""What an error says of a name that is not there: the nearest that is, else all."""

from __future__ import annotations

from collections.abc import Iterable


def hint(name: str, known: Iterable[str], there: str, *, most: int = 0) -> str:
    """`did you mean "train"?`, or where none is near: `it has train, test.`, with the words of `there`.

    `most`: names only so many, the last.
    """
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{near[0]}"?' if near else f"{there} {', '.join(names[-most:]) or 'none'}."
