"""Mail addresses, phone numbers and handles: planted cases and look-alikes, all of them invented."""

from __future__ import annotations

import random
import re
import time

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.sources.stackexchange.posts import scrubbed_texts
from tasks.text.scrub import HANDLE, MAIL, PHONE, REGIONS, SUSPECT, Scrubbed, code_spans, scrub

MARKS = {"m": MAIL, "p": PHONE, "h": HANDLE}

MAILS = """
jo.doe@mail.test|jo@firm.test|j_doe+list@sub.firm.test|JO.DOE@FIRM.TEST|jo-ann.o'neil@uni.test|doe99@a1.test
jörg@bücher.test|jo@firm.co.test|x@y.museum|jo%40firm.test|jo＠firm.test|jo&#64;firm.test|first.last@cs.uni.test
info@brewery.test|support@shop.test|1984jo@firm.test|jo@my-firm.test|jo@firm.example
jo [at] firm [dot] test|jo(at)firm.test|jo [AT] firm [DOT] test|jo (at) firm (dot) test|jo[at]firm[dot]co[dot]test
jo at gmail dot com|jo.doe at yahoo dot com|jo_doe at firm dot org|jo AT hotmail DOT com|jo99 at firm dot net
jo [ at ] firm.test|jo {at} firm.test|jo <at> firm {dot} test|jo [@] firm [punkt] test
jo@firm dot test|jo.doe [at] firm.test|jo dot doe at gmail dot com
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

PHONES = """
212-555-0187|(212) 555-0187|212.555.0187|212 555 0187|1-800-555-0199|+1 212 555 0187|+1 (212) 555-0187|+12125550187
+1-212-555-0187|(212)555-0187|(212) 555 0187|212-555-0187 x12|(212) 555-0187 ext. 4|555-555-0123|+1.212.555.0187
020 7946 0018|07700 900123|01632 960001|(020) 7946 0018|+44 20 7946 0018|+44 7700 900123|+447700900123
0044 20 7946 0018|+44 (0)20 7946 0018|0161 496 0123|(0161) 496 0123
030 23125 012|030/1234567|0171 1234567|0171/1234567|+49 30 123456|+49 (0)30 123456|+49-171-1234567|+4917112345678
01 99 00 12 34|+33 1 99 00 12 34|06.39.98.12.34|+33199001234|(3) 99 00 12 34
(02) 5550 1234|0491 570 006|+61 2 5550 1234|+91 98765 43210|+91-9876543210|+352224455|+81 3-1234-5678
0612345678|0712345678|06-12345678|0171-1234567|0612 345678|07700900123|0412345678|0470123456|0791234567|0701234567
01712345678|015112345678|0851234567|0821234567|0501234567|01012345678|09012345678|05321234567|09876501234|0721234567
00447911123456|004915123456789|0033612345678|(0044)7700900123|0049(0)15123456789|06641234567
(0049)-151-23456789|(0049) 151 23456789|(+49)-151-23456789|(+49) 151 23456789|(0033) 6 12 34 56 78|(+44) 20 7946 0018
+86 138 0013 8000|+55 11 91234-5678|(11) 91234-5678|+7 495 123-45-67|+34 612 34 56 78|+31 20 123 4567
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

