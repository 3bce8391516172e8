"""Lines: what an agent makes of every way to cut, break and overload them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.case import ALONE, Fail, case
from dragoman.conformance.expect import expect_one_error, expect_unanswered
from dragoman.conformance.probe import PING

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe

_LARGE = 5_000_000
# Above the reference limit of 32 MiB.
_TOO_LARGE = 34_000_000
_DEEP = 10_000


def _frame(id: str, params: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":"{id}","method":"{PING}","params":{params}}}'.encode()


async def _sent(probe: AgentProbe, data: bytes) -> int:
    """Send these bytes after the handshake and wait for a reaction; return the mark before it."""
    await probe.initialize()
    mark = probe.mark
    probe.send_bytes(data)
    await probe.settle()
    return mark


@case("agent/transport/one-message-per-line", rules=(4,))
async def one_message_per_line(probe: AgentProbe) -> None:
    """A line is one message, however its bytes arrive: in pieces, or two lines at once.

    Sends one request in three writes, then two requests in one write; expects three answers.
    """
    frame = _frame("split") + b"\n"
    for start in range(0, len(frame), 30):
        probe.send_bytes(frame[start : start + 30])
        await asyncio.sleep(0.005)  # each piece reaches the agent by itself
    await probe.answer("split", "answer to a request that arrived in pieces")
    probe.send_bytes(_frame("first") + b"\n" + _frame("second") + b"\n")
    await probe.answer("first", "answer to the first of two requests in one write")
    await probe.answer("second", "answer to the second of two requests in one write")


@case("agent/transport/blank-lines", rules=(13,), level="SHOULD")
async def blank_lines(probe: AgentProbe) -> None:
    """Blank lines are skipped.

    Sends blank lines, then a request; expects the answer to the request and nothing else.
    """
    mark = probe.mark
    probe.send_bytes(b"\n\n\r\n")
    await probe.require_alive("blank lines")
    expect_unanswered(probe, mark, "a blank line")


@case("agent/transport/carriage-return", rules=(4,), level="SHOULD")
async def carriage_return(probe: AgentProbe) -> None:
    """A line that ends in CR LF is a message: the carriage return is white space of JSON.

    Sends a request that ends in CR LF; expects its answer.
    """
    probe.send_bytes(_frame("crlf") + b"\r\n")
    await probe.answer("crlf", "answer to a request that ends in CR LF")


@case("agent/transport/garbage-answered", rules=(12, 337), level="SHOULD", is_watched=False, shares=ALONE)
async def garbage_answered(probe: AgentProbe) -> None:
    """A line that is not JSON is answered with -32700 and the id null.

    Sends a log line; expects one error -32700 whose id is null.
    """
    mark = await _sent(probe, b"Loading model weights...\n")
    expect_one_error(probe, mark, -32700, "a line that is not JSON", judged="agent")


@case("agent/transport/garbage-survived", rules=(12,), level="SHOULD", is_watched=False, shares=ALONE)
async def garbage_survived(probe: AgentProbe) -> None:
    """The connection outlives lines that are not JSON.

    Sends three broken lines; expects a later request to be answered.
    """
    await probe.initialize()
    for line in (b"{not json}", b'{"jsonrpc":"2.0","id":1,', b"\x1b[33mwarning\x1b[0m"):
        probe.send_bytes(line + b"\n")
    await probe.require_alive("lines that are not JSON")


@case("agent/transport/not-an-object", rules=(10, 337), level="SHOULD", is_watched=False, shares=ALONE)
async def not_an_object(probe: AgentProbe) -> None:
    """A JSON value that is not an object is answered with -32600, and the connection lives.

    Sends a number; expects an error -32600 with id null. Sends a string and null; expects to be answered after.
    """
    mark = await _sent(probe, b"42\n")
    expect_one_error(probe, mark, -32600, "a number", judged="agent")
    probe.send("hello")
    probe.send(None)
    await probe.require_alive("a string and null")


@case("agent/transport/batch", rules=(10, 11), level="SHOULD", is_watched=False, shares=ALONE)
async def batch(probe: AgentProbe) -> None:
    """An array is answered once with -32600, and nothing in it is executed.

    Sends two requests in one array; expects one error with id null, and no answer to either request.
    """
    requests = [{"jsonrpc": "2.0", "id": f"batch-{n}", "method": PING} for n in (1, 2)]
    mark = await _sent(probe, msgspec.json.encode(requests) + b"\n")
    executed = [response for response in probe.responses(mark) if str(response.id).startswith("batch-")]
    if executed:
        raise Fail(f"a request inside an array was executed: {executed[0]}")
    expect_one_error(probe, mark, -32600, "an array", judged="agent")
    await probe.require_alive("an array")


@case("agent/transport/invalid-utf8", rules=(1, 12), level="SHOULD", is_watched=False, shares=ALONE)
async def invalid_utf8(probe: AgentProbe) -> None:
    """A line that is not UTF-8 gets an answer, and the connection lives.

    Sends a request with the byte FF in a string; expects an answer to it or an error with id null.
    """
    mark = await _sent(probe, _frame("utf8", '{"text":"@"}').replace(b"@", b"\xff\xfe") + b"\n")
    if not probe.responses(mark):
        raise Fail("a line that is not UTF-8 was not answered")
    await probe.require_alive("a line that is not UTF-8")


@case("agent/transport/deep-nesting", rules=(12, 25), level="SHOULD", is_watched=False, shares=ALONE)
async def deep_nesting(probe: AgentProbe) -> None:
    """A message nested ten thousand deep gets an answer, and the connection lives.

    Sends a request whose params are nested deeply; expects an answer to it or an error with id null.
    """
    mark = await _sent(probe, _frame("deep", f'{{"a":{"[" * _DEEP}{"]" * _DEEP}}}') + b"\n")
    if not probe.responses(mark):
        raise Fail("a deeply nested request was not answered")
    await probe.require_alive("a deeply nested request")


@case("agent/transport/large-frame", rules=(14, 25), level="SHOULD", shares=ALONE)
async def large_frame(probe: AgentProbe) -> None:
    """A message of five megabytes is answered like any other.

    Sends an unknown request with five megabytes of params; expects its answer.
    """
    await probe.initialize()
    probe.send_bytes(_frame("large", f'{{"text":"{"x" * _LARGE}"}}') + b"\n")
    await probe.answer("large", "answer to a request of five megabytes")


@case("agent/transport/oversized-frame", rules=(14,), level="SHOULD", is_watched=False, shares=ALONE)
async def oversized_frame(probe: AgentProbe) -> None:
    """A message beyond 32 MiB is answered or ends the connection cleanly; it does not hang.

    Sends a request of 34 MB and another one; expects any answer, or that the agent ends.
    """
    await probe.initialize()
    mark = probe.mark
    probe.send_bytes(_frame("oversized", f'{{"text":"{"x" * _TOO_LARGE}"}}') + b"\n")
    probe.send_bytes(_frame("after") + b"\n")
    try:
        await probe.wait_for(
            lambda message: message.is_response, "reaction to 34 MB", probe.settings.timeout_seconds, since=mark
        )
    except Fail:
        if not probe.is_over:
            raise


@case("agent/transport/last-line", rules=(13,), level="SHOULD", is_watched=False, shares=ALONE)
async def last_line(probe: AgentProbe) -> None:
    """A last line without a newline is still processed at the end of input.

    Sends a request without its newline and closes the input; expects the answer.
    """
    await probe.initialize()
    probe.send_bytes(_frame("last"))
    probe.end_input()
    await probe.answer("last", "answer to a last line without newline")


@case("agent/transport/exit-at-eof", rules=(15,), level="SHOULD", shares=ALONE)
async def exit_at_eof(probe: AgentProbe) -> None:
    """The agent ends by itself when its input ends.

    Closes the agent's stdin after the handshake; expects it to end.
    """
    await probe.initialize()
    await _expect_end(probe, "its input ended")


@case("agent/transport/exit-in-turn", rules=(15,), level="SHOULD", shares=ALONE)
async def exit_in_turn(probe: AgentProbe) -> None:
    """The agent ends by itself when its input ends in the middle of a turn.

    Closes the agent's stdin while a turn is running; expects it to end.
    """
    await probe.initialize()
    await probe.running()
    await _expect_end(probe, "its input ended in the middle of a turn")


@case("agent/transport/exit-mid-line", rules=(15,), level="SHOULD", is_watched=False, shares=ALONE)
async def exit_mid_line(probe: AgentProbe) -> None:
    """The agent ends by itself when its input ends in the middle of a line.

    Sends half a message and closes the agent's stdin; expects it to end.
    """
    await probe.initialize()
    probe.send_bytes(b'{"jsonrpc":"2.0","id":7,"method":"session/n')
    await _expect_end(probe, "its input ended in the middle of a line")


async def _expect_end(probe: AgentProbe, after: str) -> None:
    probe.end_input()
    if not await probe.wait_over(probe.settings.timeout_seconds):
        raise Fail(f"the agent still runs {probe.settings.timeout_seconds:g} s after {after}")
