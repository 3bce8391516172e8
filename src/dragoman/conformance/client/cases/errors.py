"""Errors and extensions: the codes a client answers with, and what it makes of methods it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import Fail, Inconclusive, case
from dragoman.conformance.client.probe import PERMISSION

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_METHOD_NOT_FOUND = -32601
_KNOWN = frozenset({-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002})
_RESERVED = range(-32768, -31999)
_SHORT = 240
_SECRET = "dragoman-check-secret"


@case("client/errors/custom-request", rules=(25, 332), shares="plain")
async def custom_request(probe: ClientProbe) -> None:
    """A custom request is answered, with its id.

    Sends a request whose method begins with an underscore; expects an answer with its id.
    """
    probe.first("session/prompt")
    if not probe.baseline.answers_unknown:
        raise Fail("a custom request was not answered")


@case("client/errors/method-not-found", rules=(28, 333, 341), level="SHOULD", is_watched=False)
async def method_not_found(probe: ClientProbe) -> None:
    """A method the client does not have is answered with -32601.

    Calls an unknown method, an own one, and one that only agents serve; expects -32601 each time.
    """
    await probe.prompted()
    for method in ("session/no_such_method", "_judge.example/no_such_method", "session/prompt"):
        answer = await probe.call(method, {})
        if answer.code != _METHOD_NOT_FOUND:
            raise Fail(f"{method} was answered with {answer}")


@case("client/errors/codes", rules=(337, 338, 340, 344), level="SHOULD", shares="plain")
async def codes(probe: ClientProbe) -> None:
    """Codes of the reserved range are those the protocol names, and -32000 is for logins alone.

    Looks at the errors of a plain turn with an unknown request.
    """
    for message in _errors(probe):
        if message.code == -32000:
            raise Fail(f"-32000 means that the user has to log in: {message}")
        if message.code in _RESERVED and message.code not in _KNOWN:
            raise Fail(f"{message.code} lies in the reserved range and means nothing there: {message}")


@case("client/errors/short-message", rules=(343,), level="SHOULD", shares="plain")
async def short_message(probe: ClientProbe) -> None:
    """The message of an error is one short sentence.

    Looks at the errors of a plain turn with an unknown request.
    """
    for message in _errors(probe):
        text = str(message.error.get("message"))
        if "\n" in text or len(text) > _SHORT:
            raise Fail(f"the message of an error has {len(text)} characters in {text.count(chr(10)) + 1} lines")


@case("client/errors/no-leak", rules=(345,), level="SHOULD", is_watched=False)
async def no_leak(probe: ClientProbe) -> None:
    """An error does not repeat what it was sent: params may hold secrets.

    Sends a malformed permission request that holds a secret; expects the answer not to hold it.
    """
    await probe.prompted()
    tool = {"toolCallId": "call-1", "title": 7, "rawInput": {"token": _SECRET}}
    answer = await probe.call(PERMISSION, probe.permission(toolCall=tool, options=_SECRET))
    if _SECRET.encode() in answer.line:
        raise Fail(f"the answer to malformed params holds what was sent: {answer}")


def _errors(probe: ClientProbe) -> list[WireMessage]:
    found = [message for message in probe.incoming if message.is_response and message.is_error]
    if not found:
        raise Inconclusive(probe.trouble or "the client answered nothing with an error")
    return found
