"""The envelope: ids, one answer to each request and none to a notification, order."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.case import ALONE, Fail, Inconclusive, Warn, case
from dragoman.conformance.conversation import Silence
from dragoman.conformance.expect import expect_answered_once, expect_code, expect_unanswered

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe

_UNKNOWN = "dragoman.check/no-such-method"
_INT64 = 2**63 - 1


@case("agent/envelope/id-number", rules=(20,))
async def id_number(probe: AgentProbe) -> None:
    """A response repeats the number its request had as id.

    Sends requests with the ids 0, -7 and 9007199254740991; expects each answer to carry the same number.
    """
    for id in (0, -7, 2**53 - 1):
        await probe.call(_UNKNOWN, {}, id=id)


@case("agent/envelope/id-string", rules=(20,))
async def id_string(probe: AgentProbe) -> None:
    """A response repeats the string its request had as id; a string of digits stays a string.

    Sends requests with the ids "41", "" and a text with an emoji; expects each answer to carry the same string.
    """
    for id in ("41", "", "größe-🦜"):
        await probe.call(_UNKNOWN, {}, id=id)


@case("agent/envelope/id-64-bit", rules=(20,), level="SHOULD", is_watched=False, shares=ALONE)
async def id_64_bit(probe: AgentProbe) -> None:
    """An id of 64 bits comes back exactly (many JSON parsers round numbers beyond 2^53).

    Sends a request with the id 2^63-1; expects the answer to carry the same number.
    """
    await probe.initialize()
    mark = probe.mark
    probe.request(_UNKNOWN, {}, id=_INT64)
    await probe.settle()
    came = probe.responses(mark)
    if not came:
        raise Fail("a request with the id 2^63-1 was not answered")
    if came[0].id != _INT64:
        raise Fail(f"the id 2^63-1 came back as {came[0].id!r}")


@case("agent/envelope/id-unusual", rules=(20, 21), level="SHOULD", is_watched=False, shares=ALONE)
async def id_unusual(probe: AgentProbe) -> None:
    """A request with an id clients should not use, null or a fraction, is answered and does no harm.

    Sends requests with the ids null and 1.5; expects an answer to each.
    """
    await probe.initialize()
    for id in (None, 1.5):
        mark = probe.mark
        probe.request(_UNKNOWN, {}, id=id)
        await probe.settle()
        if not probe.responses(mark):
            raise Fail(f"a request with the id {msgspec.json.encode(id).decode()} was not answered")


@case("agent/envelope/id-invalid", rules=(20, 337), level="SHOULD", is_watched=False, shares=ALONE)
async def id_invalid(probe: AgentProbe) -> None:
    """A request whose id is not a string, a number or null is refused with -32600.

    Sends a request whose id is true; expects an error -32600. Sends one whose id is an object; expects no harm.
    """
    await _expect_refused(probe, {"jsonrpc": "2.0", "id": True, "method": _UNKNOWN, "params": {}}, "the id true")
    probe.request(_UNKNOWN, {}, id={"a": 1})
    await probe.require_alive("a request whose id is an object")


@case("agent/envelope/empty-object", rules=(12, 337), level="SHOULD", is_watched=False, shares=ALONE)
async def empty_object(probe: AgentProbe) -> None:
    """An object that is not a message is answered with -32600.

    Sends `{}`; expects an error -32600.
    """
    await _expect_refused(probe, {}, "an empty object")


@case("agent/envelope/method-not-a-string", rules=(12, 337), level="SHOULD", is_watched=False, shares=ALONE)
async def method_not_a_string(probe: AgentProbe) -> None:
    """A request whose method is not a string is refused with -32600.

    Sends a request with a list as its method; expects an error -32600.
    """
    request = {"jsonrpc": "2.0", "id": "list", "method": ["initialize"], "params": {}}
    await _expect_refused(probe, request, "a method that is a list")


@case("agent/envelope/one-response", rules=(25,))
async def one_response(probe: AgentProbe) -> None:
    """Every request is answered exactly once, also when many arrive together.

    Sends twenty requests at once; expects one answer to each.
    """
    mark = probe.mark
    ids = [probe.request(_UNKNOWN, {"n": n}) for n in range(20)]
    for id in ids:
        await probe.answer(id, f"answer to request {id} of twenty")
    await probe.settle()
    for id in ids:
        expect_answered_once(probe, id, mark, f"request {id}")


@case("agent/envelope/notification-unanswered", rules=(24,))
async def notification_unanswered(probe: AgentProbe) -> None:
    """A notification gets no response of any kind, known or unknown, right or wrong.

    Sends known, unknown and malformed notifications; expects no response.
    """
    mark = probe.mark
    probe.cancel("no-such-session")
    probe.notify("$/cancel_request", {"requestId": "no-such-request"})
    probe.notify("_dragoman.check/note", {"text": "hello"})
    probe.notify(_UNKNOWN, {})
    probe.notify("session/cancel", {})
    await probe.settle()
    expect_unanswered(probe, mark, "a notification")


@case("agent/envelope/notification-ignored", rules=(29, 334), level="SHOULD")
async def notification_ignored(probe: AgentProbe) -> None:
    """An unknown notification is ignored.

    Sends unknown notifications, with and without the prefix of extensions; expects to be answered after.
    """
    probe.notify(_UNKNOWN, {"a": 1})
    probe.notify("_dragoman.check/unknown", [1, 2])
    await probe.require_alive("an unknown notification")


@case("agent/envelope/unknown-method", rules=(28, 337, 341), level="SHOULD")
async def unknown_method(probe: AgentProbe) -> None:
    """A request with an unknown method is answered with -32601.

    Sends a request with a method that no version of the protocol has; expects -32601.
    """
    expect_code(await probe.call(_UNKNOWN, {}), -32601, "an unknown method")


@case("agent/envelope/stray-response", rules=(30,), level="SHOULD")
async def stray_response(probe: AgentProbe) -> None:
    """A response to a request that was never made is dropped, and the connection lives.

    Sends responses with an unknown id, the id null and no id; expects silence and to be answered after.
    """
    mark = probe.mark
    probe.send({"jsonrpc": "2.0", "id": 987654, "result": {}})
    probe.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "There was no such request"}})
    await probe.require_alive("a stray response")
    expect_unanswered(probe, mark, "a stray response")


@case("agent/envelope/independent-ids", rules=(27,))
async def independent_ids(probe: AgentProbe) -> None:
    """The ids of the two directions have nothing to do with each other.

    While a request of the agent is open, sends one with the same id; expects an answer to it, and that the agent's
    own request is still open: the turn ends only after that was answered.
    """
    probe.services.hold.add("session/request_permission")
    turn = await probe.act("ask")
    asked = await turn.first_request("session/request_permission")
    mark = probe.mark
    probe.request(_UNKNOWN, {}, id=asked.id)
    await probe.wait_for(
        lambda message: message.answers(asked.id),
        "answer to a request with the id of the agent's own",
        probe.settings.timeout_seconds,
        since=mark,
    )
    if turn.is_over:
        raise Fail("a request of ours with the same id ended the agent's request")
    probe.reply(asked, {"outcome": probe.services.outcome(asked.params)})
    probe.services.hold.clear()
    await turn.end()


@case("agent/envelope/concurrent-requests", rules=(32,), level="SHOULD")
async def concurrent_requests(probe: AgentProbe) -> None:
    """A running turn does not keep the agent from answering other requests.

    Sends a request while a long turn is running; expects its answer before the turn ends.
    """
    turn = await probe.running()
    id = probe.request(_UNKNOWN, {})
    try:
        await probe.answer(id)
    except Silence as silence:
        raise Fail("a request was not answered while a turn was running") from silence
    probe.cancel(turn.session_id)
    end, answer = await turn.end(), await probe.answer(id)
    if end.index < answer.index:
        raise Fail("a request was answered only after the turn that was running")


@case("agent/envelope/update-order", rules=(31,), level="SHOULD")
async def update_order(probe: AgentProbe) -> None:
    """The pieces of a message are sent in their order.

    Asks for a long text of ascending numbers; expects them to ascend over all pieces.
    """
    turn = await probe.acted("long")
    text = "".join(str((update.get("content") or {}).get("text", "")) for update in turn.updates("agent_message_chunk"))
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if len(numbers) < 20:
        raise Inconclusive("the answer has no row of numbers to judge the order by")
    if numbers != sorted(numbers):
        wrong = next(two for one, two in pairwise(numbers) if two < one)
        raise Fail(f"the pieces are out of order: {wrong} follows a larger number")


async def _expect_refused(probe: AgentProbe, body: object, what: str) -> None:
    """Expect that a JSON value that is not a message is answered with -32600 and survived."""
    await probe.initialize()
    mark = probe.mark
    probe.send(body)
    await probe.settle()
    if probe.is_over:
        raise Fail(f"{what} ended the agent: {probe.ended}")
    came = probe.responses(mark)
    if not came:
        raise Fail(f"{what} was not answered")
    if came[0].code != -32600:
        raise Warn(f"{what} was answered with {came[0]}, not with -32600")
