"""Any Python callable as an agent: how it is called, what it may give, how it ends."""

import asyncio
import functools
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import BlockingContext, FunctionAdapter, PromptContext, RunCancelled, choice, wrap
from dragoman.errors import CapabilityError, ConfigError, RequestError
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from tests.adapters.fixtures import ask, client_of, on_wire, session_of, statuses, text_of


async def shout(text: str) -> str:
    return text.upper()


def plain(prompt: str) -> str:
    return prompt.upper()


async def words(text: str) -> AsyncIterator[str]:
    for word in text.upper().split():
        yield f"{word} "


def slow_words(anything: str) -> Iterator[str]:
    for word in anything.upper().split():
        yield f"{word} "


async def by_context(ctx: PromptContext) -> None:
    await ctx.emit(ctx.text.upper())


def by_second(text: str, context: BlockingContext) -> None:
    context.emit(text.upper())


def by_keyword(*, text: str, cwd: str, session_id: str) -> str:
    assert os.path.isabs(cwd)
    assert session_id
    return text.upper()


async def typed(text: str) -> AsyncIterator[c.Chunk]:
    yield c.TextStart("t")
    yield c.TextDelta("t", text.upper())
    yield c.TextEnd("t")


def as_json(text: str) -> list[dict[str, Any]]:
    start = {"type": "start", "messageId": "not_ours"}
    return [start, {"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": text.upper()}]


class CallableObject:
    async def __call__(self, text: str) -> str:
        return text.upper()


SHAPES: list[Callable[..., Any]] = [
    shout,
    plain,
    words,
    slow_words,
    by_context,
    by_second,
    by_keyword,
    typed,
    as_json,
    CallableObject(),
    functools.partial(shout),
    lambda text: shout(text),  # noqa: PLW0108  # a lambda that gives a coroutine
    str.upper,
]


@pytest.mark.parametrize("function", SHAPES, ids=lambda shape: getattr(shape, "__name__", type(shape).__name__))
async def test_every_shape_of_callable_answers(function: Callable[..., Any], tmp_path: Path) -> None:
    async with session_of(function, tmp_path) as session:
        turn = session.prompt("hello there")
        updates = [update async for update in turn]
        assert turn.result.stop_reason == "end_turn"
        text = "".join(
            update.content.text
            for update in updates
            if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent)
        )
        assert text.strip() == "HELLO THERE"


def test_what_cannot_be_wrapped_is_refused_with_what_to_pass() -> None:
    with pytest.raises(ConfigError, match="int cannot be wrapped; pass a function"):
        wrap(3)
    with pytest.raises(ConfigError, match="CallableObject is a class; pass an object of it"):
        wrap(CallableObject)

    def many(text: str, ctx: PromptContext, third: int) -> str:
        return ""

    with pytest.raises(ConfigError, match="parameter 'third' that cannot be filled"):
        wrap(many)


def test_capabilities_follow_from_what_the_function_can_see() -> None:
    assert FunctionAdapter(shout).accepts == ("embedded_context",)
    assert "image" in FunctionAdapter(by_context).accepts
    assert not FunctionAdapter(shout).uses_history
    assert FunctionAdapter(by_context).uses_history


async def test_a_plain_function_does_not_block_the_agent(tmp_path: Path) -> None:
    release = threading.Event()

    def blocks(text: str) -> str:
        assert release.wait(60)
        return "done"

    async with client_of(wrap(blocks, store=tmp_path / "s.db")) as remote:
        first, second = await remote.new_session(tmp_path), await remote.new_session(tmp_path)
        running = asyncio.ensure_future(ask(first, "go"))
        listed = await remote.list_sessions()
        assert {each.session_id for each in listed.sessions} == {first.id, second.id}
        release.set()
        assert text_of(await running) == "done"


