"""Rules of the offline model for LLMCrit: what criteria ask for is looked up in a table of traits, by their words.

Changed texts, feedback and verdicts follow the same table, so a judge sees what a writer did. Criteria that are not in
the table are judged by the words that it shares with units of the text: sentences, or lines of code.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from longform.llm.offline import PromptInputs, Rule
from tasks.text.markdown.named_items import named_items
from tasks.text.markdown.quotations import QUOTATION, folded, quotations_found, sentences_and_bare
from tasks.text.prose import COMMON, Span, sentences
from tasks.text.units import is_code, parses, units_of

Words = tuple[frozenset[str], frozenset[str], int]  # beginnings of words that count two, and one; what it takes


class Trait(NamedTuple):
    """What criteria with words of `chosen` ask for; `advice`: what to do about a text that violates it: it has `bad`,
    or else lacks `good`. Without `good` and `occasion` (if there is one) it does not apply. `add`, or `fix` in place of
    `bad`, makes a text meet it, and `spoil` violate it; what named groups find is renamed. {a}: a word of the text.
    """

    subject: str
    chosen: str
    advice: str
    good: str | Words = ""
    bad: str | Words = ""
    occasion: str | Words = ""
    add: str = ""
    spoil: str = ""
    fix: str = ""


LOWER = "in lower case"
FILE = Path(__file__).with_name("traits.toml")


@cache
def traits_of(kind: str) -> tuple[Trait, ...]:
    """The traits of texts of a kind, code or prose, in the order of the file."""
    return tuple(Trait(**each) for each in tomllib.loads(FILE.read_text(encoding="utf-8"))[kind])


_NOT = re.compile(r"\b(?:not|no|never|avoid\w*|without|free of|instead of|rather than)\b|n't\b", re.I)
_LEAD = re.compile(r"\A(?:(?:check|that|does|do|is|are|there|has|the|an?|each|text|keeps? to this:)\s+)*", re.I)
_COMMON = {*COMMON, "title", "self", "return"}
_FILLER = {"text", "chec", "veri", "keep", "writ", "clea", "tell", "read", "firs", "that", "say", "says", "give"}


@lru_cache(maxsize=8_192)
def _stems(text: str) -> frozenset[str]:
    """The first four letters of a text's words, without common ones and those that any criterion may have."""
    words = re.findall(r"[^\W\d_]{3,}", text.lower())
    return frozenset(word[:4] for word in words if word not in _COMMON) - _FILLER


@lru_cache(maxsize=512)
def _pattern(look: str) -> re.Pattern[str]:
    """Case counts only in patterns with a range of letters."""
    return re.compile(look, re.M if re.search(r"\[[aA]-", look) else re.M | re.I)


@lru_cache(maxsize=8_192)
def _places(look: str | Words, text: str) -> tuple[Span, ...]:
    """The units of the text in which there is what is looked for, in order; none for an empty pattern."""
    units = units_of(text)
    if isinstance(look, tuple):
        core, others, least = look
        stems = ((unit, _stems(text[unit.start : unit.end])) for unit in units)
        return tuple(unit for unit, own in stems if 2 * len(own & core) + len(own & others) >= least)
    ends = [unit.end for unit in units]
    found = (match.end() - len(match[0].lstrip()) for match in _pattern(look).finditer(text)) if look else ()
    return tuple(dict.fromkeys(units[min(bisect_right(ends, at), len(units) - 1)] for at in found))


def _named(criterion: str) -> tuple[str, str]:
    """(name, check) of a criterion as prompts show it; the name is "" where it has none."""
    found = re.match(r"\s*\*\*(.+?)[.:]?\*\*[.:]?\s*(.*)", criterion, re.DOTALL)
    return (found[1], found[2]) if found else ("", criterion.strip())


@lru_cache(maxsize=4_096)
def _trait(criterion: str, code: bool, noun: str) -> Trait:
    """The trait with most words in the criterion, of equals with more in its name; else one of its own words. What a
    criterion asks for whose name begins with a negation is turned round if the trait is something good.
    """
    name, check = _named(criterion.replace(noun, "text"))
    table, most = traits_of("code" if code else "prose"), re.search(r"\d{1,3}(?= (?:words|lines))", check)
    looks = (_pattern(rf"(?<!\w)(?:{trait.chosen})(?!\w)") for trait in table)
    hits = [(len({*look.findall(f"{name}: {check}".lower())}), len(look.findall(name))) for look in looks]
    if max(hits)[0] == 0:
        return _own_trait(name, check, _stems(noun), "# " * code)
    known = table[hits.index(max(hits))]
    if _NOT.match(name) and not known.bad:
        return known._replace(good="", bad=known.good, add="", spoil=known.add, advice="leave it out")
    return known._replace(bad=str(known.bad).replace("{n}", most[0])) if most else known


