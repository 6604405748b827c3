"""The hint that an error message gives for an unknown name: the most similar known name, else all known names."""

from __future__ import annotations

from collections.abc import Iterable


def hint(name: str, known: Iterable[str], there: str, *, most: int = 0) -> str:
    """The end of a message about the unknown `name`: `did you mean "train"?` with the most similar known name; if none
    is similar, the known names as `<there> train, test.`, or `<there> none.` without any.

    `there` begins that list, e.g. `it has`. `most`: list only the last so many names; 0 lists all.
    """
    import difflib

    names = list(known)
    similar = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{similar[0]}"?' if similar else f"{there} {', '.join(names[-most:]) or 'none'}."