async def test_prints_of_a_function_stay_off_the_protocol(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "from dragoman.adapters import wrap\n"
        "def loud(text):\n"
        "    print('printed'); sys.stdout.flush()\n"
        "    os.write(1, b'written\\n')\n"
        "    subprocess.run(['echo', 'from a child'])\n"
        "    return 'answer'\n"
        f"wrap(loud, store={str(tmp_path / 's.db')!r}).run()\n"
    )
    from dragoman.client import spawn

    async with spawn(sys.executable, script) as remote:
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "go")) == "answer"
        assert remote.noise_lines == 0


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_exception_fails_the_turn_with_its_text_and_the_next_one_works(
    is_async: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[str] = []

    async def fails(text: str) -> AsyncIterator[str]:
        try:
            yield "half an "
            if text == "bad":
                raise ValueError("the disk is on fire")
            yield "answer"
        finally:
            closed.append(text)

    def fails_in_thread(text: str) -> Iterator[str]:
        try:
            yield "half an "
            if text == "bad":
                raise ValueError("the disk is on fire")
            yield "answer"
        finally:
            closed.append(text)

    function: Callable[..., Any] = fails if is_async else fails_in_thread
    async with session_of(function, tmp_path) as session:
        with pytest.raises(RequestError, match="failed: ValueError: the disk is on fire"):
            await ask(session, "bad")
        assert text_of(await ask(session, "good")) == "half an answer"
    assert closed == ["bad", "good"]
    assert "the disk is on fire" in caplog.text


async def test_sys_exit_in_a_function_does_not_end_the_agent(tmp_path: Path) -> None:
    def leaves(text: str) -> str:
        sys.exit(3)

    async def leaves_too(text: str) -> str:
        sys.exit(3)

    for function in (leaves, leaves_too):
        async with session_of(function, tmp_path) as session:
            with pytest.raises(RequestError, match=r"called sys.exit\(3\)"):
                await ask(session, "go")


async def test_a_value_of_another_kind_is_refused_with_what_to_yield(tmp_path: Path) -> None:
    async def odd(text: str) -> AsyncIterator[Any]:
        yield "before "
        yield 3 if text == "number" else {"type": "text-delta"}

    async with session_of(odd, tmp_path) as session:
        with pytest.raises(RequestError, match="yielded int; yield text"):
            await ask(session, "number")
        with pytest.raises(RequestError, match="not a chunk of a UI-message stream"):
            await ask(session, "json")


async def test_cancel_ends_an_async_function_at_once_with_its_clean_up(tmp_path: Path) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def waits(text: str) -> AsyncIterator[str]:
        try:
            yield "working"
            started.set()
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with session_of(waits, tmp_path) as session:
        turn = session.prompt("go")
        running = asyncio.ensure_future(_await(turn))
        await started.wait()
        await session.cancel()
        assert (await running).stop_reason == "cancelled"
        assert cleaned.is_set()


async def _await(turn: Any) -> v1.PromptResponse:
    response: v1.PromptResponse = await turn
    return response


async def test_cancel_reaches_a_plain_function_through_its_context_and_its_generator(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    started = asyncio.Event()
    seen: list[str] = []

    def looks(text: str, ctx: BlockingContext) -> str:
        loop.call_soon_threadsafe(started.set)
        while not ctx.cancelled:
            time.sleep(0.001)
        seen.append("looked")
        return "never shown"

    def asks(text: str, ctx: BlockingContext) -> str:
        loop.call_soon_threadsafe(started.set)
        try:
            while True:
                ctx.emit(".")
        except RunCancelled:
            seen.append("raised")
            raise

    def yields(text: str) -> Iterator[str]:
        loop.call_soon_threadsafe(started.set)
        try:
            while True:
                yield "."
        finally:
            seen.append("closed")

    for function in (looks, asks, yields):
        started.clear()
        async with session_of(function, tmp_path) as session:
            running = asyncio.ensure_future(_await(session.prompt("go")))
            await started.wait()
            await session.cancel()
            assert (await running).stop_reason == "cancelled"
    assert seen == ["looked", "raised", "closed"]


async def test_a_function_that_ignores_its_cancellation_is_left_behind(tmp_path: Path) -> None:
    release, loop, started = threading.Event(), asyncio.get_running_loop(), asyncio.Event()

    def stubborn(text: str) -> str:
        if text == "again":
            return "still here"
        loop.call_soon_threadsafe(started.set)
        release.wait(60)
        return "too late"

    try:
        async with session_of(stubborn, tmp_path) as session:
            running = asyncio.ensure_future(_await(session.prompt("go")))
            await started.wait()
            await session.cancel()
            assert (await running).stop_reason == "cancelled"
            assert text_of(await ask(session, "again")) == "still here"
    finally:
        release.set()


async def test_a_function_shows_plan_usage_and_notices(tmp_path: Path) -> None:
    def shows(ctx: BlockingContext) -> str:
        ctx.plan([("look", "completed"), ("change", "in_progress"), "test"])
        ctx.usage(100, 1000, 0.25)
        ctx.notice("Careful", "it is hot")
        return "done"

    async with session_of(shows, tmp_path) as session:
        updates = await ask(session, "go")
    plan = next(update for update in updates if update["sessionUpdate"] == "plan")
    assert [entry["status"] for entry in plan["entries"]] == ["completed", "in_progress", "pending"]
    usage = next(update for update in updates if update["sessionUpdate"] == "usage_update")
    assert (usage["used"], usage["size"], usage["cost"]["amount"]) == (100, 1000, 0.25)
    notice = next(update for update in updates if update["sessionUpdate"] == "notice")
    assert (notice["title"], notice["description"]) == ("Careful", "it is hot")


async def test_a_function_thinks_and_sees_images(tmp_path: Path) -> None:
    async def looks(ctx: PromptContext) -> AsyncIterator[Any]:
        yield {"type": "reasoning-start", "id": "r"}
        yield {"type": "reasoning-delta", "id": "r", "delta": "hm"}
        yield {"type": "reasoning-end", "id": "r"}
        yield str([type(block).__name__ for block in ctx.blocks])

    async with session_of(looks, tmp_path) as session:
        turn = session.prompt([v1.TextContent("look"), v1.ImageContent("AAAA", "image/png")])
        updates = on_wire([update async for update in turn])
    assert text_of(updates, "agent_thought_chunk") == "hm"
    assert text_of(updates) == "['TextContent', 'ImageContent']"


async def test_settings_are_offered_chosen_kept_and_seen_by_the_function(tmp_path: Path) -> None:
    async def reads(ctx: PromptContext) -> str:
        return f"{ctx.session.current('mode')} {ctx.session.current('model')}"

    settings = [
        choice("mode", "Mode", ["careful", "quick"], category="mode"),
        choice("model", "Model", ["small", "large"], category="model"),
    ]
    agent = wrap(reads, settings=settings, store=tmp_path / "s.db")
    async with client_of(agent) as remote:
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "?")) == "careful small"
        await session.set_mode("quick")
        await session.set_config_option("model", "large")
        assert text_of(await ask(session, "?")) == "quick large"
        with pytest.raises(RequestError):
            await session.set_config_option("model", "huge")
        session_id = session.id
    async with client_of(wrap(reads, settings=settings, store=tmp_path / "s.db")) as remote:
        session = await remote.resume_session(session_id, tmp_path)
        assert text_of(await ask(session, "?")) == "quick large"


