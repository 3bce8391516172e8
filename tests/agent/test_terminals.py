"""Commands: in the client's terminal when offered, as a child otherwise, and always released."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agent import Agent, ClientError, TerminalHandle, Turn
from dragoman.errors import LocalProtocolError
from dragoman.schema import v1
from tests.agent.fixtures import Link, connected, reached, updated

OFFERED = {"terminal": True}


@pytest.mark.rule(190, 282, 283, 284, 292, 297)
async def test_every_call_of_a_terminal_reaches_the_client_and_it_is_released_at_the_end(link: Link) -> None:
    agent = Agent("test")
    results: list[Any] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("make", ["test", "-j"], cwd="sub", env={"A": "1"}, output_byte_limit=1000) as terminal:
            results.append(terminal.id)
            results.append(await terminal.output())
            await terminal.kill()
            results.append(await terminal.wait())

    async with connected(agent, link, OFFERED) as line:
        session_id = await line.open("/work")
        request_id = line.prompt(session_id)
        where = {"sessionId": session_id, "terminalId": "t1"}
        assert await line.answer_next("terminal/create", {"terminalId": "t1"}) == {
            "sessionId": session_id,
            "command": "make",
            "args": ["test", "-j"],
            "env": [{"name": "A", "value": "1"}],
            "cwd": "/work/sub",
            "outputByteLimit": 1000,
        }
        output = {"output": "ok", "truncated": False}
        assert await line.answer_next("terminal/output", output) == where
        assert await line.answer_next("terminal/kill", {}) == where
        assert await line.answer_next("terminal/wait_for_exit", {"exitCode": None, "signal": "SIGTERM"}) == where
        assert await line.answer_next("terminal/release", {}) == where
        assert (await line.answer_to(request_id))[1]["result"] == {"stopReason": "end_turn"}
        assert results == [
            "t1",
            v1.TerminalOutputResponse("ok", False),
            v1.WaitForTerminalExitResponse(None, "SIGTERM"),
        ]


@pytest.mark.rule(88, 283)
async def test_a_terminal_starts_in_the_folder_of_its_session() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("ls"):
            pass

    async with connected(agent, capabilities=OFFERED) as line:
        line.prompt(await line.open("/work"))
        params = await line.answer_next("terminal/create", {"terminalId": "t1"})
        assert params["cwd"] == "/work"
        assert "outputByteLimit" not in params
        await line.answer_next("terminal/release", None)
        await line.next()


@pytest.mark.rule(292)
async def test_a_body_that_raises_still_releases_its_terminal() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("ls"):
            raise ValueError

    async with connected(agent, capabilities=OFFERED) as line:
        request_id = line.prompt(await line.open())
        await line.answer_next("terminal/create", {"terminalId": "t1"})
        assert (await line.answer_next("terminal/release", {}))["terminalId"] == "t1"
        assert (await line.answer_to(request_id))[1]["error"]["code"] == -32603


@pytest.mark.rule(196, 208, 292)
async def test_a_cancelled_turn_releases_its_terminals_before_it_answers(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("one"), turn.terminal("two") as terminal:
            await terminal.wait()

    async with connected(agent, link, OFFERED) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await line.answer_next("terminal/create", {"terminalId": "t1"})
        await line.answer_next("terminal/create", {"terminalId": "t2"})
        waiting = await line.expect("terminal/wait_for_exit")
        line.notify("session/cancel", sessionId=session_id)
        assert (await line.expect("$/cancel_request"))["params"] == {"requestId": waiting["id"]}
        assert (await line.answer_next("terminal/release", {}))["terminalId"] == "t2"
        assert (await line.answer_next("terminal/release", {}))["terminalId"] == "t1"
        assert (await line.answer_to(request_id))[1]["result"] == {"stopReason": "cancelled"}


@pytest.mark.rule(196, 292)
async def test_a_client_that_does_not_answer_a_release_does_not_hold_the_turn_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.agent.terminals.RELEASE_SECONDS", 0.05)
    agent = Agent("test")
    running = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("one"):
            running.set()
            await asyncio.Event().wait()

    async with connected(agent, capabilities=OFFERED) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        await line.answer_next("terminal/create", {"terminalId": "t1"})
        await reached(running)
        line.notify("session/cancel", sessionId=session_id)
        await line.expect("terminal/release")
        before, answer = await line.answer_to(request_id)
        assert before == []
        assert answer["result"] == {"stopReason": "cancelled"}


@pytest.mark.rule(292)
async def test_a_terminal_that_is_created_after_the_cancel_is_released_too(link: Link) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("slow"):
            pass

    async with connected(agent, link, OFFERED) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        created = await line.expect("terminal/create")
        line.notify("session/cancel", sessionId=session_id)
        assert (await line.answer_to(request_id))[1]["result"] == {"stopReason": "cancelled"}
        line.send({"jsonrpc": "2.0", "id": created["id"], "result": {"terminalId": "late"}})
        assert (await line.answer_next("terminal/release", {}))["terminalId"] == "late"


@pytest.mark.rule(292)
async def test_a_terminal_that_is_refused_after_the_cancel_needs_no_release() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.terminal("slow"):
            pass

    async with connected(agent, capabilities=OFFERED) as line:
        session_id = await line.open()
        request_id = line.prompt(session_id)
        created = await line.expect("terminal/create")
        line.notify("session/cancel", sessionId=session_id)
        await line.answer_to(request_id)
        line.send({"jsonrpc": "2.0", "id": created["id"], "error": {"code": -32603, "message": "No"}})
        await line.silence()


async def test_a_terminal_that_the_client_refuses_is_an_error_and_nothing_to_release() -> None:
    agent = Agent("test")
    failures: list[ClientError] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            async with turn.terminal("nothing"):
                pass
        except ClientError as error:
            failures.append(error)

    async with connected(agent, capabilities=OFFERED) as line:
        request_id = line.prompt(await line.open())
        await line.refuse("terminal/create", -32603, "No such program")
        before, _ = await line.answer_to(request_id)
        assert before == []
        assert failures[0].message == "No such program"


@pytest.mark.rule(294)
async def test_a_released_terminal_is_used_no_more(tmp_path: Path) -> None:
    for capabilities in (OFFERED, {}):
        agent = Agent("test")
        kept: list[TerminalHandle] = []

        @agent.prompt
        async def reply(turn: Turn) -> None:
            async with turn.terminal("true") as terminal:
                kept.append(terminal)  # noqa: B023  # called within the same round
            async with turn.tool("x") as call:
                with pytest.raises(LocalProtocolError, match="released"):
                    await call.show(terminal)

        async with connected(agent, capabilities=capabilities) as line:
            request_id = line.prompt(await line.open(str(tmp_path)))
            if capabilities:
                await line.answer_next("terminal/create", {"terminalId": "t1"})
                await line.answer_next("terminal/release", {})
            await line.answer_to(request_id)
            for use in (kept[0].output, kept[0].wait, kept[0].kill):
                with pytest.raises(LocalProtocolError, match="released"):
                    await use()
            assert kept[0].is_released
            await kept[0].release()
            await line.silence()


@pytest.mark.rule(251)
async def test_a_tool_call_shows_the_clients_terminal_live() -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with turn.tool("Run", id="c") as call, turn.terminal("ls") as terminal:
            await call.show(terminal)

    async with connected(agent, capabilities=OFFERED) as line:
        line.prompt(await line.open())
        await line.next()
        await line.next()
        await line.answer_next("terminal/create", {"terminalId": "t1"})
        assert updated(await line.next())["content"] == [{"type": "terminal", "terminalId": "t1"}]
        await line.answer_next("terminal/release", {})
        assert updated(await line.next()) == {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "status": "completed",
        }
        await line.next()


# Without a terminal of the client

SCRIPT = "import sys, time; "


async def _run_locally(folder: Path, source: str, **options: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """Runs a Python one-liner in a terminal of the agent's own: its last output and status, and the updates."""
    agent = Agent("test")
    results: list[Any] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with (
            turn.tool("Run", id="c") as call,
            turn.terminal(sys.executable, ["-c", SCRIPT + source], **options) as terminal,
        ):
            await call.show(terminal)
            results.append(await terminal.wait())
            results.append(await terminal.output())

    async with connected(agent) as line:
        updates, answer = await line.turn(await line.open(str(folder)))
        assert answer["result"] == {"stopReason": "end_turn"}
    return results, updates


