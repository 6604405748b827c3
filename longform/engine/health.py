"""Whether a model answers a stage well enough to go on: shares of replies that are of no use, and their ceilings.

    refused      the model declines, or a filter holds question or reply back
    cut_off      the reply ends at the limit of tokens, or in the middle of a sentence
    unreadable   the reply is empty, or has not the form that was asked for
    not_taken    the endpoint does not take the question: too long, not acceptable
    degenerate   the reply is one word, words in no order, the same words over and over, or a text of its prompt
    repeated     the reply is, word for word or nearly, that to another question
    abstained    the reply abstains, which the method counts: no fault, but of no use where nearly all do
    unchanged    the reply leaves the text it was to work on as it is: likewise

A stage stops as soon as the lower 95 % bound of a share is above its ceiling, after LEAST replies at the earliest. Its
first PILOT questions are a pilot: no further question is asked before their replies have come. What a rule of the
method filters is no fault of the model.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

import pyarrow as pa

from longform.addresses import without_logins
from longform.artifacts.rows import Rejected, Rows, read_batches
from longform.artifacts.store import Part, Store
from longform.engine.addresses import addresses, id_of
from longform.errors import GateError
from longform.lines import beginning
from longform.llm.ask.types import Answer, Failure, Request
from longform.llm.read.replies import without_thought
from longform.llm.retry import MODEL_REASON, kind_of

REPLIES = "replies"  # a counter of parts: what the model was asked for them
PILOT = 30
LEAST = 20
CONFIDENCE = 0.95
EXAMPLES, EXAMPLE_CHARACTERS, ID_CHARACTERS = 3, 100, 80  # examples of different texts, if there are
EXAMPLES_FROM = 1_000
UNBOUNDED = 1 << 30

Fault = Literal["refused", "cut_off", "unreadable", "not_taken", "degenerate", "repeated", "abstained", "unchanged"]
Item = TypeVar("Item")

FAULTS: dict[Fault, str] = {
    "refused": "replies decline",
    "cut_off": "replies are cut off",
    "unreadable": "replies cannot be read",
    "not_taken": "questions are not taken by the endpoint",
    "degenerate": "replies are one word, words in no order, the same words over and over, or the prompt",
    "repeated": "replies repeat that to another question",
}
_FAULT_OF: dict[str, Fault] = {
    "refusal": "refused",
    "filter": "refused",
    "length": "cut_off",
    "whitespace": "cut_off",
    "request": "not_taken",
    "degenerate": "degenerate",
    "repeated": "repeated",
}
_FAULTS: tuple[Fault, ...] = get_args(Fault)
_COUNTED: dict[Fault, str] = {"abstained": "abstain", "unchanged": "leave the text as it was"}
_LEAST: dict[Fault, int] = {"abstained": 1, "unchanged": 5}  # replies; of fewer a share of these says nothing

SINGULAR = {
    "replies": "reply",
    "questions": "question",
    "rows": "row",
    "stages": "stage",
    "kinds": "kind",
    "decline": "declines",
    "repeat": "repeats",
    "abstain": "abstains",
    "leave": "leaves",
    "are": "is",
}
WHAT = re.compile("replies|questions|rows|stages|kinds")
VERBS = re.compile(
    r"(?<=replies )(?:decline|are|repeat)|(?<=questions )are|(?<=rows )are|abstain\Z|leave(?= the text as it was\Z)"
)
IS_COUNTED = re.compile(r"(?:abstains?|leaves? the text as it was)\Z")


def fault_of(reason: str) -> Fault | None:
    """The fault of the model that the reason of a rejected row tells; None if it tells none. A kind of failure that is
    not known here counts as unreadable.
    """
    kind = kind_of(reason)
    return None if kind is None else _FAULT_OF.get(kind, "unreadable")


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The largest shares (0 to 1) of a stage's replies that may have each fault."""

    refused: float = 0.1
    cut_off: float = 0.1
    unreadable: float = 0.1
    not_taken: float = 0.1
    degenerate: float = 0.1
    repeated: float = 0.1
    abstained: float = 0.8
    unchanged: float = 0.9

    def of(self, fault: Fault) -> float:
        """The ceiling of a fault."""
        return float(getattr(self, fault))


