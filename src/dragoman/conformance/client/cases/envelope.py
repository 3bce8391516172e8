"""The envelope: versions of JSON-RPC, ids, one answer to each request and none to a notification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dragoman.conformance.case import Fail, Inconclusive, Skip, Warn, case
from dragoman.conformance.client.probe import PERMISSION
from dragoman.conformance.conversation import Gone, Silence, WireMessage
from dragoman.conformance.expect import expect_unanswered
from dragoman.conformance.probe import PING
from dragoman.schema import AGENT_METHODS, PROTOCOL_METHODS
from dragoman.trace.checks.envelope import DRAFT_METHODS
from dragoman.trace.entry import Frame
from dragoman.trace.violations import PassiveChecker

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.trace.violations import Finding

_INT64 = 2**63 - 1


@case("client/envelope/jsonrpc", rules=(19,), shares="plain")
async def jsonrpc(probe: ClientProbe) -> None:
    """Every message carries "jsonrpc": "2.0".

    Looks at every message of a plain turn; expects the member `jsonrpc` to be the string 2.0.
    """
    for message in _objects(probe):
        if message.body.get("jsonrpc") != "2.0":
            raise Fail(f"jsonrpc is {message.body.get('jsonrpc')!r} in {message}")


@case("client/envelope/request-ids", rules=(20,), shares="plain")
async def request_ids(probe: ClientProbe) -> None:
    """The id of a request is a string, an integer or null.

    Looks at the ids of all requests of a plain turn.
    """
    for message in _requests(probe):
        if isinstance(message.id, bool) or not isinstance(message.id, str | int | float | None):
            raise Fail(f"the id of a request is {message.id!r}: {message}")


@case("client/envelope/method-names", rules=(7, 331), shares="plain")
async def method_names(probe: ClientProbe) -> None:
    """Every method is one of the protocol, or begins with an underscore.

    Looks at all methods of a plain turn.
    """
    known = {**AGENT_METHODS, **PROTOCOL_METHODS}
    for message in _objects(probe):
        method = message.method
        if isinstance(method, str) and method not in known and not method.startswith(("_", "$/", *DRAFT_METHODS)):
            raise Fail(f"{method} is not a method of the protocol")


@case("client/envelope/usable-ids", rules=(21, 25), level="SHOULD", shares="plain")
async def usable_ids(probe: ClientProbe) -> None:
    """The ids of requests are neither null nor fractions, and no two open requests have the same.

    Looks at the ids of all requests of a plain turn.
    """
    for message in _requests(probe):
        if message.id is None or isinstance(message.id, float):
            raise Fail(f"the id of a request is {msgspec.json.encode(message.id).decode()}: {message}")
    pending: set[str] = set()
    for frame in (entry for entry in probe.entries if isinstance(entry, Frame)):
        body = WireMessage(0, 0.0, frame.data)
        if frame.dir == "a2c" and body.is_response:
            pending.discard(repr(body.id))
        elif frame.dir == "c2a" and body.is_request:
            if repr(body.id) in pending:
                raise Fail(f"the id {body.id!r} belongs to a request that is still open")
            pending.add(repr(body.id))


@case("client/envelope/well-formed", rules=(26, 40, 327), shares="plain")
async def well_formed(probe: ClientProbe) -> None:
    """params and results fit the schema of the agreed version, and keys are camelCase.

    Looks at every message of a plain turn with the schema; expects each to fit.
    """
    broken = _findings(probe, 26, 40, 327)
    if broken:
        raise Fail(f"rule {broken[0].rule}: {broken[0].message}")


@case("client/envelope/no-custom-members", rules=(60, 329), shares="plain")
async def no_custom_members(probe: ClientProbe) -> None:
    """Nothing is added at the root of a type: own members live in _meta.

    Looks at every message of a plain turn; a member the schema does not name is own, or of a later schema.
    """
    for finding in _findings(probe, 329):
        member = finding.message.partition(":")[0].rpartition(".")[2]
        if _is_own(member):
            raise Fail(f"{finding.message}; own members belong in _meta")
        raise Warn(f"{finding.message}; own members belong in _meta, and if it is of a later schema, all is well")


@case("client/envelope/id-echo", rules=(20,))
async def id_echo(probe: ClientProbe) -> None:
    """A response repeats the id of its request, a string as a string and a number as a number.

    Sends requests with the ids 0, -7, 9007199254740991, "41", "" and a text; expects each to come back.
    """
    await probe.prompted()
    for id in (0, -7, 2**53 - 1, "41", "", "größe-🦜"):
        mark = probe.mark
        probe.request(*_request(probe), id=id)
        answer = await _any_answer(probe, mark)
        if not answer.answers(id):
            raise Fail(f"a request with the id {id!r} was answered with the id {answer.id!r}")


@case("client/envelope/id-64-bit", rules=(20,), level="SHOULD", is_watched=False)
async def id_64_bit(probe: ClientProbe) -> None:
    """An id of 64 bits comes back exactly (many JSON parsers round numbers beyond 2^53).

    Sends a request with the id 2^63-1; expects the answer to carry the same number.
    """
    await probe.prompted()
    _need(probe)
    mark = probe.mark
    probe.request(*_request(probe), id=_INT64)
    await probe.settle()
    came = probe.responses(mark)
    if not came:
        raise Fail("a request with the id 2^63-1 was not answered")
    if came[0].id != _INT64:
        raise Fail(f"the id 2^63-1 came back as {came[0].id!r}")


@case("client/envelope/id-null", rules=(20, 21), level="SHOULD", is_watched=False)
async def id_null(probe: ClientProbe) -> None:
    """A request with the id null, which agents should not send, is answered and does no harm.

    Sends a request with the id null in a turn; expects an answer with the id null, and the turn to go on.
    """
    turn = await probe.prompted()
    _need(probe)
    mark = probe.mark
    probe.request(*_request(probe), id=None)
    await probe.settle()
    if not probe.is_over and not any(response.id is None for response in probe.responses(mark)):
        raise Fail("a request with the id null was not answered")
    await probe.require_well(turn, "a request with the id null")


@case("client/envelope/id-namespaces", rules=(27,))
async def id_namespaces(probe: ClientProbe) -> None:
    """Requests of the agent may have the same ids as those of the client.

    Sends a request with the id of the client's open prompt; expects its answer, and the prompt to stay open.
    """
    turn = await probe.prompted()
    _need(probe)
    await probe.call(*_request(probe), id=turn.request.id)
    await probe.require_well(turn, "a request with the id of the client's own prompt")


@case("client/envelope/result-or-error", rules=(22,), shares="plain")
async def result_or_error(probe: ClientProbe) -> None:
    """A response has either a result or an error, never both and never neither.

    Asks for permission and calls an unknown method; expects one of the two members in each answer.
    """
    for message in _objects(probe):
        if "method" not in message.body and ("result" in message.body) == ("error" in message.body):
            raise Fail(f"a response has {'both' if 'result' in message.body else 'neither'}: {message}")
    if not any(message.is_response for message in probe.incoming):
        raise Inconclusive(probe.trouble or "the client answered nothing")


@case("client/envelope/error-shape", rules=(23,), shares="plain")
async def error_shape(probe: ClientProbe) -> None:
    """An error has an integer as its code and a string as its message.

    Calls an unknown method; expects the error of the answer to have both members.
    """
    errors = [message for message in probe.incoming if message.is_response and message.is_error]
    if not errors:
        raise Inconclusive(probe.trouble or "the client answered nothing with an error")
    for message in errors:
        code = message.code
        if isinstance(code, bool) or not isinstance(code, int) or not isinstance(message.error.get("message"), str):
            raise Fail(f"an error without an integer code or a string message: {message}")


@case("client/envelope/one-answer", rules=(25,), is_watched=False)
async def one_answer(probe: ClientProbe) -> None:
    """Every request gets exactly one response, also an unknown, a custom and a malformed one.

    Sends an unknown, a custom, a malformed and a good request; expects one answer to each.
    """
    await probe.prompted()
    is_alone = probe.baseline.answers_permission  # otherwise there is a user, who may take any time
    sent = {
        probe.request("session/no_such_method", {}, id="an unknown request"): True,
        probe.request(PING, {}, id="a custom request"): True,
        probe.request(PERMISSION, {"sessionId": probe.session_id}, id="a permission request without options"): is_alone,
        probe.request(PERMISSION, probe.permission(), id="a permission request"): is_alone,
    }
    for id, is_expected in sent.items():
        if is_expected:
            await probe.answer(id, f"answer to {id}")
    await probe.settle()
    for id in sent:
        answers = probe.answers_to(id)
        if len(answers) > 1:
            raise Fail(f"{id} was answered {len(answers)} times")


@case("client/envelope/notifications-unanswered", rules=(24,))
async def notifications_unanswered(probe: ClientProbe) -> None:
    """No notification is answered, known or unknown.

    Sends known, unknown and custom notifications in a turn; expects no response to any of them.
    """
    await probe.prompted()
    mark = probe.mark
    probe.update("agent_message_chunk", content={"type": "text", "text": "hello"})
    probe.notify("$/cancel_request", {"requestId": "no such request"})
    probe.notify("elicitation/complete", {"elicitationId": "no such elicitation"})
    probe.notify("_dragoman.check/note", {"any": ["thing"]})
    probe.notify("session/no_such_notification", {})
    await probe.settle()
    expect_unanswered(probe, mark, "a notification")


@case("client/envelope/unknown-notifications", rules=(29, 209, 334), level="SHOULD")
async def unknown_notifications(probe: ClientProbe) -> None:
    """Unknown notifications are ignored.

    Sends notifications that no client knows, with and without params; expects the turn to go on.
    """
    turn = await probe.prompted()
    probe.notify("_dragoman.check/note", {"any": ["thing"]})
    probe.notify("_dragoman.check/bare")
    probe.notify("session/no_such_notification", {})
    probe.notify("$/no_such_notification", {})
    probe.notify("$/cancel_request", {"requestId": 123456})
    await probe.require_well(turn, "unknown notifications")


@case("client/envelope/stray-response", rules=(30,), level="SHOULD", is_watched=False)
async def stray_response(probe: ClientProbe) -> None:
    """A response to a request that was never made is dropped, and the connection lives.

    Answers requests that were never made, one with the id of the prompt in another type; expects no harm.
    """
    turn = await probe.prompted()
    id = turn.request.id
    for stray in (987654, "never-asked", None, {"a": 1}, str(id) if isinstance(id, int) else 0):
        probe.send({"jsonrpc": "2.0", "id": stray, "result": {"stopReason": "end_turn"}})
    await probe.require_well(turn, "responses to requests that were never made")


@case("client/envelope/concurrent", rules=(32,), level="SHOULD")
async def concurrent(probe: ClientProbe) -> None:
    """A request that takes its time does not keep the client from answering the next one.

    Asks for permission to delete, which may wait for a user, and then sends a request; expects its answer.
    """
    await probe.prompted()
    if not probe.baseline.answers_unknown:
        raise Skip("the client does not answer unknown requests, by which this is seen")
    tool = {"toolCallId": "call-2", "title": "Delete everything", "kind": "delete"}
    probe.request(PERMISSION, probe.permission(toolCall=tool))
    try:
        await probe.require_alive("a permission request that is still open")
    except Gone as gone:
        raise Fail(gone.message) from None


def _findings(probe: ClientProbe, *rules: int) -> list[Finding]:
    _objects(probe)
    checker = PassiveChecker(is_whole=True)
    found = [finding for entry in probe.entries for finding in checker.feed(entry)]
    return [finding for finding in found if finding.dir == "c2a" and finding.rule in rules]


def _is_own(member: str) -> bool:
    """Whether no schema would ever use this name."""
    return not (member.isascii() and member.isalnum() and member[0].islower())


def _objects(probe: ClientProbe) -> list[WireMessage]:
    found = [message for message in probe.incoming if message.body]
    if not found:
        raise Inconclusive("the client wrote no message")
    return found


def _requests(probe: ClientProbe) -> list[WireMessage]:
    return [message for message in _objects(probe) if message.is_request]


def _request(probe: ClientProbe) -> tuple[str, object]:
    """Send a request this client answers."""
    return (PING, {}) if probe.baseline.answers_unknown else (PERMISSION, probe.permission())


async def _any_answer(probe: ClientProbe, mark: int) -> WireMessage:
    try:
        return await probe.wait_for(
            lambda message: message.is_response, "answer", probe.settings.timeout_seconds, since=mark
        )
    except Silence:
        raise Inconclusive("the client answered neither an unknown request nor a permission request") from None


def _need(probe: ClientProbe) -> None:
    if not (probe.baseline.answers_unknown or probe.baseline.answers_permission):
        raise Inconclusive("the client answered neither an unknown request nor a permission request in a plain turn")
