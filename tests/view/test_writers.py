"""Blocks as Markdown, HTML and lines: what they show, and that a peer's text stays text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.text.colour import Painter
from dragoman.text.terminal import cells
from dragoman.view import blocks_of
from dragoman.view.elements import ATTRIBUTES, TAGS, make, write
from dragoman.view.html import page_of
from dragoman.view.lines import lines_of
from dragoman.view.markdown import to_markdown
from dragoman.view.prose import prose
from tests.view.conversation import TERMINALS, conversation

EVIL = (
    "<script>alert(1)</script>",
    "</pre></style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "[x](javascript:alert(1))",
    "<javascript:alert(1)>",
    '[x](https://a.example/"onmouseover=alert(1)//)',
    "\x1b]0;title\x07\x1b[31mred",
    "\u202e\u2066moved",
    "```\n</code>",
    "<!--",
)


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def everywhere(evil: str) -> SessionState:
    """The text in every place that blocks have."""
    state = conversation(evil, evil)
    updates: list[v1.SessionUpdate] = [
        v1.AgentThoughtChunk(v1.TextContent(evil)),
        v1.Plan([v1.PlanEntry(evil, "high", evil)]),
        v1.Notice(evil, evil, description=evil),
        v1.ToolCall(
            evil,
            evil,
            kind=evil,
            status=evil,
            raw_input={"command": evil},
            raw_output=evil,
            locations=[v1.ToolCallLocation(evil)],
        ),
        v1.ToolCall(
            "more",
            "more",
            content=[
                v1.Diff(evil, evil, old_text="x"),
                v1.Terminal(evil),
                v1.Content(v1.ResourceLink(evil, evil)),
                v1.Content(v1.ImageContent("", evil, uri=evil)),
                v1.Content(v1.EmbeddedResource(v1.TextResourceContents(evil, evil))),
            ],
        ),
    ]
    for update in updates:
        fold(state, update)
    return state


def assert_harmless(page: str) -> None:
    own = {"html", "head", "meta", "title", "style", "body", "main", "h1"}
    for tag, attributes in Tags(page).found:
        assert tag in TAGS | own, tag
        if tag not in own:
            assert attributes.keys() <= ATTRIBUTES, (tag, attributes)
        if "href" in attributes:
            assert re.match(r"https?://|#[a-z0-9-]+$", attributes["href"] or "")


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_text_is_text_in_a_page(evil: str) -> None:
    page = page_of(blocks_of(everywhere(evil), TERMINALS), evil, [(evil, evil)])
    assert_harmless(page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


PIECES = st.sampled_from([*"ab \n`*_~#>-+1.|[]()<>\\\"'&:/", "https://a.b", "```"])


@given(st.lists(PIECES, max_size=120).map("".join))
def test_any_markdown_becomes_elements_of_the_list(text: str) -> None:
    assert_harmless(write(prose(text)))


@given(st.text(max_size=60))
def test_no_text_is_lost_between_markdown_and_page(word: str) -> None:
    word = "".join(letter for letter in word if letter.isalnum() and letter.isascii())
    assert word in write(prose(f"# {word}\n\n- {word}\n\n> **{word}**\n\n```\n{word}\n```"))


def test_markdown_is_read_as_people_write_it() -> None:
    html = write(prose("Title\n\n1. **one** `x`\n2. two\n   - inner\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n"))
    assert "<ol><li><strong>one</strong> <code>x</code></li><li>two<ul><li>inner</li></ul></li></ol>" in html
    assert "<thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody>" in html
    assert "<blockquote><p>quoted</p></blockquote>" in html


def test_links_lead_to_the_web_only() -> None:
    html = write(prose("[a](https://x.example/1) [b](file:///etc/passwd) [c](data:text/html,x) https://y.example."))
    assert re.findall('href="([^"]*)"', html) == ["https://x.example/1", "https://y.example"]
    with pytest.raises(ValueError, match="http"):
        make("a", {"href": "javascript:alert(1)"}, "x")
    with pytest.raises(ValueError, match="not an element"):
        make("script", "", "x")
    with pytest.raises(ValueError, match="not an element"):
        make("p", {"onclick": "x"}, "x")


def test_long_hostile_markdown_is_read_in_linear_time() -> None:
    from time import perf_counter

    def seconds(count: int) -> float:
        text = "".join(f"{mark * count}\n" for mark in ("**a ", "[", "`", "``` `", "_a", "<https://", "- ", "> ", "| "))
        text += f"# a{' ' * count}b\n```{' ' * count}`\n"
        start = perf_counter()
        prose(text)
        return perf_counter() - start

    seconds(100)
    small, large = max(0.005, seconds(1_000)), seconds(8_000)
    assert large < 100 * small


def test_page_has_a_policy_without_scripts_and_loads_nothing() -> None:
    page = page_of(blocks_of(conversation(), TERMINALS), "A title", [("agent", "x")])
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "<script" not in page
    assert not re.search(r"\bsrc=|@import|url\(", page)
    for words in (
        "Fix &lt;this&gt;",
        "npm test",
        "1 failed",
        "+three",
        "-two",
        "☑ Look",
        "exit 1",
        "Low on credit",
        "Done",
    ):
        assert words in page, words


def test_markdown_export_shows_everything_and_keeps_code_in_its_fence() -> None:
    text = to_markdown(blocks_of(conversation(), TERMINALS), "A *title*", [("agent", "x")])
    assert text.startswith("# A \\*title\\*\n\n- agent: `x`\n\n## You\n\nFix &lt;this>\n")
    for words in (
        "- [x] Look",
        "- [ ] Fix (in progress)",
        "```diff\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n```",
        "$ npm test",
        "exit 1",
    ):
        assert words in text, words


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_text_cannot_use_html_in_markdown(evil: str) -> None:
    text = to_markdown(blocks_of(everywhere(evil), TERMINALS), evil, [(evil, evil)])
    outside = re.sub(r"(?ms)^(?:> )?(`{3,}|~{3,})[^\n`]*\n.*?^(?:> )?\1$", "", text)
    outside = re.sub(r"(`+) ?[^`].*?[^`]? ?\1(?!`)", "", outside.replace("\\`", ""))
    assert not re.search(r"(?<!\\)<(?!https?://)[A-Za-z/!]", outside), outside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("evil", EVIL)
def test_lines_fit_and_cannot_act_on_the_terminal(evil: str, width: int) -> None:
    for line in lines_of(blocks_of(everywhere(evil), TERMINALS), width, Painter(False)):
        assert "\x1b" not in line
        assert line.isprintable()
    long = blocks_of(conversation("long " * 100))
    assert all(cells(line) <= max(width, 42) for line in lines_of(long, width, Painter(False)))


def test_lines_begin_with_what_they_are() -> None:
    lines = list(lines_of(blocks_of(conversation(), TERMINALS), 80, Painter(False)))
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "you:",
        "thought:",
        "plan:",
        "tool: edit Edit a.py, completed",
        "tool: execute Run the tests, exit 1",
        "tool: search Search, completed",
        "notice: Low on credit (warning)",
        "unknown: Update of the unknown kind brand_new",
        "agent:",
        "-- Done · 1.0k tokens in, 200 out",
    ]
