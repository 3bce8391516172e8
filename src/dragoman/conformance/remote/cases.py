"""The cases about requests. The statuses are those of the TypeScript SDK 2.4.0, which clients in use rely on.

Who is let in is not part of the protocol, so that a server which lets every client in is warned about, not failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from dragoman.conformance.case import REMOTE_CASES, Case, Fail, FunctionCase, Level, Skip
from dragoman.conformance.remote.probe import INITIALIZE, Answered, RemoteProbe

_LIST: Final = b'{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}'
_UNKNOWN: Final = "11111111-2222-4333-8444-555555555555"

Run = Callable[[RemoteProbe], Awaitable[None]]


def _case(name: str, level: Level = "MUST") -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        first, _, rest = (run.__doc__ or "").partition("\n")
        id = f"agent/remote/{name}"
        REMOTE_CASES[id] = FunctionCase(
            id,
            rules=(),
            level=level,
            about=first[:1].lower() + first[1:].removesuffix("."),
            function=run,
            explanation=" ".join(rest.split()) or "Sends such a request and looks at the status.",
        )
        return run

    return register


def _expect(answer: Answered, *statuses: int, to: str) -> None:
    if answer.status not in statuses:
        wanted = " or ".join(map(str, statuses))
        raise Fail(f"{to} was answered with {answer.status}, not {wanted}")


@_case("initialize")
async def initialize(probe: RemoteProbe) -> None:
    """Answers initialize in place, with the id of the connection in a header."""
    answer = await probe.ask("POST", INITIALIZE)
    _expect(answer, 200, to="initialize")
    if "json" not in answer.headers.get("content-type", "") or b'"protocolVersion"' not in answer.body:
        raise Fail("the answer to initialize is not JSON with a protocolVersion")
    if not answer.headers.get("acp-connection-id"):
        raise Fail("the answer to initialize has no header Acp-Connection-Id")
    await probe.end(answer.headers["acp-connection-id"])


@_case("missing-token", "SHOULD")
async def missing_token(probe: RemoteProbe) -> None:
    """Refuses a request without a token, on every way in."""
    _expect(await probe.ask("POST", INITIALIZE, authorization=None), 401, to="a POST without a token")
    answer = await probe.send(probe.upgrade(authorization=None), has_body=False)
    _expect(answer, 401, to="an upgrade without a token")


@_case("wrong-token", "SHOULD")
async def wrong_token(probe: RemoteProbe) -> None:
    """Refuses a request with a wrong token, on every way in."""
    wrong = "Bearer this-is-not-the-token"
    _expect(await probe.ask("POST", INITIALIZE, authorization=wrong), 401, to="a POST with a wrong token")
    answer = await probe.send(probe.upgrade(authorization=wrong), has_body=False)
    _expect(answer, 401, to="an upgrade with a wrong token")


@_case("foreign-host", "SHOULD")
async def foreign_host(probe: RemoteProbe) -> None:
    """Refuses a request for another host, which a web page can send by DNS rebinding."""
    _expect(await probe.ask("POST", INITIALIZE, host="evil.example"), 403, 421, to="a POST for evil.example")
    answer = await probe.send(probe.upgrade(host="evil.example"), has_body=False)
    _expect(answer, 403, 421, to="an upgrade for evil.example")


@_case("foreign-origin", "SHOULD")
async def foreign_origin(probe: RemoteProbe) -> None:
    """Refuses a request of a web page that it does not know."""
    origin = "https://evil.example"
    _expect(await probe.ask("POST", INITIALIZE, origin=origin), 403, to="a POST of a foreign page")
    answer = await probe.send(probe.upgrade(origin=origin), has_body=False)
    _expect(answer, 403, to="an upgrade of a foreign page")


@_case("content-type")
async def content_type(probe: RemoteProbe) -> None:
    """Reads only bodies of the type application/json, which a web page cannot send unasked."""
    for type in ("text/plain", "application/jsonx", None):
        answer = await probe.ask("POST", INITIALIZE, content_type=type)
        _expect(answer, 415, to=f"a body of type {type}")


@_case("unknown-connection")
async def unknown_connection(probe: RemoteProbe) -> None:
    """Does not know a connection that it did not make."""
    for method, body in (("POST", _LIST), ("GET", b""), ("DELETE", b"")):
        answer = await probe.ask(method, body, acp_connection_id=_UNKNOWN)
        _expect(answer, 404, to=f"{method} with an unknown Acp-Connection-Id")


@_case("missing-connection")
async def missing_connection(probe: RemoteProbe) -> None:
    """Refuses a message without a connection."""
    _expect(await probe.ask("POST", _LIST), 400, to="a POST without Acp-Connection-Id")
    _expect(await probe.ask("GET"), 400, to="a GET without Acp-Connection-Id")


@_case("batch")
async def batch(probe: RemoteProbe) -> None:
    """Refuses a batch of messages."""
    id = await probe.initialize()
    answer = await probe.ask("POST", b"[%b]" % _LIST, acp_connection_id=id)
    await probe.end(id)
    _expect(answer, 400, 501, to="a batch")


@_case("invalid-json")
async def invalid_json(probe: RemoteProbe) -> None:
    """Refuses a body that is not JSON."""
    id = await probe.initialize()
    answer = await probe.ask("POST", b"{broken", acp_connection_id=id)
    await probe.end(id)
    _expect(answer, 400, to="a body that is not JSON")


@_case("second-initialize")
async def second_initialize(probe: RemoteProbe) -> None:
    """Refuses a second initialize on one connection."""
    id = await probe.initialize()
    answer = await probe.ask("POST", INITIALIZE, acp_connection_id=id)
    await probe.end(id)
    _expect(answer, 400, to="a second initialize")


@_case("accept")
async def accept(probe: RemoteProbe) -> None:
    """Opens a stream only for a client that accepts events."""
    id = await probe.initialize()
    answer = await probe.ask("GET", accept="application/json", acp_connection_id=id)
    await probe.end(id)
    _expect(answer, 406, to="a GET that does not accept text/event-stream")


@_case("accepted")
async def accepted(probe: RemoteProbe) -> None:
    """Answers a message with 202, and its result comes as an event."""
    id = await probe.initialize()
    answer = await probe.ask("POST", _LIST, acp_connection_id=id)
    await probe.end(id)
    _expect(answer, 202, to="a message")


@_case("delete")
async def delete(probe: RemoteProbe) -> None:
    """Ends a connection by DELETE, after which it is unknown."""
    id = await probe.initialize()
    _expect(await probe.ask("DELETE", acp_connection_id=id), 202, to="DELETE")
    _expect(await probe.ask("DELETE", acp_connection_id=id), 404, to="a second DELETE")
    _expect(await probe.ask("POST", _LIST, acp_connection_id=id), 404, to="a POST after DELETE")
    _expect(await probe.ask("DELETE"), 400, to="DELETE without Acp-Connection-Id")


@_case("method")
async def method(probe: RemoteProbe) -> None:
    """Refuses methods that it has no meaning for."""
    for method in ("PUT", "PATCH"):
        _expect(await probe.ask(method), 405, to=method)


@_case("smuggling", "SHOULD")
async def smuggling(probe: RemoteProbe) -> None:
    """Refuses a request whose length is given twice, which two servers in a row would read differently."""
    body = b"5c\r\n%b\r\n0\r\n\r\n" % INITIALIZE
    answer = await probe.ask("POST", body, transfer_encoding="chunked")
    _expect(answer, 400, to="Content-Length together with Transfer-Encoding")


@_case("websocket")
async def websocket(probe: RemoteProbe) -> None:
    """Accepts an upgrade to WebSocket, and names the connection."""
    answer = await probe.send(probe.upgrade(), has_body=False)
    _expect(answer, 101, to="an upgrade")
    if not answer.headers.get("acp-connection-id"):
        raise Fail("the answer to the upgrade has no header Acp-Connection-Id")


@_case("websocket-first-message")
async def websocket_first_message(probe: RemoteProbe) -> None:
    """Closes a WebSocket whose first message is not initialize, with the code 1002."""
    why = await probe.first_message(_LIST)
    if "1002" not in why:
        raise Fail(f"it was closed otherwise: {why}")


@_case("websocket-no-echo", "SHOULD")
async def websocket_no_echo(probe: RemoteProbe) -> None:
    """Does not choose an unknown subprotocol, which may be a secret of the client."""
    answer = await probe.send(probe.upgrade(sec_websocket_protocol="acp.ticket.secret, acp.v1"), has_body=False)
    if answer.status == 401:
        raise Skip("a wrong ticket is refused")
    if "secret" in answer.headers.get("sec-websocket-protocol", ""):
        raise Fail("the first offered subprotocol was repeated in the answer")


def remote_cases() -> dict[str, Case]:
    """Return every case, by its id."""
    return dict(REMOTE_CASES)
