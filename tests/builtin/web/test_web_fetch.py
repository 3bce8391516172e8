"""The tool `web_fetch`: what the model and the user see of it, with and without permission."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.loop import tool_spec
from dragoman.builtin.tools.table import built_in_tools
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.builtin.tools.web_fetch import LARGEST_BYTES, WebFetchTool
from dragoman.policy import parse_rule
from dragoman.policy.decide import Option
from dragoman.policy.modes import MODES
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ToolPart
from tests.builtin.fixtures import SessionFixture, open_fixture
from tests.builtin.web.site import Names, WebContext, pretended, redirect, reply, serving

PAGE = "<!doctype html><title>A page</title><nav>menu</nav><main><h1>Hello</h1><p>Some words.</p></main>"


def kept(output: ToolOutput) -> str:
    """The file with all of an output."""
    assert output.output_path is not None
    return Path(output.output_path).read_text()


async def test_a_page_is_read_as_text_with_its_title(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/x"] = reply(PAGE)
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x#part"))
        assert output.text == f"{site.url('/x')}\nTitle: A page\n\n# Hello\n\nSome words."
        assert not output.is_error


async def test_the_source_of_a_page_can_be_asked_for(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/x"] = reply(PAGE)
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"), format="raw")
        assert output.text.endswith(f"\n\n{PAGE}")


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("text/plain", "plain <b>text</b>\n\n  as it is"),
        ("text/markdown", "# Title\n\n- a"),
        ("application/json", '{"a": [1, 2]}'),
        ("application/ld+json; charset=utf-8", '{"ü": 1}'),
        ("application/rss+xml", "<rss><channel/></rss>"),
        (None, "no type at all"),
    ],
)
async def test_other_texts_pass_as_they_are(tmp_path: Path, type: str | None, body: str) -> None:
    async with serving() as site:
        site.answers["/x"] = reply(body, type=type)
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"))
        assert output.text == f"{site.url('/x')}\n\n{body}"


@pytest.mark.parametrize("type", ["image/png", "application/pdf", "application/octet-stream", "video/mp4"])
async def test_a_body_that_is_not_text_is_refused(tmp_path: Path, type: str) -> None:
    async with serving() as site:
        site.answers["/x"] = reply(b"\x00\x01\x02", type=type)
        why = await WebContext(tmp_path, "fetch:127.0.0.1").why_not(WebFetchTool(), url=site.url("/x"))
        assert f"is {type}, 3 bytes: this tool reads only text" in why


async def test_a_charset_other_than_the_declared_one_is_recognised(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/x"] = reply("<p>Grüße</p>".encode("latin-1") * 9, type="text/html; charset=utf-8")
        assert "Grüße" in (await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"))).text


async def test_an_error_of_the_server_is_an_error_with_its_words(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/x"] = reply("<h1>Gone</h1>" + "<p>word</p>" * 5000, "410 Gone Away")
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"))
        assert output.is_error
        assert output.text.startswith(f"{site.url('/x')}\nHTTP 410 Gone Away\n\n# Gone")
        assert len(output.text) < 2200
        site.answers["/y"] = reply(b"\x89PNG", "500 Oops", type="image/png")
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/y"))
        assert (output.is_error, "HTTP 500 Oops" in output.text) == (True, True)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (reply(""), "has no text"),
        (reply("<script>x</script>"), "scripts may create it"),
        (reply("", type="text/plain"), "is empty"),
    ],
)
async def test_a_page_without_text_is_reported_as_such(tmp_path: Path, raw: bytes, words: str) -> None:
    async with serving() as site:
        site.answers["/x"] = raw
        assert words in (await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"))).text


async def test_a_long_text_is_shown_in_part_and_kept_in_full(tmp_path: Path) -> None:
    async with serving() as site:
        body = "".join(f"line {number}\n" for number in range(40_000))
        site.answers["/x"] = reply(body, type="text/plain")
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"))
        assert output.is_truncated
        assert kept(output) == body.rstrip("\n")
        assert len(output.text) < 100_000
        assert "line 0\n" in output.text
        assert "line 39999" in output.text


async def test_of_a_huge_body_only_the_beginning_is_downloaded(tmp_path: Path) -> None:
    async with serving() as site:

        async def flood(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                writer.write(b"0123456789abcde\n" * 4096)
                await writer.drain()

        site.answers["/x"] = flood
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(WebFetchTool(), url=site.url("/x"))
        assert output.is_truncated
        assert "[only the beginning: the page is longer than 5 MB" in output.text
        assert len(kept(output)) <= LARGEST_BYTES
        async with asyncio.timeout(60):
            await site.hung_up.wait()


async def test_the_target_of_a_redirect_is_shown(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers |= {"/old": redirect("/new"), "/new": reply(PAGE)}
        web, _, _ = pretended(site)
        output = await WebContext(tmp_path).use(WebFetchTool(web), url="http://a.example/old")
        assert output.text.startswith("http://a.example/new (redirected from http://a.example/old)\nTitle: A page\n")


def test_the_user_sees_the_url_as_it_is_fetched() -> None:
    tool = WebFetchTool()
    assert tool.preview({}, "/").title == "Fetch a web page"
    assert tool.preview({"url": "htt"}, "/").title == "Fetch htt"
    assert tool.preview({"url": 7}, "/").title == "Fetch a web page"
    assert tool.preview({"url": "http://ｅxample.org/ä"}, "/").title == "Fetch http://example.org/%C3%A4"
    long = "https://example.org/?" + "x" * 1500 + "&secret=1"
    assert tool.preview({"url": long}, "/").title == f"Fetch {long}"


def test_both_tools_are_in_the_table_and_say_what_they_take() -> None:
    tools = built_in_tools()
    assert {"web_search", "web_fetch"} <= set(tools)
    assert tool_spec(tools["web_fetch"]).parameters["required"] == ["url"]
    assert tool_spec(tools["web_search"]).parameters["required"] == ["query"]


def test_an_invalid_url_is_refused_before_permission_is_requested(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="give an http or https URL"):
        WebFetchTool().requests(WebFetchTool.arguments("file:///etc/passwd"), WebContext(tmp_path))


# Through the loop


def answering(answer: str, asked: list[Any]) -> Callable[[Sequence[Option]], str]:
    def choose(options: Sequence[Option]) -> str:
        asked.append([option.label for option in options])
        return answer

    return choose


def outcome(fixture: SessionFixture) -> tuple[str, str]:
    """State and text of the only call of the last message."""
    (part,) = [part for part in fixture.session.history[-1].parts if isinstance(part, ToolPart)]
    output = part.output if isinstance(part.output, dict) else {}
    return part.state, str(output.get("text") or part.error_text)


@pytest.mark.parametrize("mode", MODES)
async def test_loopback_is_denied_in_every_mode_without_asking(tmp_path: Path, mode: str) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        asked: list[Any] = []
        fixture.mode, fixture.answers = MODES[mode], answering("allow-once", asked)
        fixture.tools["web_fetch"] = WebFetchTool()
        fixture.rules.append(parse_rule("fetch", "allow", "pinned"))
        for url in (site.url(), f"http://localhost:{site.port}/", f"http://[::ffff:7f00:1]:{site.port}/"):
            await fixture.prompt(f'call web_fetch {{"url": "{url}"}}')
            state, text = outcome(fixture)
            assert state == "output-error"
            assert "only a rule of the user's that names it" in text
        assert (asked, site.asked) == ([], [])


async def test_a_rule_that_names_loopback_lets_it_through(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        site.answers["/"] = reply(PAGE)
        fixture.tools["web_fetch"] = WebFetchTool()
        fixture.rules.append(parse_rule("fetch:127.0.0.1", "allow", "project"))
        await fixture.prompt(f'call web_fetch {{"url": "{site.url()}"}}')
        assert outcome(fixture)[0] == "output-available"
        assert "Some words." in outcome(fixture)[1]


async def test_an_ask_rule_that_names_loopback_asks_the_user_each_time(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        asked: list[Any] = []
        site.answers["/"] = reply(PAGE)
        fixture.tools["web_fetch"] = WebFetchTool()
        fixture.rules.append(parse_rule("fetch:127.0.0.1", "ask", "project"))
        fixture.answers = answering("reject-once", asked)
        await fixture.prompt(f'call web_fetch {{"url": "{site.url()}"}}')
        assert (outcome(fixture)[0], site.asked) == ("output-denied", [])
        fixture.answers = answering("allow-once", asked)
        await fixture.prompt(f'call web_fetch {{"url": "{site.url()}"}}')
        assert (outcome(fixture)[0], len(asked)) == ("output-available", 2)


async def test_a_public_host_is_asked_about_before_it_is_looked_up(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        asked: list[Any] = []
        site.answers["/"] = reply(PAGE)
        web, names, _ = pretended(site)
        fixture.tools["web_fetch"] = WebFetchTool(web)
        fixture.answers = answering("reject-once", asked)
        await fixture.prompt('call web_fetch {"url": "http://a.example/"}')
        assert (outcome(fixture)[0], names.looked_up) == ("output-denied", [])
        assert "Allow for this project: fetching from a.example" in asked[0]
        fixture.answers = answering("allow-project", asked)
        await fixture.prompt('call web_fetch {"url": "http://a.example/"}')
        assert outcome(fixture)[0] == "output-available"
        assert fixture.remembered == [("fetch:a.example", "allow", "project")]
        await fixture.prompt('call web_fetch {"url": "http://a.example/"}')
        assert len(asked) == 2


async def test_permission_for_a_host_does_not_cover_its_private_address(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        web, _, wires = pretended(site, Names(a_example=[["10.0.0.5"]]))
        fixture.tools["web_fetch"] = WebFetchTool(web)
        fixture.answers = answering("allow-once", [])
        await fixture.prompt('call web_fetch {"url": "http://a.example/"}')
        assert outcome(fixture)[0] == "output-error"
        assert "a.example leads to 10.0.0.5" in outcome(fixture)[1]
        assert wires.reached == []


async def test_the_model_follows_a_redirect_to_another_host_by_asking_itself(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        asked: list[Any] = []
        site.answers |= {"a.example/": redirect("http://b.example/"), "b.example/": reply(PAGE)}
        fixture.tools["web_fetch"] = WebFetchTool(pretended(site)[0])
        fixture.answers = answering("allow-once", asked)
        await fixture.prompt('call web_fetch {"url": "http://a.example/"}')
        assert "fetch that URL by itself" in outcome(fixture)[1]
        assert site.asked == ["a.example/"]
        await fixture.prompt('call web_fetch {"url": "http://b.example/"}')
        assert "Some words." in outcome(fixture)[1]
        assert len(asked) == 2


async def test_a_cancelled_turn_closes_the_connection(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:

        async def endless(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            while True:
                writer.write(b"x")
                await writer.drain()
                begun.set()
                await asyncio.sleep(0)

        begun = asyncio.Event()
        site.answers["/"] = endless
        fixture.tools["web_fetch"] = WebFetchTool()
        fixture.rules.append(parse_rule("fetch:127.0.0.1", "allow", "project"))
        turn = fixture.start(f'call web_fetch {{"url": "{site.url()}"}}')
        async with asyncio.timeout(60):
            await begun.wait()
            turn.cancel()
            assert (await turn).was_cancelled
            await site.hung_up.wait()
        assert any(isinstance(chunk, c.ToolOutputError) for chunk in fixture.seen)
