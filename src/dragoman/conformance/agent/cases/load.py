"""Coming back to a session: load sends its history again, resume does not."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.conformance.case import Fail, Inconclusive, Warn, case
from dragoman.conformance.expect import expect_not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn
    from dragoman.conformance.conversation import WireMessage

_HISTORY = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update")
_GATES = {"session/load": "loadSession", "session/resume": "sessionCapabilities.resume"}


class _Return(NamedTuple):
    """A session that was loaded or resumed: the connection, and what was sent and answered before and for that."""

    probe: AgentProbe
    session_id: str
    text: str
    reply_text: str
    mark: int
    answer: WireMessage

    def updates(self, *, after: bool = False) -> list[dict[str, Any]]:
        """Return what came for the session before the answer, or after it."""
        return [
            update
            for message in self.probe.since(self.mark, lambda message: message.method == "session/update")
            if message.params.get("sessionId") == self.session_id
            and (message.index > self.answer.index) is after
            and isinstance(update := message.params.get("update"), dict)
        ]

    def all_updates(self) -> list[dict[str, Any]]:
        """Return what came for the session before the answer, then what came after it."""
        return [*self.updates(), *self.updates(after=True)]


@asynccontextmanager
async def _returned(probe: AgentProbe, method: str, *actions: str) -> AsyncIterator[_Return]:
    """Have a conversation, leave it and come back with `method`, on this connection or, if need be, on another."""
    probe.require(_GATES[method])
    session_id = await probe.new_session()
    text = probe.text("say")
    turn = await probe.acted("say", session_id)
    reply_text = _text_of(turn.updates("agent_message_chunk"))
    for action in actions:
        await probe.acted(action, session_id)
    if probe.offers("sessionCapabilities.close"):
        await probe.call("session/close", {"sessionId": session_id})
    params = probe.session_params(sessionId=session_id)
    mark = probe.mark
    answer = await probe.call(method, params)
    if not answer.is_error:
        yield _Return(probe, session_id, text, reply_text, mark, answer)
        return
    async with probe.another() as other:
        await other.initialize()
        mark = other.mark
        answer = await other.call(method, params)
        if answer.is_error:
            raise Inconclusive(f"the session of a moment ago could not be found again: {answer}")
        yield _Return(other, session_id, text, reply_text, mark, answer)


@asynccontextmanager
async def _loaded(probe: AgentProbe, *actions: str) -> AsyncIterator[_Return]:
    """Load a session, and wait until everything the agent sends about it has arrived."""
    async with _returned(probe, "session/load", *actions) as back:
        await back.probe.settle()
        yield back


def _text_of(updates: list[dict[str, Any]]) -> str:
    return "".join(str((update.get("content") or {}).get("text", "")) for update in updates)


def _kinds(updates: list[dict[str, Any]]) -> list[str]:
    return [str(update.get("sessionUpdate")) for update in updates]


@case("agent/load/replays", rules=(106, 108))
async def replays(probe: AgentProbe) -> None:
    """session/load sends the whole conversation again as session/update.

    Has a turn, loads the session; expects the user's and the agent's messages before or after the answer.
    """
    async with _loaded(probe) as back:
        updates = back.all_updates()
        kinds = _kinds(updates)
        for kind in ("user_message_chunk", *(["agent_message_chunk"] if back.reply_text else [])):
            if kind not in kinds:
                raise Fail(f"the replay has no {kind}; it has {sorted(set(kinds)) or 'nothing'}")
        user = _text_of([update for update in updates if update.get("sessionUpdate") == "user_message_chunk"])
        agent = _text_of([update for update in updates if update.get("sessionUpdate") == "agent_message_chunk"])
        if back.text not in user:
            raise Warn("the replay does not have the text of the prompt")
        if back.reply_text.strip() not in agent:
            raise Warn("the replay does not have the text of the answer")


@case("agent/load/order", rules=(106,))
async def order(probe: AgentProbe) -> None:
    """The replay keeps the order of the conversation: a prompt, then its answer.

    Has a turn, loads the session; expects the user's message to come before the agent's.
    """
    async with _loaded(probe) as back:
        kinds = _kinds(back.all_updates())
        if "user_message_chunk" not in kinds or "agent_message_chunk" not in kinds:
            raise Inconclusive("the replay has not both sides of the conversation")
        if kinds.index("agent_message_chunk") < kinds.index("user_message_chunk"):
            raise Fail("the replay begins with the agent's answer, before the prompt it belongs to")


@case("agent/load/response-last", rules=(107,))
async def response_last(probe: AgentProbe) -> None:
    """session/load is answered after all of the history was sent.

    Has a turn, loads the session; expects no message of the history after the answer.
    """
    async with _loaded(probe) as back:
        late = [kind for kind in _kinds(back.updates(after=True)) if kind in _HISTORY]
        if late:
            raise Fail(f"{len(late)} updates of the history came after the answer, the first a {late[0]}")


@case("agent/load/result", rules=(109,))
async def result(probe: AgentProbe) -> None:
    """The result of session/load is an object.

    Loads a session; expects an object, or null as older pages show it.
    """
    async with _returned(probe, "session/load") as back:
        if back.answer.result is not None and not isinstance(back.answer.result, dict):
            raise Fail(f"the result of session/load is {back.answer.result!r}")


@case("agent/load/tool-calls", rules=(106, 108), level="SHOULD")
async def tool_calls(probe: AgentProbe) -> None:
    """The replay has the tool calls of the conversation.

    Has a turn with a tool call, loads the session; expects a tool_call.
    """
    probe.require("loadSession")
    session_id = await probe.new_session()
    turn = await probe.acted("tool", session_id)
    await turn.first_update("tool_call")
    async with _loaded(probe, "tool") as back:
        if "tool_call" not in _kinds(back.all_updates()):
            raise Fail("the replay has no tool_call")


@case("agent/load/no-notices", rules=(220,), level="SHOULD")
async def no_notices(probe: AgentProbe) -> None:
    """Notices are of the moment and not sent again.

    Has a turn with a notice, loads the session; expects no notice.
    """
    probe.require("loadSession")
    probe.text("notice")
    async with _loaded(probe, "notice") as back:
        if "notice" in _kinds(back.all_updates()):
            raise Fail("the replay has a notice")


@case("agent/load/usable", rules=(120, 180))
async def usable(probe: AgentProbe) -> None:
    """A loaded session can be prompted.

    Loads a session and prompts; expects a stop reason.
    """
    async with _returned(probe, "session/load") as back:
        await _expect_turn(back)


@case("agent/load/other-directories", rules=(142, 144), level="SHOULD")
async def other_directories(probe: AgentProbe) -> None:
    """A session can be loaded with other additional directories than it had before.

    Opens a session with an additional directory and loads it with another one; expects success.
    """
    probe.require("loadSession")
    probe.require("sessionCapabilities.additionalDirectories")
    one, two = probe.folder / "one", probe.folder / "two"
    for folder in (one, two):
        folder.mkdir(exist_ok=True)
    session_id = await probe.new_session(additionalDirectories=[str(one)])
    await probe.acted("say", session_id)
    plain = await probe.call("session/load", probe.session_params(sessionId=session_id))
    if plain.is_error:
        raise Inconclusive(f"the session could not be loaded at all: {plain}")
    params = probe.session_params(sessionId=session_id, additionalDirectories=[str(two)])
    answer = await probe.call("session/load", params)
    if answer.is_error:
        raise Fail(f"session/load with other additional directories was answered with {answer}")


@case("agent/load/unknown-session", rules=(119, 338, 342), level="SHOULD", provokes=True)
async def unknown_session(probe: AgentProbe) -> None:
    """Loading a session that does not exist is answered with -32002 and its id.

    Loads a session that does not exist; expects -32002 with data.sessionId.
    """
    await _expect_not_found(probe, "session/load")


@case("agent/resume/no-replay", rules=(112,))
async def no_replay(probe: AgentProbe) -> None:
    """session/resume sends no history before its answer.

    Has a turn, resumes the session; expects no message of the history before the answer.
    """
    async with _returned(probe, "session/resume") as back:
        early = [kind for kind in _kinds(back.updates()) if kind in _HISTORY]
        if early:
            raise Fail(f"{len(early)} updates of the history came before the answer, the first a {early[0]}")


@case("agent/resume/usable", rules=(56, 120, 180))
async def resume_usable(probe: AgentProbe) -> None:
    """A resumed session can be prompted.

    Resumes a session and prompts; expects a stop reason.
    """
    async with _returned(probe, "session/resume") as back:
        await _expect_turn(back)


@case("agent/resume/unknown-session", rules=(119, 338, 342), level="SHOULD", provokes=True)
async def resume_unknown(probe: AgentProbe) -> None:
    """Resuming a session that does not exist is answered with -32002 and its id.

    Resumes a session that does not exist; expects -32002 with data.sessionId.
    """
    await _expect_not_found(probe, "session/resume")


async def _expect_turn(back: _Return) -> None:
    turn: AgentTurn = back.probe.prompt(back.session_id, back.text)
    end = await turn.end()
    if not isinstance(end.fields.get("stopReason"), str):
        raise Fail(f"a prompt after coming back was answered with {end}")


async def _expect_not_found(probe: AgentProbe, method: str) -> None:
    probe.require(_GATES[method])
    session_id = "00000000-0000-4000-8000-000000000000"
    answer = await probe.call(method, probe.session_params(sessionId=session_id))
    expect_not_found(answer, session_id, f"{method} of a session that does not exist")
