"""Lines: what an agent makes of every way to cut, break and overload them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.case import ALONE, Fail, case

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import WireMessage

_LARGE = 5_000_000
# Above the reference limit of 32 MiB.
_TOO_LARGE = 34_000_000
_DEEP = 10_000


def _frame(id: str, params: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":"{id}","method":"_dragoman.check/ping","params":{params}}}'.encode()


@case(
    "agent/transport/one-message-per-line",
    rules=(4,),
    about="a line is one message, however its bytes arrive: in pieces, or two lines at once",
)
async def one_message_per_line(probe: AgentProbe) -> None:
    """Sends one request in three writes, then two requests in one write; expects three answers."""
    frame = _frame("split") + b"\n"
    for start in range(0, len(frame), 30):
        probe.send_bytes(frame[start : start + 30])
        await asyncio.sleep(0.005)  # each piece reaches the agent by itself
    await probe.answer("split", "answer to a request that arrived in pieces")
    probe.send_bytes(_frame("first") + b"\n" + _frame("second") + b"\n")
    await probe.answer("first", "answer to the first of two requests in one write")
    await probe.answer("second", "answer to the second of two requests in one write")


@case(
    "agent/transport/blank-lines",
    rules=(13,),
    level="SHOULD",
    about="blank lines are skipped",
)
async def blank_lines(probe: AgentProbe) -> None:
    """Sends blank lines, then a request; expects the answer to the request and nothing else."""
    mark = probe.mark
    probe.send_bytes(b"\n\n\r\n")
    await probe.require_alive("blank lines")
    _expect_nothing(probe.responses(mark), "a blank line")


@case(
    "agent/transport/carriage-return",
    rules=(4,),
    level="SHOULD",
    about="a line that ends in CR LF is a message: the carriage return is white space of JSON",
)
async def carriage_return(probe: AgentProbe) -> None:
    """Sends a request that ends in CR LF; expects its answer."""
    probe.send_bytes(_frame("crlf") + b"\r\n")
    await probe.answer("crlf", "answer to a request that ends in CR LF")


@case(
    "agent/transport/garbage-answered",
    rules=(12, 337),
    level="SHOULD",
    about="a line that is no JSON is answered with -32700 and the id null",
    is_watched=False,
    shares=ALONE,
)
async def garbage_answered(probe: AgentProbe) -> None:
    """Sends a log line; expects one error -32700 whose id is null."""
    await probe.initialize()
    mark = probe.mark
    probe.send_bytes(b"Loading model weights...\n")
    await probe.settle()
    _expect_one(probe, mark, -32700, "a line that is no JSON")


@case(
    "agent/transport/garbage-survived",
    rules=(12,),
    level="SHOULD",
    about="the connection outlives lines that are no JSON",
    is_watched=False,
    shares=ALONE,
)
async def garbage_survived(probe: AgentProbe) -> None:
    """Sends three broken lines; expects a later request to be answered."""
    await probe.initialize()
    for line in (b"{not json}", b'{"jsonrpc":"2.0","id":1,', b"\x1b[33mwarning\x1b[0m"):
        probe.send_bytes(line + b"\n")
    await probe.require_alive("lines that are no JSON")


@case(
    "agent/transport/not-an-object",
    rules=(10, 337),
    level="SHOULD",
    about="a JSON value that is no object is answered with -32600, and the connection lives",
    is_watched=False,
    shares=ALONE,
)
async def not_an_object(probe: AgentProbe) -> None:
    """Sends a number; expects an error -32600 with id null. Sends a string and null; expects to be answered after."""
    await probe.initialize()
    mark = probe.mark
    probe.send(42)
    await probe.settle()
    _expect_one(probe, mark, -32600, "a number")
    probe.send("hello")
    probe.send(None)
    await probe.require_alive("a string and null")


@case(
    "agent/transport/batch",
    rules=(10, 11),
    level="SHOULD",
    about="an array is answered once with -32600, and nothing in it is executed",
    is_watched=False,
    shares=ALONE,
)
async def batch(probe: AgentProbe) -> None:
    """Sends two requests in one array; expects one error with id null, and no answer to either request."""
    await probe.initialize()
    mark = probe.mark
    requests = [{"jsonrpc": "2.0", "id": f"batch-{n}", "method": "_dragoman.check/ping"} for n in (1, 2)]
    probe.send(requests)
    await probe.settle()
    executed = [each for each in probe.responses(mark) if str(each.id).startswith("batch-")]
    if executed:
        raise Fail(f"a request inside an array was executed: {executed[0]}")
    _expect_one(probe, mark, -32600, "an array")
    await probe.require_alive("an array")


@case(
    "agent/transport/invalid-utf8",
    rules=(1, 12),
    level="SHOULD",
    about="a line that is not UTF-8 gets an answer, and the connection lives",
    is_watched=False,
    shares=ALONE,
)
async def invalid_utf8(probe: AgentProbe) -> None:
    """Sends a request with the byte FF in a string; expects an answer to it or an error with id null."""
    await probe.initialize()
    mark = probe.mark
    probe.send_bytes(_frame("utf8", '{"text":"@"}').replace(b"@", b"\xff\xfe") + b"\n")
    await probe.settle()
    if not probe.responses(mark):
        raise Fail("a line that is not UTF-8 was not answered")
    await probe.require_alive("a line that is not UTF-8")


@case(
    "agent/transport/deep-nesting",
    rules=(12, 25),
    level="SHOULD",
    about="a message nested ten thousand deep gets an answer, and the connection lives",
    is_watched=False,
    shares=ALONE,
)
async def deep_nesting(probe: AgentProbe) -> None:
    """Sends a request whose params are nested deeply; expects an answer to it or an error with id null."""
    await probe.initialize()
    mark = probe.mark
    probe.send_bytes(_frame("deep", f'{{"a":{"[" * _DEEP}{"]" * _DEEP}}}') + b"\n")
    await probe.settle()
    if not probe.responses(mark):
        raise Fail("a deeply nested request was not answered")
    await probe.require_alive("a deeply nested request")


@case(
    "agent/transport/large-frame",
    rules=(14, 25),
    level="SHOULD",
    about="a message of five megabytes is answered like any other",
    shares=ALONE,
)
async def large_frame(probe: AgentProbe) -> None:
    """Sends an unknown request with five megabytes of params; expects its answer."""
    await probe.initialize()
    probe.send_bytes(_frame("large", f'{{"text":"{"x" * _LARGE}"}}') + b"\n")
    await probe.answer("large", "answer to a request of five megabytes")


@case(
    "agent/transport/oversized-frame",
    rules=(14,),
    level="SHOULD",
    about="a message beyond 32 MiB is answered or ends the connection cleanly; it does not hang",
    is_watched=False,
    shares=ALONE,
)
async def oversized_frame(probe: AgentProbe) -> None:
    """Sends a request of 34 MB and another one; expects any answer, or that the agent ends."""
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


@case(
    "agent/transport/last-line",
    rules=(13,),
    level="SHOULD",
    about="a last line without a newline is still processed at the end of input",
    is_watched=False,
    shares=ALONE,
)
async def last_line(probe: AgentProbe) -> None:
    """Sends a request without its newline and closes the input; expects the answer."""
    await probe.initialize()
    probe.send_bytes(_frame("last"))
    probe.end_input()
    await probe.answer("last", "answer to a last line without newline")


@case(
    "agent/transport/exit-at-eof",
    rules=(15,),
    level="SHOULD",
    about="the agent ends by itself when its input ends",
    is_watched=False,
    shares=ALONE,
)
async def exit_at_eof(probe: AgentProbe) -> None:
    """Closes the agent's stdin after the handshake; expects it to end."""
    await probe.initialize()
    await _expect_end(probe, "its input ended")


