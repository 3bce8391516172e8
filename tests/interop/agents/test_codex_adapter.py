"""The real codex through `dragoman wrap codex`, step by step next to `codex-acp`, the official bridge around it.

`make interop` installs both; everywhere else these tests say so and are skipped. Numbers are printed (`pytest -s`).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from dragoman.client import RemoteAgent, Session, spawn
from dragoman.errors import RequestError
from dragoman.schema import encode, v1
from tests.adapters.fixtures import Answers, on_wire, statuses, text_of
from tests.interop.agents.codex_bridges import OURS, PACKAGE, THEIRS, Bridge, bridges, measure
from tests.interop.agents.recipes import why_missing
from tests.interop.model_server.server import ModelServer
from tests.interop.wire_check import WireCheck

pytestmark = pytest.mark.timeout(300)

SECONDS: Final = 100.0
ROUNDS: Final = 5


class Codex:
    """The two bridges, a work folder and the model."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.server = server
        self.bridges = bridges(folder, server.url)

    @asynccontextmanager
    async def client(self, name: str = OURS, **options: Any) -> AsyncIterator[RemoteAgent]:
        """A client; what our side sends is validated."""
        bridge: Bridge = self.bridges[name]
        check = WireCheck()
        observers = [] if options.get("unstable") or name != OURS else [check]
        async with spawn(
            *bridge.command, env=bridge.env, initialize_seconds=SECONDS, observers=observers, **options
        ) as remote:
            yield remote


@pytest.fixture
def codex(tmp_path: Path) -> Iterator[Codex]:
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("real agents are driven by make interop")
    if reason := why_missing(PACKAGE):
        pytest.skip(reason)
    with ModelServer() as server:
        yield Codex(tmp_path, server)


async def ask(session: Session, text: str) -> list[dict[str, Any]]:
    return on_wire([update async for update in session.prompt(text)])


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_so():  # noqa: ASYNC110  another process does it
            await asyncio.sleep(0.02)


def note(line: str) -> None:
    """Print a line, for `pytest -s`."""
    sys.stdout.write(f"\n{line}")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_text_thought_command_and_change_with_permission(codex: Codex) -> None:
    answers = Answers("accept", "decline", "accept")
    (codex.work / "a.txt").write_text("one\nalpha\nthree\n")
    async with codex.client(permission=answers) as remote:
        session = await remote.new_session(codex.work)
        assert text_of(await ask(session, "hello"))
        assert text_of(await ask(session, "THINK"), "agent_thought_chunk")
        ran = await ask(session, "RUN touch ran.txt")
        assert statuses(ran) == ["pending", "in_progress", "completed"]
        assert (codex.work / "ran.txt").exists()
        refused = await ask(session, "RUN touch refused.txt")
        assert statuses(refused) == ["pending", "failed"]
        assert not (codex.work / "refused.txt").exists()
        assert answers.asked[0].options[0].option_id == "accept"
        await session.set_mode("full-access")
        edited = await ask(session, "EDIT a.txt alpha omega")
        [diff] = [item for each in edited if "content" in each and "toolCallId" in each for item in each["content"]][:1]
        assert (diff["oldText"], diff["newText"]) == ("one\nalpha\nthree\n", "one\nomega\nthree\n")
        assert (codex.work / "a.txt").read_text() == "one\nomega\nthree\n"


@pytest.mark.parametrize("command", ["./wait.sh", "sh wait.sh"], ids=["asked-about", "not-asked-about"])
async def test_cancel_ends_the_command_with_everything_it_started(command: str, codex: Codex) -> None:
    """The official bridge leaves one running that was asked about."""
    with no_new_folders(Path("/tmp")):
        left = {name: await _left_after_cancel(codex, name, command) for name in (OURS, THEIRS)}
    note(f"processes of {command!r} when the cancelled turn was answered: {left}")
    assert left[OURS] == 0