@dataclass(frozen=True, slots=True)
class Gate:
    """What a gate found: in the replies of a stage, or in the rows of a version (`of`).

    `gate`: the name by which it is accepted, that of a stage or of an audit. `what`: what it looks for. `found` of
    `checked`: numbers of replies or rows. `ceiling`: the share that is let through. `accepted`: somebody said that it
    goes on although the share is above the ceiling.
    """

    gate: str
    of: Literal["stage", "version"]
    what: str
    found: int
    checked: int
    ceiling: float
    accepted: bool = False

    @property
    def share(self) -> float:
        """`found` by `checked`; 0 if nothing was checked."""
        return self.found / self.checked if self.checked else 0.0

    @property
    def is_above(self) -> bool:
        """Whether the share is above the ceiling. One reply of several never is, as it says nothing of the others; of
        rows one is enough.
        """
        enough = self.of == "version" or self.found > 1 or self.found == self.checked
        return self.found > 0 and self.share > self.ceiling and enough

    @property
    def sentence(self) -> str:
        """What was found, e.g. `answer_open_book: 2 of 41 replies decline (4.9 %)`, with `, accepted` if so."""
        accepted = ", accepted" if self.accepted else ""
        what = in_number(self.what, self.found, self.checked)
        return f"{self.gate}: {self.found:,} of {self.checked:,} {what} ({percent(self.share)}){accepted}"


def in_number(what: str, found: int, checked: int) -> str:
    """What was found, with the verb for `found` of them and the noun for `checked`: `replies decline`, `replies
    declines` after "1 of 41", `reply declines` after "1 of 1".
    """
    noun, verb = WHAT.match(what), VERBS.search(what)
    if found == 1 and verb:
        what = f"{what[: verb.start()]}{SINGULAR[verb[0]]}{what[verb.end() :]}"
    return f"{SINGULAR[noun[0]]}{what[noun.end() :]}" if checked == 1 and noun else what


def percent(share: float) -> str:
    """A share (0 to 1) as text: `10 %`, `4.9 %`."""
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def lower_bound_is_above(found: int, checked: int, ceiling: float) -> bool:
    """Whether the one-sided lower 95 % bound (Clopper and Pearson) of the share `found` / `checked` is above the
    ceiling.
    """
    if found <= ceiling * checked:
        return False
    if ceiling <= 0:
        return True
    from scipy.special import betainc  # which takes a moment, and is needed only where something is wrong

    return bool(betainc(found, checked - found + 1, ceiling) < 1 - CONFIDENCE)


def gates_of(stage: str, parts: Sequence[Part], ceilings: Ceilings, *, accepted: bool = False) -> list[Gate]:
    """What the gates of a model stage find in its parts, one for each fault, and for each system one for what its
    replies may do, but not nearly all (_COUNTED); [] if it got no reply. `accepted`:
    somebody said that the stage goes on as it is; this is noted only at gates whose share is above the ceiling.
    """
    checked, faults = count_replies(parts)
    if not checked:
        return []
    gates = [Gate(stage, "stage", what, faults[fault], checked, ceilings.of(fault)) for fault, what in FAULTS.items()]
    counted = _sums(parts)
    for fault, least in _LEAST.items():
        for name, number in sorted(counted.items()):
            system = name.removeprefix(f".{fault} of: ")
            if system != name and number >= least:
                found = counted[f"{fault}: {system}"]
                gates.append(Gate(stage, "stage", _counted_replies(fault, system), found, number, ceilings.of(fault)))
    return [
        Gate(each.gate, each.of, each.what, each.found, each.checked, each.ceiling, accepted and each.is_above)
        for each in gates
    ]


