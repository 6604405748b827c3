"""Repeated replies: a text that answers several questions answers none of them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from longform.llm.ask.types import Answer, Failure, Request
from longform.llm.read.alike import Sketches
from longform.llm.read.degenerate import texts_of


class Repeats:
    """Finds replies whose text was already the reply to another question, word for word or nearly. It remembers 32
    bytes of each reply, and sketches of a bounded number of them.

    What repeats is only told by what came before, but how many replies repeat one word for word is the same in any
    order.
    """

    def __init__(self) -> None:
        self._questions: dict[bytes, bytes] = {}
        self._sketches = Sketches()

    def checked(self, request: Request, reply: Answer | Failure) -> Answer | Failure:
        """The reply; a Failure if its text was the reply to another question before. One that abstains, where the
        method counts that, may be the reply to many.
        """
        if isinstance(reply, Failure) or not self.has(request, reply.value):
            return reply
        why = "the reply is, word for word or nearly, that to another question"
        return Failure("repeated", why, reply.key, {"text": reply.text}, reply.sample)

    def is_wanted_again(self, request: Request, result: Answer | Failure, wants: Callable[[str], bool]) -> bool:
        """Whether a stored result is to be asked again: a failure of a kind that `wants` holds for, or likewise a reply
        that repeats one.
        """
        if isinstance(result, Answer):
            return wants("repeated") and self.has(request, result.value)
        return wants(result.kind)

    def has(self, request: Request, value: Any) -> bool:
        """Whether the text of a reply, as it is in `Answer.value`, was the reply to another question before, but for a
        few words.
        """
        texts = texts_of(value)
        if not texts or (request.abstains is not None and request.abstains(value)):
            return False
        asked = _digest(request.subject or "\0".join(content for _, content in request.messages))
        text = _digest(*(" ".join(each.split()).casefold() for each in texts))
        if self._questions.setdefault(text, asked) != asked:
            return True
        return self._sketches.has(asked, "\n".join(texts), request.messages)


def _digest(*texts: str) -> bytes:
    """A hash of texts, 16 bytes."""
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