@pytest.mark.rule(88, 282, 288, 289, 290)
async def test_without_a_terminal_of_the_client_the_command_runs_here(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    source = "import os; print(os.getcwd(), os.environ['WHO']); sys.exit(3)"
    (status, output), updates = await _run_locally(tmp_path, source, cwd="sub", env={"WHO": "me"})
    assert status == v1.WaitForTerminalExitResponse(3, None)
    expected = f"{tmp_path}/sub me\n"
    assert output == v1.TerminalOutputResponse(expected, False, v1.TerminalExitStatus(3, None))
    assert updates[-1] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": expected}}],
    }


async def test_both_streams_of_a_local_command_are_kept_in_their_order(tmp_path: Path) -> None:
    source = "[print(n, file=(sys.stdout, sys.stderr)[n % 2], flush=True) for n in range(20)]"
    (_, output), _ = await _run_locally(tmp_path, source)
    assert output.output.split() == [str(n) for n in range(20)]


async def test_a_local_command_reads_an_empty_stdin(tmp_path: Path) -> None:
    (status, output), _ = await _run_locally(tmp_path, "print(repr(sys.stdin.read()))")
    assert (status.exit_code, output.output) == (0, "''\n")


@pytest.mark.rule(286, 287)
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 10, 100])
async def test_local_output_keeps_its_end_and_whole_characters(limit: int, tmp_path: Path) -> None:
    text = "aé€😀" * 20
    source = f"sys.stdout.buffer.write({text.encode()!r})"
    (_, output), _ = await _run_locally(tmp_path, source, output_byte_limit=limit)
    assert text.endswith(output.output)
    assert limit - 4 < len(output.output.encode()) <= limit
    assert output.truncated


