"""How a server's configuration, the names and hints of its tools, and its results are read."""

import re
import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dragoman.builtin.mcp.config import OAuthSpec, Problem, ServerSpec, read_servers
from dragoman.builtin.mcp.losses import loss_of, words_of
from dragoman.builtin.mcp.server import McpLoginNeeded
from dragoman.builtin.mcp.tools import BLOB_CHARACTERS, McpTool, Offer, name_of, output_of
from dragoman.builtin.tools.tool import ToolOutput
from dragoman.schema import v1
from dragoman.uistream.chunks import ToolInputAvailable, ToolOutputAvailable
from dragoman.uistream.tool_calls import ToolCallUpdates


class NoCaller:
    async def call(
        self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str], progress: Any = None
    ) -> ToolOutput:
        raise AssertionError("this must not be called")


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "create_issue", "github_create_issue"),
        ("my server", "do.it/now", "my_server_do_it_now"),
        ("é", "ü", "tool"),
        ("a", "b" * 80, "a_" + "b" * 62),
    ],
)
def test_names_have_plain_characters(server: str, tool: str, name: str) -> None:
    assert name_of(server, tool, ()) == name


@given(st.text(), st.text(), st.integers(0, 12))
def test_any_name_becomes_a_unique_one_that_providers_accept(server: str, tool: str, others: int) -> None:
    taken: set[str] = set()
    for _ in range(others + 1):
        name = name_of(server, tool, taken)
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        assert name not in taken
        taken.add(name)


@pytest.mark.parametrize(
    ("is_read_only", "is_open_world", "kind"),
    [(False, False, "other"), (False, True, "other"), (True, False, "read"), (True, True, "fetch")],
)
def test_hints_choose_a_kind_and_what_may_change_something_is_other(
    is_read_only: bool, is_open_world: bool, kind: str
) -> None:
    assert Offer("x", is_read_only=is_read_only, is_open_world=is_open_world).kind == kind


def test_every_call_asks_for_its_server_and_tool() -> None:
    tool = McpTool("git_hub_look", "git hub", Offer("look", is_read_only=True), NoCaller())
    [request] = tool.requests({}, SimpleNamespace(cwd="/w"))
    assert (request.agent, request.kind, request.mcp, request.root) == ("dragoman", "read", ("git hub", "look"), "/w")
    assert request.home


def test_the_description_of_a_tool_is_cut() -> None:
    tool = McpTool("s_x", "s", Offer("x", title="T\n" * 200, description="d" * 5000), NoCaller())
    assert len(tool.description) == 1000
    title = tool.preview({}, "/").title
    assert title.startswith("s: T T")
    assert len(title) <= 80


def test_a_schema_is_passed_on_and_always_one_of_an_object() -> None:
    given_schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert McpTool("n", "s", Offer("x", schema=given_schema), NoCaller()).schema == given_schema
    assert McpTool("n", "s", Offer("x"), NoCaller()).schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["object", "null"], "properties": None},
        {"properties": ["a"], "required": "a"},
        {"properties": {"a": "string", "b": {"type": "string"}}, "required": [1]},
    ],
)
def test_a_wrong_schema_of_one_tool_does_not_make_requests_fail(schema: dict[str, Any]) -> None:
    found = McpTool("n", "s", Offer("x", schema=schema), NoCaller()).schema
    assert found["type"] == "object"
    assert all(isinstance(each, dict) for each in found["properties"].values())
    assert isinstance(found.get("required", []), list)
    assert found.get("required", []) == []


def block(type: str, **members: Any) -> SimpleNamespace:
    return SimpleNamespace(type=type, **members)


def test_text_is_preferred_to_structured_content() -> None:
    text = block("text", text="three")
    assert output_of([text], {"count": 3}, is_error=False).text == "three"
    assert output_of([], [3], is_error=False).text == "[\n  3\n]"
    assert output_of([], None, is_error=True) == ToolOutput("", is_error=True)


def test_an_image_too_large_to_keep_is_named_and_left_out() -> None:
    small = block("image", data="a" * 8, mime_type="image/png")
    large = block("image", data="a" * (BLOB_CHARACTERS - 7), mime_type="image/png")
    output = output_of([small, large], None, is_error=False)
    assert len(output.images) == 1
    assert output.is_truncated
    assert "too large" in output.text


