import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tasks.text.html_to_markdown import STAND_IN, to_markdown

TEX = st.text(alphabet="ab\\{}()^+", min_size=1, max_size=40)
CODE = st.text(alphabet="ab \\_*<>&#[]|\n", min_size=1, max_size=60).filter(lambda code: code.strip())


@given(TEX)
def test_text_with_backslashes_comes_out_as_it_was_written(text: str) -> None:
    assert to_markdown(f"<p>x{escape(text)}</p>") == f"x{text}"


@given(CODE)
def test_code_comes_out_to_the_character(code: str) -> None:
    html = f"<pre><code>x{escape(code)}\n</code></pre>"
    assert to_markdown(html).startswith("```\nx" + code.rstrip())


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (r"<p>\(a_1\) and \[x \\ y\]</p>", r"\(a_1\) and \[x \\ y\]"),
        (r"<p>$\frac{a}{b} &lt; c*d*e$</p>", r"$\frac{a}{b} < c*d*e$"),
        ("<p>C:&#92;new &#x5C;a &#x5c;b &#0092;c &bsol;d</p>", r"C:\new \a \b \c \d"),
        ("<p>&#921;</p>", "Ι"),
        ("<p>1. not a list</p>", "1. not a list"),
        ("<p>x<sup>2</sup> H<sub>2</sub>O</p>", "x<sup>2</sup> H<sub>2</sub>O"),
        ("<p>press <kbd>Ctrl</kbd></p>", "press `Ctrl`"),
        ('<p><a href="https://e.org/a" rel="nofollow">the page</a></p>', "[the page](https://e.org/a)"),
        ('<p><img src="https://e.org/a.png" alt="a cat"></p>', "![a cat](https://e.org/a.png)"),
        ("<ul><li>one<ul><li>two</li></ul></li></ul>", "- one\n   - two"),
        ("<blockquote><p>said</p></blockquote>", "> said"),
        ('<h2><img src="https://e.org/a.png" alt="a cat"> Cats</h2>', "## ![a cat](https://e.org/a.png) Cats"),
        ('<h2><a href="https://e.org"><img src="/a.png" alt="a"></a></h2>', "## [![a](/a.png)](https://e.org)"),
        ('<h1><img src="https://e.org/a.png" alt=""></h1>', "# ![](https://e.org/a.png)"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<nav>kept</nav><form>too</form>", "kept\n\ntoo"),
        ("<p>a</p><script>alert()</script>", "a"),
    ],
)
def test_html_becomes_the_markdown_one_would_write(html: str, markdown: str) -> None:
    assert to_markdown(html) == markdown


ONE, TWO = "<blockquote>\n  <p>one</p>\n</blockquote>", "<blockquote>\n  <p>two</p>\n</blockquote>"


@pytest.mark.parametrize("between", ["", "\n\n", "\n\n<!-- -->\n\n", "<!-- a --> <!-- b -->"])
def test_two_quotes_in_a_row_stay_two(between: str) -> None:
    assert to_markdown(f"<p>a</p>{ONE}{between}{TWO}<p>b</p>") == "a\n> one\n\n> two\n\nb"
    assert to_markdown(f"<ul><li>{ONE}{between}{TWO}</li></ul>") == "- > one\n\n   > two"
    assert to_markdown(ONE + between + TWO + between + ONE) == "> one\n\n> two\n\n> one"


@pytest.mark.parametrize(
    "html",
    [
        f"{ONE}{TWO}",
        f"<ul><li>a{ONE}{TWO}</li></ul>",
        f"<blockquote>{ONE}{TWO}</blockquote>",
        f"<blockquote><p>z</p>{ONE}{TWO}<p>k</p></blockquote>",
        f"{ONE}<blockquote><ul><li>two</li></ul></blockquote>{TWO}",
        f'{ONE}<blockquote class="spoiler"><p>hidden</p></blockquote>{TWO}',
    ],
)
def test_readers_of_the_markdown_see_as_many_quotes(html: str) -> None:
    shown = MarkdownIt().render(to_markdown(html))
    assert shown.count("<blockquote>") == html.count("<blockquote")
    assert shown.count("</li>") == html.count("</li>")


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<p> It is Ann.</p>", ">! It is Ann."),
        ("<p>one</p>\n  <p>two</p>", ">! one\n>!\n>! two"),
        ("<p>a<br>\n b</p>", ">! a  \n>! b"),
        ("<ul><li>a<ul><li>b</li></ul></li></ul>", ">! - a\n>!    - b"),
        ("<pre><code>x &gt; 1\n\n&gt; y</code></pre>", ">! ```\n>! x > 1\n>!\n>! > y\n>! ```"),
        ("<blockquote><p>in</p></blockquote>", ">! > in"),
        ('<p>a</p><blockquote class="spoiler"><p>in</p></blockquote><p>b</p>', ">! a\n>!\n>! >! in\n>!\n>! b"),
        ('<p><img src="/a.png" alt="a"></p>', ">! ![a](/a.png)"),
    ],
)
def test_a_spoiler_is_hidden_as_its_author_wrote_it(html: str, markdown: str) -> None:
    for attributes in ('class="spoiler"', 'class="spoiler" data-spoiler="Reveal spoiler"', "class='a spoiler'"):
        spoiler = f"<blockquote {attributes}>\n  {html}\n</blockquote>"
        assert to_markdown(f"<p>Who?</p>{spoiler}<p>So.</p>") == f"Who?\n{markdown}\n\nSo."


