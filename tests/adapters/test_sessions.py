"""Sessions of wrapped sources: kept in the store, or by the source itself."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import (
    Adapter,
    AdapterAgent,
    AdapterError,
    AdapterSession,
    PromptContext,
    Setting,
    SettingValue,
    WrappedSessionInfo,
    WrappedSessionPage,
    wrap,
)
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart, UIMessage
from tests.adapters.fixtures import ask, client_of, on_wire, statuses, text_of


async def remembers(ctx: PromptContext) -> AsyncIterator[Any]:
    earlier = ["".join(part.text for part in each.parts if isinstance(part, TextPart)) for each in ctx.history]
    yield {"type": "tool-input-available", "toolCallId": f"c{len(earlier)}", "toolName": "look", "input": {}}
    yield {"type": "tool-output-available", "toolCallId": f"c{len(earlier)}", "output": "seen"}
    yield f"{earlier} then {ctx.text}"


async def test_a_session_is_listed_loaded_resumed_and_deleted_across_programs(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with client_of(wrap(remembers, store=file)) as remote:
        capabilities = remote.capabilities
        assert capabilities.load_session is True
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "first")) == "[] then first"
        await ask(session, "second")
        session_id = session.id
    async with client_of(wrap(remembers, store=file)) as remote:
        (listed,) = (await remote.list_sessions(cwd=tmp_path)).sessions
        assert (listed.session_id, listed.title, listed.cwd) == (session_id, "first", str(tmp_path))
        loading = remote.load_session(session_id, tmp_path)
        updates = on_wire([update async for update in loading])
        assert text_of(updates, "user_message_chunk") == "firstsecond"
        assert text_of(updates).endswith("then second")
        assert statuses(updates, "c0") == ["pending", "in_progress", "completed"]
        answer = text_of(await ask(loading.session, "third"))
        assert answer.startswith("['first', '[] then first', 'second'")
        await loading.session.close()
        resumed = await remote.resume_session(session_id, tmp_path)
        assert text_of(await ask(resumed, "fourth")).endswith("then fourth")
        await resumed.close()
        await remote.delete_session(session_id)
        assert (await remote.list_sessions()).sessions == []
        with pytest.raises(RequestError, match="not found"):
            await remote.load_session(session_id, tmp_path)


async def test_without_a_store_sessions_are_not_offered(tmp_path: Path) -> None:
    async with client_of(wrap(remembers, store=False)) as remote:
        assert not remote.capabilities.load_session
        assert not remote.capabilities.session_capabilities or not remote.capabilities.session_capabilities.list
        session = await remote.new_session(tmp_path)
        await ask(session, "first")
        assert text_of(await ask(session, "second")).startswith("['first'")


async def test_a_store_that_cannot_be_written_is_reported_and_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    async with client_of(wrap(remembers, store=tmp_path / "file" / "s.db")) as remote:
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "first")) == "[] then first"


async def test_what_a_failed_turn_showed_is_there_after_loading_it(tmp_path: Path) -> None:
    async def fails(text: str) -> AsyncIterator[Any]:
        yield "half of it"
        yield {"type": "tool-input-available", "toolCallId": "x", "toolName": "look", "input": {}}
        raise AdapterError("the server went away; start it again")

    file = tmp_path / "s.db"
    async with client_of(wrap(fails, store=file)) as remote:
        session = await remote.new_session(tmp_path)
        with pytest.raises(RequestError, match="the server went away; start it again"):
            await ask(session, "go")
        session_id = session.id
    async with client_of(wrap(fails, store=file)) as remote:
        updates = on_wire([update async for update in remote.load_session(session_id, tmp_path)])
    assert "half of it" in text_of(updates)
    assert "[The turn failed: the server went away" in text_of(updates)
    assert statuses(updates, "x")[-1] == "failed"


async def test_unknown_chunks_are_kept_and_reported_once(tmp_path: Path) -> None:
    async def odd(text: str) -> AsyncIterator[Any]:
        yield {"type": "hologram", "data": 1}
        yield {"type": "hologram", "data": 2}
        yield "text"

    async with client_of(wrap(odd, store=tmp_path / "s.db")) as remote:
        session = await remote.new_session(tmp_path)
        updates = await ask(session, "go")
    assert text_of(updates) == "text"
    (notice,) = (update for update in updates if update["sessionUpdate"] == "notice")
    assert "hologram" in notice["description"]


async def test_a_turn_that_died_with_its_program_is_ended_when_the_session_is_loaded(tmp_path: Path) -> None:
    from dragoman.client import spawn

    script = tmp_path / "agent.py"
    script.write_text(
        "import os, sys, signal\n"
        "from dragoman.adapters import wrap\n"
        "async def dies(ctx):\n"
        "    yield 'some text'\n"
        "    yield {'type': 'tool-input-available', 'toolCallId': 'x', 'toolName': 'look', 'input': {}}\n"
        "    await ctx.settle()\n"
        "    if ctx.text == 'die': os.kill(os.getpid(), signal.SIGKILL)\n"
        f"wrap(dies, store={str(tmp_path / 's.db')!r}).run()\n"
    )
    import sys

    command = [sys.executable, str(script)]
    async with spawn(*command) as remote:
        session = await remote.new_session(tmp_path)
        with pytest.raises(Exception, match="signal 9"):
            await session.prompt("die")
        session_id = session.id
    async with spawn(*command) as remote:
        updates = on_wire([update async for update in remote.load_session(session_id, tmp_path)])
    assert "some text" in text_of(updates)
    assert "ended before the turn was over" in text_of(updates)
    assert statuses(updates, "x")[-1] == "failed"


class OwnSessions(Adapter):
    """A source that has everything of its own."""

    name = "own"
    title = "A source of its own"
    accepts = ("image", "embedded_context")

    def __init__(self) -> None:
        self.kept: dict[str, list[UIMessage]] = {}
        self.events: list[str] = []
        self.mode = "calm"
        self.steered = asyncio.Queue[str]()

    async def open(self, session: AdapterSession) -> None:
        if session.how == "new":
            session.id = f"thread-{len(self.kept) + 1}"
            self.kept[session.id] = []
        elif session.id not in self.kept:
            raise AdapterError(f"no thread {session.id}; list them")
        session.commands = (("again", "Do it again"),)
        self.events.append(f"{session.how} {session.id}")

    async def run(self, ctx: PromptContext) -> AsyncIterator[Any]:
        if ctx.text == "steer me":
            yield "waiting"
            yield c.SteeringMessage("s", [{"type": "text", "text": await self.steered.get()}])
        yield f"{self.mode}: {ctx.text}"
        self.kept[ctx.session_id].append(UIMessage("m", "user", [TextPart(ctx.text)]))
        if ctx.text == "later":
            ctx.session.state = asyncio.ensure_future(self._later(ctx.session))

    async def _later(self, session: AdapterSession) -> None:
        await session.show(c.Start("b1"), c.TextStart("t"), c.TextDelta("t", "in the background"), c.TextEnd("t"))
        self.mode = "busy"
        await session.change("mode", "busy")

    async def steer(self, session: AdapterSession, text: str) -> bool:
        self.steered.put_nowait(text)
        return True

    def settings(self, session: AdapterSession) -> list[Setting]:
        values = (SettingValue("calm", "Calm"), SettingValue("busy", "Busy"))
        return [Setting("mode", "Mode", self.mode, values, category="mode"), Setting("loud", "Loud", False)]

    async def choose(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        if setting_id == "mode":
            self.mode = str(value)

    async def sessions(self, cwd: str | None, cursor: str | None) -> WrappedSessionPage:
        found = tuple(WrappedSessionInfo(each, cwd or "/", f"Title of {each}") for each in self.kept)
        return WrappedSessionPage(found, None)

    async def history(self, session: AdapterSession) -> AsyncIterator[UIMessage]:
        for message in self.kept[session.id]:
            yield message

    async def delete(self, session_id: str) -> None:
        self.kept.pop(session_id, None)

    async def fork(self, session: AdapterSession, source_id: str) -> None:
        session.id = f"{source_id}-copy"
        self.kept[session.id] = list(self.kept[source_id])

    async def close_session(self, session: AdapterSession) -> None:
        self.events.append(f"closed {session.id}")

    async def close(self) -> None:
        self.events.append("closed")


async def test_a_source_with_sessions_of_its_own_is_asked_for_everything(tmp_path: Path) -> None:
    source = OwnSessions()
    async with client_of(AdapterAgent(source), unstable=True) as remote:
        capabilities = remote.capabilities
        assert capabilities.load_session is True
        assert capabilities.prompt_capabilities
        assert capabilities.prompt_capabilities.image is True
        assert capabilities.meta
        assert capabilities.meta["dragoman"]["steer"] == "_dragoman/steer"
        session = await remote.new_session(tmp_path)
        assert session.id == "thread-1"
        assert text_of(await ask(session, "hello")) == "calm: hello"
        await session.set_mode("busy")
        assert text_of(await ask(session, "hello")) == "busy: hello"
        (listed,) = (await remote.list_sessions(cwd=tmp_path)).sessions
        assert listed.title == "Title of thread-1"
        await session.close()
        updates = on_wire([update async for update in remote.load_session("thread-1", tmp_path)])
        assert text_of(updates, "user_message_chunk") == "hellohello"
        forked = await remote.fork_session("thread-1", tmp_path)
        assert forked.id == "thread-1-copy"
        await remote.delete_session("thread-1-copy")
        with pytest.raises(RequestError, match="no thread nope; list them"):
            await remote.load_session("nope", tmp_path)
    assert source.events[0] == "new thread-1"
    assert "closed thread-1" in source.events
    assert source.events[-1] == "closed"
    assert not os.listdir(tmp_path)


async def test_text_reaches_a_running_turn_and_none_an_idle_one(tmp_path: Path) -> None:
    source = OwnSessions()
    async with client_of(AdapterAgent(source)) as remote:
        session = await remote.new_session(tmp_path)
        steer = {"sessionId": session.id, "text": "left"}
        assert await remote.request("_dragoman/steer", steer) == {"accepted": False}
        turn = session.prompt("steer me")
        async with turn:
            async for update in turn:
                if isinstance(update, v1.AgentMessageChunk):
                    break
            assert await remote.request("_dragoman/steer", steer) == {"accepted": True}
            rest = on_wire([update async for update in turn])
        assert text_of(rest, "user_message_chunk") == "left"


async def test_updates_and_settings_come_between_turns(tmp_path: Path) -> None:
    source = OwnSessions()
    async with client_of(AdapterAgent(source)) as remote:
        session = await remote.new_session(tmp_path)
        updates = session.updates()
        await session.prompt("later")
        seen: list[v1.SessionUpdate] = []
        async for received in updates:
            seen.append(received.update)
            if isinstance(received.update, v1.CurrentModeUpdate):
                break
        assert "in the background" in text_of(on_wire(seen))
        updates.close()


async def test_mcp_servers_that_are_not_used_are_reported(tmp_path: Path) -> None:
    async with client_of(wrap(remembers, store=False)) as remote:
        session = await remote.new_session(tmp_path, mcp_servers=[v1.McpServerStdio("tools", "/bin/true", [], [])])
        await session.prompt("go")
        (notice,) = session.state.notices
        assert "cannot use: tools" in str(notice.description)


class ClosingTogether(Adapter):
    """Closes a session only when all of its three sessions are being closed."""

    name = "together"

    def __init__(self) -> None:
        self._closing = 0
        self._all = asyncio.Event()

    async def run(self, ctx: PromptContext) -> AsyncIterator[str]:
        yield ctx.text

    async def close_session(self, session: AdapterSession) -> None:
        self._closing += 1
        if self._closing == 3:
            self._all.set()
        await self._all.wait()


async def test_the_sessions_of_a_client_that_is_gone_are_closed_side_by_side(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_of(AdapterAgent(ClosingTogether(), store=False)) as remote:
        for _ in range(3):
            await remote.new_session(tmp_path)