def test_the_resources_of_a_result_are_bounded_together() -> None:
    """An update of more than 32 MiB is not read by clients, and the call would stay open for them."""
    texts = [SimpleNamespace(uri=f"x://{number}", text="q" * 90_000, mime_type=None) for number in range(100)]
    links = [block("resource_link", name="n", title=None, uri="u" * 90_000, mime_type=None) for _ in range(100)]
    output = output_of([*(block("resource", resource=each) for each in texts), *links], None, is_error=False)
    assert 50 < len(output.resources) < 60
    assert output.is_truncated
    assert "x://99:" in output.text


def test_a_message_that_is_wrong_is_named_by_its_first_fault() -> None:
    from mcp_types import ListToolsResult
    from pydantic import ValidationError

    with pytest.raises(ValidationError) as caught:
        ListToolsResult.model_validate({"tools": [{"name": "a", "inputSchema": {"type": "string"}}, {"name": 5}]})
    words = words_of(caught.value)
    assert words.startswith("its ListToolsResult is not what the protocol requires: tools.1.name: ")
    assert words.endswith(" and 1 more")
    assert "http" not in words


def test_content_of_an_unknown_kind_is_named() -> None:
    assert "hologram" in output_of([block("hologram")], None, is_error=False).text


def test_images_links_and_resources_reach_the_client() -> None:
    blocks = [
        block("image", data="aQ==", mime_type="image/png"),
        block("resource_link", name="n", title=None, uri="https://example.org", mime_type=None),
        block("resource", resource=SimpleNamespace(uri="file:///b", blob="YQ==", mime_type="a/b")),
    ]
    tool = McpTool("s_x", "s", Offer("x", is_read_only=True), NoCaller())
    assert (tool.preview({}, "/").title, tool.kind) == ("s: x", "read")
    calls = ToolCallUpdates(starts_on_input=True)
    calls.input_available(ToolInputAvailable("1", "s_x", {}))
    output = msgspec.to_builtins(output_of(blocks, None, is_error=False))
    [update] = calls.output(ToolOutputAvailable("1", output))
    assert isinstance(update, v1.ToolCallUpdate)
    assert [item.content for item in update.content or [] if isinstance(item, v1.Content)][1:] == [
        v1.ImageContent("aQ==", "image/png"),
        v1.ResourceLink("n", "https://example.org"),
        v1.EmbeddedResource(v1.BlobResourceContents("YQ==", "file:///b", "a/b")),
    ]


def test_the_heavy_package_is_not_loaded_before_there_is_a_server() -> None:
    heavy = {"mcp", "mcp_types", "pydantic", "anyio", "httpx2"}
    code = f"import sys, dragoman.builtin.mcp.servers; print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == []


HEADERS = {"A": "b"}


