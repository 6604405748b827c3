"""The signature of a revision distance: one line that names all it depends on, as that of sacrebleu does for BLEU.

    revdist|editor:mine/gpt-x(temperature=0,seed=41)|served:gpt-x-0613|prompt:edit_to_reference/3f9a0c21|
    scheme:3|longform:0.1.0

Two numbers can be compared if their signatures are equal. `served` is the model that the server names.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint

SCHEME = 3  # raised where the same edits get another distance
HASH_SHOWN = 8
BASELINE = "lexical baseline"  # what the offline editor is: it compares words, and sees no meaning


def signature_of(editor: Endpoint, prompt: Prompt, served: str) -> str:
    """The signature of a distance by this editor, asked by this prompt; `served`: the model that the reply names."""
    return signature(named(editor), prompt.name, prompt.hash, served)


def named(editor: Endpoint) -> str:
    """An editor with the parameters of its requests: `mine/gpt-x(seed=41,temperature=0)`."""
    if editor.offline:
        return f"{editor.model}({BASELINE})"
    said = ",".join(f"{name}={value}" for name, value in editor.parameters)
    asked = editor.model if editor.name == editor.model else f"{editor.name}/{editor.model}"
    return f"{asked}({said})" if said else asked


def signature(editor: str, prompt: str, prompt_hash: str, served: str) -> str:
    """As `signature_of`, of an editor as `named` tells it, and of the name and hash of a prompt."""
    model = editor.partition("(")[0].rpartition("/")[2]
    parts = [f"editor:{editor}"]
    parts += [f"served:{served}"] if served not in ("", model) else []
    parts += [f"prompt:{prompt.rpartition('/')[2]}/{prompt_hash[:HASH_SHOWN]}"] if prompt else []
    return "|".join(["revdist", *parts, f"scheme:{SCHEME}", f"longform:{_version()}"])


@cache
def _version() -> str:
    """The version of this package; "unknown" where it is not installed."""
    try:
        return version("longform")
    except PackageNotFoundError:
        return "unknown"