TOLD = """
Tel: «5551234567»|phone: «030 123456»|Call me at «2125550187»|WhatsApp «9876543210»|my number is «555-1234»
Tel. «0301234567»|call «555-0187» today
Fax: «98765 43210»|text me at «212 5550187»|Mobile: «07700900123»|☎ «0301234567»|tel:«+12125550187»
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

HANDLES = """
jane#1234|Jane_Doe#0420|malthead99#7733|Björn#0001|jo.doe#4821|@jo_doe#1234|xXmaltXx#9999
@jo_doe|@JoDoe|@user1234|@jo.doe|@jo-ann|@Björn|@beerlover99|@jo@social.test|@hop_head|@MaltMaster|u/hop_head|/u/malt-99
""".replace("\n", "|").strip("|").split("|")  # fmt: skip

AROUND = {
    "m": [
        "Write to «{}».",
        "<«{}»> knows",
        "[ask](mailto:«{}»)",
        "My e-mail: «{}», thanks",
        "```\nauthor = '«{}»'\n```",
    ],
    "p": ["Ring us: «{}».", "I got it from «{}», they say.", "Hotline («{}»)", "**«{}»** is the shop", "`call «{}»`"],
    "h": ["As «{}» said, it keeps.", "«{}»: thanks!", "(«{}» is right)", "*«{}»'s answer* says", "Thanks\n\n«{}»"],
}

NEGATIVES = """
Write to user@example.com or me@sub.example.org, someone@example.net|root@localhost is full
clone git@github.com:firm/tool.git
noreply@firm.test answers nobody|ssh jo@build.firm.test:/srv/data|https://jo:secret@host.firm.test/path
ftp://anonymous@ftp.firm.test/
icon@2x.png is sharper|use logo@3x.png|a @ b is a product|5 @ 3V|matrix A@B.T|look at beer dot com
bought at amazon dot com
see it at stackoverflow.com|available at brewery.test|the dot at the end (dot)|an @ sign|that (at) last|x @ y.z
nginx@1.service
Use vector<float> and clone git@github.com:firm/tool.git|a <repeat> of logo@2x.png (format)|map<cat> at nginx@1.service
on 2014-01-21 at 20:26|2014-01-21T20:26:05.383|21.01.2014 20:26|01/21/2014|1/2/2014 10:30|12.05.2013|from 1841-1911
1920 - 1933
2010/2011|in 1603-1625|between 1800-3600 feet|3500-5000 extra|60/75/90/120 Minute|700 - 1850 millions|2746 - 2747
10.0.19041.1|version 4.15.0.112233|192.168.100.200|255.255.255.0|127.0.0.1:8080|10.1001/archpedi.161.8.792
v2.10.1234567
ISBN 978-0-306-40615-7|978-0-306-40615-7|ISBN 0-306-40615-2|0-306-40615-2|ISSN 2049-3630|978 3 16 148410 0
ISBN-10: 0306406152
40.712776, -74.005974|51.5074 N 0.1278 W|(40.712776 -74.005974)|order 123-4567890-1234567|order 2125550187
invoice 0044 1234 5678
tracking 9400 1000 0000 0000 0000 00|IBAN DE89 3704 0044 0532 0130 00|4111 1111 1111 1111|card 5500 0000 0000 0004
123-45-6789
1700000000|1234567890|20140121123456|3.14159265358979|6.02214076e23|299792458 m/s|1 000 000 000|1,000,000,000
10 000 000
100 200 3000|01 02 03 04 05 06|1 2 3 4 5 6 7 8 9 10|7 8 9 10 11 12 13 14|0.082-0.356 mg|12:34:56 2012|0x7fff5fbff7a8
0123456789
CAS 145022-44-2|US 20080287763|patent 7,654,321|DOI:10.1016/j.physbeh.2006.12.010|arXiv:1706.03762|UPC 036000291452
EAN 4006381333931
https://firm.test/q/212-555-0187/x|www.firm.test/0171-1234567|http://firm.test/?n=2125550187|A-212-555-0187-B
#2125550187
2^32 = 4294967296|$1,234,567.89|€ 1 234 567|1234567890%|99999999 €|x=1234567|f(1234567)|a[1234567]|1e10|1.234.567,89
UUID 123e4567-e89b-12d3-a456-426614174000|MAC 00:1A:2B:3C:4D:5E|sha 58fe4354d66f6400016dc206|5-10-15-20-25-30
1-2-3-4-5-6-7-8-9
OG 1.050 FG 1.010 1.008|at 65-67 C for 60-90 min|20-25-30 litres|3 x 330 ml 4 x 500 ml|4.5% 5.2% 6.0% 7.5%
2014 2015 2016 2017
room 212 555|lot 0171|chapter 020|page 7946-0018|bus 030 at 12:30|1000-2000-3000 m|0800 to 1700|size 10.5 11.0 12.5
1-800 times
use @media screen and @import|the @Override annotation|a @property or @staticmethod|@param name the name
install @types/node
`@jo_doe` in code|```\\n@decorated\\ndef f(): ...\\n```|~~~\\n@jo_doe\\n~~~|    @indented_code\\n    x = 1
text ``a `@jo_doe` b`` text
@article{doe2014, title}|@include(x)|`x` and ``y @z`` here|\\makeatletter \\@startsection|@everyone and @here
@home or @work|@5V and @3GHz
https://medium.com/@jo_doe/post|https://firm.test/@jo|a@b|foo@bar|jo@host|$@ and $*|@{ key = 1 }|%@ and &@
@"verbatim string"|@Component({})
reddit.com/u/hop_head|and/or u/|su/do|menu/items|https://reddit.com/u/hop_head|r/beer and /r/homebrewing|u/x
C# and F#|@Test and @Before
@angular/core@12.0.0|yarn add @scope/pkg@1.2.3|@font-face { }|@keyframes spin|[@doe2014, p. 3]|@if $a == 1
@autoclosure and @escaping
brewed in 1842, 1843 and 1844|pages 1234-1240|vol. 12, 345-367|2010-12-31 23:59:59|GMT+0100 (CET)|UTC-05:00
2015-W05-3|Q1 2014 - Q4 2015
population 1 234 567|1.234.567 litres|12 345 678 hl|7 654 321 kegs|-40.5 to +120.25 C|12.5-13.5 Plato|SG 1.048-1.052
3-4-5 rule
RFC 2822 and RFC 5322|ISO 8601-1:2019|IEEE 802.11-2016|port 8080 or 49152|build 19041.1110.220|kernel 5.4.0-104
Python 3.11.4-2|node 18.17.1
123-45-67|12-345-678|0-0-0|1/2 1/3 1/4 1/5|80486 80586 80686|ratio 10:20:30:40|score 7-5 6-4 7-6
lat 48.8566 lon 2.3522|90210-1234
phone model 3310|my phone has 64 GB|call 911|dial 112 first|the tel aviv 1984 vintage|mobile 1920x1080
text 12 people|cell B12
use @Inject here|@todo later|@since 1.2|@return void|{@link Foo}|@Model.Name|@Html.Raw(x)|mail me|e-mail is dead
at the dot|dot at
repo#1234|tool/repo#1234|firm/tool#1234|fixes tool#1234|closes tool#1234|see tool#1234|duplicate of tool#1234
(issue tool#1234)|GH#1234|PR#1234|issue#1234|bug#4321|ticket#2014|case#1001|C#2010|F#2019|J#1234|C#1234 code
page#1234|line#1042|figure#1234|RFC#2822|item#1234|room#1234|order#1234|chapter#2014|version#2019|#1234|a #1234 b
https://firm.test/page#1234|page.html#1234|readme.md#1234|color:#1234|&#1234;|jane#12345|jane#123|jane#1234567|jane#12ab
jane#1234-5|`jane#1234` in code|[post](https://firm.test/a#1234)|top#2014 list#1
0306406152|0201633612|0131103628|0-13-110362-8|0131103628 is K&R|0123456789|0987654321|0000123456|0001234567890
01234567890123|0612345678901|0.0612345678|10.1016/0612345678|doi:10.1000/0612345678|arXiv:0612.345678|0x0612345678
id 0612345678|order 0612345678|part 0612-345678|serial 0712345678|06/12/2014 07:45|06-12-2014|0612-0614|0612345678 €
https://firm.test/0612345678|firm.test/?n=0612345678|a0612345678|0612345678b|0612345678%|v0612345678|f(x)=0612345678
06:12:34.5678|0612345678 m|0612345678 kg|192.168.0612.345678|(0049)|(+49)|(0049) is Germany|sum(0049)-151-23456789
ZIP 06123-4567|06 litres of 12345678|0900-1700|07001200 to 07001300|0.612345678|-0612345678|$0612345678|2014-0612345678
0012345678901|0099123456789|00123|0000447700900123|order 00447700900123|id 0033612345678|000033612345678|0.0033612345678
sha1 0612345678abcdef0612345678abcdef06123456|md5 0612345678|0612345678/0612345679 were lots|lot 0712345678
""".strip("\n").replace("\n", "|").split("|")  # fmt: skip


def planted() -> list[tuple[str, str]]:
    """(text, what it becomes), each kind in the surroundings that come next in turn."""
    found = []
    for kind, values in (("m", MAILS), ("p", PHONES), ("h", HANDLES)):
        for place, value in enumerate(values):
            for step in range(5 if kind == "h" else 2):
                pattern = AROUND[kind][(place + 2 * step) % 5]
                found.append(_case(pattern.replace("{}", value), kind))
    return [*found, *(_case(text, "p") for text in TOLD)]


def _case(text: str, kind: str) -> tuple[str, str]:
    return text.replace("«", "").replace("»", ""), re.sub("«[^»]*»", MARKS[kind], text)


def lookalikes() -> list[str]:
    return [text.replace("\\n", "\n") for text in NEGATIVES]


def test_planted_cases_are_found_and_lookalikes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    cases, stays = planted(), lookalikes()
    assert len(cases) >= 200
    assert len(stays) >= 200
    missed = [(text, scrub(text).text) for text, wanted in cases if scrub(text).text != wanted]
    wrong = [(text, scrub(text).text) for text in stays if scrub(text).text != text]
    found = len(cases) - len(missed)
    recall, precision = found / len(cases), found / (found + len(wrong))
    with capsys.disabled():
        print(f"\nscrub: precision {precision:.3f} ({len(wrong)} of {len(stays)} look-alikes), recall {recall:.3f}")
    assert precision >= 0.98, wrong
    assert recall >= 0.95, missed


def test_counts_say_what_was_marked() -> None:
    text = "jo@firm.test and ann@firm.test, 212-555-0187, @jo_doe"
    assert scrub(text) == Scrubbed("[mail] and [mail], [phone], [handle]", 2, 1, 1)
    assert scrub(text).marks == 4
    assert scrub("nothing here") == Scrubbed("nothing here")


@pytest.mark.parametrize(
    "text",
    [
        "[her page](@jo_doe) and [his](/u/jo_doe)",
        "[a](https://x.test/(a),@jo_doe)",
        "https://x.test/?a,@jo_doe and https://x.test/-/u/jo_doe",
        "www.x.test/(@jo_doe)",
        "[toot](https://social.test/@jo@host.test) and https://social.test/@jo@host.test/1",
    ],
)
def test_a_link_leads_where_it_led(text: str) -> None:
    assert scrub(text) == Scrubbed(text)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("[@jo_doe](https://x.test/jo)", "[[handle]](https://x.test/jo)"),
        ("[answer by @jo_doe](https://x.test/1)", "[answer by [handle]](https://x.test/1)"),
        ("[a](https://x.test)@jo_doe", "[a](https://x.test)[handle]"),
        ("(https://x.test) @jo_doe", "(https://x.test) [handle]"),
        ("[ask](mailto:jo@firm.test)", "[ask](mailto:[mail])"),
    ],
)
def test_beside_a_link_and_in_its_text_handles_go(text: str, without: str) -> None:
    assert scrub(text).text == without


SURNAMES = """
@«Jane Doe»'s answer: going|As @«Jane Doe» said|thanks to @«Jane Doe» for that|(From @«Jane Doe»)|@«Jane Doe», thanks
**@«Jane Doe»** has it|@«Bill The Lizard»'s answer|@«Arthur D» and @«Ken Graham» are spot-on|as @«Jane B. Doe» wrote
by @«Conan O'Brien»'s show|see @«Björn Öberg».|with @«Jane Smith-Jones» and|@«Jane Doe» suggested hops
by @«Jean-Luc Picard»
""".replace("\n", "|").strip("|").split("|")  # fmt: skip


@pytest.mark.parametrize("text", SURNAMES)
def test_the_surname_goes_with_the_handle(text: str) -> None:
    whole = text.replace("«", "").replace("»", "")
    found = scrub(whole)
    assert found.text == re.sub("@«[^»]*»", HANDLE, text)
    assert found.marks == text.count("@")


NO_SURNAMES = """
@Jane Thanks for that|@Jane The answer is no|@Jane I think so|@Jane It's fine|@Jane Water is wet|@Jane Interesting!
as @Chris in AK agreed|by @Jane USA is meant|see @Jane, Doe|see @Jane. Hops are|as @jane Doe said|as @user12 Doe said
@Jane, Hops are|@Jane That's true|@Jane You're right, Hops|as @Jane and Joe said|@Jane! Hops
""".replace("\n", "|").strip("|").split("|")  # fmt: skip


@pytest.mark.parametrize("text", [*NO_SURNAMES, "see @Jane\nDoe", "as @Jane `Doe` says"])
def test_words_that_begin_a_sentence_or_are_no_name_stay(text: str) -> None:
    assert scrub(text).text == re.sub(r"@\w+", HANDLE, text)


def test_mails_and_phones_go_from_code_too_and_handles_do_not() -> None:
    text = "```py\n# jo@firm.test, +1 212 555 0187, @jo_doe\n```\n`@jo_doe jo@firm.test`"
    assert scrub(text).text == "```py\n# [mail], [phone], @jo_doe\n```\n`@jo_doe [mail]`"


def test_numbers_in_a_row_are_each_found() -> None:
    assert scrub("212-555-0187, 212-555-0188 or (212) 555-0189.").text == "[phone], [phone] or [phone]."
    assert scrub("+44 20 7946 0018 / +44 20 7946 0019").text == "[phone] / [phone]"


def test_regions_say_which_national_forms_are_known() -> None:
    assert scrub("Tel. 612345678", ("ES",)).phones == 1
    assert scrub("Tel. 612345678", ("US",)).phones == 0


# ---------------------------------------------------------------- properties

MARKUP = ("@", ".", "-", " ", "\n", "\n\n", "`", "```", "~~~", "    ", "[", "]", "(", ")", "+", "/", "://", "\u00a0")
WORDS = ("@Jane Doe", "](", "'s", "0", "12", "555", "a", "at", "dot", "[mail]", "[phone]", "[handle]", "tel:", "x", "é")
PIECES = st.sampled_from([*MAILS, *PHONES, *HANDLES, *MARKUP, *WORDS])


@given(pieces=st.lists(PIECES, max_size=12))
@settings(max_examples=400)
@example(pieces=["x@y.com", "@", "z.com"])
def test_scrubbing_again_changes_nothing(pieces: list[str]) -> None:
    once = scrub("".join(pieces)).text
    assert scrub(once) == Scrubbed(once)


@given(text=st.text(alphabet="@.ab1 -()+/`\n~u_[]", max_size=60))
@settings(max_examples=400)
def test_any_text_is_scrubbed_once_for_all(text: str) -> None:
    once = scrub(text).text
    assert scrub(once) == Scrubbed(once)


@given(pieces=st.lists(PIECES | st.text(max_size=6), max_size=5))
@settings(max_examples=400)
def test_a_text_that_is_not_suspect_stays_as_it_is(pieces: list[str]) -> None:
    text = "".join(pieces)
    if not re.search(SUSPECT, text, re.IGNORECASE):
        assert scrub(text) == Scrubbed(text)
    assert bool(scrubbed_texts(pa.array([None, text, ""]), list(REGIONS))) == bool(scrub(text).marks)


def test_code_is_where_markdown_says() -> None:
    markdown_it = pytest.importorskip("markdown_it")
    rng = random.Random(4)
    for _ in range(300):
        text = "".join(rng.choice(["`", "``", "```\n", "a", " b ", "\n", "\n\n", "~~~\n", "word"]) for _ in range(14))
        spans = code_spans(text)
        assert spans == sorted(spans)
        assert all(0 <= start < end <= len(text) for start, end in spans)
        inline = [
            t.content for b in markdown_it.MarkdownIt().parse(text) for t in b.children or () if t.type == "code_inline"
        ]
        for content in filter(str.isalpha, inline):
            assert any(content in text[start:end] for start, end in spans), (text, content)


# ---------------------------------------------------------------- hostile texts

SIZE = 1_000_000
HOSTILE = {
    **{
        name: name * (SIZE // len(name))
        for name in ("@", "1", ".", "a", "a@", "a@a.", "a.", "1 ", "1-", "(1", "+1 ", "%40")
    },
    **{
        name: name * (SIZE // len(name))
        for name in ("`@a", " at dot", "a[at]a", "```\n", "    a\n", "://a@", "\n\n    a", " u/bob")
    },
    "long local parts": ("a" * 63 + "@") * (SIZE // 64),
    "phones": "212-555-0187 " * (SIZE // 50),
    "almost phones": "x 0123 4567 8901 2345 6789;" * (SIZE // 100),
    "abroad": "x +44 1234 5678 9012 3456 7890;" * (SIZE // 120),
    "backticks": " ".join("`" * (number % 1000) for number in range(2_000)) + " @bob_b",
    "mails": "jo@firm.test " * (SIZE // 13),
    "surnames": "as @Jane Doe Doe-Doe Doe " * (SIZE // 25),
    "handles in a link": "](@jo_doe!" * (SIZE // 10),
    "federated in a link": "https://a.test/@jo@a.test" * (SIZE // 25),
    "told": "tel: 1 22 33 44 55 66 77 88 99 00;" * (SIZE // 140),
}


@pytest.mark.check
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_megabyte_takes_seconds_at_most_and_twice_as_long_for_twice_the_size(name: str) -> None:
    assert any(_seconds_are_fair(HOSTILE[name]) for _ in range(5)), "not even once"


def _seconds_are_fair(whole: str) -> bool:
    """So once in some times: what else the machine does takes its share of the others."""
    expected = _seconds(whole[: len(whole) // 4]) * 4
    took = _seconds(whole)
    return took < 20 and took < 3 * expected + 0.5


def _seconds(text: str) -> float:
    started = time.process_time()
    scrub(text)
    return time.process_time() - started


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("write me at jo dot doe at gmail dot com.", "write me at [mail]."),
        ("I am at jo at gmail dot com now", "I am at [mail] now"),
        ("mail us at jo99 at firm dot net", "mail us at [mail]"),
        ("jo dot doe at gmail dot com and ann at yahoo dot com", "[mail] and [mail]"),
        ("meet at noon dot", "meet at noon dot"),
        ("at home at example dot com", "at home at example dot com"),
    ],
)
def test_of_two_ats_the_second_is_the_sign_of_the_address(text: str, scrubbed: str) -> None:
    assert scrub(text).text == scrubbed


KEPT = """
the years 1998-2004 and 2010/2011|ISBN 0-306-40615-2|978-0-306-40615-7|ISSN 0378-5955|version 10.15.7.2021
Windows 10.0.19041.1234|numpy 1.26.0|arXiv:2101.00001v2|hep-th/9901001|doi:10.1000/182|10.1145/3313831.3376727
10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-O|C#, F# and J#|C# 9 and F# 6.0|C#1234|issue #1234
bug#4321 and gh#1234|#1234ab and #123456|page.html#1234|10:15:30 on 2024-01-05|2024-01-05T10:15:30.123456Z
12.04.2024 14:30|20240105 103000|unix time 1700000000|$1,234,567.89|1.234.567,89 EUR|USD 10 000 000
52.520008, 13.404954|40.7128° N, 74.0060° W|3.14159265358979|6.02214076e23|2^31 = 2147483648|4294967295 is 2**32-1
192.168.1.1 and 10.0.0.255|192.168.100.200:8080|2001:0db8:85a3:0000:0000:8a2e:0370:7334|00:1A:2B:3C:4D:5E
550e8400-e29b-41d4-a716-446655440000|4111 1111 1111 1111|DE89 3704 0044 0532 0130 00|score 21-19 21-17 15-21
GET /items/0612345678/edit|order 0612345678|serial 0612345678|0.0612345678|(2x+1)(3x-5)/(2021-1999)|CAS 7732-18-5
RFC 2616 and ISO 8601-1:2019|Boeing 737-800|resistor 100 220 330|410 U.S. 113 (1973)|pages 1023-1045, 2001-2010
Fig#1234|build#1234|Room#1234|look at example dot com|the dot product at x dot y|npm i @angular/core@17.0.1|@startuml
""".replace("\n", "|").strip("|").split("|")  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
def test_figures_code_and_names_of_things_stay(text: str) -> None:
    assert scrub(text) == Scrubbed(text)
