"""Where each message of a proxy chain goes. Without input and output.

Theory of operation
-------------------
The client is number 0, the links are 1 to n, the agent is n + 1. Each of them has one connection, to the conductor. A
message of a link is for its predecessor if it is plain, and for its successor if it is wrapped in `proxy/successor`; a
message of the client is for its successor, one of the agent for its predecessor. There is no other way: a message goes
to a neighbour of its sender, so no link can make one go around another.

*Names.* Methods of the chain itself are not passed on, wrapped or not. Otherwise a link could have its successor
believe that a message came from behind it.

*Ids.* A request gets an id of ours on the next connection. A response counts only on the connection that the request
went to, and once. `$/cancel_request` is never passed on as it is: it names a request of its own connection, and is sent
with the id that this request has on the next one.

*The start.* `initialize` becomes `proxy/initialize` for a link, which has to send `initialize` to its successor before
it answers with success. It passes the version of the protocol on as it is, in both directions. A link that does not is
an error of the whole chain, because the programs behind it would be left out, or would be of different versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from dragoman.proxy.chain_frames import (
    CANCEL_REQUEST,
    PLAIN,
    SUCCESSORS,
    UNDERSCORED,
    cancelled_id,
    is_reserved,
    spelling_of,
    unwrap,
    version_in,
    wrap,
    write_response,
)
from dragoman.wire import (
    Malformed,
    Notification,
    Request,
    Response,
    read_message,
    refuse,
    write_error,
    write_notification,
    write_request,
)
from dragoman.wire.open_requests import OpenRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msgspec import Raw

    from dragoman.wire import Frame, Id

_CLIENT: Final = 0
_OPEN_REQUESTS: Final = 10_000
"""So many requests of one program may wait for their answers; what they take is memory of the conductor."""
_UNKNOWN_METHOD: Final = (METHOD_NOT_FOUND, INVALID_REQUEST)
"""How a program answers that does not know a method, or wants to see `initialize` first."""


class _Passed:
    """A request on its way: who asked, under which id, and what."""

    __slots__ = ("asker", "id", "is_initialize", "params", "target")

    def __init__(self, asker: int, request_id: Id, target: int, *, is_initialize: bool, params: bytes | None) -> None:
        self.asker = asker
        self.id = request_id
        self.target = target
        self.is_initialize = is_initialize
        self.params = params


class _Party:
    """One program of the chain."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: OpenRequests[_Passed] = OpenRequests(_OPEN_REQUESTS)
        """Requests that it was sent, by our ids."""
        self.asks: OpenRequests[tuple[int, Id]] = OpenRequests(_OPEN_REQUESTS)
        """Requests that it sent, by its own ids: the number of the program that answers, and our id there."""
        self.spelling: str | None = None
        """How it writes the names of the chain; None as long as that is not known."""
        self.is_link_for_sure = False
        self.is_greeted = False
        self.asked_version: int | None = None
        self.version: int | None = None
        """What it answered to the `initialize` that is under way, or the last one."""


