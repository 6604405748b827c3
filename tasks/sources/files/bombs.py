"""What no honest file is: one that unpacks to far more than it holds, or that is nearly nothing but line feeds."""

from __future__ import annotations

from longform.errors import SourceError

LARGEST_RATIO = 1_000
RATIO_FROM_BYTES = 64 << 20
SHORTEST_LINE = 4
DENSE_FROM_BYTES = 128 << 10


def refuse_bomb(subject: object, unpacked_bytes: int, packed_bytes: int) -> None:
    """SourceError if `unpacked_bytes`, what was unpacked so far, are more than RATIO_FROM_BYTES and more than
    LARGEST_RATIO times `packed_bytes`, the size of the file: text packs to a hundredth at best. `subject` is what the
    message calls the file.
    """
    if unpacked_bytes > RATIO_FROM_BYTES and unpacked_bytes > LARGEST_RATIO * max(1, packed_bytes):
        raise SourceError(
            f"{subject} unpacks to more than {LARGEST_RATIO} times its size, as only hostile files do: leave it out."
        )


def refuse_empty_lines(subject: object, lines: int, length: int) -> None:
    """SourceError, which names `subject`, for a block of DENSE_FROM_BYTES bytes or more (`length`) whose `lines` line
    feeds leave fewer than SHORTEST_LINE bytes a line on average: such lines hold no records, but each costs time.
    """
    if length >= DENSE_FROM_BYTES and lines * SHORTEST_LINE > length:
        raise SourceError(
            f"{subject} holds lines of less than {SHORTEST_LINE} bytes by the ten thousands, as only hostile files do: "
            "leave it out."
        )
