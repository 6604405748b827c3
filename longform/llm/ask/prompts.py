"""Prompts, which are files: the inputs and the kind of reply on top, then a system and a user message.

    ---
    inputs: question, passages
    reply: WrittenAnswer
    ---
    # system
    You answer from numbered passages.
    # user
    Question:
    {{ question | fenced }}

A prompt for a structured reply ends with two more parts, `# as tags` and `# as json`. One of them closes the user
message: the one for the form in which the reply is asked for. A reply with objects in it, such as a list of edits, is
one JSON object in both forms: `# as json` is for servers that hold a model to the JSON schema, `# as tags` for those
that do not, so it names all fields and asks for nothing but the object.

Parts are Jinja templates, rendered in a sandbox, strictly: a missing or an extra input is an error. Text from sources
enters only as a value, never as a template, and only through the filter `fenced`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.errors import UsageError
from longform.hints import hint
from longform.llm.ask.fence import fenced
from longform.llm.ask.types import Endpoint, Flaw, Form, Request

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from jinja2.nodes import Node
    from pydantic import BaseModel

_FILE = re.compile(r"---\n(.*?)\n---\n\s*# system[ \t]*\n(.*?)^# user[ \t]*\n(.*)\Z", re.DOTALL | re.MULTILINE)
_CLOSING = re.compile(r"^# as (\w+)[ \t]*(?:\n|\Z)", re.MULTILINE)
_COUNTERS = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
_TAKEN = frozenset(
    {
        *("self", "form", "endpoint", "max_tokens", "reply", "samples", "logprobs", "check"),
        *("declines", "copies", "abstains", "unchanged", "system", "subject"),
    }
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that was read from a file. `name`: `<dataset>/<file name>`. `hash`: the SHA-256 of the file. `inputs`:
    the names of its variables. `reply`: the name of the class in schemas.replies into which a reply is read.

    `system` and `user` are the templates of the two messages. `tags` and `json` are those that close the user message
    where the reply is asked for in that form; both are empty in a prompt for plain text.
    """

    name: str
    hash: str
    inputs: tuple[str, ...]
    reply: str
    system: str
    user: str
    tags: str = ""
    json: str = ""

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms in which the prompt can ask for a reply: tags and json if it has closing parts for them, else only
        text.
        """
        return ("tags", "json") if self.tags else ("text",)

    @property
    def parts(self) -> tuple[str, ...]:
        """The prompt's four templates: system, user, tags and json; those for tags and json are empty in a prompt for
        plain text.
        """
        return self.system, self.user, self.tags, self.json

    def identity(self) -> str:
        """What identifies the prompt in a recipe: its hash."""
        return self.hash

    def request(
        self,
        endpoint: Endpoint,
        *,
        max_tokens: int = 2048,
        reply: type[BaseModel] | None = None,
        salvage: bool = False,
        samples: int = 1,
        logprobs: int | None = None,
        check: Callable[[Any], Flaw | None] | None = None,
        declines: bool = False,
        copies: bool = False,
        abstains: Callable[[Any], object] | None = None,
        unchanged: Callable[[Any], object] | None = None,
        system: str = "",
        subject: str = "",
        **inputs: Any,
    ) -> Request:
        """A request to this endpoint with these inputs. With `reply`, a pydantic model, it asks for a structured reply
        in the endpoint's form, else for plain text, which must be whole. UsageError if the inputs are not those of the
        prompt, or it cannot ask in this form. The other arguments are those of Request.
        """
        form: Form = endpoint.form if reply else "text"
        return Request(
            messages=self.render(form=form, **inputs),
            task=self.name,
            max_tokens=max_tokens,
            prompt=self.hash,
            reply=reply,
            form=form,
            salvage=salvage,
            samples=samples,
            logprobs=logprobs,
            whole=reply is None,
            check=check,
            declines=declines,
            copies=copies,
            abstains=abstains,
            unchanged=unchanged,
            system=system,
            subject=subject,
        )

    def render(self, *, form: Form = "text", **inputs: Any) -> tuple[tuple[str, str], ...]:
        """((`system`, content), (`user`, content)): the two messages with these inputs; the user message ends with the
        closing part for `form`, except for `text`. UsageError if an input is missing or unknown, or if the prompt
        cannot ask for a reply in this form.
        """
        if form not in self.forms:
            raise UsageError(f"Prompt {self.name} cannot ask for a reply as {form}, only as {' or '.join(self.forms)}.")
        missing = [name for name in self.inputs if name not in inputs]
        extra = [name for name in inputs if name not in self.inputs]
        if missing or extra:
            raise UsageError(_mismatch(self.name, self.inputs, missing, extra))
        system, user = _rendered(self.system, inputs), _rendered(self.user, inputs)
        if form != "text":
            user = f"{user}\n\n{_rendered(self.tags if form == 'tags' else self.json, inputs)}"
        return ("system", system), ("user", user)


def load_prompt(name: str, *folders: Path) -> Prompt:
    """The prompt `<name>.md` of the first of these folders that has it. UsageError if none has it, or if the file is
    no valid prompt.

    The prompt must use exactly the inputs that it declares. If later folders have a prompt of this name too, it must
    have the same inputs, reply and forms as that one; else UsageError.
    """
    found = [folder / f"{name}.md" for folder in folders if os.path.lexists(folder / f"{name}.md")]
    if not found:
        raise UsageError(f"There is no prompt {name} in {folders[-1]}: it would be {folders[-1] / f'{name}.md'}.")
    prompt, *replaced = (_load(name, path) for path in found)
    for other in replaced:
        _check_replaces(found[0], prompt, other)
    return prompt


def prompt_folders(chosen: str | None, own: Path) -> tuple[Path, ...]:
    """The folders in which prompts are looked for, in order: `chosen`, a user's folder, if any; then `own`, the
    project's.

    UsageError if the user's folder cannot be read, has no prompt, or has one whose name is not in `own`.
    """
    if chosen is None:
        return (own,)
    folder, known = Path(chosen), prompt_names(own)
    try:
        names = prompt_names(folder)
    except OSError as error:
        raise UsageError(f"The folder of prompts {chosen} cannot be read ({error.strerror}).") from None
    if not names:
        raise UsageError(f"The folder {chosen} holds no prompt: put one at {folder / known[0]}.md, for example.")
    for name in names:
        if name not in known:
            raise UsageError(f"{folder / name}.md takes the place of no prompt: {hint(name, known, 'there are')}")
    return folder, own


def prompt_names(folder: Path) -> list[str]:
    """The names of the prompts (files `.md`) in a folder: `<name>` for those directly in it, then `<dataset>/<name>`
    for those in its subfolders, each sorted. Hidden files and folders directly in it are left out. OSError if a folder
    cannot be read.
    """
    entries = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    files = [*entries, *(path for entry in entries if entry.is_dir() for path in sorted(entry.iterdir()))]
    return [path.relative_to(folder).with_suffix("").as_posix() for path in files if path.suffix == ".md"]


def list_inputs(prompt: Prompt) -> set[str]:
    """The inputs that must be lists, as the prompt loops over them directly (`for x in input` in a template)."""
    from jinja2 import nodes

    loops = [loop for part in prompt.parts for loop in _environment().parse(part).find_all(nodes.For)]
    return {loop.iter.name for loop in loops if isinstance(loop.iter, nodes.Name)}


def _check_replaces(path: Path, prompt: Prompt, own: Prompt) -> None:
    """Raise UsageError unless a user's prompt, from the file `path`, has the inputs, reply and forms of `own`, the
    project's prompt of the same name.
    """
    if set(prompt.inputs) != set(own.inputs):
        raise UsageError(
            f"The prompt {path} declares the inputs {', '.join(prompt.inputs)}, "
            f"but {own.name}, whose place it takes, gets {', '.join(own.inputs)}: declare and use exactly these."
        )
    if (prompt.reply, prompt.forms) != (own.reply, own.forms):
        raise UsageError(
            f"The prompt {path} asks for {prompt.reply} as {' or '.join(prompt.forms)}, "
            f"but {own.name}, whose place it takes, for {own.reply} as {' or '.join(own.forms)}: "
            "its `reply:` line and its closing parts must be of the same kinds."
        )


def _load(name: str, path: Path) -> Prompt:
    """The prompt in a file, checked; UsageError, which names the file, if it cannot be read or is no valid prompt."""
    try:
        prompt = _parse(name, path.read_bytes())
        _check_inputs(prompt)
        _check_fences(prompt)
    except UsageError as error:
        raise UsageError(f"{error} It stands in {path}.") from None
    except OSError as error:
        raise UsageError(f"The prompt {path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UsageError(f"The prompt {path} is no UTF-8 text: save it as UTF-8.") from None
    return prompt


def _parse(name: str, content: bytes) -> Prompt:
    """The prompt that a file's content describes. UsageError if it has another form than shown at the top of this
    module, or an input with a name that `Prompt.request` uses itself; UnicodeDecodeError if it is no UTF-8.
    """
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
    for taken in _TAKEN.intersection(inputs):
        raise UsageError(f"Prompt {name} has an input named {taken}: that name is taken, choose another.")
    user, closings = _closings(name, user)
    return Prompt(name, hashlib.sha256(content).hexdigest(), inputs, fields["reply"], system, user, **closings)


def _closings(name: str, user: str) -> tuple[str, dict[str, str]]:
    """(the user part without closing parts, form -> its closing part), from the text after `# user`. There are either
    no closing parts, or one for each of the forms tags and json, with text in both; UsageError for anything else.
    """
    user, *rest = _CLOSING.split(user)
    forms, parts = rest[::2], rest[1::2]
    if forms and (sorted(forms) != ["json", "tags"] or not all(part.strip() for part in parts)):
        raise UsageError(
            f"Prompt {name} closes with {', '.join(f'# as {form}' for form in forms)}: "
            "it needs one part # as tags and one # as json, with text in both, or none of them."
        )
    return user, dict(zip(forms, parts, strict=True))


def _field(name: str, line: str) -> tuple[str, str]:
    """(field, value) of one line of a prompt's head, without white space around them. UsageError if the line has no
    colon. `name`: of the prompt, for the message.
    """
    key, colon, value = line.partition(":")
    if not colon:
        raise UsageError(f'Prompt {name} has the line "{line}" on top: expected `name: value`.')
    return key.strip(), value.strip()


def _check_inputs(prompt: Prompt) -> None:
    """Raise UsageError unless the prompt's templates are valid and use exactly the inputs it declares."""
    from jinja2 import TemplateSyntaxError, meta

    try:
        trees = [_environment().parse(part) for part in prompt.parts]
        used = set().union(*map(meta.find_undeclared_variables, trees))
    except TemplateSyntaxError as error:
        raise UsageError(f"Prompt {prompt.name} is not a template: {error.message}.") from None
    unused = [name for name in prompt.inputs if name not in used]
    undeclared = sorted(used - set(prompt.inputs))
    if unused or undeclared:
        raise UsageError(_mismatch(prompt.name, prompt.inputs, unused, undeclared, verb="uses"))