@pytest.mark.rule(287)
async def test_local_output_that_is_not_utf8_stays_within_its_limit(tmp_path: Path) -> None:
    (_, output), _ = await _run_locally(tmp_path, "sys.stdout.buffer.write(b'\\xff' * 1000)", output_byte_limit=100)
    assert output.output == "\ufffd" * 33


@pytest.mark.rule(288)
async def test_local_output_within_its_limit_is_not_truncated(tmp_path: Path) -> None:
    (_, output), _ = await _run_locally(tmp_path, "print('x' * 9, end='')", output_byte_limit=9)
    assert (output.output, output.truncated) == ("x" * 9, False)


async def test_a_flood_of_local_output_is_bounded(tmp_path: Path) -> None:
    source = "[sys.stdout.write('y' * 65536) for _ in range(160)]"
    (_, output), _ = await _run_locally(tmp_path, source)
    assert len(output.output) == 1024 * 1024
    assert output.truncated


@pytest.mark.rule(291)
async def test_a_killed_local_command_still_has_its_output_and_exit_status(tmp_path: Path) -> None:
    agent = Agent("test")
    results: list[Any] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with sign_of_life(tmp_path) as (source, pid), turn.terminal(sys.executable, ["-c", source]) as terminal:
            await pid()
            results.append(await terminal.output())
            await terminal.kill()
            results.append(await terminal.wait())
            results.append((await terminal.output()).output)

    async with connected(agent) as line:
        await line.turn(await line.open(str(tmp_path)))
    assert results == [
        v1.TerminalOutputResponse("begun\n", False),
        v1.WaitForTerminalExitResponse(None, "SIGTERM"),
        "begun\n",
    ]


@asynccontextmanager
async def sign_of_life(folder: Path) -> AsyncIterator[tuple[str, Callable[[], Awaitable[int]]]]:
    """The source of a command that prints `begun` and then stays, and a way to wait until it got there: its pid."""
    pids: asyncio.Queue[int] = asyncio.Queue()

    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pids.put_nowait(int(await reader.readline()))
        writer.close()

    path = str(folder / "socket")
    source = (
        "import os, socket, time; print('begun', flush=True); end = socket.socket(socket.AF_UNIX); "
        f"end.connect({path!r}); end.send(b'%d\\n' % os.getpid()); time.sleep(600)"
    )

    async def pid() -> int:
        async with asyncio.timeout(60):
            return await pids.get()

    async with await asyncio.start_unix_server(hello, path):
        yield source, pid


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.rule(292, 293)
@pytest.mark.parametrize("how", ["session/cancel", "the connection ends"])
async def test_a_cancelled_turn_leaves_no_local_command_running(how: str, tmp_path: Path, link: Link) -> None:
    agent = Agent("test")
    running = asyncio.Event()
    pids: list[int] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        async with sign_of_life(tmp_path) as (source, pid), turn.terminal(sys.executable, ["-c", source]) as terminal:
            pids.append(await pid())
            running.set()
            await terminal.wait()

    async with connected(agent, link) as line:
        session_id = await line.open(str(tmp_path))
        request_id = line.prompt(session_id)
        await reached(running)
        assert _is_alive(pids[0])
        if how == "session/cancel":
            line.notify(how, sessionId=session_id)
            assert (await line.answer_to(request_id))[1]["result"] == {"stopReason": "cancelled"}
            assert not _is_alive(pids[0])
    assert not _is_alive(pids[0])


@pytest.mark.rule(284)
@pytest.mark.parametrize("command", ["no-such-program-anywhere", "echo a b", "/", ""])
async def test_a_command_that_cannot_be_started_is_an_error_that_says_so(command: str, tmp_path: Path) -> None:
    agent = Agent("test")
    failures: list[ClientError] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            async with turn.terminal(command):
                pass
        except ClientError as error:
            failures.append(error)

    async with connected(agent) as line:
        await line.turn(await line.open(str(tmp_path)))
    assert "start" in failures[0].message