@pytest.mark.parametrize(
    ("entry", "spec"),
    [
        ({"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}, ServerSpec("s", ("npx", "-y", "x"), {"K": "v"})),
        ({"command": ["uvx", "x"], "cwd": "/c"}, ServerSpec("s", ("uvx", "x"), cwd="/c")),
        ({"url": "http://h/mcp", "headers": HEADERS}, ServerSpec("s", url="http://h/mcp", headers=HEADERS)),
        ({"type": "sse", "url": "http://h"}, ServerSpec("s", url="http://h", is_sse=True)),
        ({"transport": "streamable-http", "url": "http://h"}, ServerSpec("s", url="http://h")),
    ],
)
def test_configured_servers_are_read(entry: Any, spec: ServerSpec) -> None:
    assert read_servers((), {"s": entry}) == ((structs.replace(spec, is_configured=True),), ())


@pytest.mark.parametrize(
    "entry", [{}, 7, {"command": 7}, {"type": "sse"}, {"type": "stdio", "url": "http://h"}, {"type": "acp", "url": "x"}]
)
def test_an_entry_without_a_server_is_a_problem(entry: Any) -> None:
    specs, problems = read_servers((), {"s": entry})
    assert specs == ()
    assert [problem.name for problem in problems] == ["s"]


def test_a_server_that_is_switched_off_is_not_a_problem() -> None:
    off = {"a": {"command": "x", "disabled": True}, "b": {"command": "x", "enabled": False}}
    assert read_servers((), off) == ((), ())


def test_servers_of_the_client_are_read_and_replace_configured_ones() -> None:
    sent: list[v1.McpServer] = [
        v1.McpServerStdio("a", "cmd", ["x"], [v1.EnvVariable("K", "v")]),
        v1.McpServerHttp("b", "http://h", [v1.HttpHeader("A", "b")]),
        v1.McpServerSse("c", "http://h", []),
        v1.McpServerAcp("d", "1"),
    ]
    specs, problems = read_servers(sent, {"a": {"command": "other"}, "e": {"command": "more"}})
    assert specs == (
        ServerSpec("a", ("cmd", "x"), {"K": "v"}),
        ServerSpec("b", url="http://h", headers=HEADERS),
        ServerSpec("c", url="http://h", is_sse=True),
        ServerSpec("e", ("more",), is_configured=True),
    )
    assert [type(problem) for problem in problems] == [Problem]
    assert problems[0].name == "d"


def test_an_address_is_shown_without_its_secrets() -> None:
    assert ServerSpec("s", url="https://me:pw@h:1/mcp?key=1#x").where == "https://h:1/mcp"


def test_a_server_that_a_client_sends_keeps_what_the_settings_allow_it() -> None:
    sent: list[v1.McpServer] = [
        v1.McpServerStdio("files", "/usr/bin/mcp-files", ["-r"], []),
        v1.McpServerHttp("docs", "https://docs/mcp", []),
        v1.McpServerHttp("other", "https://evil/mcp", []),
    ]
    configured = {
        "files": {"command": "mcp-files", "args": ["-r"], "sampling": "always"},
        "docs": {"url": "https://docs/mcp", "oauth": {"clientId": "me"}, "elicitation": True},
        "other": {"url": "https://other/mcp", "elicitation": True, "sampling": True, "oauth": {"clientSecret": "s"}},
    }
    (files, docs, other), _ = read_servers(sent, configured)
    assert (files.command[0], files.sampling, files.is_configured) == ("/usr/bin/mcp-files", "always", True)
    assert (docs.elicitation, docs.oauth and docs.oauth.client_id) == (True, "me")
    assert docs.login_command == "dragoman mcp login docs"
    assert (other.elicitation, other.sampling, other.oauth) == (False, "never", OAuthSpec())
    assert other.login_command == "dragoman mcp login https://evil/mcp"


@pytest.mark.parametrize(
    ("oauth", "found"),
    [
        (False, None),
        (True, OAuthSpec()),
        ({"scope": "a b", "callbackPort": 7}, OAuthSpec(scopes=("a", "b"), callback_port=7)),
        ({"clientId": "i", "clientSecretEnv": "DRAGOMAN_TEST_SECRET"}, OAuthSpec("i", "from the environment")),
    ],
)
def test_the_member_oauth_is_read(monkeypatch: pytest.MonkeyPatch, oauth: Any, found: OAuthSpec | None) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST_SECRET", "from the environment")
    [spec], _ = read_servers((), {"s": {"url": "https://h/mcp", "oauth": oauth}})
    assert spec.oauth == found


def test_client_credentials_without_an_issuer_are_refused() -> None:
    oauth = {"clientId": "i", "clientSecret": "s", "clientCredentials": True}
    _, [problem] = read_servers((), {"s": {"url": "https://h/mcp", "oauth": oauth}})
    assert "issuer" in problem.why


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), None, "the certificate of https://h/mcp"),
        (httpx2.ConnectError("refused"), None, "cannot be reached (refused); check that it runs"),
        (ExceptionGroup("", [httpx2.ReadTimeout("")]), None, "cannot be reached (ReadTimeout)"),
        (ValueError("x"), 401, "log in with: dragoman mcp login https://h/mcp, or configure an Authorization header"),
        (ValueError("x"), 403, "HTTP 403"),
        (ValueError("x"), 500, "answered with HTTP 500; check the address"),
        (ValueError("key 0123456789abc"), None, "key [GITHUB_TOKEN]"),
    ],
)
def test_the_reason_for_a_loss_says_what_to_do_and_hides_keys(error: Exception, status: int | None, words: str) -> None:
    spec = ServerSpec("s", url="https://me:secret@h/mcp?key=secret", env={"GITHUB_TOKEN": "0123456789abc"})
    loss = loss_of(spec, error, status)
    assert words in str(loss)
    assert "secret" not in str(loss)
    assert isinstance(loss, McpLoginNeeded) is (status == 401)
