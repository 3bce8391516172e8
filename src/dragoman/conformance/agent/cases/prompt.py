"""A turn: the prompt's content, its one answer, and what comes around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import ALONE, CaseNeeds, Fail, Inconclusive, Warn, case
from dragoman.conformance.expect import (
    expect_answered_once,
    expect_code,
    expect_no_late_updates,
    expect_not_found,
    expect_stop,
)
from dragoman.testing.memory import PIXEL, WAV

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import WireMessage


@case("agent/prompt/stop-reason", rules=(53, 153, 180, 181))
async def stop_reason(probe: AgentProbe) -> None:
    """A prompt is answered with one of the five stop reasons.

    Prompts for a short answer; expects a result with a known stopReason.
    """
    expect_stop(await (await probe.act("say")).end())


@case("agent/prompt/text-and-link", rules=(54,))
async def text_and_link(probe: AgentProbe) -> None:
    """Text and resource links are accepted by every agent.

    Prompts with a text and a link to a file; expects a stop reason.
    """
    link = {"type": "resource_link", "uri": f"file://{probe.notes}", "name": "notes.txt", "mimeType": "text/plain"}
    end = await _prompt_with(probe, link)
    expect_stop(end)


@case("agent/prompt/image", rules=(55,), level="SHOULD", needs=CaseNeeds(offers=("promptCapabilities.image",)))
async def image(probe: AgentProbe) -> None:
    """An agent that advertises images accepts one.

    Prompts with a text and an image; expects a stop reason.
    """
    expect_stop(await _prompt_with(probe, {"type": "image", "mimeType": "image/png", "data": PIXEL}))


@case("agent/prompt/audio", rules=(55,), level="SHOULD", needs=CaseNeeds(offers=("promptCapabilities.audio",)))
async def audio(probe: AgentProbe) -> None:
    """An agent that advertises audio accepts a sound.

    Prompts with a text and a sound; expects a stop reason.
    """
    expect_stop(await _prompt_with(probe, {"type": "audio", "mimeType": "audio/wav", "data": WAV}))


@case(
    "agent/prompt/embedded-context",
    rules=(55,),
    level="SHOULD",
    needs=CaseNeeds(offers=("promptCapabilities.embeddedContext",)),
)
async def embedded_context(probe: AgentProbe) -> None:
    """An agent that advertises embedded context accepts a resource.

    Prompts with a text and an embedded file; expects a stop reason.
    """
    resource = {"uri": f"file://{probe.notes}", "mimeType": "text/plain", "text": "one\ntwo\nthree\n"}
    expect_stop(await _prompt_with(probe, {"type": "resource", "resource": resource}))


@case("agent/prompt/unknown-session", rules=(119, 338, 342), level="SHOULD", provokes=True)
async def unknown_session(probe: AgentProbe) -> None:
    """A prompt to a session that is not open is answered with -32002 and its id.

    Prompts a session that does not exist; expects -32002 with data.sessionId.
    """
    end = await probe.prompt("no-such-session", probe.text("say")).end()
    expect_not_found(end, "no-such-session", "a prompt to a session that does not exist")


@case("agent/prompt/params-missing", rules=(337,), level="SHOULD", provokes=True)
async def params_missing(probe: AgentProbe) -> None:
    """A prompt without its content is refused with -32602.

    Sends session/prompt without `prompt`; expects -32602.
    """
    answer = await probe.call("session/prompt", {"sessionId": await probe.new_session()})
    expect_code(answer, -32602, "session/prompt without a prompt")


@case("agent/prompt/streams", rules=(184,), level="SHOULD")
async def streams(probe: AgentProbe) -> None:
    """A long answer comes in pieces while it is made.

    Prompts for a long answer; expects more than one piece.
    """
    turn = await probe.acted("long")
    pieces = turn.updates("agent_message_chunk")
    text = "".join(str((piece.get("content") or {}).get("text", "")) for piece in pieces)
    if len(text) < 300:
        raise Inconclusive("the answer is too short to be cut into pieces")
    if len(pieces) < 2:
        raise Fail(f"an answer of {len(text)} characters came in one piece")


@case("agent/prompt/updates-first", rules=(185,), level="SHOULD")
async def updates_first(probe: AgentProbe) -> None:
    """The updates of a turn are sent before its answer.

    Prompts for a long answer; expects no more of it after the answer to the prompt.
    """
    turn = await probe.act("long")
    end = await turn.end()
    await probe.settle()
    expect_no_late_updates(probe, turn.session_id, end)


@case("agent/prompt/sessions-apart", rules=(25, 32, 180))
async def sessions_apart(probe: AgentProbe) -> None:
    """Turns of two sessions run side by side, each answered, with updates under their own session id.

    Prompts two sessions at once; expects two stop reasons, and updates for both.
    """
    ids = [await probe.new_session() for _ in range(2)]
    turns = [probe.prompt(id, probe.text("say")) for id in ids]
    for turn in turns:
        expect_stop(await turn.end())
    for turn in turns:
        if not turn.updates("agent_message_chunk"):
            raise Warn("one of two sessions got no message of its own")


@case("agent/prompt/one-after-another", rules=(25, 180))
async def one_after_another(probe: AgentProbe) -> None:
    """A session can be prompted again after a turn.

    Prompts a session twice; expects two stop reasons.
    """
    session_id = await probe.new_session()
    for _ in range(2):
        expect_stop(await probe.prompt(session_id, probe.text("say")).end())


@case("agent/prompt/overlap", rules=(25, 187), level="SHOULD", is_watched=False, shares=ALONE)
async def overlap(probe: AgentProbe) -> None:
    """Of two prompts to one session at the same time each is answered, exactly once.

    Prompts in the middle of a turn, then cancels; expects one answer to each prompt, whatever it is.
    """
    await probe.initialize()
    first = await probe.running()
    second = probe.prompt(first.session_id, probe.text("say"))
    await probe.settle()
    probe.cancel(first.session_id)
    for turn, name in ((first, "first"), (second, "second")):
        await probe.answer(turn.id, f"answer to the {name} of two prompts", probe.settings.turn_seconds)
    await probe.settle()
    for turn in (first, second):
        expect_answered_once(probe, turn.id, first.mark, "a prompt")


@case("agent/prompt/meta-ignored", rules=(327, 328))
async def meta_ignored(probe: AgentProbe) -> None:
    """Unknown members of _meta change neither the session nor the answer.

    Prompts with _meta members named like parameters; expects a stop reason, and updates of the right session.
    """
    session_id = await probe.new_session()
    meta = {"session_id": "EVIL", "sessionId": "EVIL", "self": 1, "example.com/x": {"y": [None]}}
    block = {"type": "text", "text": probe.text("say"), "_meta": meta}
    turn = probe.prompt(session_id, [block], _meta=meta)
    expect_stop(await turn.end())
    astray = probe.since(turn.mark, lambda message: message.params.get("sessionId") == "EVIL")
    if astray:
        raise Fail("a member of _meta became the session id of an update")
    if not turn.updates("agent_message_chunk"):
        raise Warn("the turn sent no message to its session")


@case("agent/prompt/non-ascii", rules=(1, 4, 5))
async def non_ascii(probe: AgentProbe) -> None:
    """Texts in every script, and characters that other programs take for line ends, come through.

    Prompts with emoji, combining marks, U+2028 and control characters; expects a stop reason.
    """
    text = probe.text("say") + " naïve 你好 🦜 e\u0301 \u2028 \u0085 \t"
    expect_stop(await probe.prompt(await probe.new_session(), text).end())


async def _prompt_with(probe: AgentProbe, block: dict[str, Any]) -> WireMessage:
    session_id = await probe.new_session()
    return await probe.prompt(session_id, [{"type": "text", "text": probe.text("say")}, block]).end()
