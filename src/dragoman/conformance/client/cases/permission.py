"""Permission requests: the form of the answer, and that it is one of those offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Inconclusive, Skip, Warn, case
from dragoman.conformance.client.probe import OPTIONS, PERMISSION

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602


def _first_answer(probe: ClientProbe) -> WireMessage:
    """Ask in a plain turn and return the answer."""
    asked = probe.asked.get(PERMISSION)
    answer = next((message for message in probe.incoming if asked is not None and message.answers(asked)), None)
    if answer is None:
        raise Inconclusive(probe.trouble or "the client did not answer a permission request; a user may have to")
    return answer


async def _prepare(probe: ClientProbe) -> None:
    await probe.prompted()
    if not probe.baseline.answers_permission:
        raise Inconclusive("the client waits for a user before it answers a permission request")


@case("client/permission/implemented", rules=(259,), level="SHOULD", shares="plain")
async def implemented(probe: ClientProbe) -> None:
    """session/request_permission is served by every client.

    Asks for permission in a plain turn; expects a result.
    """
    answer = _first_answer(probe)
    if answer.is_error:
        raise Fail(f"session/request_permission was answered with {answer}")


@case("client/permission/outcome", rules=(255,), shares="plain")
async def outcome(probe: ClientProbe) -> None:
    """The result is an outcome inside an outcome: selected with an optionId, or cancelled.

    Asks for permission in a plain turn; looks at the form of the answer.
    """
    _read(_first_answer(probe))


@case("client/permission/offered-option", rules=(256,), shares="plain")
async def offered_option(probe: ClientProbe) -> None:
    """The selected option is one of those offered.

    Asks for permission in a plain turn; expects the id of an offered option, if one was selected.
    """
    _expect_offered(_read(_first_answer(probe)), OPTIONS)


@case("client/permission/odd-options", rules=(256,), is_watched=False)
async def odd_options(probe: ClientProbe) -> None:
    """Whatever the options are called and of whatever kind they are, only one of them is selected.

    Offers options with odd ids, of unknown kinds, and none at all; expects one of them, cancelled or an error.
    """
    await _prepare(probe)
    odd: list[list[dict[str, Any]]] = [
        [{"optionId": "0", "name": "", "kind": "allow_once"}, {"optionId": "größe 🦜", "name": "B", "kind": "no"}],
        [{"optionId": "maybe", "name": "Maybe", "kind": "_judge.example/maybe"}],
        [{"optionId": "no", "name": "Reject", "kind": "reject_always"}],
        [],
    ]
    for options in odd:
        answer = await probe.call(PERMISSION, probe.permission(options=options))
        if not answer.is_error:
            _expect_offered(_read(answer), options)


@case("client/permission/several", rules=(25, 256))
async def several(probe: ClientProbe) -> None:
    """Several permission requests may be open at once; each answer selects an option of its own request.

    Asks three times at once, with other option ids each time; expects three fitting answers.
    """
    await _prepare(probe)
    offered = [[{**option, "optionId": f"{option['optionId']}-{n}"} for option in OPTIONS] for n in range(3)]
    ids = [
        probe.request(PERMISSION, probe.permission(options=options), id=f"several-{n}")
        for n, options in enumerate(offered)
    ]
    for id, options in zip(ids, offered, strict=True):
        _expect_offered(_read(await probe.answer(id, "answer to one of three permission requests")), options)


@case("client/permission/unannounced", rules=(244,), level="SHOULD")
async def unannounced(probe: ClientProbe) -> None:
    """A permission request may be the first to name its tool call.

    Asks for permission for a tool call that was not announced; expects an outcome.
    """
    await _prepare(probe)
    tool = {"toolCallId": "call-unannounced"}
    _read(await probe.call(PERMISSION, probe.permission(toolCall=tool)))


@case("client/permission/malformed", rules=(337,), is_watched=False)
async def malformed(probe: ClientProbe) -> None:
    """A permission request without options or with malformed ones is never allowed.

    Asks without options and with a text in their place; expects -32602, or the outcome cancelled.
    """
    await _prepare(probe)
    without = {name: value for name, value in probe.permission().items() if name != "options"}
    for params in (without, probe.permission(options="all of them")):
        answer = await probe.call(PERMISSION, params)
        if not answer.is_error:
            chosen = _read(answer)
            if chosen is not None:
                raise Fail(f"a permission request without options was allowed with {chosen!r}")
        elif answer.code != _INVALID_PARAMS:
            raise Warn(f"malformed params were answered with {answer.code}, not with -32602")


@case("client/permission/meta-ignored", rules=(327, 328))
async def meta_ignored(probe: ClientProbe) -> None:
    """_meta of a permission request changes nothing, even if its keys are those of the request.

    Asks with _meta that names other options, another session and `self`; expects an option of the request.
    """
    await _prepare(probe)
    plain = _read(await probe.call(PERMISSION, probe.permission()))
    evil = {"optionId": "evil", "name": "Evil", "kind": "allow_once"}
    meta = {"options": [evil], "session_id": "EVIL", "sessionId": "EVIL", "tool_call": None, "self": 1}
    answer = await probe.call(PERMISSION, probe.permission(_meta=meta))
    if answer.is_error:
        raise Fail(f"_meta made a permission request fail: {answer}")
    if _read(answer) != plain:
        raise Fail(f"_meta changed the selected option from {plain!r} to {_read(answer)!r}")


def _read(answer: WireMessage) -> str | None:
    """Return the selected option, None for cancelled. Raises: Fail when it is neither; Skip when it is not served."""
    if answer.code == _METHOD_NOT_FOUND:
        raise Skip("session/request_permission is not served")
    if answer.is_error:
        raise Inconclusive(f"a permission request was answered with an error: {answer}")
    found = answer.fields.get("outcome")
    kind = found.get("outcome") if isinstance(found, dict) else None
    if kind == "cancelled":
        return None
    option = found.get("optionId") if isinstance(found, dict) else None
    if kind != "selected" or not isinstance(option, str):
        raise Fail(f"the result of a permission request is {answer.result!r}")
    return option


def _expect_offered(chosen: str | None, options: list[dict[str, Any]]) -> None:
    if chosen is not None and chosen not in [option["optionId"] for option in options]:
        raise Fail(f"the option {chosen!r} was selected, which was not offered")
