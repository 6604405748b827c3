"""The hint that an error message gives for an unknown name: the most similar known name, else all known names."""

from __future__ import annotations

from collections.abc import Iterable


def hint(name: str, known: Iterable[str], there: str, *, most: int = 0) -> str:
    """`did you mean "train"?` if a known name is similar, else `<there> train, test.`, a list of the known names.

    `there` begins that list, e.g. `it has`. `most`: list only the last so many names; 0 lists all.
    """
    import difflib

    names = list(known)
    similar = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{similar[0]}"?' if similar else f"{there} {', '.join(names[-most:]) or 'none'}."
