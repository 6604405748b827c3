"""What the batches of a stage have done for those who ask its questions."""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN_TO_BATCHES = (
    "A question of {stage} was in no batch, as it depends on a reply: run the same command again; if that does not "
    'help, set unbatched = "online" to have such questions asked singly, at full price.'
)


@dataclass(slots=True)
class Batched:
    """What the batches of a stage have done that may make no single calls. `left`: key -> why this question has no
    answer now, in a sentence. `again`: the keys of failures that were asked again in this run.
    """

    left: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)

    def why(self, key: str, stage: str) -> str:
        """Why a question has to wait, in a sentence."""
        return self.left.get(key) or UNKNOWN_TO_BATCHES.format(stage=stage)

    def has_asked_again(self, key: str) -> bool:
        """Whether the result under this key is of this run, because a batch has asked it again."""
        return key in self.again and key not in self.left
