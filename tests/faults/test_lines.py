"""Rows 7-11 of the fault matrix: lines that are not messages, and messages at the edge of what a line may be."""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from typing import Any

import pytest

from dragoman import ConnectionClosed, Limits, RemoteProtocolError, spawn
from dragoman.schema import decode
from dragoman.wire import Malformed, Request, read_message
from tests.faults.kit import rough_agent

# Sends what its argument says (as latin-1) in the middle of a turn, and tells the errors it got for that.
SENDS = """
import base64
for line in sys.argv[1:]:
    request = until("session/prompt")
    say("before")
    raw(base64.b64decode(line))
    say(", after")
    send(id="probe", method="_no/such", params={})
    errors = []
    while (message := read()).get("id") != "probe":
        errors.append(message["error"]["code"])
    answer(request, stopReason="end_turn", _meta={"errors": errors})
until("nothing")
"""


def sends(*lines: bytes) -> list[str]:
    return rough_agent(SENDS, *(b64encode(line).decode() for line in lines))


async def test_row_07_noise_is_skipped_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    banner = "Loading \x1b[33mmodel\x1b[0m weights " + "." * 300
    with caplog.at_level(logging.WARNING):
        async with spawn(*sends((banner + "\n\n\t\nready\n").encode(), b"warning\n" * 50)) as agent:
            session = await agent.new_session("/")
            await session.prompt("one")
            result = await session.prompt("two")
            assert session.state.text == "before, after"
            assert agent.noise_lines == 52
    assert isinstance(result.meta, dict)
    assert result.meta["errors"] in ([], [-32700]), "an answer to noise at most once a second"
    [record] = [record for record in caplog.records if record.name == "dragoman.rpc"]
    assert "Loading \\x1b[33mmodel" in record.getMessage()
    assert "." * 300 not in record.getMessage()


async def test_row_07_a_program_that_writes_nothing_but_noise_is_given_up() -> None:
    async with spawn(*sends(b"y\n" * 100, b"\x1b[1my\n" * 101)) as agent:
        session = await agent.new_session("/")
        await session.prompt("a hundred lines are borne with")
        with pytest.raises(ConnectionClosed, match=r"101 lines in a row are not messages.*\\x1b\[1my"):
            await session.prompt("more are not")


async def test_row_07_noise_before_the_first_answer_does_no_harm() -> None:
    """kimi-cli 1.52 does this, and then exits 0."""
    with pytest.raises(ConnectionClosed, match="exited with code 0"):
        async with spawn("echo", "kimi-cli is no longer maintained. Please use the new Kimi Code CLI."):
            pytest.fail("there is no agent")


@pytest.mark.rule(14)
async def test_row_08_a_line_far_over_64_kib_is_a_message_like_any_other() -> None:
    size = 20_000_000
    code = f"request = until('session/prompt'); say('x' * {size}); answer(request, stopReason='end_turn')"
    async with spawn(*rough_agent(code), limits=Limits(turn_text=None)) as agent:
        session = await agent.new_session("/")
        await session.prompt("go")
        assert len(session.state.text) == size


@pytest.mark.rule(14)
async def test_row_08_a_line_over_the_limit_fails_alone() -> None:
    code = """
request = until("session/prompt")
say("before")
say("x" * 3_000_000)
say(", after")
answer(request, stopReason="end_turn")
request = until("session/prompt")
answer(request, stopReason="end_turn", _meta={"filler": "x" * 3_000_000})
request = until("session/prompt")
answer(request, stopReason="end_turn")
until("nothing")
"""
    async with spawn(*rough_agent(code), limits=Limits(message_bytes=1_000_000)) as agent:
        session = await agent.new_session("/")
        await session.prompt("an update over the limit")
        assert session.state.text == "before, after"
        with pytest.raises(RemoteProtocolError, match="was dropped: one may have"):
            await session.prompt("an answer over the limit")
        assert (await session.prompt("still there")).stop_reason == "end_turn"
        assert agent._connection.peer._framer.held_bytes == 0


async def test_row_09_bytes_that_are_not_text_are_refused_and_the_connection_lives() -> None:
    update = b'{"jsonrpc":"2.0","id":5,"method":"_x/y","params":{"text":"%s"}}\n'
    for body in (b"\xff\xfe", b"\\ud800"):
        async with spawn(*sends(update % body)) as agent:
            session = await agent.new_session("/")
            result = await session.prompt("go")
            assert isinstance(result.meta, dict)
            assert result.meta["errors"] == [-32700]
            assert session.state.text == "before, after"


async def test_row_09_lone_surrogates_that_leave_are_replaced() -> None:
    code = """
request = until("session/prompt")
say(prompt_text(request))
answer(request, stopReason="end_turn")
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        await session.prompt("a\ud800b")
        assert session.state.text == "a\ufffdb"


async def test_row_10_line_separators_inside_a_string_do_not_end_a_line() -> None:
    text = "one\u2028two\u2029three\u0085four\x0b\x0c"
    code = f"""
request = until("session/prompt")
chunk = {{"sessionUpdate": "agent_message_chunk", "content": {{"type": "text", "text": {text!r}}}}}
raw(json.dumps({{"jsonrpc": "2.0", "method": "session/update", "params": {{"sessionId": "s", "update": chunk}}}},
               ensure_ascii=False).encode() + b"\\n")
say(prompt_text(request))
answer(request, stopReason="end_turn")
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        await session.prompt(text)
        assert session.state.text == text * 2


HARD = {
    "NaN": b"NaN",
    "infinity": b"-Infinity",
    "a number beyond floats": b"1e999",
    "a number of 5,000 digits": b"9" * 5_000,
    "arrays in arrays": b"[" * 100_000 + b"]" * 100_000,
    "objects in objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


async def test_row_11_numbers_and_depths_beyond_reason_are_refused_and_the_connection_lives() -> None:
    lines = [b'{"jsonrpc":"2.0","id":5,"method":"_x/y","params":{"n":' + value + b"}}\n" for value in HARD.values()]
    small = [line for line in lines if len(line) < 100_000]  # an argument of a program has its limit too

    async def extension(params: object) -> None:
        pytest.fail("nothing of this can be read")

    async with spawn(*sends(*small), extensions={"_x/y": extension}) as agent:
        session = await agent.new_session("/")
        for _ in small:
            result = await session.prompt("go")
            assert isinstance(result.meta, dict)
            assert result.meta["errors"] == [-32700]
    code = """
request = until("session/prompt")
raw(b'{"jsonrpc":"2.0","id":5,"method":"_x/y","params":{"n":' + b"[" * 100_000 + b"]" * 100_000 + b"}}\\n")
answer(request, stopReason="end_turn", _meta={"error": read()["error"]["code"]})
until("nothing")
"""
    async with spawn(*rough_agent(code)) as agent:
        session = await agent.new_session("/")
        result = await session.prompt("go")
        assert isinstance(result.meta, dict)
        assert result.meta["error"] == -32700


@pytest.mark.alone
@pytest.mark.parametrize("name", HARD)
def test_row_11_such_a_line_is_refused_in_no_time(name: str) -> None:
    line = b'{"jsonrpc":"2.0","id":5,"method":"_x/y","params":{"n":' + HARD[name] + b"}}"
    started_at = time.thread_time()
    message = read_message(line)
    code = message.code if isinstance(message, Malformed) else 0
    if isinstance(message, Request):
        with pytest.raises(RemoteProtocolError) as caught:
            decode(Any, message.params or b"")
        code = caught.value.code
    assert time.thread_time() - started_at < 0.05
    assert code == -32700
