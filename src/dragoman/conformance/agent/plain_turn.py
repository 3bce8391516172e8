"""The smoke test of an agent: initialize, a session, a prompt, a cancelled prompt.

Owns the one finding for an agent that does not get through it. An agent that refuses something (because it needs a
login or has no model) gets through: the cases judge its answers. One that does not answer does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.conformance.case import CaseResult, Ending, Inconclusive
from dragoman.conformance.conversation import Gone
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe

_EXCERPT_CHARACTERS: Final = 80
_BETWEEN_VALUES: Final = re.compile(rb"}\s*\n\s*{")


async def play_plain_turn(probe: AgentProbe) -> CaseResult | None:
    """Plays a plain turn and cancels another one; returns what is wrong, None if nothing is.

    Raises: Gone when the agent ends before it answers initialize.
    """
    step = "agent/initialize/answers"
    try:
        answer = await probe.initialize()
        if answer.is_error:
            return _broken(step, f"initialize was answered with an error: {answer}", probe)
        step = "agent/session/new"
        session_id = await probe.new_session()
        step = "agent/prompt/stop-reason"
        await probe.prompt(session_id, probe.text("say")).end()
        step = "agent/cancel/streaming"
        await _cancel(probe)
    except Inconclusive:
        return None
    except Gone as gone:
        if step == "agent/initialize/answers":
            raise
        return _broken(step, gone.message, probe)
    except Ending as ending:
        return _broken(step, ending.message, probe)
    return None


async def _cancel(probe: AgentProbe) -> None:
    """Cancels a turn as soon as something comes; a turn that is over before is as good."""
    turn = await probe.act("slow")
    await turn.first("update", lambda message: message.method == "session/update")
    probe.cancel(turn.session_id)
    await turn.end()


def _broken(step: str, message: str, probe: AgentProbe) -> CaseResult:
    """The finding: the lines that are not messages, if there are any, otherwise the step that was not answered."""
    noise = [each for each in probe.incoming if not each.body and each.line.strip()]
    if noise:
        first = shorten(noise[0].line.decode(errors="replace"), _EXCERPT_CHARACTERS)
        is_spread = _is_json(b"\n".join(each.line for each in probe.incoming))
        step = "passive/5" if is_spread else "passive/6"
        what = "a message was written on several lines" if is_spread else f"{len(noise)} lines are not messages"
        message = f"{what}, the first line is {first!r}; {message}"
    return CaseResult(step, "fail", message, probe.now, list(probe.entries), 1)


def _is_json(text: bytes) -> bool:
    """Whether the lines are JSON objects if the breaks inside of them are ignored."""
    start = text.find(b"{")
    try:
        msgspec.json.decode(b"[" + _BETWEEN_VALUES.sub(b"},{", text[start:].strip()) + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return start >= 0