@case(
    "agent/transport/exit-in-turn",
    rules=(15,),
    level="SHOULD",
    about="the agent ends by itself when its input ends in the middle of a turn",
    is_watched=False,
    shares=ALONE,
)
async def exit_in_turn(probe: AgentProbe) -> None:
    """Closes the agent's stdin while a turn is running; expects it to end."""
    await probe.initialize()
    await probe.running()
    await _expect_end(probe, "its input ended in the middle of a turn")


@case(
    "agent/transport/exit-mid-line",
    rules=(15,),
    level="SHOULD",
    about="the agent ends by itself when its input ends in the middle of a line",
    is_watched=False,
    shares=ALONE,
)
async def exit_mid_line(probe: AgentProbe) -> None:
    """Sends half a message and closes the agent's stdin; expects it to end."""
    await probe.initialize()
    probe.send_bytes(b'{"jsonrpc":"2.0","id":7,"method":"session/n')
    await _expect_end(probe, "its input ended in the middle of a line")


async def _expect_end(probe: AgentProbe, after: str) -> None:
    probe.end_input()
    patience = min(10.0, probe.settings.timeout_seconds)
    if not await probe.wait_over(patience):
        raise Fail(f"the agent still runs {patience:g} s after {after}")


def _expect_nothing(came: list[WireMessage], after: str) -> None:
    if came:
        raise Fail(f"{after} was answered: {came[0]}")


def _expect_one(probe: AgentProbe, mark: int, code: int, what: str) -> None:
    if probe.is_over:
        raise Fail(f"{what} ended the agent: {probe.ended}")
    errors = [each for each in probe.responses(mark) if each.is_error]
    if not errors:
        raise Fail(f"{what} was not answered")
    if len(errors) > 1:
        raise Fail(f"{what} was answered {len(errors)} times")
    if errors[0].code != code or errors[0].body.get("id", msgspec.UNSET) is not None:
        raise Fail(f"{what} was answered with {errors[0]}, not with {code} and the id null")
