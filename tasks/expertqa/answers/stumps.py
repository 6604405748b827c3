"""Whether words that stood before a mark need it: `consistent with [3].`, `Laut [2] sind`, `Eq. [4]`.

One rule: what stands right before the mark is of a closed list of words that take another one (prepositions,
conjunctions, transitive verbs, abbreviations of what has a number), and nothing that they could take follows. A
preposition at the end of a clause whose object came before (`what it is made of [1].`) needs none.
"""

from __future__ import annotations

import re

_HEAD = (
    r"(?:(?<![\s\S])|(?<=\n)|(?<=[.!?…。！？;:(（]\s)|(?<=[.!?…][\"'”’»)\]]\s)|(?<=[(（。！？])"
    r"|(?<=^[-*•]\s)|(?<=\n[-*•]\s))"
)
AND = r"(?:and|or|und|oder|et|ou|y|e|en|и|或|和|与|與|及|と|や)"
NAMES_SOURCE = (
    r"(?:laut|gemäß|gemäss|zufolge|selon|d['’]après|según|de acuerdo con|de acordo com|segundo|conforme|secondo|volgens"
    r"|według|согласно|enligt|ifølge"
    r"|(?:wie|como|comme|come|zoals|как) (?:[^\W\d_]{1,12} ){0,2}[^\W\d_]{3,14} (?:in|en|dans|em|par|por|da|в))"
)
NAMES_SOURCE_BEFORE = r"(?:根据|根據|依据|依據|按照|(?<![一-鿿])[据據])"
NAMES_SOURCE_AFTER = r"(?:によると|によれば|에 따르면|에 의하면)"
SEE = (
    r"(?:siehe(?: auch)?|vgl|s\.\s?a|voir(?: aussi)?|véase|vea|ver(?: también)?|veja|vide|vid|vedi|si veda|cfr|zie"
    r"|zob|см|ср|напр|参见|參見|参照|参考|见|見|を参照|参照|を参考|참조)"
)
_OPENERS = (
    rf"(?:{NAMES_SOURCE}|{SEE}\.?|nach|bei|mit|in|im|dans|en|em|con|com|avec|по|в|из"
    r"|from|with|by|per|unlike|like|contrary to|following|both|as in|using|citing|quoting|given|for|of|to|on|at|about"
    r"|compare|contrast|consult|cite|refer to|combine|extend(?:ing)?|build(?:ing)? on|based on|compared (?:to|with))"
)
_OPENS = re.compile(rf"{_HEAD}(?:(?:and|but|also|then),? )?{_OPENERS}\Z", re.IGNORECASE)
_SCRIPT = re.compile(rf"(?:{NAMES_SOURCE_BEFORE}|(?<![一-鿿])(?:参见|參見|参照|见|見|引自))\Z")
_SCRIPT_AFTER = re.compile(rf"\s?(?:{NAMES_SOURCE_AFTER}|を参照|参照|に基づ|zufolge\b)")
_NUMBERED = re.compile(
    r"(?<![\w.])(?:refs?|eqs?|eqns?|figs?|secs?|sect|chs?|chap|vols?|nos?|thms?|lem|tabs?|app|arts?|pp?|Abb|Gl|Kap|Nr|S"
    r"|рис|табл|стр|с)\.\Z",
    re.IGNORECASE,
)
_PREPOSITIONS = (
    r"(?:of|from|by|than|into|onto|per|via|between|among|amid|despite|during|unlike|towards?|upon|against|with|for|at|to"
    r"|such as|consistent with|the|an?|and|or|but|plus|because|whereas|mod|modulo)"
)
_FOREIGN = (
    rf"(?:{NAMES_SOURCE}|siehe|voir|véase|von|mit|durch|für|bei|gegen|der|des|dem|den|und|oder|dans|avec|pour|chez|par|du"
    r"|et|con|según|del|los|las|por|com|pelo|pela|della|nella|con|от|из|для|при|или|согласно)"
)
_TAKES = re.compile(rf"(?<![\w'’.-])(?:{_PREPOSITIONS}|{_FOREIGN})\Z", re.IGNORECASE)
_IN = re.compile(
    r"\b(?!(?:logg|check|sett|join|mov|pitch|turn|plugg|sign|dropp|carri|mov|pass)ed)\w{2,20}ed (?:in|on)\Z", re.I
)
_VERBS = re.compile(
    r"\b(?:says?|yields|gives|cites|citing|quoting|suggests|contradicts|refutes|confirms|replicates|extends|contains"
    r"|requires|includes|including|equals"
    r"|(?:this|that|it|which|he|she) (?:mirrors|echoes|supports|disputes|follows|shows|quotes|calls))\Z",
    re.IGNORECASE,
)
_SAID_BEFORE = re.compile(
    r"[,;:\"”»—–(]|\b(?:as|than|what|which|who|that|whatever|where|how|when|if|like|so|to)\b", re.IGNORECASE
)
_STRANDED = re.compile(
    r"\b(?:(?:\w{1,20} )?(?:what|which|who|whom|whose|that|where|how|why|whatever)(?: \w[\w'’-]{0,30}){1,9}"
    r"|to \w{1,20}(?: \w{1,20})?|\w{1,30} (?:it|they|you|we|he|she|I|one|people) \w{1,20}(?: \w{1,20}){0,4})"
    r" (?!and\b|or\b|but\b|the\b|an?\b)\w{1,9}\Z",
    re.IGNORECASE,
)
_CLAIMS_THAT = re.compile(
    r"\b(?:show|find|found|suggest|argue|state|report|note|say|said|indicate|conclude|claim|explain|demonstrate|believe"
    r"|think|fact|so|confirm|reveal|estimate|agree)(?:s|ed|d|n)? that\b",
    re.IGNORECASE,
)
_PHRASAL = re.compile(
    r"\b(?:(?:paid|accounted|cared|called|looked|hoped|asked|provided|allowed) for"
    r"|(?:dealt|reckoned|done away|complied) with"
    r"|(?:thought|heard|disposed|taken care|taken advantage|made use|spoken) of"
    r"|(?:referred|agreed|listened|attended) to"
    r"|(?:arrived|looked) at"
    r"|(?:want|wants|wanted|have|has|had|need|needs|needed|able|how|used|going|wish|like|likes|try"
    r"|choose|not|supposed|ought|unable|due|him|her|them|me|us) to|(?:stand|stood|passed|went|go) by|nearby)\Z",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[ \t]{0,3}(?:[.,;:!?)、。，；：）]|\n|\Z)")