@pytest.mark.parametrize(
    ("before", "after", "markdown"),
    [
        ("<ul><li>", "</li><li>b</li></ul>", "- >! one\n   >!\n   >! two\n\n- b"),
        ("<ul><li>a", "</li></ul>", "- a\n   >! one\n   >!\n   >! two"),
        ("<blockquote>", "<p>b</p></blockquote>", "> >! one\n> >!\n> >! two\n>\n> b"),
        (ONE, TWO, "> one\n\n>! one\n>!\n>! two\n\n> two"),
        ("<blockquote><p>x &gt; y</p>", "</blockquote>", "> x > y\n>\n> >! one\n> >!\n> >! two"),
    ],
)
def test_only_the_spoiler_is_hidden(before: str, after: str, markdown: str) -> None:
    html = f'{before}<blockquote class="spoiler"><p>one</p><p>two</p></blockquote>{after}'
    assert to_markdown(html) == markdown


def test_a_spoiler_that_is_not_closed_or_empty_loses_no_text() -> None:
    assert to_markdown('<blockquote class="spoiler"><p>one') == ">! one"
    assert to_markdown('<p>a</p><blockquote class="spoiler"></blockquote><p>b</p>') == "a\n\nb"
    words = to_markdown('<table><tr><td><blockquote class="spoiler"><p>one</p></blockquote></td></tr></table>')
    assert "one" in words
    assert words.isascii()


TABLE = """<div class="s-table-container"><table class="s-table"><thead><tr>
<th style="text-align: right;">a</th><th style="text-align: center;">b|c</th><th align="LEFT">d</th>
<th>e</th></tr></thead><tbody>
<tr><td style="text-align: right;">1</td><td>2</td><td><code>x|y</code></td><td>4</td></tr></tbody></table></div>"""


def test_columns_of_a_table_keep_their_alignment() -> None:
    rows = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in to_markdown(TABLE).split("\n")]
    assert rows == [["a", r"b\|c", "d", "e"], ["---:", ":---:", ":---", "---"], ["1", "2", r"`x\|y`", "4"]]


def test_readers_of_the_markdown_see_the_alignment() -> None:
    shown = MarkdownIt().enable("table").render(to_markdown(f"<blockquote>{TABLE}</blockquote>"))
    assert re.findall(r"<th(.*?)>", shown) == [
        "ead",
        ' style="text-align:right"',
        ' style="text-align:center"',
        ' style="text-align:left"',
        "",
    ]


def test_a_table_without_alignment_is_as_before_and_an_empty_heading_may_have_one() -> None:
    assert to_markdown("<table><tr><th>align</th></tr><tr><td>1</td></tr></table>").split("\n")[1] == "| ----- |"
    html = '<table><tr><th align="right"></th><th>b</th></tr><tr><td align="right">1</td><td>2</td></tr></table>'
    assert [line.replace(" ", "") for line in to_markdown(html).split("\n")] == ["||b|", "|---:|---|", "|1|2|"]


@pytest.mark.parametrize("mark", ["\ue001", "&#xE002;", "&#57347;", "\ue005"])
def test_a_post_that_holds_a_mark_itself_hides_nothing(mark: str) -> None:
    html = f'<blockquote><p>a{mark}</p></blockquote><p>b</p><blockquote class="spoiler"><p>c</p></blockquote>'
    assert to_markdown(html) == "> a\n\nb\n>! c"


def test_pipes_in_tables_stay_escaped() -> None:
    assert r"x\|y" in to_markdown("<table><tr><th>a</th></tr><tr><td>x|y</td></tr></table>")


@pytest.mark.parametrize(
    "html",
    [
        '<pre class="lang-js s-code-block"><code>a</code></pre>',
        "<!-- language: lang-js -->\n\n<pre><code>a</code></pre>",
        "<!-- language: js -->\n<pre><code>a</code></pre>",
        "<!-- language-all: lang-js -->\n<pre><code>a</code></pre>",
    ],
)
def test_the_language_of_a_code_block_is_kept(html: str) -> None:
    assert to_markdown(html) == "```js\na\n```"


def test_a_fence_grows_where_code_holds_one() -> None:
    assert to_markdown("<pre><code>```\n</code></pre>").startswith("````")


@pytest.mark.parametrize("html", ["", " ", "\n", "<p></p>", "<p>&nbsp;</p>", "<div>\t</div>", "<br>", "<!-- x -->"])
def test_nothing_but_white_space_is_an_empty_text(html: str) -> None:
    assert to_markdown(html) == ""


@pytest.mark.parametrize("html", [f"a{STAND_IN}b", "a&#xE000;b", "a&#xe000;b", "a&#57344;b"])
def test_the_stand_in_never_turns_into_a_backslash(html: str) -> None:
    assert to_markdown(html) == "ab"


def test_text_deeper_than_the_converter_goes_is_not_lost() -> None:
    html = "<p>top</p>" + "<div>" * 3000 + "deep &amp; <b>bo</b>ld<p>end \\(x\\)" + "</div>" * 3000
    assert to_markdown(html) == "top\ndeep & bold\nend \\(x\\)"


def test_hostile_markup_takes_no_time() -> None:
    deep = "<div>" * 3000
    for html in (
        "<" * 300_000,
        "<p>" * 50_000,
        deep + "<a" * 300_000,
        deep + " " * 300_000 + "x",
        deep + "<a" + "a" * 300_000,
        "<table align>" + "<th align=" * 30_000,
        "<table align>" + "<th" + " " * 300_000,
        "<table><tr><th align=right>" * 10_000,
        "</blockquote><!--" * 20_000,
        "</blockquote> " * 20_000,
        '<blockquote class="spoiler">' * 10_000,
        '<blockquote class="spoiler"><p>a</p></blockquote>' * 6_000,
        "<blockquote class=" * 20_000 + "spoiler",
    ):
        to_markdown(html)
