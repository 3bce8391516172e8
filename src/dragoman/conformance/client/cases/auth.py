"""Logins: when the client logs in, and by which of the methods it was offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Skip, add_cases, case
from dragoman.conformance.client.probe import FULL, OPENING
from dragoman.conformance.client.rows import HandshakeCase
from dragoman.conformance.conversation import Gone, Silence

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_LOGIN = {"id": "judge-login", "name": "Log in with the judge"}
_TERMINAL = {"id": "judge-terminal", "name": "Log in in a terminal", "type": "terminal", "args": ["--login"]}
_AUTH_REQUIRED = -32000


async def _login(probe: ClientProbe, methods: list[Any]) -> WireMessage:
    """Wait for the client's authenticate after a session was refused.

    Raises: Skip when it does not log in by itself.
    """
    probe.hold.add("authenticate")
    await probe.initialize(FULL, authMethods=methods)
    opening = await probe.expect(*OPENING)
    probe.reply_error(opening, _AUTH_REQUIRED, "Authentication required")
    try:
        return await probe.next_request("authenticate")
    except (Silence, Gone):
        raise Skip("the client does not log in by itself when a session needs it") from None


@case("client/auth/known-method", rules=(67,))
async def known_method(probe: ClientProbe) -> None:
    """authenticate names one of the methods that initialize offered.

    Refuses a session with -32000; expects that authenticate, if it comes, has the id of an offered method.
    """
    request = await _login(probe, [_LOGIN])
    if request.params.get("methodId") != _LOGIN["id"]:
        raise Fail(f"authenticate has the methodId {request.params.get('methodId')!r}, which was not offered")


@case("client/auth/goes-on", rules=(66,), level="SHOULD")
async def goes_on(probe: ClientProbe) -> None:
    """After a login the session that needed it is asked for again.

    Refuses a session with -32000 and accepts the login; expects the session to be asked for again.
    """
    request = await _login(probe, [_LOGIN])
    probe.reply(request, {})
    await probe.require_prompt("a login")


@case("client/auth/no-terminal-method", rules=(68,))
async def no_terminal_method(probe: ClientProbe) -> None:
    """A method of type terminal never goes through authenticate.

    Offers a terminal login first and another second; expects that authenticate, if it comes, has not its id.
    """
    request = await _login(probe, [_TERMINAL, _LOGIN])
    if request.params.get("methodId") == _TERMINAL["id"]:
        raise Fail("authenticate was called with the id of a method of type terminal")


_ODD = [{"name": "no id"}, 7, {"id": "x", "name": "X", "type": "_judge.example/magic", "spell": 1}]
add_cases(
    HandshakeCase(
        "client/auth/untyped-method",
        rules=(65,),
        about="a method without a type is one that the agent handles, and no reason to log in before it is asked for",
        members={"authMethods": [_LOGIN]},
        what="an offer to log in",
    ),
    HandshakeCase(
        "client/auth/odd-methods",
        rules=(226,),
        about="an offered method that is malformed or of an unknown type is skipped, the rest is kept",
        members={"authMethods": [*_ODD, _LOGIN]},
        what="login methods that are malformed or unknown",
    ),
)
