"""The offline model's headlines: the first words of the question."""

from longform.llm.offline import PromptInputs, Rule


def _headline(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    return " ".join(inputs.one("Headline of").split()[:10])


RULES = {"headlines/headline": Rule(_headline, reads={"Headline of"})}