def count_replies(parts: Iterable[Part]) -> tuple[int, Counter[Fault]]:
    """(number of replies, fault -> number of rows rejected for it) of parts. Earlier releases did not count replies:
    for parts of theirs with faults, these are the rows and the defects.
    """
    checked, faults = 0, Counter[Fault]()
    for part in parts:
        own = Counter[Fault]()
        for _, reason, number in part.rejected:
            if fault := fault_of(reason):
                own[fault] += number
        defects = sum(number for kind, _, number in part.rejected if kind == "defect")
        uncounted = part.rows + defects if own else 0
        checked += max(dict(part.counts).get(REPLIES, uncounted), own.total())
        faults += own
    return checked, faults


def counted_of(request: Request, reply: Answer | Failure) -> dict[Fault, bool]:
    """What an answer may do, but not nearly all (_COUNTED) -> whether it does; {} if the request says nothing of it."""
    if isinstance(reply, Failure):
        return {}
    of: dict[Fault, Callable[[Any], object] | None] = {"abstained": request.abstains, "unchanged": request.unchanged}
    return {fault: bool(does(reply.value)) for fault, does in of.items() if does is not None}


def counters_of(system: str, counted: Mapping[Fault, bool]) -> list[str]:
    """The counters of a part in which a reply to a question of this system is counted. `counted`: as of
    `counted_of`.
    """
    does = [f"{fault}: {system}" for fault, found in counted.items() if found]
    return [*(f".{fault} of: {system}" for fault in counted), *does]


def counter_phrase(name: str, number: int) -> str:
    """A counter of a part in words: `12 replies leave the text as it was` for `unchanged: `, `3 replies of rr_gpt4
    abstain` for `abstained: rr_gpt4`; of any other counter its number and name.
    """
    for fault in _COUNTED:
        if name.startswith(f"{fault}: "):
            system = name.removeprefix(f"{fault}: ")
            what = _counted_replies(fault, system)
            return f"{number:,} {what if system else in_number(what, number, number)}"
    return f"{number:,} {name}"


def _sums(parts: Iterable[Part]) -> Counter[str]:
    """counter -> its sum over the parts."""
    return sum((Counter(dict(part.counts)) for part in parts), Counter())


def _counted_replies(fault: Fault, system: str) -> str:
    """What is counted of a system, e.g. `replies of rr_gs_gpt4 abstain`."""
    return f"replies of {system} {_COUNTED[fault]}" if system else f"replies {_COUNTED[fault]}"


def refusal(
    stage: str, store: Store, parts: Sequence[Part], ceilings: Ceilings, inputs: Sequence[Rows] = ()
) -> GateError | None:
    """The error of a stage, all of whose parts are made, with a share above its ceiling; None if it is healthy.
    `inputs`: the rows that the stage reads.
    """
    faults: dict[str, Fault] = {what: fault for fault, what in FAULTS.items()}
    for gate in gates_of(stage, parts, ceilings):
        if gate.is_above:
            examples = Examples()
            if fault := faults.get(gate.what):
                for text, row in islice(_stored_examples(store, parts, fault), EXAMPLES_FROM):
                    examples.add(text, row)
            return _error(stage, "its", gate.found, gate.checked, gate.what, gate.ceiling, examples.words(inputs))
    return None


def _stored_examples(store: Store, parts: Iterable[Part], fault: Fault) -> Iterator[tuple[str, str]]:
    """(text, id) of rejected rows with this fault; the text is the reply, else what is said of it."""
    for part in parts:
        if any(fault_of(reason) == fault for _, reason, _ in part.rejected):
            for batch in read_batches(store.rejected_path(part), 100, ["key", "reason", "detail", "raw"]):
                for row in batch.to_pylist():
                    if fault_of(row["reason"]) == fault:
                        yield row["raw"] or row["detail"] or "", row["key"]


