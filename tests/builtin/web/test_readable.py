"""Pages become text that reads like the page."""

import time
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.web import html_tree
from dragoman.builtin.web.html_tree import DEEPEST, Node, read_html
from dragoman.builtin.web.readable import read_page

URL = "https://example.org/docs/page.html"


def text_of(html: str) -> str:
    return read_page(html, URL).text


CORPUS = {
    "words": ("<p>One\n  two&nbsp;three &amp; &lt;four&gt;</p><p>Five", "One two three & <four>\n\nFive"),
    "no markup at all": ("just words", "just words"),
    "heading": ("<h1>Top</h1><h3>Sub <em>part</em></h3><h2></h2>", "# Top\n\n### Sub *part*"),
    "bold heading": ("<h1><b>Top</b></h1><h2><b>a</b> and <b>b</b></h2>", "# Top\n\n## **a** and **b**"),
    "heading with an anchor": ('<h2>Name<a class="headerlink" href="#name">¶</a></h2>', "## Name"),
    "heading with a bare anchor": ('<h2><a href="#name">#</a> Name</h2>', "## Name"),
    "emphasis": ("<p>a<b> bold </b>and <i>it</i>, <strong></strong>.</p>", "a **bold** and *it*, ."),
    "breaks": ("<p>one<br>two<br/>three</p>", "one\ntwo\nthree"),
    "inline code": ("<p>run <code>a  b</code> or <code>x`y</code></p>", "run `a b` or `` x`y ``"),
    "absolute link": ('<p><a href="http://a.b/c">C</a></p>', "[C](http://a.b/c)"),
    "relative link": ('<p><a href="../x?a=1&amp;b=2">X</a></p>', "[X](https://example.org/x?a=1&b=2)"),
    "link with brackets": ('<a href="/a (b)">X</a>', "[X](https://example.org/a%20%28b%29)"),
    "link within the page": ('<p><a href="#s">see</a></p>', "see"),
    "link that runs a script": ('<p><a href="javascript:x()">do</a></p>', "do"),
    "link without text": ('<p>a <a href="/x"><svg><path/></svg></a>b</p>', "a b"),
    "link with spaces": ('<p>a<a href="/x"> x </a>b</p>', "a [x](https://example.org/x) b"),
    "link over two lines": ('<a href="/x">a<br>b</a>', "[a b](https://example.org/x)"),
    "base": ('<base href="https://cdn.example/a/"><a href="b">B</a>', "[B](https://cdn.example/a/b)"),
    "card": ('<a href="/x"><h3>Title</h3><p>words</p></a>', "[Title words](https://example.org/x)"),
    "image": (
        '<p><img alt="A cat" src="cat.png"> <img src="dot.gif"></p>',
        "![A cat](https://example.org/docs/cat.png)",
    ),
    "image of data": ('<img alt="dot" src="data:image/png;base64,xx">', "dot"),
    "list": ("<ul><li>a<li>b <b>c</b></ul>", "- a\n- b **c**"),
    "numbered list": ("<ol start=9><li>a</li><li>b</li></ol>", "9. a\n10. b"),
    "list in a list": ("<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>", "- a\n  - b\n    1. c\n- d"),
    "list right in a list": ("<ul><li>a</li><ul><li>b</li></ul><li>c</li></ul>", "- a\n  - b\n- c"),
    "list of paragraphs": ("<ul><li><p>a</p><p>b</p></li></ul>", "- a\n  b"),
    "tasks": ("<ul><li><input type=checkbox checked> a<li><input type=checkbox> b</ul>", "- [x] a\n- [ ] b"),
    "code": ("<pre>a &lt; b\n    c\n\nd</pre>", "```\na < b\n    c\n\nd\n```"),
    "code of a language": ('<pre><code class="hl language-py">x</code></pre>', "```py\nx\n```"),
    "coloured code": ("<pre><span>a</span> <span>=</span><br>b</pre>", "```\na =\nb\n```"),
    "code with a fence": ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    "code with numbers of lines": (
        "<table><tr><td class=linenos><pre>1\n2</pre><td><pre>a\nb</pre></table>",
        "```\na\nb\n```",
    ),
    "quote": ("<blockquote><p>a<p>b</blockquote>c", "> a\n>\n> b\n\nc"),
    "table": (
        "<table><caption>T</caption><thead><tr><th>A<th>B<tbody><tr><td>1<td>x|y<tr><td>2</table>",
        "T\n\n| A | B |\n| --- | --- |\n| 1 | x\\|y |\n| 2 |  |",
    ),
    "table with blocks": (
        "<table><tr><td><div>a</div><div>b</div></td><td>c</td></tr></table>",
        "| a b | c |\n| --- | --- |",
    ),
    "table for the layout": (
        "<table><tr><td>menu<td><table><tr><th>A<th>B<tr><td>1<td>2</table></table>",
        "menu\n\n| A | B |\n| --- | --- |\n| 1 | 2 |",
    ),
    "definitions": ("<dl><dt>a</dt><dd>b<p>c</dd><div><dt>d<dd>e</div></dl>", "a\n\n  b\n\n  c\n\nd\n\n  e"),
    "rule": ("a<hr>b", "a\n\n---\n\nb"),
    "formula": ('<p>so <math alttext="a^2"><mi>a</mi></math></p>', "so a^2"),
    "details": ("<details><summary>More</summary><p>this</details>", "More\n\nthis"),
    "scripts and styles": ("<script>if(a<b)'</p>'</script><style>p{}</style><p>x<noscript>y</noscript>", "x"),
    "script that never ends": ("<p>x</p><script>var a = '<p>no</p>'", "x"),
    "comments": ("a<!-- <p>no</p> -->b<!>c<!-->d<?php no ?>e", "abcde"),
    "comment that never ends": ("<p>a</p><!-- b <p>c", "a"),
    "controls": ("<form><label>Name <input><button>Go</button><select><option>a</select></label></form>", "Name"),
    "hidden": ("<p>a<span hidden>b</span><i aria-hidden=true>c</i><b style='Display: NONE'>d</b>", "a"),
    "hidden blocks": ("<div hidden><p>a</p></div><p style='visibility:hidden'>b</p><template>c</template>d", "d"),
    "frame": (
        "<header>logo</header><nav>menu</nav><aside>ads</aside><b role=search>s</b><p>text</p><footer>f</footer>",
        "text",
    ),
    "header of an article": ("<article><header><h1>T</h1></header><nav>n</nav><p>x</p></article>", "# T\n\nx"),
    "nothing but a frame": ("<header><p>only this</p></header>", "only this"),
    "main part": ("<div>before " + "x " * 50 + "</div><main><p>" + "word " * 60 + "</main>", ("word " * 60).strip()),
    "empty main part": ("<main></main><p>text outside</p>", "text outside"),
    "sign that is not a tag": ("<p>1 < 2 and <3 & 4", "1 < 2 and <3 & 4"),
    "odd attributes": ("<p a b=1 c='>' d=\"<\" / e=f>x", "x"),
    "tag that never ends": ("<p>a</p><a href='", "a"),
    "wrong order of ends": ("<p><b>a</p><i>b</b></i> c", "**a**\n\n*b* c"),
    "capitals": ("<H1>A</H1><P>b</P><UL><LI>c</UL>", "# A\n\nb\n\n- c"),
    "soft hyphens and the like": ("<p>in\u00advis\u200bible</p>", "invisible"),
}


