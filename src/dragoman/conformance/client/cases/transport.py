"""Lines and streams: what a client writes, what it makes of broken lines, and how it treats its agent's process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.case import Fail, Inconclusive, case
from dragoman.conformance.expect import expect_one_error, expect_unanswered
from dragoman.conformance.probe import PING

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe

_LARGE = 5_000_000
# Above the reference limit of 32 MiB.
_TOO_LARGE = 34_000_000
_DEEP = 10_000
# A pipe holds 64 KiB; a client that does not read it blocks the agent.
_FLOOD = 512 * 1024
_LOG_LINE = b"a line of the agent's log, of no interest\n"


@case("client/transport/lines", rules=(1, 4, 5, 7, 10), shares="plain")
async def lines(probe: ClientProbe) -> None:
    """Everything the client writes is one JSON object per line, in UTF-8.

    Looks at every line of a plain turn; expects each to be UTF-8 and one JSON object.
    """
    if not probe.incoming:
        raise Inconclusive("the client wrote nothing")
    for message in probe.incoming:
        try:
            message.line.decode()
        except UnicodeDecodeError:
            raise Fail(f"a line is not UTF-8: {message}") from None
        if not message.body:
            raise Fail(f"a line is not a JSON object: {message}")


@case("client/transport/pieces", rules=(4,))
async def pieces(probe: ClientProbe) -> None:
    """A line is one message, however its bytes arrive: in pieces, or two lines at once.

    Answers initialize in pieces and sends two updates and a request in one write; expects all to be understood.
    """
    request = await probe.expect("initialize")
    probe.note_initialize(request)
    frame = _encode({"jsonrpc": "2.0", "id": request.id, "result": probe.initialized()})
    for start in range(0, len(frame), 40):
        probe.send_bytes(frame[start : start + 40])
        await asyncio.sleep(0.002)  # each piece reaches the client by itself
    opening = await probe.next_request("session/new", "session/load", "session/resume")
    probe.reply(opening, probe.opened(opening))
    await probe.expect("session/prompt")
    frames = [_update(probe, "one"), _update(probe, "two"), _encode({**_PING, "id": "joined"})]
    probe.send_bytes(b"".join(frames))
    if probe.baseline.answers_unknown:
        await probe.answer("joined", "answer to the last of three lines in one write")


@case("client/transport/blank-lines", rules=(13,), level="SHOULD")
async def blank_lines(probe: ClientProbe) -> None:
    """Blank lines are skipped.

    Sends blank lines in a turn; expects no answer to them, and the turn to go on.
    """
    turn = await probe.prompted()
    mark = probe.mark
    probe.send_bytes(b"\n\n\r\n")
    await probe.settle()
    expect_unanswered(probe, mark, "a blank line")
    await probe.require_well(turn, "blank lines")


@case("client/transport/carriage-return", rules=(4,), level="SHOULD")
async def carriage_return(probe: ClientProbe) -> None:
    """A line that ends in CR LF is a message: the carriage return is white space of JSON.

    Sends an update that ends in CR LF; expects the turn to go on.
    """
    turn = await probe.prompted()
    mark = probe.mark
    probe.send_bytes(_update(probe, "with a carriage return").removesuffix(b"\n") + b"\r\n")
    await probe.settle()
    expect_unanswered(probe, mark, "an update that ends in CR LF")
    await probe.require_well(turn, "a line that ends in CR LF")


@case("client/transport/noise", rules=(12,), level="SHOULD", is_watched=False)
async def noise(probe: ClientProbe) -> None:
    """The connection outlives lines that are not JSON, which real agents do print.

    Sends a log line, half a message and coloured text in a turn; expects the turn to go on.
    """
    turn = await probe.prompted()
    for line in (b"Loaded cached credentials.", b'{"jsonrpc":"2.0","method":', b"\x1b[33mwarning\x1b[0m"):
        probe.send_bytes(line + b"\n")
    await probe.require_well(turn, "lines that are not JSON")


@case("client/transport/noise-answered", rules=(12, 337), level="SHOULD", is_watched=False)
async def noise_answered(probe: ClientProbe) -> None:
    """A line that is not JSON is answered with -32700 and the id null.

    Sends a log line in a turn; expects one error -32700 whose id is null.
    """
    await probe.prompted()
    mark = probe.mark
    probe.send_bytes(b"Loading model weights...\n")
    await probe.settle()
    expect_one_error(probe, mark, -32700, "a line that is not JSON", judged="connection")


@case("client/transport/not-an-object", rules=(10, 12), level="SHOULD", is_watched=False)
async def not_an_object(probe: ClientProbe) -> None:
    """The connection outlives JSON values that are not messages.

    Sends a number, a string, null and an empty object in a turn; expects the turn to go on.
    """
    turn = await probe.prompted()
    for line in (b"42", b'"hello"', b"null", b"{}"):
        probe.send_bytes(line + b"\n")
    await probe.require_well(turn, "JSON values that are not messages")


@case("client/transport/batch", rules=(10, 11), level="SHOULD", is_watched=False)
async def batch(probe: ClientProbe) -> None:
    """An array is answered once with -32600, and nothing in it is executed.

    Sends two requests in one array in a turn; expects one error with id null, and no answer to either request.
    """
    turn = await probe.prompted()
    mark = probe.mark
    permission = {"jsonrpc": "2.0", "method": "session/request_permission", "params": probe.permission()}
    probe.send([{**permission, "id": "batch-1"}, {**_PING, "id": "batch-2"}])
    await probe.settle()
    executed = [response for response in probe.responses(mark) if str(response.id).startswith("batch-")]
    if executed:
        raise Fail(f"a request inside an array was executed: {executed[0]}")
    expect_one_error(probe, mark, -32600, "an array", judged="connection")
    await probe.require_well(turn, "an array")


@case("client/transport/invalid-utf8", rules=(1, 12), level="SHOULD", is_watched=False)
async def invalid_utf8(probe: ClientProbe) -> None:
    """The connection outlives a line that is not UTF-8.

    Sends an update with the bytes FF FE in its text; expects the turn to go on.
    """
    turn = await probe.prompted()
    probe.send_bytes(_update(probe, "@").replace(b"@", b"\xff\xfe"))
    await probe.require_well(turn, "a line that is not UTF-8")


@case("client/transport/deep-nesting", rules=(12,), level="SHOULD", is_watched=False)
async def deep_nesting(probe: ClientProbe) -> None:
    """The connection outlives a message nested ten thousand deep.

    Sends a tool call whose rawInput is nested deeply; expects the turn to go on.
    """
    turn = await probe.prompted()
    frame = _encode(_tool(probe, "@")).replace(b'"@"', b"[" * _DEEP + b"]" * _DEEP)
    probe.send_bytes(frame)
    await probe.require_well(turn, "a message nested ten thousand deep")


@case("client/transport/large-frame", rules=(14,), level="SHOULD")
async def large_frame(probe: ClientProbe) -> None:
    """A message of five megabytes is read like any other.

    Sends an update of five megabytes; expects the turn to go on.
    """
    turn = await probe.prompted()
    probe.send_bytes(_encode(_tool(probe, "x" * _LARGE)))
    await probe.require_well(turn, "a message of five megabytes")


@case("client/transport/oversized-frame", rules=(14,), level="SHOULD", is_watched=False)
async def oversized_frame(probe: ClientProbe) -> None:
    """A message beyond 32 MiB is read, refused, or ends the connection; it does not hang.

    Sends an update of 34 MB and a request; expects any answer, or that the client ends the connection.
    """
    await probe.prompted()
    mark = probe.mark
    probe.send_bytes(_encode(_tool(probe, "x" * _TOO_LARGE)))
    probe.send({**_PING, "id": "after"})
    try:
        await probe.wait_for(
            lambda message: message.is_response, "reaction to 34 MB", probe.settings.start_seconds, since=mark
        )
    except Fail:
        if not probe.is_over and probe.baseline.answers_unknown:
            raise


@case("client/transport/last-line", rules=(13,), level="SHOULD", is_watched=False)
async def last_line(probe: ClientProbe) -> None:
    """A last line without a newline is still processed when the agent's output ends.

    Answers the prompt without a newline and ends the output; expects the client to leave as after a plain turn.
    """
    turn = await probe.prompted(capabilities={})
    if not probe.baseline.leaves:
        raise Inconclusive("the client stays after its prompt, so that nothing can be seen")
    turn.send_text("Done.")
    probe.send_bytes(
        _encode({"jsonrpc": "2.0", "id": turn.request.id, "result": {"stopReason": "end_turn"}}).removesuffix(b"\n")
    )
    probe.link.end_output()
    await probe.require_usual_exit("a last line without newline")


@case("client/transport/stderr-drained", rules=(9,), level="SHOULD")
async def stderr_drained(probe: ClientProbe) -> None:
    """The client keeps reading the agent's stderr, or does not hold it: an agent that logs never stands still.

    Writes half a megabyte to the agent's stderr in a turn; expects all of it to be taken, and the turn to go on.
    """
    turn = await probe.prompted()
    try:
        async with asyncio.timeout(probe.settings.timeout_seconds):
            await probe.link.log(_LOG_LINE * (_FLOOD // len(_LOG_LINE)))
    except TimeoutError:
        raise Fail("the agent stands still: its stderr is a pipe that the client does not read") from None
    except asyncio.CancelledError:
        if not probe.is_over:
            raise
        raise Fail("the client ended the connection after many lines on stderr") from None
    await probe.require_well(turn, "half a megabyte on stderr")


@case("client/transport/shutdown", rules=(15,), level="SHOULD")
async def shutdown(probe: ClientProbe) -> None:
    """To end its agent the client closes the agent's stdin, and uses force only afterwards.

    Plays a plain turn; expects that the client, if it leaves, closes the agent's stdin first.
    """
    turn = await probe.prompted()
    turn.end()
    if not await probe.wait_over(min(5.0, probe.settings.timeout_seconds)):
        raise Inconclusive("the client stays after its prompt; close it by hand to see what it does to its agent")
    if probe.link.ending != "closed":
        raise Fail(f"{probe.ended}")


_PING = {"jsonrpc": "2.0", "method": PING, "params": {}}


def _encode(body: object) -> bytes:
    return msgspec.json.encode(body) + b"\n"


def _update(probe: ClientProbe, text: str) -> bytes:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return _encode(_notification(probe, update))


def _tool(probe: ClientProbe, raw: object) -> dict[str, object]:
    return _notification(
        probe, {"sessionUpdate": "tool_call", "toolCallId": "call-raw", "title": "Look", "rawInput": raw}
    )


def _notification(probe: ClientProbe, update: object) -> dict[str, object]:
    params = {"sessionId": probe.session_id, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}
