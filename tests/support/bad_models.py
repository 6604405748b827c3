"""Models that write what is no answer, made from what a good one writes: all replies, those to some prompts, or a share
of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection
from typing import Any

from endpoint_server import Server, Verdict
from offline_rules import respond

from longform.errors import UsageError
from longform.llm.ask.fence import unfenced
from longform.llm.ask.types import Request

END = "\n====="
SAME = (
    "There are several things to consider here. Much depends on the circumstances, and it is worth taking the time to "
    "weigh the options carefully before a decision is made."
)
SENTENCE = "It is important to consider all of the relevant factors before a decision is made. "
PLANNED = "We need to answer the question with citations. Let's draft it."
GERMAN = (
    "Die Fässer lagern bei zwölf Grad in einem Keller unter dem Brauhaus, und der Braumeister prüft jeden Morgen, ob "
    "die Hefe noch arbeitet. Wer das Bier zu früh abfüllt, verliert einen großen Teil des Geschmacks."
)
REFUSALS = {
    "refusal-en": "I'm sorry, but I can't help with that.",
    "refusal-de": "Es tut mir leid, aber dabei kann ich Ihnen nicht helfen.",
    "refusal-es": "Lo siento, pero no puedo ayudarte con eso.",
    "refusal-fr": "Je suis désolé, mais je ne peux pas vous aider avec cela.",
    "refusal-pt": "Desculpe, mas não posso ajudar com isso.",
    "refusal-ru": "Извините, но я не могу помочь с этим.",
    "refusal-zh": "抱歉，我无法帮助您完成这个请求。",
    "refusal-ja": "申し訳ありませんが、そのご要望にはお応えできません。",
    "refusal-ko": "죄송하지만 그 요청은 도와드릴 수 없습니다.",
    "refusal-ar": "عذرًا، لا يمكنني مساعدتك في ذلك.",
}


def subject(prompt: str) -> str:
    """What a prompt asks about: its question, request or message, else its first fenced text."""
    inside = dict(reversed(unfenced(prompt)))
    return next((inside[name] for name in ("Question", "Request", "Message") if name in inside), unfenced(prompt)[0][1])


def material(prompt: str) -> str:
    """The text that a prompt gives to work on: the answer, the draft or the first answer, else the first text."""
    inside = dict(reversed(unfenced(prompt)))
    names = ("Answer", "First answer", "Draft", "Claim", "Passage 1")
    return next((inside[name] for name in names if name in inside), unfenced(prompt)[0][1])


PLACES = ("Keller", "Garten", "Hafen", "Speicher", "Turm", "Stall", "Laden", "Wald", "Saal", "Hof", "Graben", "Ofen")
THINGS = (
    "Fass",
    "Bier",
    "Brot",
    "Rad",
    "Boot",
    "Seil",
    "Tuch",
    "Glas",
    "Blech",
    "Korn",
    "Holz",
    "Salz",
    "Obst",
    "Leder",
)
WORKERS = ("Braumeister", "Müller", "Gärtner", "Schmied", "Bäcker", "Fischer", "Maurer", "Bauer", "Töpfer", "Weber")


def german(seed: str) -> str:
    """German prose, another one for each seed."""
    digest = iter(hashlib.sha256(seed.encode()).digest())

    def of(words: tuple[str, ...]) -> str:
        return words[next(digest) % len(words)]

    return " ".join(
        (
            f"Das {of(THINGS)} liegt bei zwölf Grad im {of(PLACES)}, und der {of(WORKERS)} prüft jeden Morgen das "
            f"{of(THINGS)}.",
            f"Wer vom {of(PLACES)} zum {of(PLACES)} geht, trifft den {of(WORKERS)} mit seinem {of(THINGS)}.",
            f"Ein {of(WORKERS)} braucht dafür kein {of(THINGS)}, sondern einen {of(PLACES)} und viel Geduld.",
        )
    )


SALAD_WORDS = ["of", "the", "table", "running", "blue", "seven", "however", "never", "matrix"]


def salad(prompt: str) -> str:
    """Words of a question and a few others in no order."""
    words = re.findall(r"[A-Za-z]{4,}", subject(prompt).lower())[:10] + SALAD_WORDS
    return " ".join(words[hashlib.sha256(f"{n} {prompt}".encode()).digest()[0] % len(words)] for n in range(120))


Change = Callable[[str, str], str]  # (good text, prompt) -> bad text
BAD: dict[str, Change] = {
    **{name: (lambda good, prompt, text=text: text) for name, text in REFUSALS.items()},
    "same": lambda good, prompt: SAME,
    "word": lambda good, prompt: "Yes.",
    "echo-prompt": lambda good, prompt: prompt,
    "echo-question": lambda good, prompt: subject(prompt),
    "source": lambda good, prompt: material(prompt),
    "language": lambda good, prompt: german(prompt),
    "fence": lambda good, prompt: f"```\n{good}\n```",
    "fence-markdown": lambda good, prompt: f"```markdown\n{good}\n```",
    "preamble": lambda good, prompt: f"Sure! Here is the answer you asked for:\n\n{good}",
    "preamble-short": lambda good, prompt: f"Sure! Here you go:\n\n{good}",
    "preamble-ja": lambda good, prompt: f"もちろんです！以下が回答です：\n\n{good}",
    "json": lambda good, prompt: json.dumps({"answer": good}),
    "fence-json": lambda good, prompt: f"```json\n{json.dumps({'answer': good})}\n```",
    "cut": lambda good, prompt: f"{good.rstrip()} And it is also of some importance that one does not for",
    "html": lambda good, prompt: "".join(f"<p>{each}</p>" for each in good.split("\n\n")),
    "plan": lambda good, prompt: f"{PLANNED}\n\n{good}",
    "praise": lambda good, prompt: f"Great question! {good}",
    "same-nearly": lambda good, prompt: (
        f"{SAME} {SENTENCE * 2}This holds for {' '.join(subject(prompt).split()[-3:])}, too."
    ),
    "salad": lambda good, prompt: salad(prompt),
    "loop": lambda good, prompt: SENTENCE * 12,
    "word-loop": lambda good, prompt: "the answer " * 80,
}


def spoil(text: str, prompt: str, task: str, change: Change) -> str:
    """The reply of a bad model: its text, or within a structured reply the field that is a text."""
    if task == "axioms/corrupt":
        field = re.compile(r"(<corrupted_answer>)(.*?)(</corrupted_answer>)", re.DOTALL)
        return field.sub(lambda found: found[1] + change(found[2].strip(), prompt) + found[3], text)
    if task == "expertqa/break_claim":
        return f"<atomic_claim>{change(material(prompt), prompt)}</atomic_claim>"
    return change(text, prompt)


PROSE = (
    *(f"axioms/{name}" for name in ("open_book", "irrelevant_book", "closed_book", "corrupt", "combine")),
    *(f"expertqa/{name}" for name in ("closed_book", "from_passages", "revise")),
    *(f"revision_distance/{name}" for name in ("write", "related_vanilla", "recall", "segment", "related_cot")),
)


def drawn(prompt: str, share: float) -> bool:
    return hashlib.sha256(prompt.encode()).digest()[0] < 256 * share


def replies(
    server: Server, change: Change, *, tasks: Collection[str] = PROSE, share: float = 1.0, finish: str = "stop"
) -> Callable[[dict[str, Any]], Verdict | None]:
    """For `Server.fails`: this share of the replies to these prompts, changed."""

    def fails(body: dict[str, Any]) -> Verdict | None:
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        task = server.tasks.get(messages[0][1].strip(), "")
        if task not in tasks or not drawn(messages[-1][1], share):
            return None
        try:
            good = respond(Request(messages, task=task))[0].partition(END)[0]
        except UsageError:  # what stands in the prompt is itself a bad reply, with fences
            good = SAME
        return said(spoil(good, messages[-1][1], task, change) + END, finish)

    return fails


def said(text: str, finish: str = "stop") -> Verdict:
    """A completion with this text."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return 200, {}, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