async def test_text_after_a_tool_call_is_a_message_of_its_own(tmp_path: Path) -> None:
    async def works(text: str) -> AsyncIterator[Any]:
        yield "before"
        yield {"type": "tool-input-available", "toolCallId": "x", "toolName": "look", "input": {}, "title": "Look"}
        yield {"type": "tool-output-available", "toolCallId": "x", "output": "seen"}
        yield "after"

    async with session_of(works, tmp_path) as session:
        updates = await ask(session, "go")
    ids = [update["messageId"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    assert len(set(ids)) == 2
    assert statuses(updates, "x") == ["pending", "in_progress", "completed"]


async def test_embedded_texts_and_links_reach_a_function_of_the_text(tmp_path: Path) -> None:
    async def echo(text: str) -> str:
        return text

    blocks: list[v1.ContentBlock] = [
        v1.TextContent("look at "),
        v1.ResourceLink("a.py", "file:///a.py"),
        v1.EmbeddedResource(v1.TextResourceContents("print(1)", "file:///b.py")),
    ]
    async with session_of(echo, tmp_path) as session:
        turn = session.prompt(blocks)
        text = "".join([u.content.text async for u in turn if isinstance(u, v1.AgentMessageChunk)])  # type: ignore[union-attr]
        with pytest.raises(CapabilityError):
            await session.prompt([v1.ImageContent("AAAA", "image/png")])
    assert "[a.py](file:///a.py)" in text
    assert "print(1)" in text
