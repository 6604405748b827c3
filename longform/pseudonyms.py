"""Pseudonyms of people: keyed hashes of names. Equal names get equal hashes; only the key's owner can link the two."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from longform.errors import StoreError, UsageError
from longform.files import write_bytes
from longform.settings import author_key

KEY_BYTES = 32
_HEX = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")
_CHECK = b"longform: check value of the author key"


class Pseudonyms:
    """Hashes of names under a key: LONGFORM_AUTHOR_KEY (64 hex digits), else 32 random bytes in `<home>/author.key`,
    which is created if missing, readable by its owner alone. UsageError if the variable, StoreError if the file holds
    no such key; StoreError also if the file cannot be read or written.

    Passed to a stage, it enters the hash of the stage's arguments by `identity`, never by the key.
    """

    def __init__(self, home: Path) -> None:
        self._key = _key_of_user() or _key_of_home(home / "author.key")

    def of(self, name: str) -> str:
        """The pseudonym of a name: 16 hex digits, the same for equal names under the same key."""
        return hmac.new(self._key, name.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]

    def identity(self) -> str:
        """A check value of the key: 16 hex digits that differ between keys and reveal nothing of them."""
        return hmac.new(self._key, _CHECK, hashlib.sha256).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Pseudonyms({self.identity()})"


class NoAuthors:
    """In the place of Pseudonyms where nothing is made of authors: no name has a pseudonym, and no key is needed, so
    that equal inputs give equal rows in every home. Posts of an author are then found by the posts alone.
    """

    def of(self, name: str) -> None:
        """None."""

    def identity(self) -> str:
        """What identifies it in a recipe."""
        return "no authors"


def _key_of_user() -> bytes | None:
    """The key in LONGFORM_AUTHOR_KEY as bytes; None if unset or empty. UsageError if it is not 64 hex digits."""
    text = author_key()
    if text is None:
        return None
    if not _HEX.fullmatch(text):
        raise UsageError(
            f"LONGFORM_AUTHOR_KEY holds no key: it takes {2 * KEY_BYTES} hexadecimal digits; "
            "set it to such a key, or unset it to use the home's."
        )
    return bytes.fromhex(text)


def _key_of_home(path: Path) -> bytes:
    """The key in the file at `path`, which is created with a random key if missing. StoreError if the file cannot be
    read or written, or has another length than 32 bytes.
    """
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        write_bytes(path, secrets.token_bytes(KEY_BYTES), mode=0o600, replace=False)  # of two at once the first wins
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable for yourself alone.") from None
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"{path} is damaged: it holds {len(key)} bytes, not {KEY_BYTES}; restore it from a copy, or delete it "
            "for a new key, under which every author gets another hash."
        )
    return key
