"""Forms that belong to a request of one client, such as `session/new` or `authenticate`: only that client is asked.

The scope names the request by its id, which is another one on each connection; the client gets the one that it used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import DragomanError
from dragoman.host.services import read_elicited
from dragoman.host.working.questions import cancelled_answer, read_choice
from dragoman.schema import encode, v1
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.client import Session
    from dragoman.host.connection import HostConnection
    from dragoman.host.services import Elicited


class RequestScope:
    """The questions to the client whose request is being answered."""

    def __init__(self, client: HostConnection, request_id: int | str | None) -> None:
        self._client = client
        self._request_id = request_id
        self._urls: set[str] = set()
        self.is_over = False
        """The request was answered: nothing is asked for it any more."""

    @property
    def principal(self) -> str:
        """The user of the client."""
        return self._client.visitor.principal

    @property
    def env(self) -> Mapping[str, str] | None:
        """The environment of the client, for an agent that is started for the request."""
        return self._client.env

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Elicited:
        return await self.ask(request)

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> Elicited:
        return await self.ask(request)

    async def complete(self, elicitation_id: str) -> None:
        """Report to the client that what a URL was opened for is done."""
        id = self._elicitation(elicitation_id)
        if id in self._urls:
            self._urls.discard(id)
            body = msgspec.json.encode({"elicitationId": id})
            self._client.peer.post(write_notification("elicitation/complete", body))

    async def ask(self, request: v1.ElicitationFormMode | v1.ElicitationUrlMode) -> Elicited:
        """Return the client's answer; `cancel` if it is gone or cannot show it."""
        params: dict[str, Any] = {**msgspec.json.decode(encode(request)), "requestId": self._request_id}
        client = self._client
        if self.is_over or not client.can_answer("", "elicitation/create", params):
            return v1.CancelElicitation()
        if isinstance(params.get("elicitationId"), str):
            params["elicitationId"] = self._elicitation(params["elicitationId"])
            self._urls.add(params["elicitationId"])
        try:
            answer = await client.peer.request("elicitation/create", params, Any)
        except DragomanError:  # the client refuses, or is gone
            answer = None
        choice = read_choice("elicitation/create", params, answer)
        return read_elicited(choice or cancelled_answer("elicitation/create"))

    def _elicitation(self, id: str) -> str:
        return f"{self._client.key}.{id}"
