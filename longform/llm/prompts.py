"""A prompt is a file: its inputs and the reply it asks for on top, then a system and a user part.

    ---
    inputs: question, passages
    reply: WrittenAnswer
    ---
    # system
    You answer from numbered passages.
    # user
    Question:
    {{ question | fenced }}

Parts are Jinja templates, rendered in a sandbox, strictly: a missing or an extra input is an error.
Text from sources enters only as a value, never as a template, and only through the filter `fenced`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.errors import UsageError
from longform.llm.fence import fenced

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_FILE = re.compile(r"---\n(.*?)\n---\n\s*# system[ \t]*\n(.*?)^# user[ \t]*\n(.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`hash` is the sha256 of the file; `reply` names the model of schemas.replies that a reply is read into."""

    name: str
    hash: str
    inputs: tuple[str, ...]
    reply: str
    system: str
    user: str

    def identity(self) -> str:
        return self.hash

    def render(self, **inputs: Any) -> tuple[tuple[str, str], ...]:
        """(role, content) of the system and the user message."""
        missing = [name for name in self.inputs if name not in inputs]
        extra = [name for name in inputs if name not in self.inputs]
        if missing or extra:
            raise UsageError(_mismatch(self.name, self.inputs, missing, extra))
        return (
            ("system", _template(self.system).render(inputs).strip()),
            ("user", _template(self.user).render(inputs).strip()),
        )


def load_prompt(name: str, folder: Path) -> Prompt:
    """The prompt `<folder>/<name>.md`, checked: it declares exactly the inputs that it uses."""
    path = folder / f"{name}.md"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no prompt {name} in {folder}: it would be {path}.") from None
    prompt = _parse(name, content)
    _check_inputs(prompt)
    return prompt


def _parse(name: str, content: bytes) -> Prompt:
    match = _FILE.match(content.decode().replace("\r\n", "\n"))
    if match is None:
        raise UsageError(
            f"Prompt {name} is not in the form of a prompt: "
            "`inputs:` and `reply:` between two --- lines, then # system, then # user."
        )
    head, system, user = match.groups()
    fields = dict(_field(name, line) for line in head.splitlines() if line.strip())
    if set(fields) != {"inputs", "reply"}:
        raise UsageError(f"Prompt {name} declares {', '.join(fields)}: it must declare inputs and reply.")
    inputs = tuple(part.strip() for part in fields["inputs"].split(",") if part.strip())
    return Prompt(name, hashlib.sha256(content).hexdigest(), inputs, fields["reply"], system, user)


def _field(name: str, line: str) -> tuple[str, str]:
    key, colon, value = line.partition(":")
    if not colon:
        raise UsageError(f'Prompt {name} has the line "{line}" on top: expected `name: value`.')
    return key.strip(), value.strip()


def _check_inputs(prompt: Prompt) -> None:
    from jinja2 import TemplateSyntaxError, meta

    try:
        trees = [_environment().parse(part) for part in (prompt.system, prompt.user)]
        used = set().union(*map(meta.find_undeclared_variables, trees))
    except TemplateSyntaxError as error:
        raise UsageError(f"Prompt {prompt.name} is not a template: {error.message}.") from None
    unused = [name for name in prompt.inputs if name not in used]
    undeclared = sorted(used - set(prompt.inputs))
    if unused or undeclared:
        raise UsageError(_mismatch(prompt.name, prompt.inputs, unused, undeclared, verb="uses"))


def _mismatch(name: str, declared: tuple[str, ...], missing: list[str], extra: list[str], *, verb: str = "got") -> str:
    wrong = [f"no {item}" for item in missing] + [f"the undeclared {item}" for item in extra]
    return f"Prompt {name} {verb} {' and '.join(wrong)}: it declares the inputs {', '.join(declared)}."


@lru_cache(maxsize=64)
def _template(source: str) -> Template:
    return _environment().from_string(source)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["fenced"] = fenced
    return environment