@contextmanager
def no_new_folders(parent: Path) -> Iterator[None]:
    """The sandbox of codex makes empty folders where it may write, and leaves them there if it is killed."""
    folders = [parent / name for name in (".agents", ".aws", ".codex", ".git") if not (parent / name).exists()]
    try:
        yield
    finally:
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()


async def _left_after_cancel(codex: Codex, name: str, command: str) -> int:
    """How many processes of a command are there when the cancelled turn was answered."""
    for path in codex.work.glob("*.pid"):
        path.unlink()
    script = codex.work / "wait.sh"
    script.write_text("#!/bin/sh\nsleep 300 &\necho $! > inner.pid\necho $$ > outer.pid\nwait\n")
    script.chmod(0o755)
    async with codex.client(name, permission=Answers("allow_once")) as remote:
        session = await remote.new_session(codex.work)
        turn = session.prompt(f"RUN {command}")
        watching = asyncio.ensure_future(_all(turn))
        await until(lambda: (codex.work / "outer.pid").exists() and (codex.work / "outer.pid").read_text().strip())
        pids = _processes_of(codex.work)
        assert len(pids) >= 2
        await session.cancel()
        await watching
        assert (await turn).stop_reason == "cancelled"
        left = sum(map(is_alive, pids))
        assert text_of(await ask(session, "hello")), "the next turn works"
    return left


