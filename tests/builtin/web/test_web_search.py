"""The tool `web_search`: three services, none at all, and its limits."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.tools.web_search import MOST_CALLS, SECONDS, WebSearchTool
from dragoman.builtin.web.search import find_service
from dragoman.policy import parse_rule
from dragoman.uistream.messages import ToolPart
from tests.builtin.fixtures import open_fixture
from tests.builtin.web.site import Site, WebContext, env, pretended, redirect, reply, serving

BRAVE = {
    "type": "search",
    "web": {
        "results": [
            {
                "title": "One &amp; <b>only</b>",
                "url": "https://one.example/",
                "description": "The <strong>first</strong>.",
            },
            {"title": "Two", "url": "https://two.example/", "description": "Second"},
        ]
    },
}
TAVILY = {
    "query": "x",
    "results": [
        {"title": "One & only", "url": "https://one.example/", "content": "The first.", "score": 0.9},
        {"title": "Two", "url": "https://two.example/", "content": "Second", "score": 0.8},
    ],
}
SEARXNG = {
    "number_of_results": 2,
    "results": [
        {"title": "One & only", "url": "https://one.example/", "content": "The first.", "engine": "x"},
        {"title": "Two", "url": "https://two.example/", "content": "Second", "engine": "y"},
    ],
}
TEXT = "1. One & only\n   https://one.example/\n   The first.\n\n2. Two\n   https://two.example/\n   Second"
SERVICES = {
    "brave": (env(DRAGOMAN_SEARCH_PROVIDER="brave", DRAGOMAN_SEARCH_KEY="k"), BRAVE),
    "tavily": (env(DRAGOMAN_SEARCH_PROVIDER="tavily", DRAGOMAN_SEARCH_KEY="k"), TAVILY),
    "searxng": (env(), SEARXNG),
}


def json(value: Any, status: str = "200 OK") -> bytes:
    return reply(msgspec.json.encode(value), status, "application/json")


def local(site: Site, name: str = "searxng") -> WebSearchTool:
    """A search with a service of this form on the site, which needs permission like any private host."""
    return WebSearchTool(env={**SERVICES[name][0], "DRAGOMAN_SEARCH_URL": site.url("/search")})


@pytest.mark.parametrize("name", SERVICES)
async def test_each_service_is_asked_in_its_form_and_read_in_its_form(tmp_path: Path, name: str) -> None:
    async with serving() as site:
        site.answers["/search"] = json(SERVICES[name][1])
        context = WebContext(tmp_path, "fetch:127.0.0.1")
        output = await context.use(local(site, name), query="what & why?", count=2)
        assert output.text == TEXT
        (asked,), (head,), (body,) = site.asked, site.heads, site.bodies
        path = asked.partition("/")[2]
        if name == "tavily":
            assert (path, head["authorization"], head["content-type"]) == ("search", "Bearer k", "application/json")
            assert msgspec.json.decode(body) == {"query": "what & why?", "max_results": 2}
        elif name == "brave":
            assert (path, head["x-subscription-token"]) == ("search?q=what+%26+why%3F&count=2", "k")
        else:
            assert (path, "authorization" in head) == ("search?q=what+%26+why%3F&format=json", False)


@pytest.mark.parametrize(
    ("variables", "provider", "url"),
    [
        (env(BRAVE_API_KEY="k"), "brave", "https://api.search.brave.com/res/v1/web/search"),
        (env(TAVILY_API_KEY="k"), "tavily", "https://api.tavily.com/search"),
        (env(DRAGOMAN_SEARCH_PROVIDER="Tavily", DRAGOMAN_SEARCH_KEY="k"), "tavily", "https://api.tavily.com/search"),
        (env(DRAGOMAN_SEARCH_URL="https://searx.example"), "searxng", "https://searx.example/search"),
        (env(DRAGOMAN_SEARCH_URL="https://x.example/searx/"), "searxng", "https://x.example/searx/search"),
        (env(DRAGOMAN_SEARCH_URL="https://x.example/search"), "searxng", "https://x.example/search"),
        (env(DRAGOMAN_SEARCH_URL="https://api.tavily.com/search", TAVILY_API_KEY="k"), "tavily", None),
        (
            env(DRAGOMAN_SEARCH_URL="https://gw.example/b", DRAGOMAN_SEARCH_PROVIDER="brave", BRAVE_API_KEY="k"),
            "brave",
            None,
        ),
    ],
)
def test_the_environment_names_the_service(variables: dict[str, str], provider: str, url: str | None) -> None:
    service = find_service(variables)
    assert service is not None
    assert service.provider == provider
    assert service.target.url == (url or variables["DRAGOMAN_SEARCH_URL"])


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (env(DRAGOMAN_SEARCH_PROVIDER="altavista"), "set it to one of brave, tavily, searxng"),
        (env(DRAGOMAN_SEARCH_PROVIDER="brave"), "brave needs a key; set DRAGOMAN_SEARCH_KEY or BRAVE_API_KEY"),
        (env(DRAGOMAN_SEARCH_PROVIDER="searxng"), "searxng needs DRAGOMAN_SEARCH_URL"),
        (env(DRAGOMAN_SEARCH_URL="searx.example"), "DRAGOMAN_SEARCH_URL is wrong"),
    ],
)
def test_an_incomplete_service_is_an_error_that_names_what_is_missing(variables: dict[str, str], why: str) -> None:
    with pytest.raises(ToolError, match=why):
        find_service(variables)


async def test_without_a_service_the_tool_explains_how_to_configure_one(tmp_path: Path) -> None:
    tool, context = WebSearchTool(env=env(PATH="/bin")), WebContext(tmp_path)
    assert tool.requests(tool.arguments("x"), context) == ()
    why = await context.why_not(tool, query="x")
    assert "no search service is configured" in why
    for variable in ("BRAVE_API_KEY", "TAVILY_API_KEY", "DRAGOMAN_SEARCH_URL"):
        assert variable in why


async def test_permission_is_requested_for_the_host_of_the_service(tmp_path: Path) -> None:
    tool = WebSearchTool(env=env(BRAVE_API_KEY="k"))
    (request,) = tool.requests(tool.arguments("cats and  dogs"), WebContext(tmp_path))
    assert (request.kind, request.host) == ("fetch", "api.search.brave.com")
    assert request.title == "Search the web for cats and dogs"


async def test_a_service_inside_needs_a_rule_like_any_host(tmp_path: Path) -> None:
    async with serving() as site, open_fixture(tmp_path) as fixture:
        site.answers["/search"] = json(SEARXNG)
        fixture.tools["web_search"] = local(site)
        fixture.rules.append(parse_rule("fetch", "allow", "pinned"))
        await fixture.prompt('call web_search {"query": "x"}')
        assert (fixture.outcomes(), site.asked) == ({"web_search": "output-error"}, [])
        fixture.rules.append(parse_rule("fetch:127.0.0.1", "allow", "project"))
        await fixture.prompt('call web_search {"query": "x"}')
        (part,) = [part for part in fixture.session.history[-1].parts if isinstance(part, ToolPart)]
        assert isinstance(part.output, dict)
        assert part.output["text"] == TEXT


async def test_the_number_of_searches_in_a_session_is_limited(tmp_path: Path) -> None:
    async with serving() as site:
        site.answers["/search"] = json(SEARXNG)
        context, tool = WebContext(tmp_path, "fetch:127.0.0.1"), local(site)
        for _ in range(MOST_CALLS):
            await context.use(tool, query="x")
        assert f"its limit of {MOST_CALLS} searches" in await context.why_not(tool, query="x")
        assert len(site.asked) == MOST_CALLS
        await WebContext(tmp_path, "fetch:127.0.0.1").use(tool, query="x")


@pytest.mark.parametrize(("count", "given"), [(1, 1), (None, 8), (0, 8), (-4, 1), (99, 20)])
async def test_there_are_as_many_results_as_asked_for_up_to_a_bound(
    tmp_path: Path, count: int | None, given: int
) -> None:
    async with serving() as site:
        entries = [{"title": f"t{n}", "url": f"https://e.example/{n}", "content": ""} for n in range(50)]
        site.answers["/search"] = json({"results": entries})
        output = await WebContext(tmp_path, "fetch:127.0.0.1").use(local(site), query="x", count=count)
        assert output.text.count("https://") == given


@pytest.mark.parametrize("query", ["", "  ", "x" * 1001])
async def test_a_query_is_a_few_words(tmp_path: Path, query: str) -> None:
    async with serving() as site:
        context = WebContext(tmp_path, "fetch:127.0.0.1")
        assert "the query is empty or longer" in await context.why_not(local(site), query=query)
        assert site.asked == []


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("brave", json({}, "401 Unauthorized"), "is its key right?"),
        ("searxng", json({}, "403 Forbidden"), "is JSON among its `search.formats`?"),
        ("tavily", json({}, "429 Too Many"), "too many searches"),
        ("tavily", json({}, "500 Oops"), "HTTP 500 Oops; try it again later"),
        ("searxng", reply("<html>", type="text/html"), "did not answer in JSON"),
        ("searxng", json([1]), "has no results as searxng sends them"),
        ("tavily", json({"results": 7}), "has no results"),
        ("brave", redirect("/elsewhere"), "redirects more than 0 times"),
    ],
)
async def test_an_invalid_answer_of_a_service_is_reported(tmp_path: Path, name: str, raw: bytes, why: str) -> None:
    async with serving() as site:
        site.answers["/search"] = raw
        assert why in await WebContext(tmp_path, "fetch:127.0.0.1").why_not(local(site, name), query="x")
        assert len(site.asked) == 1


async def test_an_empty_result_and_odd_entries_are_not_errors(tmp_path: Path) -> None:
    async with serving() as site:
        context = WebContext(tmp_path, "fetch:127.0.0.1")
        site.answers["/search"] = json({"type": "search"})
        assert "Nothing was found for 'x'" in (await context.use(local(site, "brave"), query="x")).text
        site.answers["/search"] = json({"results": [None, {"url": ""}, {"url": "https://a.example/", "title": None}]})
        assert (await context.use(local(site), query="x")).text == "1. https://a.example/\n   https://a.example/"


async def test_a_search_is_ended_when_it_takes_too_long(tmp_path: Path) -> None:
    import asyncio

    asked: list[float] = []

    def timeout(seconds: float) -> asyncio.Timeout:
        asked.append(seconds)
        return asyncio.timeout(seconds)

    async with serving() as site:
        site.answers["/search"] = json(SEARXNG)
        web, _, _ = pretended(site, timeout=timeout)
        tool = WebSearchTool(web, env(DRAGOMAN_SEARCH_URL="http://searx.example/"))
        assert (await WebContext(tmp_path).use(tool, query="x")).text == TEXT
        assert asked == [SECONDS] == [15.0]


def test_the_user_sees_the_whole_query() -> None:
    tool = WebSearchTool(env=env())
    assert tool.preview({}, "/").title == "Search the web"
    assert tool.preview({"query": "a  b"}, "/").title == "Search the web for a b"
