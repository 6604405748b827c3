"""Personal data that a text does not need: mail addresses, phone numbers and handles become fixed marks.

    Ask jo.doe@mail.test or 212-555-0187, says @jo_doe.   ->   Ask [mail] or [phone], says [handle].
    0612345678, (0049)-151-23456789, jane#1234                ->   [phone], [phone], [handle]
    As @Jane Doe said in [her post](https://mail.test/@jane)   ->   As [handle] said in [her post](https://mail.test/@jane)

Mail addresses and phone numbers go everywhere, also inside code; handles only outside of code, where `@` means other
things, and of the targets of links, which a mark would break. With a handle that is a given name goes the surname
behind it, where what stands around it says that it is one. A tag (name#1234) is one unless it reads as the number of
an issue, a page or a thing, or a year. A number in one piece without a cue is a mobile number by its country's plan
(MOBILE_REGIONS) that is dialled with a leading 0. What stays: addresses of example domains and of machines
(noreply, localhost, git@host:path, user@host in a URL), dates, versions, IP addresses, ISBNs, coordinates, plain long
numbers, decorators, npm scopes, CSS rules.

Which numbers can be telephone numbers is libphonenumber's judgement (`phonenumbers`), how they have to be written or
introduced to count as one is decided here: its own matcher takes many plain numbers of other kinds for telephone
numbers, and none of those reserved for fiction. Scrubbing again changes nothing; time is linear in the text.
Posts are scrubbed by the stage `scrub_posts` (tasks/sources/stackexchange/posts.py).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

MAIL, PHONE, HANDLE = "[mail]", "[phone]", "[handle]"
MIN_DIGITS = 7
REGIONS = ("US", "GB", "DE", "FR", "IN", "AU")
MOBILE_REGIONS = ("FR", "NL", "GB", "DE", "AU", "BE", "CH", "SE", "IE", "ZA", "KR", "JP", "TR", "IN", "IL", "RO", "AT")
ROUNDS = 8
MOST_SURNAMES = 3
LONGEST_URL = 1_000
SUSPECT = (  # in any case; all other texts stay
    "[@＠]|%40|&#|u/|#[0-9]{4}| dot |(?:at|dot|ät|punkt)\\s{0,2}[)\\]}>]|[0-9][0-9 \u00a0\u2009()./\u2010-\u2013-]{5}"
)


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """A text after scrubbing, and how many marks of each kind were put into it; `marks` is their sum."""

    text: str
    mails: int = 0
    phones: int = 0
    handles: int = 0

    @property
    def marks(self) -> int:
        return self.mails + self.phones + self.handles


def scrub(text: str, regions: Sequence[str] = REGIONS) -> Scrubbed:
    """The text with marks in place of mail addresses, phone numbers and handles, and the number of marks of each kind.

    `regions`: countries whose way of writing national telephone numbers is known, as ISO 3166 codes.
    """
    counts = [0, 0, 0]
    for _ in range(ROUNDS):  # a mark can set free what stood beside it; most often the second round finds nothing
        text, mails = _without(text, _mails)
        text, phones = _without(text, lambda found: _phones(found, regions))
        text, handles = _without(text, _handles)
        counts = [counts[0] + mails, counts[1] + phones, counts[2] + handles]
        if not mails + phones + handles:
            break
    return Scrubbed(text, *counts)


Span = tuple[int, int, str]


def _without(text: str, find: Callable[[str], Iterator[Span]]) -> tuple[str, int]:
    """(the text with marks in place of the spans that `find` yields, their number); a span is (start, end, mark).

    Spans are in order and do not overlap.
    """
    pieces, end = [], 0
    for start, stop, mark in find(text):
        pieces += [text[end:start], mark]
        end = stop
    return "".join([*pieces, text[end:]]), len(pieces) // 2


# ---------------------------------------------------------------- mail addresses

_SIGN = re.compile(r"@|＠|%40|&#64;|&#x40;")
_LOCAL = re.compile(r"[\w%+'.-]{1,64}\Z")
_DOMAIN = re.compile(r"((?:\w[\w-]{0,62}\.){1,8}[^\W\d_]{2,24})(?![\w-])")
_PATH = re.compile(r":[\w/~.]")
_EXAMPLE = re.compile(
    r"(?:.*\.)?(?:example\.(?:com|org|net|edu)|localhost|local|localdomain|internal)",
    re.IGNORECASE,
)
_MACHINE = re.compile(r"(?:git|hg|svn|no-?reply|do-?not-?reply|mailer-daemon|postmaster|root|localhost)", re.IGNORECASE)
_FILES = re.compile(r".*\.(?:png|jpe?g|gif|svg|webp|js|css|html?|json|xml|zip|gz|service|target|socket|mount)")
_USER_OF_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,15}://[^\s/?#]*\Z")

_WORD_AT = r"(?:\s{0,2}[\[({<]\s{0,2}(?:at|AT|At|@|ät)\s{0,2}[\])}>]\s{0,2}|\s{1,2}(?P<plain>at|AT)\s{1,2}|(?P<sign>@))"
_WORD_DOT = (
    r"(?:\s{0,2}[\[({<]\s{0,2}(?:dot|DOT|Dot|\.|punkt)\s{0,2}[\])}>]\s{0,2}|\s{1,2}(?P<spelt%s>dot|DOT|Dot)\s{1,2})"
)
_CLOSING = re.compile(r"[\])}>]")
_SIGNS_IN_WORDS = ("at", "dot", "ät", "punkt", "@")
_SPELT_MAIL = re.compile(
    r"(?<![\w%+.-])(?P<local>[\w%+-]{1,64}(?:(?:\.|\s{0,2}[\[(]dot[\])]\s{0,2}|\sdot\s)[\w%+-]{1,64}){0,3})"
    + _WORD_AT
    + r"(?P<host>(?!\d+\b)\w[\w-]{0,62}(?:\.\w[\w-]{0,62}){0,3})"
    + f"(?:{_WORD_DOT % 1}|(?P<point>\\.))"
    + r"(?P<top>[^\W\d_]{2,10})(?:(?:\.|\s{0,2}[\[(]dot[\])]\s{0,2}|\sdot\s)[^\W\d_]{2,10})?(?!\w)"
)
_AT_HOST = re.compile(r"\s{1,2}(?:at|AT)\s{1,2}\w[\w-]{0,62}(?:\s{1,2}(?:dot|DOT|Dot)\s{1,2}|\.)\w")
_PROVIDERS = re.compile(
    r"(?:gmail|googlemail|g mail|yahoo|ymail|hotmail|outlook|live|msn|aol|icloud|me|mac|proton|protonmail|fastmail"
    r"|gmx|web|t-online|yandex|mail|posteo|zoho|qq|rediffmail|comcast|verizon|orange|free|libero)",
    re.IGNORECASE,
)
_MAIL_CUE = re.compile(
    r"\b(?:e-?mail(?:ed)?|mail(?: ?to)?|contact|write|reach|address|ping|gtalk|jabber)\b", re.IGNORECASE
)


def _mails(text: str) -> Iterator[Span]:
    """(start, end, mark) of mail addresses, written or spelt out in words, in order.

    @user@host is marked as a handle.
    """
    written = _written_mails(text) if _has_sign(text) else ()
    spelt = _spelt_mails(text) if _has_words(text) else ()
    yield from _apart([*written, *spelt])


def _has_sign(text: str) -> bool:
    """Whether the text may have an @ in any notation: @, its full-width form, %40, or a character reference.

    Single characters are looked for first: that costs next to nothing.
    """
    return "@" in text or "＠" in text or ("%" in text and "%40" in text) or ("&" in text and "&#" in text)


def _has_words(text: str) -> bool:
    """Whether the text may spell out a mail address: has " dot ", or a word for a sign before a closing bracket."""
    before = (text[max(0, mark.start() - 7) : mark.start()] for mark in _CLOSING.finditer(text))
    return " dot " in text.lower() or any(part.rstrip().lower().endswith(_SIGNS_IN_WORDS) for part in before)


def _written_mails(text: str) -> Iterator[Span]:
    """(start, end, mark) of mail addresses with an @ in any notation, in order; @user@host is marked as a handle.

    Addresses that are nobody's, such as those of examples and machines, are left out.
    """
    end = floor = 0
    for sign in _SIGN.finditer(text):
        local = _LOCAL.search(text, max(end, floor, sign.start() - 64), sign.start())
        floor = sign.end()
        name = local[0].lstrip(".'-").rpartition("..")[2] if local else ""
        domain = _DOMAIN.match(text, sign.end()) if name else None
        if local and domain and not _is_no_mail(text, local.start(), name, domain):
            end = domain.end()
            federated = text[local.start() - 1 : local.start()] in ("@", "＠")  # @user@host
            if federated and _is_in_link(text, local.start() - 1):
                continue
            yield (local.start() - 1, end, HANDLE) if federated else (sign.start() - len(name), end, MAIL)


def _is_no_mail(text: str, start: int, local: str, domain: re.Match[str]) -> bool:
    """Whether an address is nobody's: an example's, a machine's, a file's, or part of a URL or of user@host:path.

    `local`: what is before the @; `start`: where the word before the @ begins; `domain`: the match of what follows it.
    """
    return bool(
        _EXAMPLE.fullmatch(domain[0])
        or _MACHINE.fullmatch(local)
        or _FILES.fullmatch(domain[0])
        or _PATH.match(text, domain.end())
        or _USER_OF_URL.search(text, max(0, start - 80), start)
    )


def _spelt_mails(text: str) -> Iterator[Span]:
    """(start, end, mark) of mail addresses in words, such as `jo [at] mail dot test`, in order.

    With at and dot as bare words, not in brackets, only if something else speaks for an address too. Example domains
    are left out, and a bare at before a host with a real dot (`jo at mail.test`).
    """
    for match in _spelt(text):
        bare_at, bare_dot, point = (match[name] is not None for name in ("plain", "spelt1", "point"))
        if match["sign"] and point:
            continue  # a written address or what looks like one: `_written_mails` decides
        plain_words = bare_at and (bare_dot or point)
        counts = not plain_words or (bare_dot and _is_announced(text, match))
        if counts and not _EXAMPLE.fullmatch(f"{match['host']}.{match['top']}"):
            yield match.start(), match.end(), MAIL


def _spelt(text: str) -> Iterator[re.Match[str]]:
    """The matches of what may be a mail address in words, in order. Of two that share words the second counts where its
    bare at follows: in `me at jo dot doe at mail dot test` the first at is no sign.
    """
    start = 0
    while match := _SPELT_MAIL.search(text, start):
        later = _AT_HOST.match(text, match.end()) and _SPELT_MAIL.search(text, match.start("host"))
        match = later if later and later.start() == match.start("host") else match
        yield match
        start = match.end()


def _is_announced(text: str, match: re.Match[str]) -> bool:
    """Whether more than at and dot speaks for an address: its provider, digits or dots in its name, or a cue.

    A cue is a word such as "write" shortly before it.
    """
    return bool(
        _PROVIDERS.fullmatch(match["host"])
        or re.search(r"[\d._]", match["local"])
        or _MAIL_CUE.search(text, max(0, match.start() - 40), match.start())
    )


def _apart(spans: list[Span]) -> list[Span]:
    """The spans in order, without those that overlap an earlier one that is kept."""
    kept: list[Span] = []
    for span in sorted(spans):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


# ---------------------------------------------------------------- telephone numbers

_SEP = "[ \u00a0\u2009./\u2010-\u2013-]"
_RUN = re.compile(r"[0-9][0-9 \u00a0\u2009()./\u2010-\u2013-]{5,}[0-9]")
_GROUP = re.compile(r"\d+")
_NO_DIGITS = re.compile(r"\D+")
_EXTENSION = re.compile(r" ?(?:x|ext\.?|extension) ?\d{1,6}\b")
_SHAPES = re.compile(
    rf"(?P<abroad>(?:\((?:\+|00) ?[1-9]\d{{0,2}}\)|(?:\+|00) ?\(?[1-9]\d{{0,2}}\)?)(?:{_SEP}?\(?\d{{1,12}}\)?){{1,7}})"
    r"|(?P<nanp>(?:1[ .-]?)?(?:\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}(?P<sep>[.\u2010-\u2013-])\d{3}(?P=sep)\d{4}"
    r"|[2-9]\d{2} \d{3}[ .-]\d{4})(?!\d))"
    r"|(?P<area>\(0?[1-9]\d{0,3}\)(?:[ -]?\d{3,5}[ .-]\d{3,5}|(?: \d\d){4})(?!\d))"
    rf"|(?P<national>\(?0[1-9]\d{{0,4}}\)?(?:(?: ?[/\u2013-] ?|[ .])\d{{2,8}}){{1,4}})"
    rf"|(?P<bare>\(?\d{{1,15}}\)?(?:{_SEP}?\(?\d{{2,8}}\)?){{0,5}})"
)
_WITHOUT_AREA = re.compile(r"\d{3}[ .-]\d{4}")
_DATE = re.compile(
    r"(?<!\d)(?:(?:1[5-9]|20)\d\d(?P<a>[./-])\d{1,2}(?P=a)\d{1,2}|\d{1,2}(?P<b>[./-])\d{1,2}(?P=b)(?:1[5-9]|20)\d\d"
    r"|(?:1[5-9]|20)\d\d ?[-\u2013/] ?(?:1[5-9]|20)\d\d)(?!\d)"
)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|\d{1,3}(?:\.\d{1,5}){2,}\.\d{1,2}")
_PAIRS = re.compile(r"0[1-9](?:\.\d\d){4}")
_ISBN = re.compile(r"97[89][ -]?\d(?:[ -]?\d){9}|\d(?:[ -]?\d){8}[ -]?[\dXx]")
_OTHER_CUE = re.compile(
    r"\b(?:ISBN|ISSN|EAN|UPC|GTIN|DOI|IBAN|SSN|arXiv|ZIP|order|invoice|ticket|tracking|serial|version|part|model|id)\b[^\n]{0,12}\Z",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"(?:\b(?:tel|telephone|telefon\w{0,6}|t\u00e9l|phone(?: ?n(?:umber|r|o))?|ph|fax|mobile|mobil|mob"
    r"|cell(?: ?phone)?|whats ?app|sms|hotline|handy|viber|(?:my|his|her|our|their) number"
    r"|(?:call|text|ring|reach|phone|dial|message) (?:me|us|him|her|them))\b|[\u260e\u260f\U0001f4de\U0001f4f1]\ufe0f?)"
    r"(?:[ .:#*=>\u2013-]|\b(?:at|on|is|no|nr|number|under)\b){0,8}\Z",
    re.IGNORECASE,
)
_THING = re.compile(
    r"\b(?:lot|batch|sku|article|item|case|account|acct|key|code|hash|md5|sha-?\d{0,3}|crc|row|line|page|no|nr)"
    r"[ .:#=]{0,3}\Z",
    re.IGNORECASE,
)
_UNIT = re.compile(r" ?(?:[kmµ]?[mgl]|[mµ]?s|[kmgt]?b|bytes?|bits?|rows?|lines?|hours?|years?|°)\b", re.IGNORECASE)
_IN_ONE_PIECE = re.compile(r"0[1-9]\d{8,10}|0[1-9]\d{0,3}-\d{5,8}|0[1-9]\d{0,3} \d{6,8}")
_ROW_OF_DIGITS = "01234567890123 98765432109876 09876543210"
_CALL = re.compile(r"\b(?:call|dial|ring|phone|text)(?: (?:me|us|him|her|them|at|on|now)){0,2}:? ?\Z", re.IGNORECASE)
_GOES_ON = re.compile(r"[\w%°@^]|[.,/:\u2010-\u2013-]\d| ?[€$£%]")
_IN_URL = re.compile(r"(?:https?://|www\.)\S*\Z")


def _phones(text: str, regions: Sequence[str]) -> Iterator[Span]:
    """(start, end, mark) of telephone numbers of at least MIN_DIGITS digits, in order.

    `regions`: countries whose national numbers are known, as ISO 3166 codes.
    """
    end = 0
    for run in _RUN.finditer(text):
        if len(_NO_DIGITS.sub("", run[0])) >= MIN_DIGITS:
            start, floor = max(end, run.start() - 3), 0  # of "+ (" before the first digit
            while match := _SHAPES.search(text, start, run.end()):
                start = _end_of_phone(text, match, floor, regions)
                if start > match.start():
                    yield match.start(), start, PHONE
                    end = floor = start
                else:
                    start = _after_group(match)


def _after_group(match: re.Match[str]) -> int:
    """The offset from which to look on if a match is no telephone number: after its first digits or first sign."""
    first = _GROUP.match(match[0])
    return match.start() + (first.end() if first else 1)


def _end_of_phone(text: str, match: re.Match[str], floor: int, regions: Sequence[str]) -> int:
    """The end of the telephone number that begins where the match does; the start of the match if there is none.

    The end may be before that of the match, or after it, behind an extension. `floor`: the end of the last number that
    was found; text before it is ignored.
    """
    start, shape = match.start(), match.lastgroup or ""
    before = text[max(floor, start - 48) : start]
    if len(_NO_DIGITS.sub("", match[0])) < MIN_DIGITS or _is_within(text, start, before, match[0]):
        return start
    announced = bool(_CUE.search(before))
    if not announced and (
        _OTHER_CUE.search(before)
        or (shape == "bare" and not _CALL.search(before) and not _is_mobile(text, match, before))
    ):
        return start
    for end in _possible_ends(match):
        number = text[start:end]
        if not _continues(text, end, shape, number) and _is_phone(shape, number, announced, regions):
            more = _EXTENSION.match(text, end)
            return more.end() if more else end
    return start


def _possible_ends(match: re.Match[str]) -> Iterator[int]:
    """Offsets in the text at which a number may end: the end of the match, then that of each earlier group of digits.

    The first group is left out, and the longest number comes first. What follows a number may look like a part of it.
    """
    groups = [group.end() for group in _GROUP.finditer(match[0])]
    yield match.end()
    yield from (match.start() + end for end in reversed(groups[1:-1]))


def _is_phone(shape: str, number: str, announced: bool, regions: Sequence[str]) -> bool:
    """Whether a number is a telephone number.

    It has MIN_DIGITS to 17 digits, as many opening as closing brackets, and is no date, ISBN or the like. If it is
    `announced` (a cue such as "tel" is before it), its length must be possible in `regions` (ISO 3166 codes) or for its
    country code, or it looks like 555-0187. Else `shape`, the group of _SHAPES that it matches, decides: abroad (with a
    separator or brackets, + and 9 digits, or 00 and a mobile number) and national (9 to 12 digits that do not count up)
    need a possible length, nanp and area 9 digits; bare must look like 555-0187, or be a mobile number in one piece.
    """
    digits = _NO_DIGITS.sub("", number)
    if not MIN_DIGITS <= len(digits) <= 17 or number.count("(") != number.count(")") or _is_other(number, digits):
        return False
    if announced:
        return _is_possible(_dialled(number), regions) or bool(_WITHOUT_AREA.fullmatch(number))
    if shape == "abroad":
        written = (number.startswith(("+", "(+")) and len(digits) >= 9) or re.search(_SEP + r"|\)", number) is not None
        written = written or (number[2:3] > "1" and number.startswith("00") and _is_of_mobile(_dialled(number), None))
        return len(digits.removeprefix("00")) <= 16 and written and _is_possible(_dialled(number), regions)
    if shape == "national":
        return 9 <= len(digits) <= 12 and not _counts_up(number) and _is_possible(number, regions)
    if shape == "bare" and _IN_ONE_PIECE.fullmatch(number):
        return _is_mobile_number(digits)
    return len(digits) >= 9 if shape in ("nanp", "area") else bool(_WITHOUT_AREA.fullmatch(number))


def _is_mobile(text: str, match: re.Match[str], before: str) -> bool:
    """Whether a number without a cue, in one or two pieces, is a mobile number: 0612345678, 06-12345678. One that is
    named as that of a thing, or counts a unit, is none. `before`: the text before it.
    """
    number = match[0]
    return bool(
        _IN_ONE_PIECE.fullmatch(number)
        and not _THING.search(before)
        and not _UNIT.match(text, match.end())
        and _is_mobile_number(_NO_DIGITS.sub("", number))
    )


def _is_mobile_number(digits: str) -> bool:
    """Whether these digits, of which the first is the 0 dialled within a country, are a mobile number by the plan of
    one of MOBILE_REGIONS. Not if they count up or down, as in 0123456789.
    """
    if len(digits) < 10 or digits in _ROW_OF_DIGITS:
        return False
    return any(_is_of_mobile(digits, region) for region in MOBILE_REGIONS)


def _is_of_mobile(number: str, region: str | None) -> bool:
    """Whether a number is a mobile number by the plan of this region (ISO 3166 code); None: of the country that + and
    a code name.
    """
    import phonenumbers

    mobile = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE)
    try:
        return phonenumbers.number_type(phonenumbers.parse(number, region)) in mobile
    except phonenumbers.NumberParseException:
        return False


def _dialled(number: str) -> str:
    """The number as dialled from abroad: + in place of 00 at its beginning, no brackets around the country's code, and
    no "(0)".
    """
    opened = re.sub(r"\A\((\+|00)( ?[1-9]\d{0,2})\)", r"\1\2", number)
    return re.sub(r"\A00 ?(?=[1-9])", "+", opened).replace("(0)", "")


def _is_within(text: str, start: int, before: str, number: str) -> bool:
    """Whether a match is a piece of something longer: a word, a sum, a row of numbers, a URL.

    `start`: where the match begins; `before`: the text before that, from the last number that was found; `number`: the
    text of the match.
    """
    last = before[-1:]
    separator = next((mark for mark in number if mark in " .-/"), "")
    return bool(
        last.isalnum()
        or (last and last in "_@#&?%^$€£\\~./,+=-\u2013")
        or (last == separator and re.search(r"\d.\Z", before))
        or _IN_URL.search(text, max(0, start - 200), start)
    )


def _continues(text: str, end: int, shape: str, number: str) -> bool:
    """Whether what is matched up to `end` goes on after it: a longer number, a word, a unit.

    An extension is none of these. `shape`: the group of _SHAPES that `number`, the matched text, matches.
    """
    after = text[end : end + 3]
    if _EXTENSION.match(text, end):
        return False
    grouped = shape in ("national", "bare") and " " in number
    return bool(_GOES_ON.match(after) or (grouped and re.match(r" \d", after)))


def _is_other(number: str, digits: str) -> bool:
    """Whether a number is something else: a date, a range of years, an ISBN, an IP address, a version."""
    if _DATE.search(number) or (_ADDRESS.fullmatch(number) and not _PAIRS.fullmatch(number)):
        return True
    return bool(_ISBN.fullmatch(number)) and _is_isbn(digits)


def _is_isbn(digits: str) -> bool:
    """Whether the check digit of an ISBN of 10 or 13 digits is right; one of 10 must begin with 0, 1 or 3."""
    if len(digits) == 13:
        return sum(int(digit) * (1, 3)[place % 2] for place, digit in enumerate(digits)) % 10 == 0
    return digits[0] in "013" and sum(int(digit) * (10 - place) for place, digit in enumerate(digits)) % 11 == 0


def _is_possible(number: str, regions: Sequence[str]) -> bool:
    """Whether one of the regions, or the country that + and a code name, has telephone numbers of this length.

    `regions`: as ISO 3166 codes. In North America a number must not begin with 0 or 1.
    """
    import phonenumbers

    for region in regions if not number.startswith("+") else (None,):
        try:
            parsed = phonenumbers.parse(number, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_possible_number(parsed) and (parsed.country_code != 1 or str(parsed.national_number) >= "2"):
            return True
    return False


def _counts_up(number: str) -> bool:
    """Whether three or more groups of digits go up or down by one each, as in a list: 01 02 03 04 05."""
    groups = [int(group) for group in _GROUP.findall(number)]
    return len(groups) > 2 and {second - first for first, second in pairwise(groups)} in ({1}, {-1})


# ---------------------------------------------------------------- handles

_HANDLE = re.compile(
    r"@(?<![^\W_]@)(?<![@＠/\\.:;=#$%&+~`^|\]>-]@)(?P<name>[^\W\d]\w{1,38}(?:[.-]\w{1,38}){0,3})(?P<after>[\w(/={\[\"']?)"
)
_SURNAME = re.compile(
    r" ([^\W\d_]{1,30}(?:[-'’](?!s\b)[^\W\d_]{1,30}){0,2})(?:(?<= [^\W\d_])\.(?= [^\W\d_]))?(?![\w@(/=])"
)
_POSSESSIVE = re.compile(r"['’]s\b")
_MID_SENTENCE = re.compile(r"[^\W\d_A-Z] \Z|, \Z")
_AFTER_NAME = re.compile(
    r"['’]s\b|[,:;.!?)*\]]|\n|\Z| (?:and|or|&) @| [–—-] "
    r"| (?:said|says|wrote|writes|mentioned|mentions|suggested|suggests|pointed|points|noted|notes|asked|asks|answered"
    r"|answers|commented|comments|posted|posts|explained|explains|gave|gives|proposed|proposes|stated|states|already|also"
    r"|(?:is|was|has) (?:right|correct|wrong|spot|already|said|suggested|mentioned|pointed|noted))\b"
)
_CITATION_KEY = re.compile(r"[^\W\d_]+(?:19|20)\d\d[a-z]?")
_REDDITOR = re.compile(r"(?<![\w/.:])/?u/(?P<name>[A-Za-z0-9_-]{3,20})(?![\w/-])")
_TAG = re.compile(
    r"(?<![\w/#.@＠:&?=\\-])@?(?P<name>[^\W\d_]\w{1,31}(?:\.\w{1,31}){0,2})#(?P<digits>[0-9]{4})(?![\w#/-]|\.\d)"
)
_FILE_ENDING = re.compile(r"\.(?:html?|md|php|rst|txt|py|js|ts|pdf|aspx?|jsp|org|com|net|io|json|xml|cs|java|go|rs)\Z")
_ISSUE_CUE = re.compile(
    r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|see(?: also)?|refs?|references?|issues?|bugs?|pull requests?|prs?"
    r"|patch|dup(?:licate)?s?(?: of)?|commits?|tickets?"
    r"|(?:tracked|reported|merged|introduced|filed|landed|discussed|fixed) (?:in|as|at|by)"
    r"|regression (?:in|from)|upstream|github|gitlab)[ :(\[]{1,3}\Z",
    re.IGNORECASE,
)
_THINGS = """
anchor answer apt article batch bay book bug build case ch change changeset channel chapter cl class clas color
colour comment commit course cpp csharp cve day diff dot draft edition en ep episode eq equation exercise fig figure
footnote fork fsharp game gate gh gl group hash header id image invoice iso issue item jira job kb lesson level line
list lot lvl model mr no note nr num number op order page part patch pep phase pg pin point post pr problem project
pull question quest ref release repo repository request rev revision rfc room round row rule sample season sec
section sequence serial server set sharp slide slot song stage step story table tag task team test thread ticket
tier tip top topic track type unit upstream url ver version vol volume week year
"""
_COUNTED = frozenset(_THINGS.split())
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_INDENTED = re.compile(r"(?:\A|\n[ \t]*\n)((?:(?: {4}|\t)[^\n]*(?:\n|\Z))+)")
_NO_NAMES = """
abstractmethod addtaghelper after afterclass aftereach all all_names app.get app.post app.route apply args argv
array at-root attr attribute auth author autoclosure autowired available bean before beforeclass beforeeach binding
builder cache cached_property catch channel charset class classmethod column component configuration container
content contextmanager controller csrf data dataclass debug decorator deprecated directive discardableresult dynamic
each else end endforeach endif enduml entity env environment environmentobject error error_message escaping everyone
example extend finally first fixme fixture flow font-face for foreach forward function functionalinterface
generatedvalue getmapping getter guest here home hostbinding hostlistener html ibaction ibdesignable iboutlet id
identity if ifnextchar ignore implementation import inc include inherits inject injectable injectmocks input
interface internal jit keyframes last layer layout least link lru_cache main mainactor makeatother makeletter media
method mixin mock mockbean model most namespace ngmodule night njit nonnull noon notnull nullable objc
observedobject optional output override overrides page param params parent pathvariable pipe postconstruct
postmapping predestroy private property protected protocol public published pytest pytest.fixture
pytest.mark.parametrize qualifier repository requestbody requestmapping requestparam required responsebody
restcontroller return returns rowcount rule runwith safevarargs school screen section see selector self service
setter since slf4j startsection startuml
state staticmethod supports suppresswarnings synthesize table tailwind task tempdata
test tests throws todo trancount transactional try type typedef url use using value version version_name viewbag
viewbuilder viewchild warn while work wraps yield
"""
_NOBODY = frozenset(_NO_NAMES.split())
_BEGIN_SENTENCES = """
A About Absolutely Actually Add Added After Again Agree Agreed Ah All Also Although Amazing An And Another Any
Anyway Apologies Are Aren As At Awesome Basically Be Because Before Both Brilliant But By Can Certainly Cheers
Check Clearly Comment Congrats Congratulations Consider Cool Correct Could Did Didn Disagree Do Does Doesn Don
Done Each Edit Edited Either Even Every Everyone Exactly Excellent Fair Finally First Fixed For From Funny
Further Generally Given Glad Good Got Great Ha Haha Has Have Haven He Hello Her Here Hey Hi His Hmm Honestly How
However I If In Indeed Interesting Is Isn It Its Just Last Let Like Likewise Lol Look Many Maybe May Might Mine
More Most Much Must My Never Next Nice No None Nope Not Note Nothing Now Obviously Of Often Oh Ok Okay On Once
One Only Or Other Our Perfect Perhaps Please Possibly Presumably Probably Question Quite Re Really Regarding
Right Same Second See Seems Seriously She Should Similarly Since So Some Someone Sometimes Sorry Still Such Sure
Thank Thanks That The Their Them Then There These They Thing This Those Though Thus To Today Too True Try Two Uh
Um Unfortunately Unless Until Update Updated Use Usually Very Was Wasn We Welcome Well What When Where Whether
Which While Who Why Will With Without Won Wouldn Wow Would Wrong Yeah Yep Yes Yet You Your Yup
"""
_OPENERS = frozenset(_BEGIN_SENTENCES.split())


def _handles(text: str) -> Iterator[Span]:
    """(start, end, mark) of handles (@name, @Name Surname, u/name, name#1234) outside of code and of the targets of
    links, in order.
    """
    if "@" not in text and "u/" not in text and "#" not in text:
        return
    found = (
        [(match.start(), match.end(), HANDLE) for match in _TAG.finditer(text) if _is_tag(match)] if "#" in text else []
    )
    tagged = {start for start, _, _ in found}
    handles = (match for match in _HANDLE.finditer(text) if match.start() not in tagged and _is_handle(match))
    found += [(match.start(), _end_of_name(match), HANDLE) for match in handles]
    if "u/" in text:
        found += [(match.start(), match.end(), HANDLE) for match in _REDDITOR.finditer(text)]
    if found:
        code = code_spans(text)
        yield from (span for span in _apart(found) if not _inside(span[0], code) and not _is_in_link(text, span[0]))


def _is_tag(match: re.Match[str]) -> bool:
    """Whether a match is the tag of a person (name#1234): its name is no kind of thing that is counted, no file, and
    what is before it does not speak of issues or places.
    """
    text, start, name = match.string, match.start(), match["name"].lower()
    return not (
        name.rstrip("s") in _COUNTED
        or _FILE_ENDING.search(name)
        or _ISSUE_CUE.search(text, max(0, start - 32), start)
        or (name.isalpha() and re.fullmatch(r"19[5-9]\d|20[0-4]\d", match["digits"]))
    )


def _is_handle(match: re.Match[str]) -> bool:
    """Whether a match is the handle of a person: no decorator, CSS rule, annotation or citation key."""
    name = match["name"].lower()
    cited = _CITATION_KEY.fullmatch(name) and match.string[match.start() - 1 : match.start()] in ("[", "-")
    return not cited and _NOBODY.isdisjoint((name, name.split(".")[0])) and match["after"] in ("", "'")


def _end_of_name(match: re.Match[str]) -> int:
    """The offset behind a handle, and behind the surname that follows it, if there is one.

    Only a handle that is a given name (@Jane) has a surname: up to MOST_SURNAMES words with capitals before "'s", or of
    which none commonly begins a sentence, in a sentence that does not begin with the handle or goes on as after a name.
    """
    text, end = match.string, match.end("name")
    if match["after"] or not match["name"].istitle():
        return end
    ends, words = [end], list[str]()
    while len(words) < MOST_SURNAMES and (word := _SURNAME.match(text, ends[-1])) and _is_capitalised(word[1]):
        ends.append(word.end())
        words.append(word[1])
    if words and words[-1] not in _OPENERS and _POSSESSIVE.match(text, ends[-1]):
        return ends[-1]
    number = next((place for place, word in enumerate(words) if word in _OPENERS), len(words))
    is_name = _MID_SENTENCE.search(text, max(0, match.start() - 2), match.start()) or _AFTER_NAME.match(
        text, ends[number]
    )
    return ends[number] if is_name else end


def _is_capitalised(word: str) -> bool:
    """Whether a word begins with a capital, and does not consist of several."""
    return word[0].isupper() and (len(word) == 1 or not word.isupper())


def _is_in_link(text: str, place: int) -> bool:
    """Whether the offset `place` is within the target of a link or a bare URL."""
    before = text[max(0, place - LONGEST_URL) : place]
    if not before or before[-1].isspace():
        return False
    word = before.split()[-1]
    opened = max(word.rfind(sign) + len(sign) if sign in word else 0 for sign in ("](", "://", "www."))
    depth = 0
    for sign in word[opened:]:
        depth += (sign == "(") - (sign == ")")
        if depth < 0 or sign in '<>"':
            return False
    return opened > 0


def _inside(place: int, spans: list[tuple[int, int]]) -> bool:
    """Whether the offset `place` is within one of the sorted `spans`, which do not overlap."""
    before = bisect_right(spans, place, key=itemgetter(0))
    return before > 0 and place < spans[before - 1][1]


def code_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of fenced blocks, indented blocks and `inline code` of a Markdown text, in order."""
    fenced = list(_fenced(text))
    spans, end = [], 0
    for start, stop in [*fenced, (len(text), len(text))]:
        spans += [*_unfenced_code(text, end, start), (start, stop)]
        end = stop
    return spans[:-1]


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each fenced block of code, in order, with its fences.

    One that is not closed ends with the text.
    """
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1][0] == opened[1][0] and len(match[1]) >= len(opened[1]) and match[0].strip() == match[1]:
            yield opened.start(), match.end()
            opened = None
    if opened is not None:
        yield opened.start(), len(text)


def _unfenced_code(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """(start, end) of indented blocks and inline code in text[start:end], in order; overlapping ones are joined."""
    spans = [(match.start(1), match.end(1)) for match in _INDENTED.finditer(text, start, end)]
    return _merged(sorted(spans + list(_inline(text, start, end))))


def _inline(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of inline code: from a run of backticks to the next of the same length, within a paragraph."""
    bounds = [start, *(blank.end() for blank in _BLANK_LINE.finditer(text, start, end)), end]
    for first, last in pairwise(bounds):
        yield from _paired(list(_TICKS.finditer(text, first, last)))


def _paired(runs: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """(start, end) from each run of backticks to the end of the next of the same length, in order, without overlap.

    A run without such a next one opens nothing.
    """
    closing: list[int | None] = []
    nearest: dict[int, int] = {}
    for place in reversed(range(len(runs))):
        closing.append(nearest.get(len(runs[place][0])))
        nearest[len(runs[place][0])] = place
    last = -1
    for place, (run, closed) in enumerate(zip(runs, reversed(closing), strict=True)):
        if place > last and closed is not None:
            yield run.start(), runs[closed].end()
            last = closed


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sorted spans, with those that overlap joined."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