class ChainRouter:
    """Routes the messages of one chain.

    Args:
        links: The names of the links, from the client to the agent.
        agent: The name of the agent.
        send: Called with the number of a program and a line for it.
        on_broken: Called once, with a sentence, when a link has broken the rules; the chain has to be ended.
        on_noise: Called with a sentence about a message that was not passed on.
    """

    def __init__(
        self,
        links: Sequence[str],
        agent: str,
        send: Callable[[int, bytes], None],
        on_broken: Callable[[str], None],
        on_noise: Callable[[str], None],
    ) -> None:
        self._parties = [_Party("the client"), *map(_Party, links), _Party(agent)]
        self._agent = len(links) + 1
        self._send = send
        self._on_broken = on_broken
        self._on_noise = on_noise
        self._is_broken = False

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return len(self._parties[_CLIENT].asks) > 0

    @property
    def greeting(self) -> tuple[str, Id] | None:
        """The link that has not passed `initialize` on, with a number for this attempt; None if none is at it."""
        for number in range(self._agent - 1, _CLIENT, -1):
            under_way = [own_id for own_id, passed in self._parties[number].asked if passed.is_initialize]
            if under_way:
                is_behind = any(passed.is_initialize for _, passed in self._parties[number + 1].asked)
                return None if is_behind else (self._parties[number].name, under_way[-1])
        return None

    def feed(self, sender: int, line: Frame) -> None:
        """Take a line of one of the programs."""
        if self._is_broken:
            return
        message = read_message(line) if isinstance(line, bytes) else refuse(line)
        if isinstance(message, Request):
            self._on_request(sender, message)
        elif isinstance(message, Notification):
            self._on_notification(sender, message)
        elif isinstance(message, Response):
            self._on_response(sender, message)
        else:
            self._on_malformed(sender, message)

    def end(self, why: str) -> None:
        """End the chain: what the client waits for is answered with an error."""
        self._is_broken = True
        for request_id, _ in self._parties[_CLIENT].asks.close_all():
            self._send(_CLIENT, write_error(request_id, INTERNAL_ERROR, why, {"reason": "chain_ended"}))

    # Requests and notifications

    def _on_request(self, sender: int, request: Request) -> None:
        refusal = self._parties[sender].asks.refusal(request.id)
        if refusal is not None:
            self._refuse(sender, request.id, *refusal)
        elif request.method in SUCCESSORS and self._is_link(sender):
            self._parties[sender].spelling, self._parties[sender].is_link_for_sure = spelling_of(request.method), True
            inner = unwrap(request.params)
            if inner is None:
                self._refuse(sender, request.id, INVALID_PARAMS, f"{request.method} needs a method and its params")
            elif is_reserved(inner.method) or inner.method == CANCEL_REQUEST:
                self._refuse(sender, request.id, METHOD_NOT_FOUND, f"{inner.method} is not passed on")
            else:
                self._pass_down(sender, request.id, inner.method, inner.params)
        elif is_reserved(request.method):
            self._refuse(sender, request.id, METHOD_NOT_FOUND, f"{request.method} is not passed on")
        elif sender == _CLIENT:
            self._pass_down(sender, request.id, request.method, _bytes(request.params))
        else:
            self._pass_up(sender, request.id, request.method, _bytes(request.params))

    def _pass_down(self, sender: int, request_id: Id, method: str, params: bytes | None) -> None:
        """Pass a request to the successor of its sender."""
        party, successor = self._parties[sender], self._parties[sender + 1]
        is_initialize = method == "initialize"
        if not (sender == _CLIENT or party.is_greeted) or not (is_initialize or successor.is_greeted):
            self._refuse(sender, request_id, INVALID_REQUEST, "initialize must come first")
            return
        if is_initialize and any(passed.is_initialize for _, passed in successor.asked):
            self._refuse(sender, request_id, INVALID_REQUEST, "initialize is being answered")
            return
        if is_initialize:
            version = version_in(params)
            if sender != _CLIENT and version != party.asked_version:
                self._break(f"{party.name} changed the version of the protocol in initialize")
                return
            successor.is_greeted = True
            successor.asked_version = version
            for behind in self._parties[sender + 1 :]:  # an answer to an earlier one does not count
                behind.version = None
        passed = _Passed(sender, request_id, sender + 1, is_initialize=is_initialize, params=params)
        name = method
        if is_initialize and self._is_link(sender + 1):
            name = f"{successor.spelling or PLAIN}initialize"
        self._ask(passed, name, params)

    def _pass_up(self, sender: int, request_id: Id, method: str, params: bytes | None) -> None:
        """Pass a request to the predecessor of its sender."""
        if not self._parties[sender].is_greeted:
            self._refuse(sender, request_id, INVALID_REQUEST, "nothing can be asked before initialize")
            return
        passed = _Passed(sender, request_id, sender - 1, is_initialize=False, params=None)
        if sender - 1 == _CLIENT:
            self._ask(passed, method, params)
        else:
            spelling = self._parties[sender - 1].spelling or PLAIN
            self._ask(passed, f"{spelling}successor", wrap(method, params))

    def _ask(self, passed: _Passed, method: str, params: bytes | None) -> None:
        own_id = self._parties[passed.target].asked.open_own(passed)
        self._parties[passed.asker].asks.open(passed.id, (passed.target, own_id))
        self._send(passed.target, write_request(own_id, method, params))

    def _on_notification(self, sender: int, notification: Notification) -> None:
        method, params = notification.method, notification.params
        if method == CANCEL_REQUEST:
            self._cancel(sender, params)
            return
        if method in SUCCESSORS and self._is_link(sender):
            inner = unwrap(params)
            if inner is None or is_reserved(inner.method) or inner.method == CANCEL_REQUEST:
                self._drop(sender, method if inner is None else inner.method)
            elif not self._parties[sender + 1].is_greeted:
                self._drop(sender, inner.method)
            else:
                self._send(sender + 1, write_notification(inner.method, inner.params))
        elif is_reserved(method) or not (sender == _CLIENT or self._parties[sender].is_greeted):
            self._drop(sender, method)
        elif sender == _CLIENT:
            if self._parties[1].is_greeted:
                self._send(1, write_notification(method, _bytes(params)))
        elif sender - 1 == _CLIENT:
            self._send(_CLIENT, write_notification(method, _bytes(params)))
        else:
            spelling = self._parties[sender - 1].spelling or PLAIN
            self._send(sender - 1, write_notification(f"{spelling}successor", wrap(method, _bytes(params))))

    def _cancel(self, sender: int, params: Raw | None) -> None:
        """Give up the request that we made of one which its sender gives up."""
        request_id = cancelled_id(params)
        asked = None if request_id is UNSET else self._parties[sender].asks.get(request_id)
        if asked is not None:  # else it was answered meanwhile, or never asked
            target, own_id = asked
            self._send(target, write_notification(CANCEL_REQUEST, msgspec.json.encode({"requestId": own_id})))

    # Responses

    def _on_response(self, sender: int, response: Response) -> None:
        passed = self._parties[sender].asked.close(response.id)
        if passed is None:
            self._on_noise(f"{self._parties[sender].name} answered a request that it was not sent")
            return
        if passed.is_initialize and not self._check_initialize(sender, passed, response):
            return
        self._parties[passed.asker].asks.close(passed.id)
        self._send(passed.asker, write_response(response, passed.id))

    def _check_initialize(self, sender: int, passed: _Passed, response: Response) -> bool:
        """Whether the answer to `initialize` can be passed on."""
        party = self._parties[sender]
        if response.error is not None:
            is_unknown = response.error.code in _UNKNOWN_METHOD and not party.is_link_for_sure
            if not self._is_link(sender) or not is_unknown:
                party.is_greeted = False
                return True
            if party.spelling is None:  # it may be one that was written before the draft
                party.spelling = UNDERSCORED
                self._ask(passed, f"{UNDERSCORED}initialize", passed.params)
            else:
                self._break(
                    f"{party.name} is not a link of a chain: it knows neither proxy/initialize nor _proxy/initialize"
                )
            return False
        party.version = version_in(response.result)
        if not self._is_link(sender):
            return True
        party.spelling, party.is_link_for_sure = party.spelling or PLAIN, True
        behind = self._parties[sender + 1]
        if behind.version is None:
            self._break(f"{party.name} answered initialize before {behind.name} did: it would leave it out")
            return False
        if party.version != behind.version:
            self._break(f"{party.name} changed the version of the protocol in the answer to initialize")
            return False
        return True

    # What is wrong

    def _is_link(self, number: int) -> bool:
        return _CLIENT < number < self._agent

    def _refuse(self, sender: int, request_id: Id, code: int, why: str) -> None:
        self._send(sender, write_error(request_id, code, why))

    def _drop(self, sender: int, method: str) -> None:
        self._on_noise(f"{self._parties[sender].name} sent {method}, which is not passed on")

    def _on_malformed(self, sender: int, bad: Malformed) -> None:
        self._on_noise(f"{self._parties[sender].name} sent a line that is not a message: {bad.why}")
        if bad.kind == "response":
            passed = None if bad.id is UNSET else self._parties[sender].asked.close(bad.id)
            if passed is not None:
                self._parties[passed.asker].asks.close(passed.id)
                why = f"the response could not be read: {bad.why}"
                self._refuse(passed.asker, passed.id, INTERNAL_ERROR, why)
        elif sender == _CLIENT or bad.kind == "request":  # what a program prints by mistake is not answered
            self._refuse(sender, None if bad.id is UNSET else bad.id, bad.code, bad.why)

    def _break(self, why: str) -> None:
        self.end(why)
        self._on_broken(why)


def _bytes(params: Raw | None) -> bytes | None:
    return None if params is None else bytes(params)
