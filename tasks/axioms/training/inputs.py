"""What the cross-encoder reads: question, evidence and answer as the tokens of two texts, within the paper's caps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks.axioms.preference import prompt_of

CACHED = 10_000


class Reader:
    """Question, evidence and answer -> token ids, by the tokenizer of a model (a fast one of transformers).

    The first text is the question, cut after `question_tokens` tokens, and below it the passages, numbered; the second
    is the answer. If both have more than `max_tokens` tokens, the longer one is cut at its end until they fit, as
    sentence-transformers' CrossEncoder does with the saved model.
    """

    def __init__(self, tokenizer: Any, question_tokens: int, max_tokens: int) -> None:
        self.tokenizer, self.question_tokens, self.max_tokens = tokenizer, question_tokens, max_tokens
        tokenizer.split_special_tokens = True  # a mark such as [SEP] in a text is text
        self._cut: dict[str, str] = {}
        self._read: dict[tuple[str, str], dict[str, list[int]]] = {}

    def cut(self, question: str) -> str:
        """The beginning of a question that has at most `question_tokens` tokens."""
        if question not in self._cut:
            if len(self._cut) >= CACHED:
                self._cut.clear()
            self._cut[question] = self._cut_anew(question)
        return self._cut[question]

    def _cut_anew(self, question: str) -> str:
        places = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = places["offset_mapping"]
        return question if len(offsets) <= self.question_tokens else question[: offsets[self.question_tokens - 1][1]]

    def read(self, question: str, evidence: Sequence[str], answer: str) -> dict[str, list[int]]:
        """Name of a model's input -> its numbers, one a token: input_ids, attention_mask and, where the model tells
        texts apart by them, token_type_ids.
        """
        texts = (prompt_of(self.cut(question), evidence), answer)
        if texts not in self._read:
            if len(self._read) >= CACHED:
                self._read.clear()
            self._read[texts] = dict(self.tokenizer(*texts, truncation="longest_first", max_length=self.max_tokens))
        return self._read[texts]

    def batch(self, read: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
        """Inputs of one length as tensors: (texts, tokens) int64."""
        return dict(self.tokenizer.pad(list(read), return_tensors="pt"))