def _own_trait(name: str, check: str, noun: frozenset[str], mark: str) -> Trait:
    """What stands before a negation in a criterion is good, what stands behind it is bad. A unit has it with a third of
    the words; those of the name count twice, those of the noun, which says what kind of text it is, not at all.
    """
    negation = _NOT.search(check)
    told = (check[: negation.start()], check[negation.end() :]) if negation else (check or name, "")
    core, (wanted, denied) = _stems(name) - noun, (_stems(half) - noun for half in told)
    looks = [(core, half, -(-(2 * len(core) + len(half)) // 3)) for half in (wanted, denied)]
    plain = [_LEAD.sub("", half).strip(" .?:") for half in told]
    add, spoil = (f"{mark}On {{a}} we {half} ({name})." for half in plain)
    if denied:
        return Trait(name, "", f"leave out what the rule names: {plain[1]}", "", looks[1], "", add, spoil)
    return Trait(name, "", f"add what the rule names: {plain[0]}", looks[0] if wanted else "", add=add)


@lru_cache(maxsize=8_192)
def _judged(trait: Trait, text: str) -> tuple[str, str]:
    """(met, violated or not applicable; the place that decides, "" if there is none)."""
    bad, good, occasion = (_places(look, text) for look in (trait.bad, trait.good, trait.occasion))
    place = next((text[start:end] for start, end in bad or good or occasion), "")
    verdict = "violated" if bad or (trait.good and not good) else "met"
    return ("not applicable", "") if trait.occasion and not (bad or good or occasion) else (verdict, place)


def compliance(criterion: str, text: str, noun: str = "text") -> tuple[str, str]:
    """(met, violated or not applicable; the place of the text that decides, "" if there is none)."""
    return _judged(_trait(criterion, is_code(text), noun), text)


# texts


def _inserted(text: str, piece: str) -> Iterator[str]:
    """The text with the piece in it: code at its end, then its beginning; a sentence also in the middle."""
    counts = Counter(word for word in re.findall(r"[a-z]{4,}", text.lower()) if word not in _COMMON)
    piece = piece.replace("{a}", next((word for word, _ in counts.most_common(1)), "item"))
    if is_code(text):
        yield from (f"{text.rstrip()}\n\n\n{piece}\n", f"{piece}\n\n\n{text}")
        return
    ends = [unit.end for unit in units_of(text) if text[unit.start : unit.end].endswith((".", "!", "?"))]
    for at in (ends[(len(ends) - 1) // 2], ends[-1], ends[0]) if ends else [len(text.rstrip())]:
        yield f"{text[:at]} {piece}{text[at:]}"
    yield f"{piece} {text}"


def _without(look: str | Words, text: str) -> Iterator[str]:
    """The text without the units that have it (in code also with `pass` in their place), and without what is found."""
    for instead in ("", "pass")[: 1 + is_code(text)]:
        rest = text
        for start, end in reversed(_places(look, text)):
            rest = rest[:start] + instead + rest[end:].lstrip(" ")
        yield rest
    yield _pattern(look).sub("", text) if isinstance(look, str) and look else text


def _fixed(trait: Trait, text: str) -> str:
    """The text with `fix` in place of `bad`, and with other names where groups of `bad` are names."""
    look = _pattern(str(trait.bad))
    for _ in range(4 if isinstance(trait.bad, str) and trait.bad else 0):  # a pass finds one name of a line
        for name in dict.fromkeys(name for match in look.finditer(text) for name in match.groupdict().values() if name):
            snake = re.sub(r"([A-Z])", r"_\1", name).lower()
            new = f"{name}_value" if len(name) == 1 else name.capitalize() if snake == name else snake
            text = re.sub(rf"\b{name}\b", new, text)
        text = look.sub(lambda m: m[0].lower() if trait.fix == LOWER else m.expand(trait.fix or r"\g<0>"), text)
    return text


def _turned(trait: Trait, text: str, verdict: str) -> str:
    """The text changed, and not only cut at an end, so that the trait's verdict is this one; else unchanged."""
    met, code, whole = verdict == "met", is_code(text), " ".join(text.split())
    look, piece = (trait.bad, trait.add) if met else (trait.good, trait.spoil)
    piece = piece or ("# {a} stays as it is" if code else "The same is true of {a}.")
    for start in (text, *([_fixed(trait, text)] if met else []), *_without(look, text)):
        for changed in (start, *_inserted(start, piece)):
            fits = " ".join(changed.split()) not in whole and _judged(trait, changed)[0] == verdict
            if fits and (not code or parses(changed) or not parses(text)):
                return changed
    return text


def _text(inputs: PromptInputs) -> str:
    """The text that a prompt is about, whatever is to be done with it."""
    return next(text for label, text in inputs.texts if label.startswith("Text"))


def _labelled(inputs: PromptInputs, label: str) -> list[str]:
    """All texts with this label."""
    return [text for name, text in inputs.texts if name == label]


def _rewrite(inputs: PromptInputs, random_bytes: bytes, max_characters: int, *, label: str, verdict: str) -> str:
    """The text, changed where the verdict on a criterion of this label is another one; and, except for `meet_or_leave`,
    in any case.
    """
    text, noun = _text(inputs), inputs.one("What is written")
    traits = [_trait(criterion, is_code(text), noun) for _, criterion in inputs.numbered(label)]
    done = {verdict, "not applicable"} if inputs.task.endswith("leave") else {verdict}
    changed = text
    for trait in traits:
        changed = changed if _judged(trait, changed)[0] in done else _turned(trait, changed, verdict)
    for trait in traits if len(done) == 1 else []:
        changed = _turned(trait, changed, verdict) if changed == text else changed
    return changed


# criteria and feedback

_DEMAND = re.compile(r"\b(?:should|must|needs?|ha(?:s|ve) to|never|always|avoid|only|not|no)\b", re.I)
_PHRASES = {
    "violated": ("In {place} the {noun} breaks this: {advice}.", "{place} should be changed: {advice}."),
    "missing": ("The {noun} lacks this: after {place}, {advice}.", "This is missing. Behind {place}, {advice}."),
    "met": ("In {place} the {noun} does this well; nothing has to be changed.", "This holds, as {place} shows."),
    "clean": ("From {place} on, the {noun} keeps to this.", "There is no cause for change, in {place} or elsewhere."),
    "not applicable": ("The {noun}, from {place} on, gives no occasion for this.",),
    "vague": ("This could be better.", "The {noun} could do this better."),
}


def _propose(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """A criterion for each item of a list in the section; without a list, for each sentence that demands something."""
    section, noun = inputs.one("Section of the guideline"), inputs.one("What is written")
    told = [" ".join(section[slice(*span)].split()) for span in sentences(section)]
    found: dict[str, str] = {}
    for name, rule in named_items(section) or [("", rule) for rule in told if _DEMAND.search(rule)]:
        name = name or re.sub(
            rf"(?: (?:{'|'.join(sorted(_COMMON))}))+$", "", " ".join(re.findall(r"[\w'-]+", rule)[:5])
        )
        check = f"Check that the {noun} keeps to this: {rule[:1].lower()}{rule[1:]}"
        found[f"{name} {len(found) + 1}" if name in found else name] = check
    return "\n".join(f"{n}. **{name}**: {check}" for n, (name, check) in enumerate(found.items(), 1))


def _remark(trait: Trait, text: str, noun: str, byte: int, vague: int) -> str:
    """What to say of the text. `byte` chooses the words; below `vague`, a critique says neither where nor what."""
    verdict, place = _judged(trait, text)
    key = verdict if place else {"violated": "missing", "met": "clean"}.get(verdict, verdict)
    key = "vague" if verdict == "violated" and byte < vague else key
    spans = [unit for unit in units_of(text) if unit.end - unit.start >= 20] or units_of(text)
    line = " ".join((place or text[slice(*spans[byte % len(spans)])]).split())
    line = line if len(line) <= 160 else f"{line[:160].rpartition(' ')[0]}…"
    marks = next((marks for marks in ("``" if is_code(text) else "“”", '""') if not {*marks} & {*line}), "“”")
    words = {"place": f"{marks[0]}{line}{marks[1]}", "noun": noun, "advice": trait.advice}
    return _PHRASES[key][byte % len(_PHRASES[key])].format(**words)


def _feedback(inputs: PromptInputs, random_bytes: bytes, max_characters: int, *, vague: int) -> str:
    """A remark for each criterion, else each name in bold in feedback on examples, else what is noticed in the text."""
    text, noun = _text(inputs), inputs.one("What is written")
    told = "\n".join(feedback for feedback in _labelled(inputs, "Feedback on this example"))
    names = [f"**{name}**: {name}" for name in dict.fromkeys(name for name, _ in _items(told) if name)]
    criteria = [criterion for _, criterion in inputs.numbered("Criterion")] or names or _noticed(text)
    feedback = ""
    for n, criterion in enumerate(criteria):
        remark = _remark(_trait(criterion, is_code(text), noun), text, noun, random_bytes[n % 32], vague)
        longer = f"{feedback}\n{n + 1}. **{_named(criterion)[0] or criterion}**:\n    - {remark}"
        feedback = longer if len(longer) + 8 < max_characters else feedback
    return feedback.strip("\n")


def _noticed(text: str) -> list[str]:
    """At most two things that the table finds bad in the text, and one that it finds good, as criteria."""
    table = traits_of("code" if is_code(text) else "prose")
    bad = [trait.subject for trait in table if _places(trait.bad, text)]
    good = [trait.subject for trait in table if _places(trait.good, text) and trait.subject not in bad]
    return [f"**{name}**: {name}" for name in (*bad[:2], *good[-1:])] or ["**Clarity**: clarity"]


# judges

_CRITICAL = re.compile(
    r"\b(?:should|could|lacks?|missing|not|instead|consider|rewrit\w+|add|remove|delete|replace|shorten|split|cut|use|say"
    r"|(?:take|leave) out|explain|please|unclear|vague|too|needs?|has to|must|better|fails?|breaks?|nothing in)\b", re.I
)  # fmt: skip
_PRAISE = re.compile(r"\b(?:nothing (?:has|needs) to|no (?:changes?|cause|need|occasion)|not (?:apply|need))\b", re.I)
_CONCRETE = re.compile(r"\b(?:add|insert|write|replace|name|move|delete|remove|cut|split|rename|put|say)\b", re.I)
_TO_ALL = re.compile(r"\b(?:writers?|authors?|programmers?|people) (?:should|must)\b", re.I)
_DECLINES = re.compile(r"\W*(?:i am|i cannot|i can't|sorry|please|here is)\b", re.I)
_STATES = re.compile(r"(?:[“\"`]|(?:the|this|you|there|no|all|it|at|from)\b)(?![^:;]*\b(?:should|must|may)\b)", re.I)
_HERE = re.compile(r"\b(?:this|your) (?:\w+ )?(?:TEXT|code|file)\b|\Ain [“\"`]|\bhere\b|\A[“\"`].{9,}[”\"`] \w", re.I)


def _items(feedback: str) -> list[tuple[str, str]]:
    """(name in bold, or "", text) of the parts of a feedback."""
    parts = re.split(r"^[ \t]*(?:\d+[.)]|[-*])?[ \t]*\*\*(.+?):?\*\*:?", feedback, flags=re.M)
    return [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]


def _tags(**fields: str) -> str:
    return "\n".join(f"<{name}>{value}</{name}>" for name, value in fields.items())


def _verify(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    verdict, place = compliance(inputs.one("Criterion"), inputs.one("Text"), inputs.one("What is written"))
    return _tags(reasoning=f"What decides: {place[:200].replace('<', '‹') or 'nothing in the text'}", verdict=verdict)


def _validity(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """Specific if a sentence speaks of this text, or, in feedback that is not for all writers, states something."""
    feedback, noun = inputs.one("Feedback"), inputs.one("What the feedback is on")
    told = [bare for _, body in _items(feedback) for _, bare in sentences_and_bare(body)]
    nouns = re.compile("|".join(map(re.escape, (noun, *noun.split()))))
    speaks = any(_HERE.search(nouns.sub("TEXT", each)) for each in told)
    states = not _TO_ALL.search(feedback) and any(_STATES.match(each) for each in told)
    specific = (speaks or states) and not _DECLINES.match(feedback)
    return _tags(reasoning=f"It speaks of one text: {speaks}", verdict="specific" if specific else "not specific")


def _context(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """By its quotations; without these by its rarer words, or because it says what is missing."""
    text, feedback = inputs.one("Text"), "\n".join(body for _, body in _items(inputs.one("Feedback")))
    found, told = quotations_found(feedback, text), " ".join(bare for _, bare in sentences_and_bare(feedback)).lower()
    rare = {word for word in re.findall(r"[^\W\d_]{6,}", told) if word not in _COMMON}
    known = 2 * len(rare.intersection(re.findall(r"\w+", text.lower()))) > len(rare)
    verdict = "match" if known or re.search(r"\b(?:lacks?|missing|is no|are no)\b", told) else "unsure"
    if found:
        verdict = "match" if all(found) else inputs.one(_MIXED) if any(found) else "not match"
    return _tags(reasoning=f"{sum(found)} of {len(found)} quotations stand in the text.", verdict=verdict)


def _critique(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The critical sentences on the criterion; they help if they are right, and say where or what to change."""
    text, feedback, criterion = inputs.one("Text"), inputs.one("Feedback"), inputs.one("Criterion")
    noun, items, critical = inputs.one("What is written"), _items(feedback), dict[str, str]()
    trait, name = _trait(criterion, is_code(text), noun), folded(_named(criterion)[0] or criterion)
    verdict, place = _judged(trait, text)
    own, broken = _stems(criterion) - _stems(noun), place if verdict == "violated" else ""
    for title, body in [item for item in items if folded(item[0]) == name] or items:
        for sentence, bare in sentences_and_bare(body):
            concerns = folded(title) == name or _concerns(trait, own, broken, title, sentence, bare)
            negative = _CRITICAL.search(bare) or (trait.good and re.search(r"\bno\b", bare))
            critical |= {sentence: bare} if concerns and negative and not _PRAISE.search(bare) else {}
    extraction = " ".join(critical)
    found = quotations_found(extraction, text)
    concrete = any(_CONCRETE.search(bare) and len(_stems(bare) - own) > 3 for bare in critical.values())
    helpful = "yes" if verdict == "violated" and (any(found) if found else concrete) else "no"
    fields = {"extraction": extraction, "critique": "yes" if critical else "no", "helpful": helpful}
    return _tags(reasoning=f"By the criterion the text is: {verdict}.", **fields)


def _concerns(trait: Trait, own: frozenset[str], broken: str, title: str, sentence: str, bare: str) -> bool:
    """Whether a sentence of feedback is on a criterion: by words of its trait in the title above it, or without one in
    itself, by two words of the criterion, or by the place that breaks it, if it quotes that.
    """
    quotes = [folded(each[0]) for each in QUOTATION.finditer(sentence)]
    known = trait.chosen and _pattern(rf"(?<!\w)(?:{trait.chosen})(?!\w)").search(title or bare)
    shares = len(_stems(bare) & own) >= min(2, len(own)) > 0
    return bool(known) or shares or any(len(each) > 8 and each in folded(broken) for each in quotes)


_MIXED = "Feedback that belongs to the text only in part counts as"
_VOICE = {"You are", "What is written"}
_TEXT, _GUIDED = {*_VOICE, "Text"}, {*_VOICE, "Guideline", "Criterion"}
_EXAMPLES = {"Example", "Feedback on this example"}
_JUDGED = {f"Judged {name}" for name in ("text", "feedback", "criterion")} | {"Judgement", "Not helpful"}
RULES = {
    "llmcrit/propose_criteria": Rule(_propose, {"What is written", "Section of the guideline"}),
    "llmcrit/violate": Rule(partial(_rewrite, label="Criterion", verdict="violated"), {*_GUIDED, "Text to change"}),
    "llmcrit/meet": Rule(partial(_rewrite, label="Required", verdict="met"), {*_GUIDED, "Text to revise", "Required"}),
    "llmcrit/meet_or_leave": Rule(
        partial(_rewrite, label="Criterion", verdict="met"), {*_GUIDED, "Text to revise or leave"}
    ),
    "llmcrit/verify": Rule(_verify, {"What is written", "Text", "Criterion"}),
    "llmcrit/demonstrate": Rule(partial(_feedback, vague=0), {*_GUIDED, "Text to teach by", "Broken"}, {"Broken"}),
    "llmcrit/feedback_base": Rule(partial(_feedback, vague=32), _TEXT),
    "llmcrit/feedback_crit": Rule(partial(_feedback, vague=64), {*_GUIDED, "Text"}),
    "llmcrit/feedback_icl": Rule(partial(_feedback, vague=64), {*_TEXT, *_EXAMPLES}),
    "llmcrit/feedback_cricl": Rule(partial(_feedback, vague=16), {*_GUIDED, "Text", *_EXAMPLES}),
    "llmcrit/judge_validity": Rule(_validity, {"What the feedback is on", "Specific", "Not specific", "Feedback"}),
    "llmcrit/judge_context": Rule(_context, {"What is written", _MIXED, "Text", "Feedback"}),
    "llmcrit/judge_critique": Rule(_critique, {*_TEXT, *_JUDGED, "Feedback", "Criterion"}, _JUDGED),
}
