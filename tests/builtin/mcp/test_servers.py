"""MCP servers of a session: their tools need the same permission as ours, and their failures do not end a session."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.mcp import connection
from dragoman.builtin.mcp.connection import INHERITED_VARIABLES
from dragoman.builtin.mcp.server import Waits
from dragoman.builtin.mcp.servers import McpServers
from dragoman.builtin.tools.tool import ToolError
from dragoman.extras import install_command
from dragoman.policy import Rule
from dragoman.policy.modes import MODES
from dragoman.schema import v1
from tests.builtin.fixtures import FakeTool, open_fixture
from tests.builtin.http_service import Service, ask
from tests.builtin.mcp.fixtures import PASSWORD, TRACEPARENT, Context, connected, old, play, serving
from tests.process.kit import Deaths, until
from tests.running_out import LONG, run_out_when

SOON = Waits(again_seconds=(0.0,))


async def test_a_server_of_the_client_gives_its_tools(tmp_path: Path) -> None:
    async with connected(tmp_path, play(COLOUR="blue")) as session:
        assert session.notices == []
        echo = session.tools["play_echo"]
        assert echo.preview({}, "/").title == "play: Say it again"
        assert (echo.description, echo.kind) == ("Return the text.", "read")
        assert echo.schema["required"] == ["text"]
        assert len(session.tools["play_search"].description) <= 1000
        kinds = [session.tools[f"play_{name}"].kind for name in ("search", "wipe", "place")]
        assert kinds == ["fetch", "other", "other"]
        assert (await session.call("play_echo", text="hello")).text == "hello"
        assert (await session.call("play_place", variable="COLOUR")).text == f"{tmp_path} blue"
        assert (await session.call("play_traced")).text == TRACEPARENT
    assert session.tools == {}


async def test_a_server_gets_the_variables_its_entry_names_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "SOMETHING_ELSE"):
        monkeypatch.setenv(name, "0123456789")
    async with connected(tmp_path, play(GITHUB_TOKEN="named")) as session:
        seen = {
            name: (await session.call("play_place", variable=name)).text.split()[-1]
            for name in ("ANTHROPIC_API_KEY", "SOMETHING_ELSE", "GITHUB_TOKEN", "PATH")
        }
    assert seen["ANTHROPIC_API_KEY"] == seen["SOMETHING_ELSE"] == "None"
    assert seen["GITHUB_TOKEN"] == "named"
    assert seen["PATH"] == os.environ["PATH"]


def test_the_inherited_variables_are_those_of_the_official_package() -> None:
    from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

    assert set(INHERITED_VARIABLES) == set(DEFAULT_INHERITED_ENV_VARS)


async def test_every_kind_of_content_is_passed_on(tmp_path: Path) -> None:
    async with connected(tmp_path, play()) as session:
        shown = await session.call("play_show")
        assert shown.images == ({"data": "aW1n", "media_type": "image/png"},)
        assert shown.resources == (
            {"uri": "audio:1", "blob": "c25k", "media_type": "audio/wav"},
            {"uri": "file:///a.txt", "text": "inside", "media_type": "text/plain"},
            {"uri": "file:///b.bin", "blob": "YmI="},
            {"uri": "https://example.org/x", "name": "there"},
        )
        assert "inside" in shown.text
        assert "https://example.org/x" in shown.text
        assert (await session.call("play_count")).text == '{\n  "count": 3\n}'
        failed = await session.call("play_fail")
        assert failed.is_error
        assert "fail" in failed.text


async def test_output_beyond_the_limit_goes_to_a_file(tmp_path: Path) -> None:
    async with connected(tmp_path, play()) as session:
        output = await session.call("play_long", size=300_000)
        assert output.is_truncated
        assert 90 * 1024 < len(output.text) < 101 * 1024
        assert output.output_path is not None
        assert Path(output.output_path).stat().st_size == 300_000  # noqa: ASYNC240


async def test_an_answer_over_the_limit_fails_its_call_at_once(tmp_path: Path) -> None:
    async with connected(tmp_path, old("fine")) as session:
        async with asyncio.timeout(30):
            with pytest.raises(ToolError, match=r"answer has 3[0-9,]* bytes, more than the 33,554,432 that are read"):
                await session.call("old_act", size=33 * 1024 * 1024)
        assert "acted as" in (await session.call("old_act")).text


async def test_changed_tools_are_there_at_the_next_turn(tmp_path: Path) -> None:
    async with connected(tmp_path, play(), old("fine")) as session:
        before = set(session.tools)
        await session.call("play_grow")
        await session.call("play_echo", text="the change was announced before this answer")
        await session.call("old_act", grow=True)
        await session.call("old_act")
        assert set(session.tools) == before
        await session.servers.ready()
        assert set(session.tools) == before - {"play_wipe"} | {"play_grown", "old_refuse"}
        with pytest.raises(ToolError, match="old refused refuse: not today"):
            await session.call("old_refuse")


async def test_cancelling_a_call_cancels_it_at_the_server(tmp_path: Path) -> None:
    async with connected(tmp_path, play()) as session:
        call = asyncio.ensure_future(session.call("play_wait"))
        await session.call("play_until_waiting")
        call.cancel()
        assert (await session.call("play_until_cancelled")).text == "it was cancelled"
        with pytest.raises(asyncio.CancelledError):
            await call


@pytest.mark.parametrize(("kind", "path"), [("http", "mcp"), ("sse", "sse")])
async def test_servers_at_an_address_are_used_and_their_loss_is_reported(tmp_path: Path, kind: str, path: str) -> None:
    async with serving(kind) as (port, process):
        url = f"http://127.0.0.1:{port}/{path}?secret=1"
        entry = {"type": kind, "url": url, "headers": {PASSWORD.name: PASSWORD.value}}
        sent = v1.McpServerHttp("far", url, [PASSWORD]) if kind == "http" else v1.McpServerSse("far", url, [PASSWORD])
        refused = {"type": kind, "url": url}
        configured = {"mine": entry, "locked": refused, "far": refused}
        async with connected(tmp_path, sent, configured=configured, waits=SOON) as session:
            assert (await session.call("far_echo", text="hello")).text == "hello"
            assert (await session.call("mine_echo", text="hello")).text == "hello"
            [(title, why)] = session.notices
            assert title == "MCP server locked is not available"
            assert "HTTP 401" in why
            assert "Authorization" in why
            process.kill()
            await process.wait()
            with pytest.raises(ToolError, match="MCP server far is not available"):
                await session.call("far_echo", text="hello")
            await session.servers.ready()
            assert not [name for name in session.tools if name.startswith("far_")]
            notices = [why for title, why in session.notices if title == "MCP server far is not available"]
            assert len(notices) == 1
            assert f"http://127.0.0.1:{port}/{path} " in notices[0]
            assert "secret" not in notices[0]


async def test_a_server_that_fails_is_a_notice_and_the_others_work(tmp_path: Path) -> None:
    servers = (old("broken", name="broken"), v1.McpServerStdio("none", "no-such-program", [], []), old("chatter"))
    async with connected(tmp_path, *servers) as session:
        assert list(session.tools) == ["old_act"]
        assert (await session.call("old_act")).text.startswith("acted")
        notices = dict(session.notices)
        assert set(notices) == {"MCP server broken is not available", "MCP server none is not available"}
        assert (
            "exited with code 1; its last words on stderr: no key was given"
            in notices["MCP server broken is not available"]
        )
        assert "no-such-program" in notices["MCP server none is not available"]
        assert "install it" in notices["MCP server none is not available"]


async def test_a_turn_waits_for_a_hanging_server_only_for_a_limited_time(tmp_path: Path) -> None:
    waits = Waits(turn_seconds=0.2)
    async with connected(tmp_path, old("mute", name="mute"), old("fine"), waits=waits) as session:
        # The second turn does not wait, and the notice is not repeated.
        await session.servers.ready()
        assert [title for title, _ in session.notices if "mute" in title] == ["MCP server mute is still starting"]


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async with connected(tmp_path, old("mute"), waits=Waits(connect_seconds=0.2)) as session:
        [(title, why)] = session.notices
        assert title == "MCP server old is not available"
        assert "did not answer within 0.2 s" in why


async def test_a_server_that_ignores_signals_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    run_out_when(monkeypatch, lambda: pids.exists() and pids.read_text())
    waits = Waits(connect_seconds=LONG)
    async with connected(tmp_path, old("stubborn", pids), waits=waits) as session:
        assert [title for title, _ in session.notices] == ["MCP server old is not available"]
        # A server that is given up has ended, before the session is closed.
        assert Deaths(*map(int, pids.read_text().split())).wait() == []


async def test_a_server_that_is_silent_about_its_log_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LISTEN_SECONDS", 0.05)
    async with connected(tmp_path, old("deaf", tmp_path / "pid")) as session:
        assert session.notices == []
        assert (await session.call("old_act")).text.startswith("acted")


async def test_a_server_that_is_given_up_after_its_handshake_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LISTEN_SECONDS", 7200.0)
    pid = tmp_path / "pid"
    run_out_when(monkeypatch, lambda: pid.exists() and pid.read_text())
    async with connected(tmp_path, old("deaf", pid), waits=Waits(connect_seconds=LONG)) as session:
        assert [title for title, _ in session.notices] == ["MCP server old is not available"]
        assert Deaths(int(pid.read_text())).wait() == []


async def test_a_server_that_dies_is_started_again_once(tmp_path: Path) -> None:
    async with connected(tmp_path, old("crash", tmp_path / "crashed"), waits=SOON) as session:
        with pytest.raises(ToolError, match=r"the MCP server old is not available: it exited with code 1.*crashed"):
            await session.call("old_act")
        await session.servers.ready()
        assert (await session.call("old_act")).text.startswith("acted")
        assert session.notices == []


async def test_a_server_that_does_not_come_back_is_reported(tmp_path: Path) -> None:
    async with connected(tmp_path, old("crash-for-good", tmp_path / "crashed"), waits=SOON) as session:
        act = session.tools["old_act"]
        with pytest.raises(ToolError, match="crashed"):
            await session.call("old_act")
        await session.servers.ready()
        assert session.tools == {}
        [(title, why)] = session.notices
        assert title == "MCP server old is not available"
        assert "the key was taken away" in why
        # A turn that began with the tool still has it.
        with pytest.raises(ToolError, match="the key was taken away"):
            await act.run({}, Context(tmp_path))


async def test_a_server_that_is_coming_back_is_not_called(tmp_path: Path) -> None:
    waits = Waits(again_seconds=(3600.0,))
    async with connected(tmp_path, old("crash", tmp_path / "crashed"), waits=waits) as session:
        for _ in range(2):
            with pytest.raises(
                ToolError, match="not available: it exited with code 1; its last words on stderr: crashed"
            ):
                await session.call("old_act")


async def test_closing_while_servers_connect_leaves_nothing(tmp_path: Path) -> None:
    async with connected(tmp_path, old("mute"), old("fine", name="fine"), play(), is_ready=False) as session:
        pass
    await session.servers.close()
    assert session.tools == {}
    assert session.notices == []


async def test_names_that_are_taken_are_numbered(tmp_path: Path) -> None:
    built_in = FakeTool("old_act")
    async with connected(tmp_path, old("fine"), old("fine"), tools={"old_act": built_in}) as session:
        assert list(session.tools) == ["old_act", "old_act_2", "old_act_3"]
        first, second = await session.call("old_act_2"), await session.call("old_act_3")
        assert first.text != second.text
    assert session.tools == {"old_act": built_in}


async def test_without_the_package_one_notice_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with connected(tmp_path, old("fine"), old("fine", name="other")) as session:
        [(title, why)] = session.notices
        assert title == "MCP servers are not available"
        assert "old, other" in why
        assert install_command("agent") in why
        assert session.tools == {}


async def test_what_cannot_be_read_is_a_notice_and_needs_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dragoman.builtin.mcp.connection", None)
    configured = {"odd": {"command": 7}, "off": {"command": "x", "disabled": True}}
    async with connected(tmp_path, v1.McpServerAcp("inner", "1"), configured=configured) as session:
        await session.servers.ready()
        await session.until_noticed(2)
        assert [title for title, _ in session.notices] == [
            "MCP server inner is not available",
            "MCP server odd is not available",
        ]


async def test_nothing_is_started_before_the_environment_is_known(tmp_path: Path) -> None:
    known = asyncio.Event()
    tools: dict[str, Any] = {}

    async def notice(title: str, description: str) -> None:
        raise AssertionError(title)

    servers = McpServers([old("fine")], {}, tools, notice, str(tmp_path), waits=Waits(turn_seconds=0), after=known.wait)
    servers.start()
    await servers.ready()
    assert tools == {}
    known.set()
    await servers.close()


@pytest.mark.parametrize(
    ("mode", "rules", "outcome"),
    [
        ("ask", [], "output-denied"),
        ("ask", [Rule("allow", "mcp:old", "project")], "output-available"),
        ("ask", [Rule("allow", "mcp:old:act", "project")], "output-available"),
        ("ask", [Rule("allow", "mcp:old:other", "project")], "output-denied"),
        ("full", [], "output-available"),
        ("full", [Rule("deny", "mcp:old:*", "project")], "output-error"),
        ("plan", [Rule("allow", "mcp:old", "project")], "output-error"),
    ],
)
async def test_tools_of_servers_need_permission(tmp_path: Path, mode: str, rules: list[Rule], outcome: str) -> None:
    async with open_fixture(tmp_path) as fixture, connected(tmp_path, old("fine")) as session:
        fixture.tools, fixture.rules, fixture.mode = session.tools, rules, MODES[mode]
        fixture.answers = lambda options: "reject-once"
        await fixture.prompt("call old_act {}", "say done")
        assert fixture.outcomes() == {"old_act": outcome}


async def test_always_can_mean_the_tool_or_the_whole_server(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture, connected(tmp_path, old("fine")) as session:
        fixture.tools = session.tools
        offered: list[tuple[str, str | None]] = []

        def answer(options: Any) -> str:
            offered.extend((option.label, option.rule) for option in options)
            return "allow-project-wide"

        fixture.answers = answer
        await fixture.prompt("call old_act {}", "call old_act {}", "say done")
        assert ("Allow for this project: `act` of old", "mcp:old:act") in offered
        assert ("Allow for this project: every tool of old", "mcp:old") in offered
        assert fixture.remembered == [("mcp:old", "allow", "project")]


async def test_a_client_sees_notices_and_tools_of_the_servers_it_sent(tmp_path: Path) -> None:
    service = Service(tmp_path)
    servers: list[v1.McpServer] = [old("fine"), old("broken", name="broken")]
    async with service.client("allow_once") as remote:
        session = await remote.new_session(service.project, mcp_servers=servers)
        updates = await ask(session, "call old_act {}", "say {result}")
        notices = [update.title for update in updates if isinstance(update, v1.Notice)]
        assert notices == ["MCP server broken is not available"]
        [call] = [update for update in updates if isinstance(update, v1.ToolCall)]
        assert (call.title, call.kind) == ("old: act", "other")
        assert [update.status for update in updates if isinstance(update, v1.ToolCallUpdate)][-1] == "completed"


async def test_a_server_that_does_not_start_again_at_once_is_tried_with_pauses_and_keeps_its_tools(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "blocked"
    waits = Waits(again_seconds=(0.0, *(0.1,) * 200))
    async with connected(tmp_path, old("crash-for-good", blocked), waits=waits) as session, asyncio.timeout(30):
        server = session.servers.named("old")
        with pytest.raises(ToolError, match="MCP server old is not available"):
            await session.call("old_act")
        await until(lambda: "the key was taken away" in server.problem)
        await session.servers.ready()
        assert (server.state, list(session.tools)) == ("reconnecting", ["old_act"])
        with pytest.raises(ToolError, match="the key was taken away; it is being started again"):
            await session.call("old_act")
        blocked.unlink()
        await until(lambda: server.state == "connected")
        assert session.notices == []