class Examples:
    """Examples of a fault for people: up to EXAMPLES different texts, each with the ids of rows that it is of."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}

    def add(self, text: str, row: str | None) -> None:
        """Note a text, and the id of its row if that is known, unless there are enough."""
        if text in self._ids or len(self._ids) < EXAMPLES:
            ids = self._ids.setdefault(text, [])
            if row is not None and row not in ids and len(ids) < EXAMPLES:
                ids.append(row)

    def words(self, inputs: Sequence[Rows]) -> str:
        """The examples as `"I cannot" (x.com/1, https://x.com/q/1), "No." (x.com/2)`: of EXAMPLES rows in all, where
        texts are equal. `inputs`: the rows that the stage reads, which tell addresses.
        """
        more = EXAMPLES - len(self._ids)
        ids = {
            text: rows[: 1 + more] if number == 0 else rows[:1] for number, (text, rows) in enumerate(self._ids.items())
        }
        known = addresses((row for rows in ids.values() for row in rows), inputs)
        return ", ".join(filter(None, (_example(text, rows, known) for text, rows in ids.items())))


def _example(text: str, ids: Sequence[str], known: Mapping[str, str]) -> str:
    """A text in quotes, and its rows with their addresses as far as `known`; "" where there is neither."""
    rows = "; ".join(", ".join(filter(None, (beginning(row, ID_CHARACTERS), known.get(row)))) for row in ids)
    quoted = quote(text) or ("no text" if rows else "")
    return f"{quoted} ({rows})" if rows else quoted


def _error(stage: str, of: str, found: int, checked: int, what: str, ceiling: float, examples: str) -> GateError:
    """The error of a stage with too many of one fault. `of`: `its`, or `its first`. `what`: the fault in words."""
    such = f", e.g. {examples}" if examples else ""
    told = f"{found:,} of {of} {checked:,} {in_number(what, found, checked)} (ceiling {percent(ceiling)})"
    return gate_error({stage: f"{stage}: {told}{such}"})


def gate_error(findings: Mapping[str, str]) -> GateError:
    """The error of all stages that gates refuse. `findings`: stage -> what was found in its replies. What a method
    counts is no failure, and not asked again.
    """
    accept = " ".join(f"--accept {stage}" for stage in findings)
    again = ", with --retry-errors to ask these questions again"
    if all(IS_COUNTED.search(finding.partition(" (ceiling ")[0]) for finding in findings.values()):
        again = ""
    return GateError(
        f"{'; '.join(findings.values())}: look at the prompt and the endpoint's model, then run the same command{again}"
        f"; {accept} goes on as it is, and the card will say so.",
        findings,
    )


def quote(text: str) -> str:
    """The beginning of a text in quotes, without a model's thought; "" if nothing is left of it."""
    line = beginning(without_thought(text) or text, EXAMPLE_CHARACTERS)
    return f'"{line}"' if line else ""


class _Tally:
    """Counts outcomes, and the faults among them with their first examples."""

    def __init__(self) -> None:
        self.checked = 0
        self.found: Counter[Fault] = Counter()
        self.examples: defaultdict[Fault, Examples] = defaultdict(Examples)

    def add(self, number: int, fault: Fault | None = None, example: tuple[str, str | None] | None = None) -> None:
        """Count `number` outcomes, all with this fault or, for None, with none. `example`: a text, and the id of its
        row.
        """
        self.checked += number
        if fault is not None:
            self.found[fault] += number
            if example is not None:
                self.examples[fault].add(*example)

    def worst(self, ceilings: Ceilings) -> Fault | None:
        """A fault whose share is above its ceiling by its lower bound; None if there is none, or it is too early."""
        if self.checked < LEAST:
            return None
        above = (f for f in _FAULTS if lower_bound_is_above(self.found[f], self.checked, ceilings.of(f)))
        return next(above, None)


