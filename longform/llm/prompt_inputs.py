"""The texts that a rendered prompt was given, read back from its fences by their labels."""

from __future__ import annotations

from longform.errors import UsageError
from longform.llm.ask.fence import unfenced


class PromptInputs:
    """The fenced texts of a user message. `effort` "low" is a weaker writer: rules that write drafts go by it."""

    def __init__(self, task: str, message: str, effort: str = "") -> None:
        self.task, self.effort = task, effort
        self.texts = unfenced(message)

    def one(self, label: str) -> str:
        for name, text in self.texts:
            if name == label:
                return text
        raise UsageError(
            f'The offline model finds no fenced text under "{label}:" in prompt {self.task}: '
            "restore that line of the prompt, or set another model."
        )

    def passages(self) -> list[tuple[int, str]]:
        """(number, text)"""
        return self.numbered("Passage")

    def numbered(self, label: str) -> list[tuple[int, str]]:
        """(number, text) of those under `<label> 1:`, `<label> 2:` and so on."""
        start = f"{label} "
        numbered = ((name.removeprefix(start), text) for name, text in self.texts if name.startswith(start))
        return [(int(number), text) for number, text in numbered if number.isdecimal()]