def _check_fences(prompt: Prompt) -> None:
    """Raise UsageError if the system message is a template, or if another part prints what an input may be part of, but
    not through `fenced` as the last filter: a source's text could else give the model instructions.
    """
    from jinja2 import nodes

    user, system = [_environment().parse(part) for part in prompt.parts[1:]], _environment().parse(prompt.system)
    if any(not isinstance(node, nodes.Output | nodes.TemplateData) for node in system.find_all(nodes.Node)):
        raise UsageError(f"Prompt {prompt.name} has a template in # system: inputs belong in # user, in a fence.")
    if any(name.name == "loop" and name.ctx != "load" for tree in user for name in tree.find_all(nodes.Name)):
        raise UsageError(f"Prompt {prompt.name} gives the name loop to something else: choose another name.")
    for output in (output for tree in user for output in tree.find_all(nodes.Output)):
        for node in output.nodes:
            if not (isinstance(node, nodes.Filter) and node.name == "fenced") and not _is_constant(node):
                raise UsageError(
                    f"Prompt {prompt.name} prints a value without a fence (line {node.lineno} of its part), so "
                    "that a source's text could give the model instructions: write {{ name | fenced }}."
                )


def _is_constant(node: Node) -> bool:
    """Whether a part of a template has no variable but numbers of its loop, such as `loop.index`."""
    from jinja2 import nodes

    below = [node, *node.find_all(nodes.Node)]
    counters = [each.node for each in below if isinstance(each, nodes.Getattr) and each.attr in _COUNTERS]
    names = [each for each in below if isinstance(each, nodes.Name)]
    return all(name.name == "loop" and any(name is counter for counter in counters) for name in names)


def _mismatch(name: str, declared: tuple[str, ...], missing: list[str], extra: list[str], *, verb: str = "got") -> str:
    """The message of an error about inputs of the prompt `name` that are missing or not declared. `verb` says what the
    prompt did with them: it `got` or `uses` them.
    """
    wrong = [f"no {item}" for item in missing] + [f"the undeclared {item}" for item in extra]
    return f"Prompt {name} {verb} {' and '.join(wrong)}: it declares the inputs {', '.join(declared)}."


def _rendered(part: str, inputs: dict[str, Any]) -> str:
    """A template rendered with these inputs, without white space around it. A text without `{` is no template and
    stays.
    """
    return _template(part).render(inputs).strip() if "{" in part else part.strip()


@lru_cache(maxsize=256)
def _template(source: str) -> Template:
    """The Jinja template of this text, compiled once for each of the last 256 texts."""
    return _environment().from_string(source)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The Jinja environment, made once: a sandbox, where a missing input is an error and texts have the filter
    `fenced`.
    """
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["fenced"] = fenced
    return environment