class Health:
    """The health of a stage while it is being made, counted from many threads: its replies as they come, and the rows
    that are made of them, since some faults are only seen in these. `on_decided` is called when the pilot has passed.
    `inputs`: the rows that the stage reads, for the ids and addresses of examples.
    """

    def __init__(
        self,
        stage: str,
        ceilings: Ceilings,
        on_decided: Callable[[], None] = lambda: None,
        inputs: Iterable[Any] = (),
    ) -> None:
        self.stage, self.ceilings, self._on_decided = stage, ceilings, on_decided
        self._inputs = [rows for rows in inputs if isinstance(rows, Rows)]
        self.decided = False
        self._begun = 0
        self._replies, self._rows = _Tally(), _Tally()
        self._systems: defaultdict[tuple[Fault, str], _Tally] = defaultdict(_Tally)
        self._refused: dict[str, str] = {}
        self._lock = threading.Lock()

    def counted(self, items: Iterable[tuple[Item, Request]]) -> Iterator[tuple[Item, Request]]:
        """The items, counted as they are taken to be asked."""
        for item, request in items:
            with self._lock:
                self._begun += request.samples
            yield item, request

    def room(self) -> int:
        """How many further questions may be asked now; UNBOUNDED when the pilot has passed. It may be 0, or less."""
        return UNBOUNDED if self.decided else PILOT - self._begun

    def add_reply(
        self,
        reply: Answer | Failure,
        item: Any = None,
        system: str = "",
        counted: Mapping[Fault, bool] = MappingProxyType({}),
    ) -> None:
        """Count a reply. `item`: by which the stage knows the row that it asked for. GateError if a share is above its
        ceiling by its lower bound. `counted`: as of `counted_of`, of a question of this system.
        """
        if isinstance(reply, Failure):
            example = _text_of(reply), id_of(item, self._inputs)
            self._add(self._replies, 1, fault_of(f"{MODEL_REASON}{reply.kind}"), example)
            return
        for fault, found in counted.items():
            example = (reply.text, id_of(item, self._inputs)) if found else ("", None)
            self._add(
                self._systems[fault, system], 1, fault if found else None, example, _counted_replies(fault, system)
            )
        self._add(self._replies, 1)

    def add_item(self, item: Any) -> None:
        """Count what a stage's body yielded: a row, a batch or a rejected row. Errors as of `add_reply`."""
        if isinstance(item, Rejected):
            if item.kind == "defect":
                self._add(self._rows, 1, fault_of(item.reason), (item.raw or item.detail or "", item.key))
        elif isinstance(item, pa.RecordBatch):
            self._add(self._rows, item.num_rows)
        elif item.get("response", "") is not None:  # else no model was asked for it
            self._add(self._rows, 1)

    def add_parts(self, parts: Iterable[Part]) -> None:
        """Count what stored parts tell of replies. Raises nothing: the next reply does."""
        checked, faults = count_replies(parts)
        with self._lock:
            for tally in (self._replies, self._rows):
                tally.add(checked - faults.total())
                for fault, number in faults.items():
                    tally.add(number, fault)
        self._decide()

    def waive_pilot(self) -> None:
        """Let the stage go on at once: it asks for vectors, which cannot be refused one by one."""
        self._decide(waived=True)

    def _add(
        self,
        tally: _Tally,
        number: int,
        fault: Fault | None = None,
        example: tuple[str, str | None] | None = None,
        what: str | None = None,
    ) -> None:
        """Count outcomes; GateError as of `add_reply`, also for every later outcome of the stage. `what`: what is told
        of them, by default the words of FAULTS.
        """
        with self._lock:
            tally.add(number, fault, example)
            worst = tally.worst(self.ceilings) if tally.found and not self._refused else None
            if worst is not None:
                such, told = tally.examples[worst].words(self._inputs), what or FAULTS[worst]
                ceiling, found = self.ceilings.of(worst), tally.found[worst]
                error = _error(self.stage, "its first", found, tally.checked, told, ceiling, such)
                self._refused = error.findings
            if self._refused:
                raise gate_error(self._refused)
        self._decide()

    def _decide(self, *, waived: bool = False) -> None:
        """Say, once, that the pilot has passed: its replies are there, none of its shares too high; or `waived`."""
        with self._lock:
            passed = self._replies.checked >= PILOT and not self._replies.worst(self.ceilings)
            passes = not self.decided and (waived or passed)
            self.decided = self.decided or passes
        if passes:
            self._on_decided()


def _text_of(failure: Failure) -> str:
    """The model's text of a failure, else what is said of it; addresses without user and password."""
    return without_logins(str(failure.detail.get("text") or failure.message))
