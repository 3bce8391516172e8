"""Files of the client: how they are asked for, and what a refusal does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import Fail, case
from dragoman.conformance.expect import expect_stop, is_absolute

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import WireMessage

_READ = "fs/read_text_file"
_WRITE = "fs/write_text_file"
_UINT32 = 2**32 - 1


@case("agent/files/read", rules=(273, 274, 275))
async def read(probe: AgentProbe) -> None:
    """A file is read by its absolute path, with lines that count from one.

    Leads the agent to read a file; expects an absolute path, and whole numbers for line and limit.
    """
    turn, request, _ = await probe.served("read", _READ)
    _expect_path(request, turn.session_id)
    line, limit = request.params.get("line"), request.params.get("limit")
    if line is not None and (type(line) is not int or not 1 <= line <= _UINT32):
        raise Fail(f"`line` is {line!r}; the first line is 1")
    if limit is not None and (type(limit) is not int or not 0 <= limit <= _UINT32):
        raise Fail(f"`limit` is {limit!r}")


@case("agent/files/write", rules=(273,))
async def write(probe: AgentProbe) -> None:
    """A file is written by its absolute path, with its content.

    Leads the agent to write a file; expects an absolute path and a text.
    """
    turn, request, _ = await probe.served("write", _WRITE, file=str(probe.folder / "written.txt"))
    _expect_path(request, turn.session_id)
    if not isinstance(request.params.get("content"), str):
        raise Fail(f"`content` is {request.params.get('content')!r}")


@case("agent/files/null-result", rules=(279,), level="SHOULD")
async def null_result(probe: AgentProbe) -> None:
    """A write that is answered with null, as older pages show it, has succeeded.

    Answers fs/write_text_file with null; expects the turn to end with a stop reason.
    """
    probe.services.answers[_WRITE] = lambda params: None
    expect_stop((await probe.served("write", _WRITE, file=probe.notes)).end)


@case("agent/files/unknown-error", rules=(25, 339))
async def unknown_error(probe: AgentProbe) -> None:
    """An error with an unknown code is an error like any other: the prompt is answered.

    Answers fs/read_text_file with the error -31999; expects an answer to the prompt, and the agent to live.
    """
    probe.services.errors[_READ] = -31999
    await probe.served("read", _READ)
    await probe.require_alive("an error with an unknown code")


@case("agent/files/not-found", rules=(338,), level="SHOULD")
async def not_found(probe: AgentProbe) -> None:
    """A file that is not there does not end the turn with an error.

    Leads the agent to read a missing file and answers -32002; expects the turn to end with a stop reason.
    """
    expect_stop((await probe.served("read", _READ, file=str(probe.folder / "missing.txt"))).end)


@case("agent/files/large", rules=(14,), level="SHOULD")
async def large(probe: AgentProbe) -> None:
    """A file of a megabyte can be read.

    Answers fs/read_text_file with a megabyte; expects the agent to live and to answer the prompt.
    """
    probe.services.answers[_READ] = lambda params: {"content": "one line of a large file\n" * 40_000}
    await probe.served("read", _READ)
    await probe.require_alive("a file of a megabyte")


def _expect_path(request: WireMessage, session_id: str) -> None:
    path = request.params.get("path")
    if not is_absolute(path):
        raise Fail(f"`path` is {path!r}, which is not absolute")
    if request.params.get("sessionId") != session_id:
        raise Fail(f"the request is about the session {request.params.get('sessionId')!r}")
