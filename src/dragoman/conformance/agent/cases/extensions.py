"""Extensions: names of one's own, and how a peer that does not know them behaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import Fail, case
from dragoman.conformance.expect import expect_code, expect_stop, expect_unanswered

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe


@case("agent/extensions/answered", rules=(25, 332))
async def answered(probe: AgentProbe) -> None:
    """An extension request, known or not, is answered with its id.

    Sends an extension request that no agent knows; expects an answer with its id.
    """
    await probe.call("_dragoman.check/question", {"x": 1}, id="extension-1")


@case("agent/extensions/unknown", rules=(333, 341), level="SHOULD")
async def unknown(probe: AgentProbe) -> None:
    """An unknown extension request is answered with -32601.

    Sends an extension request that no agent knows; expects -32601.
    """
    expect_code(await probe.call("_dragoman.check/question", {"x": 1}), -32601, "an unknown extension")


@case("agent/extensions/notification", rules=(24, 334))
async def notification(probe: AgentProbe) -> None:
    """An unknown extension notification is not answered.

    Sends an extension notification that no agent knows; expects silence.
    """
    mark = probe.mark
    probe.notify("_dragoman.check/news", {"x": 1})
    await probe.settle()
    expect_unanswered(probe, mark, "an extension notification")


@case("agent/extensions/refused-by-client", rules=(25, 50), level="SHOULD")
async def refused_by_client(probe: AgentProbe) -> None:
    """An extension the client does not know does not make a turn fail.

    Leads the agent to call an extension method and answers -32601; expects the turn to end with a stop reason.
    """
    turn = await probe.act("extension")
    await turn.need("an extension request", lambda message: message.is_request and str(message.method).startswith("_"))
    expect_stop(await turn.end())


@case("agent/errors/login-code", rules=(338, 344), level="SHOULD", provokes=True)
async def login_code(probe: AgentProbe) -> None:
    """-32000 means that a login is needed; no other error uses it.

    With sessions that need no login, provokes errors of several kinds; expects other codes than -32000.
    """
    await probe.new_session()
    for method, params in (
        ("dragoman.check/no-such-method", {}),
        ("session/new", {"cwd": 5}),
        ("session/prompt", {"sessionId": "no-such-session", "prompt": []}),
    ):
        answer = await probe.call(method, params)
        if answer.code == -32000:
            raise Fail(f"{method} was answered with {answer}, and no login is missing")


@case("agent/errors/shape", rules=(23,), provokes=True)
async def shape(probe: AgentProbe) -> None:
    """An error has a whole number as its code and a text as its message.

    Provokes errors of several kinds; expects an integer code and a string message in each.
    """
    for method, params in (
        ("dragoman.check/no-such-method", {}),
        ("session/new", {"cwd": 5}),
        ("session/prompt", {"sessionId": "no-such-session", "prompt": []}),
    ):
        answer = await probe.call(method, params)
        if answer.is_error and (type(answer.code) is not int or not isinstance(answer.error.get("message"), str)):
            raise Fail(f"{method} was answered with {answer}")


@case("agent/errors/short-message", rules=(343,), level="SHOULD", provokes=True)
async def short_message(probe: AgentProbe) -> None:
    """The message of an error is one short sentence.

    Provokes errors of several kinds; expects messages of one line, no longer than 200 characters.
    """
    for method, params in (("dragoman.check/no-such-method", {}), ("session/new", {"cwd": 5})):
        text = str((await probe.call(method, params)).error.get("message", ""))
        if "\n" in text.strip() or len(text) > 200:
            raise Fail(f"the message has {len(text)} characters in {len(text.splitlines())} lines")