@pytest.mark.parametrize("name", CORPUS)
def test_a_page_becomes_text(name: str) -> None:
    html, expected = CORPUS[name]
    assert text_of(html) == expected


def test_a_whole_page_has_a_title_and_its_text_alone() -> None:
    html = """\
        <!DOCTYPE html>
        <html lang="en"><head>
          <meta charset="utf-8"><title>Guide &ndash;
            Things</title>
          <link rel="stylesheet" href="x.css"><script src="x.js"></script>
        </head>
        <body class="page">
          <a class="skip" href="#main">Skip</a>
          <header><img alt="Logo" src="l.png"><nav><ul><li><a href="/">Home</a></ul></nav></header>
          <main id="main"><h1>Things</h1>
            <p>A <dfn>thing</dfn> is <a href="/what">what</a> it is.
            <pre><code class="language-sh">$ make thing
        $ ./thing --help</code></pre>
            <aside class="note"><p>Note: things change.</p></aside>
            <nav aria-label="pages"><a href="/next">Next</a></nav>
          </main>
          <footer>(c) <a href="/imprint">Imprint</a></footer>
        </body></html>"""
    page = read_page(dedent(html), URL)
    assert page.title == "Guide – Things"
    assert page.text == dedent(
        """\
        # Things

        A thing is [what](https://example.org/what) it is.

        ```sh
        $ make thing
        $ ./thing --help
        ```

        Note: things change."""
    )
    assert not page.is_cut


PIECES = st.sampled_from(
    (
        *("<p>", "</p>", "<div>", "</div>", "<ul>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "</table>", "<b>"),
        *("<a href='x'>", "</a>", "</b>", "<pre>", "</pre>", "<!--", "-->", "<script>", "</script>", "word ", "<h1>"),
        *("<dl>", "<dt>", "<dd>", "<blockquote>", "<main>", "</main>", "<article>", "<br>", "<title>", "&amp", "&#1;"),
        *("<", '"', ">", "="),
    )
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_order_of_tags_is_a_page(html: str) -> None:
    text = text_of(html)
    assert "\x01" not in text
    assert "word" in html or "word" not in text


@given(st.text(max_size=200))
def test_any_text_is_a_page(html: str) -> None:
    text_of(html)


ENDLESS = {
    "deep": "<div>",
    "deep lists": "<ul><li>x",
    "deep tables": "<table><tr><td>x",
    "deep quotes": "<blockquote>x",
    "deep links": "<a href=x><p>x",
    "deep definitions": "<dl><dd>x",
    "open quotes": '<a href="',
    "open comments": "<!--",
    "open tags": "<a ",
    "less": "<",
    "mains": "<main>x</main>",
    "entities": "&amp",
    "ends": "</p></div>",
    "titles": "<title>",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_page_made_to_cost_time_takes_no_more_than_its_size(name: str) -> None:
    """Twice as much may take some more than twice as long; were it quadratic, 16 times as much would take 256 times."""

    def seconds(size: int) -> float:
        html = ENDLESS[name] * (size // len(ENDLESS[name]))
        start = time.process_time()
        text_of(html)
        return time.process_time() - start

    assert seconds(16 * 20_000) < 80 * max(seconds(20_000), 0.004)


def test_a_tree_is_never_deeper_than_recursion_can_go() -> None:
    def depth(node: Node) -> int:
        return 1 + max((depth(child) for child in node.children if isinstance(child, Node)), default=0)

    tree, _ = read_html("<div><b>" * 5000 + "x" + "</b></div>" * 5000 + "<p>after</p>")
    assert depth(tree) <= DEEPEST + 1
    assert text_of("<div>" * 5000 + "x" + "</div>" * 5000 + "<p>after</p>") == "x\n\nafter"


def test_a_page_with_too_many_elements_is_cut_and_reported_as_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_tree, "MOST_TOKENS", 1000)
    page = read_page("<p>x" + "<b></b>" * 500 + "y", URL)
    assert (page.text, page.is_cut) == ("x", True)
