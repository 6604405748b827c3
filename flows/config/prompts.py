"""The project's prompts, or the files of a folder that replace them: listed, and rendered with sample values."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from longform.errors import UsageError
from longform.hints import hint
from longform.llm.ask.prompts import Prompt, list_inputs, load_prompt, prompt_folders, prompt_names
from longform.llm.ask.types import Form

PROMPTS = Path(__file__).parents[2] / "prompts"


def described(dataset: str | None, override_folder: str | None) -> list[dict[str, Any]]:
    """Each prompt of a dataset (None: of all), sorted by name, as a JSON value: name, inputs, reply model, forms of
    reply, hash, file. Files in `override_folder` replace the project's. UsageError if that folder or a prompt in it is
    wrong.
    """
    folders = prompt_folders(override_folder, PROMPTS)
    folder = f"{dataset.replace('-', '_')}/" if dataset else ""
    names = [name for name in prompt_names(PROMPTS) if name.startswith(folder)]
    return [
        {
            "name": prompt.name,
            "inputs": list(prompt.inputs),
            "reply": prompt.reply,
            "forms": list(prompt.forms),
            "hash": prompt.hash,
            "file": str(next(filter(Path.exists, (folder / f"{prompt.name}.md" for folder in folders)))),
        }
        for prompt in (load_prompt(name, *folders) for name in names)
    ]


def rendered(name: str, form: str | None, override_folder: str | None) -> tuple[tuple[str, str], ...]:
    """(role, content) of each message of the prompt `name`, rendered with sample values. `form`: how the reply is
    asked for, "text", "tags" or "json"; None: the prompt's first form. Files in `override_folder` replace the
    project's. UsageError for an unknown prompt, a form that it does not have, or if that folder or the prompt in it is
    wrong.
    """
    folders = prompt_folders(override_folder, PROMPTS)
    known = prompt_names(PROMPTS)
    if name not in known:
        raise UsageError(f'There is no prompt "{name}": {hint(name, known, "there are")}')
    prompt = load_prompt(name, *folders)
    return prompt.render(form=cast(Form, form or prompt.forms[0]), **samples(prompt))


def samples(prompt: Prompt) -> dict[str, str | list[str]]:
    """input name -> sample value, for all inputs of a prompt; a value says that it is a sample, so that nobody takes it
    for a real text. Inputs that are lists get two.
    """
    lists = list_inputs(prompt)
    return {name: [_sample(name, 1), _sample(name, 2)] if name in lists else _sample(name) for name in prompt.inputs}


def _sample(name: str, number: int | None = None) -> str:
    """The sample value of the input `name`; `number`: its place in a list, from 1, None if the input is no list."""
    return f"SAMPLE of {name}{f', number {number}' if number else ''}: a text from the sources stands here."
