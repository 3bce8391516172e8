"""Our client drives agents written on the official SDKs: turns, their updates, cancellation, extensions."""

import asyncio
from typing import Any, NoReturn

import pytest

from dragoman import LocalProtocolError, Session, Unknown
from dragoman.schema import v1
from tests.interop.our_client import agent_of
from tests.interop.support import SDKS
from tests.interop.wire_check import WireCheck

both = pytest.mark.parametrize("sdk", SDKS)


class SilentUser:
    """A user who never answers, however asked."""

    def __init__(self) -> None:
        self.waiting = 0
        self._asked = asyncio.Event()

    async def asked(self) -> None:
        await self._asked.wait()
        self._asked.clear()

    async def _wait(self) -> NoReturn:
        self._asked.set()
        self.waiting += 1
        try:
            while True:
                await asyncio.Event().wait()
        finally:
            self.waiting -= 1

    async def permission(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        await self._wait()

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> v1.AcceptElicitation:
        await self._wait()

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        await self._wait()


@both
@pytest.mark.rule(31, 54, 55, 177, 178, 180, 181, 185, 211)
async def test_a_stream_arrives_complete_in_order_and_before_its_result(sdk: str) -> None:
    async with agent_of(sdk) as (agent, _):
        session = await agent.new_session("/work-a")
        turn = session.prompt("stream 120")
        chunks = [update async for update in turn]
        assert turn.result.stop_reason == "end_turn"
        assert chunks == [v1.AgentMessageChunk(v1.TextContent(f"{number} ")) for number in range(120)]
        assert session.state.text == "".join(f"{number} " for number in range(120))
        blocks: list[v1.ContentBlock] = [
            v1.TextContent("one"),
            v1.ResourceLink("a.txt", "file:///w/a.txt"),
            v1.ImageContent("aGk=", "image/png"),
            v1.AudioContent("aGk=", "audio/wav"),
            v1.EmbeddedResource(v1.TextResourceContents("text", "file:///w/b.txt")),
        ]
        await session.prompt(blocks)
        assert session.state.text == "blocks: text,resource_link,image,audio,resource"
        await session.prompt("hello \u2028 \U0001f600 there")
        assert session.state.text == "You said: hello \u2028 \U0001f600 there"
        await session.prompt("big 300000")
        assert session.state.text == "x" * 300_000
        waiting = (await agent.new_session("/work-a")).prompt("wait")
        async with waiting:  # does not hold up the other session
            for reason in ("max_tokens", "refusal"):
                assert (await session.prompt(f"stop {reason}")).stop_reason == reason
        assert waiting.result.stop_reason == "cancelled"


@both
@pytest.mark.rule(164, 174, 214, 215, 216, 217, 239, 240, 241, 242, 245, 246, 248, 249, 263, 265, 266, 269, 270)
async def test_the_updates_of_an_agent_become_state(sdk: str) -> None:
    async with agent_of(sdk) as (agent, _):
        session = await agent.new_session("/work-a")
        state = session.state
        updates = [type(update) async for update in session.prompt("tool")]
        assert updates == [v1.ToolCall, v1.ToolCallUpdate, v1.ToolCallUpdate]
        tool = state.tool_calls["tool-1"]
        assert (tool.title, tool.kind, tool.status) == ("Read a.txt", "read", "completed")
        assert [(location.path, location.line) for location in tool.locations] == [("/w/a.txt", 3)]
        assert (tool.raw_input, tool.raw_output) == ({"path": "/w/a.txt"}, {"lines": 3})
        assert list(tool.content) == [v1.Content(v1.TextContent("3 lines"))]
        await session.prompt("diff")
        assert list(state.tool_calls["diff-1"].content) == [v1.Diff("/w/a.txt", "b", "a")]
        await session.prompt("think")
        assert [thought.text for thought in state.thoughts] == ["hm"]
        await session.prompt("plan")
        assert [entry.content for entry in state.plan] == ["read", "write"]
        assert [entry.status for entry in state.plan] == ["completed", "in_progress"]
        await session.prompt("usage")
        assert state.usage == v1.UsageUpdate(1200, 200000, v1.Cost(0.25, "EUR"))
        await session.prompt("commands")
        assert [command.name for command in state.commands] == ["review", "plan"]
        await session.prompt("title")
        assert state.title == "A good title"
        await session.prompt("mode")
        assert state.mode == "code"
        await session.prompt("config")
        model = state.config_options[0]
        assert isinstance(model, v1.SessionConfigSelect)
        assert model.current_value == "large"


@pytest.mark.rule(62, 63, 217, 219, 222, 224, 225)
async def test_newer_and_unknown_updates_are_kept() -> None:
    """The Python SDK's agents cannot send these: their models know neither them nor an explicit null."""
    async with agent_of("ts") as (agent, _):
        session = await agent.new_session("/work-a")
        state = session.state
        await session.prompt("title")
        await session.prompt("untitle")
        assert state.title is None
        await session.prompt("notice")
        [notice] = state.notices
        assert (notice.severity, notice.title) == ("warning", "Nearly full")
        await session.prompt("compaction")
        assert (state.compactions["c-1"].status, state.compactions["c-1"].text) == ("completed", "short")
        [unknown] = [update async for update in session.prompt("unknown")]
        assert isinstance(unknown, Unknown)
        assert unknown.tag == "_interop_update"
        assert unknown.raw["depth"] == {"of": [1, 2.5, "three"]}
        assert list(state.unknown) == [unknown]


@both
@pytest.mark.rule(187, 192, 194, 196, 198, 200, 258)
async def test_cancel_ends_the_turn_and_its_questions_and_the_session_lives_on(sdk: str) -> None:
    user = SilentUser()
    async with agent_of(sdk, permission=user.permission, elicitation=user) as (agent, check):
        session = await agent.new_session("/work-a")
        await session.cancel()
        turn = session.prompt("wait")
        assert isinstance(await anext(turn), v1.AgentMessageChunk)
        with pytest.raises(LocalProtocolError):
            await session.prompt("second")
        await session.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert session.state.stop_reason == "cancelled"
        async with session.prompt("wait") as left:
            await anext(left)
        assert left.result.stop_reason == "cancelled"
        for question in ("permission", "form"):
            async with session.prompt(question) as turn:
                await user.asked()
                await turn.cancel()
                assert (await turn).stop_reason == "cancelled"
            assert "cancel" in session.state.text
        await session.prompt("still here")
        assert session.state.text == "You said: still here"
    assert check.sent_methods().count("session/cancel") == 5
    answers = [frame["result"] for frame in check.outgoing if "result" in frame]
    assert answers == [{"outcome": {"outcome": "cancelled"}}, {"action": "cancel"}]


@both
@pytest.mark.rule(24, 29, 201, 202, 204, 209, 331, 332, 333, 334)
async def test_extension_methods_work_both_ways_and_can_be_taken_back(sdk: str) -> None:
    received: list[Any] = []

    async def add(params: Any) -> Any:
        return {"sum": params["a"] + params["b"]}

    async def keep(params: Any) -> None:
        received.append(params)

    async with agent_of(sdk, extensions={"_interop/add": add, "_interop/told": keep}) as (agent, check):
        deep = {"deep": {"list": [1, None, "x"]}}
        assert await agent.request("_interop/echo", deep) == deep
        await agent.notify("_interop/note", {"text": "first"})
        await agent.notify("_interop/nobody", {"text": "ignored"})
        assert await agent.request("_interop/notes") == {"notes": [{"text": "first"}]}
        session = await agent.new_session("/work-a")
        await session.prompt("extension")
        assert session.state.text == "add: 3, none: -32601"
        assert received == [{"x": 1}]

        slow = asyncio.create_task(agent.request("_interop/slow"))
        await check.until(lambda seen: "_interop/slow" in seen.sent_methods())
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        if sdk == "py":
            await agent.notify("_interop/note", {"text": "go"})
        await check.until(lambda seen: _slow_answer(seen) is not None)
        assert await agent.request("_interop/echo", {"still": "here"}) == {"still": "here"}
    assert check.sent_methods().count("$/cancel_request") == 1
    answer = _slow_answer(check)
    assert answer is not None
    if sdk == "ts":
        assert answer["error"]["code"] == -32800
    else:  # this SDK does not know `$/cancel_request`; its late answer does no harm
        assert answer["result"] == {"done": True}


def _slow_answer(check: WireCheck) -> dict[str, Any] | None:
    [asked] = [frame["id"] for frame in check.outgoing if frame.get("method") == "_interop/slow"]
    taken_back = [frame["params"] for frame in check.outgoing if frame.get("method") == "$/cancel_request"]
    assert taken_back == [{"requestId": asked}]
    answers = [frame for frame in check.incoming if "method" not in frame and frame["id"] == asked]
    return answers[0] if answers else None


@pytest.mark.rule(201, 203, 204, 206)
async def test_what_the_agent_takes_back_ends_here_too() -> None:
    """A question ends with its own word for it, any other request with -32800. The Python SDK takes nothing back."""
    user = SilentUser()
    async with agent_of("ts", permission=user.permission, files=user) as (agent, check):
        session = await agent.new_session("/work-a")
        await session.prompt("withdraw")
        assert session.state.text == "withdrawn: cancelled"
        await session.prompt("withdraw read")
        assert session.state.text == "error: -32800"
        assert check.received_methods().count("$/cancel_request") == 2
    assert user.waiting == 0