_REACH, _LONGEST = 200, 45


def leaves_stump(before: str, after: str) -> bool:
    """Whether a mark between `before` and `after` is a word of its sentence. `before`: what stands before it on its
    line, of which the last 200 characters count.
    """
    words = before[-_REACH:].rstrip(" \t*_")
    near = max(0, len(words) - _LONGEST)
    if _SCRIPT_AFTER.match(after) or any(one.search(words, near) for one in (_SCRIPT, _NUMBERED, _OPENS)):
        return True
    if not _ENDS.match(after):
        return False
    if _TAKES.search(words, near) or _IN.search(words, near):
        return not (_PHRASAL.search(words) or _is_stranded(words))
    sentence = re.split(r"[.!?]\s", words)[-1]
    return _VERBS.search(words, near) is not None and not _SAID_BEFORE.search(sentence)


def _is_stranded(words: str) -> bool:
    """Whether the preposition at the end of these words has its object before it."""
    clause = re.split(r"[.!?;:,(]\s?", words)[-1]
    found = _STRANDED.search(_CLAIMS_THAT.sub("", clause))
    return found is not None


# ---------------------------------------------------------------- what an audit looks for

_ANY_MARK = re.compile(r"(?:[ \t]{0,4}(?:\[\^?\s?\d[^\[\]\n]{0,60}\]|【[^【】\n]{1,80}】|〔[^〔〕\n]{1,20}〕)){1,20}")
_VERB_NEXT = re.compile(
    r"\s(?:is|are|was|were|has|have|had|does|do|did|can|could|will|would|may|might|must|should|ist|sind|gilt|hat|est|sont|es"
    r"|son|é|são|calls?|shows?|says?|states?|reports?|with|of|to|in|from|by|and|or|et|und|y)\b",
    re.IGNORECASE,
)
_NEEDS = re.compile(rf"(?<![\w'’.-])(?:{_PREPOSITIONS}|{_FOREIGN}|{_OPENERS}|what|whom|compare|press)\Z", re.IGNORECASE)
_NEXT = re.compile(r"\s{0,2}(?:\w{1,20}|[^\w\s])|\s*\Z")


def stumps_in(text: str, original: str) -> list[str]:
    """What stands in the text where a mark of the original was, and needs it: each as it reads there, once."""
    wanted: dict[str, None] = {}
    for mark in _ANY_MARK.finditer(original):
        before, after = original[max(0, mark.start() - _REACH) : mark.start()], original[mark.end() : mark.end() + 40]
        line = before[before.rfind("\n") + 1 :].rstrip()
        last, following = line[-30:].rsplit(None, 1)[-1:], _NEXT.match(after)
        if not last or following is None or (seen := f"{last[0]}{following[0].rstrip()}") in wanted:
            continue
        needs = _NEEDS.search(line, max(0, len(line) - _LONGEST)) and _VERB_NEXT.match(after)
        if needs or leaves_stump(line, after):
            wanted[seen] = None
    return [seen for seen in wanted if text.count(seen) > original.count(seen)]