def _processes_of(work: Path) -> list[int]:
    """The processes of the script, by its folder: in a sandbox they have other numbers than those they know."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if (b"wait.sh" in b" ".join(words[:2]) or words[:2] == [b"sleep", b"300"]) and os.readlink(
                place / "cwd"
            ) == str(work):
                found.append(int(place.name))
    return found


async def _all(turn: Any) -> list[dict[str, Any]]:
    return on_wire([update async for update in turn])


async def test_sessions_are_listed_loaded_resumed_forked_and_deleted(codex: Codex) -> None:
    async with codex.client(permission=Answers("accept")) as remote:
        session = await remote.new_session(codex.work)
        await ask(session, "hello")
        await ask(session, "RUN touch ran.txt")
        with pytest.raises(RequestError, match="Codex failed"):
            await ask(session, "ERROR 400")
    async with codex.client(unstable=["session/fork"]) as remote:
        [listed] = (await remote.list_sessions(cwd=codex.work)).sessions
        assert (listed.session_id, listed.title) == (session.id, "hello")
        loaded = await remote.load_session(session.id, codex.work)
        assert loaded.state.messages[0].text == "hello"
        assert [(call.title, call.status) for call in loaded.state.tool_calls.values()] == [
            ("touch ran.txt", "completed")
        ]
        fork = await remote.fork_session(session.id, codex.work)
        assert text_of(await ask(fork, "hello again"))
        await remote.close_session(session.id)
        await remote.delete_session(session.id)
        assert [each.session_id for each in (await remote.list_sessions()).sessions] == [fork.id]
    async with codex.client() as remote:
        resumed = await remote.resume_session(fork.id, codex.work)
        assert text_of(await ask(resumed, "hello once more"))
        # The model was given the conversation from before.
        assert "hello again" in codex.server.exchanges[-1].body


async def test_a_steered_turn_and_a_crash(codex: Codex) -> None:
    async with codex.client() as remote:
        session = await remote.new_session(codex.work)
        updates: list[dict[str, Any]] = []
        steered = False
        async for update in session.prompt("SLOW"):
            updates += on_wire([update])
            if not steered and updates[-1]["sessionUpdate"] == "agent_message_chunk":
                steered = True
                request = {"sessionId": session.id, "text": "hello"}
                assert await remote.request("_dragoman/steer", request) == {"accepted": True}
        assert text_of(updates, "user_message_chunk") == "hello"
        turn = session.prompt("SLOW")
        with pytest.raises(RequestError, match="Codex was ended by the signal 9"):
            await _killed_in(turn, codex)
        assert text_of(await ask(session, "hello"))


async def _killed_in(turn: Any, codex: Codex) -> None:
    is_killed = False
    async for update in turn:
        if not is_killed and isinstance(update, v1.AgentMessageChunk):
            is_killed = True
            [pid] = _programs(codex)
            os.kill(pid, 9)


def _programs(codex: Codex) -> list[int]:
    """The codex programs with this home."""
    wanted = f"CODEX_HOME={codex.bridges[OURS].env['CODEX_HOME']}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"app-server"] and wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


# What a client of each is offered, by the path in the capabilities.
FEATURES: Final = {
    "load": ("loadSession",),
    "list": ("sessionCapabilities", "list"),
    "resume": ("sessionCapabilities", "resume"),
    "close": ("sessionCapabilities", "close"),
    "delete": ("sessionCapabilities", "delete"),
    "fork": ("sessionCapabilities", "fork"),
    "images": ("promptCapabilities", "image"),
    "embedded context": ("promptCapabilities", "embeddedContext"),
    "MCP over HTTP": ("mcpCapabilities", "http"),
}


def has(capabilities: Any, path: Sequence[str]) -> bool:
    for name in path:
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else None
    return capabilities not in (None, False)


async def test_everything_that_the_official_bridge_offers_is_offered(codex: Codex) -> None:
    offered: dict[str, dict[str, bool]] = {}
    options: dict[str, set[str]] = {}
    for name in (OURS, THEIRS):
        async with codex.client(name, unstable=["session/fork"]) as remote:
            capabilities = json.loads(encode(remote.capabilities))
            offered[name] = {feature: has(capabilities, path) for feature, path in FEATURES.items()}
            session = await remote.new_session(codex.work)
            state = session.state
            listed = [json.loads(encode(each)) for each in state.config_options]
            options[name] = {str(each.get("category")) for each in listed}
            offered[name]["modes"] = bool(state.modes)
    for feature, is_offered in offered[OURS].items():
        note(f"{feature:18} ours {is_offered!s:6} theirs {offered[THEIRS][feature]}")
    note(f"options: ours {sorted(options[OURS])}, theirs {sorted(options[THEIRS])}")
    missing = [feature for feature, theirs in offered[THEIRS].items() if theirs and not offered[OURS][feature]]
    assert missing == []
    assert {"model", "thought_level", "mode"} <= options[OURS]


@pytest.mark.alone
def test_a_session_is_ready_sooner_and_takes_less(codex: Codex) -> None:
    """Ratios of one run, each of its own round; the numbers are those of this machine."""
    measure(codex.bridges[THEIRS], codex.work)  # the first start of all makes codex's database
    rounds = [
        (measure(codex.bridges[OURS], codex.work), measure(codex.bridges[THEIRS], codex.work)) for _ in range(ROUNDS)
    ]
    note(f"{'':20}{'ours':>8}{'theirs':>8}{'ratio':>8}")
    ratios: dict[str, float] = {}
    for index, member in enumerate(rounds[0][0]._fields):
        ours, theirs = (statistics.median(each[side][index] for each in rounds) for side in (0, 1))
        ratios[member] = statistics.median(each[0][index] / each[1][index] for each in rounds)
        note(f"{member:20}{ours:8.2f}{theirs:8.2f}{ratios[member]:8.2f}")
    assert ratios["initialize_seconds"] <= 0.5
    assert ratios["cpu_seconds"] <= 0.65
    assert ratios["own_mb"] <= 0.34  # a third, and what it differs by from run to run
    assert ratios["tree_mb"] <= 0.8
    assert ratios["after_prompt_mb"] <= 0.8


async def test_the_official_bridge_is_driven_in_version_2(codex: Codex) -> None:
    async with codex.client(THEIRS, protocol="auto", permission=Answers("allow_once")) as agent:
        assert agent.protocol_version == 2
        session = await agent.new_session(codex.work)
        async with asyncio.timeout(SECONDS):
            result = await session.prompt("Hello")
        assert result.stop_reason == "end_turn"
        assert session.state.text.strip() == "Hello from the scripted model."
        async with asyncio.timeout(SECONDS):
            await session.prompt("RUN touch ran.txt")
        assert (codex.work / "ran.txt").exists()
