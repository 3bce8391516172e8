"""What a handler without a session works with.

Owns the tie between a handler and the request it answers. What can be asked of the client is in `client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.agent.elicitation import Scope, elicit
from dragoman.errors import LocalProtocolError

if TYPE_CHECKING:
    from dragoman.agent.client import RemoteClient
    from dragoman.agent.elicitation import Answer
    from dragoman.rpc import Call
    from dragoman.schema import v1


class Context:
    """Whom a handler talks to, and about which request."""

    __slots__ = ("_call", "client")

    def __init__(self, client: RemoteClient, call: Call | None) -> None:
        self.client = client
        self._call = call

    async def elicit(
        self,
        message: str,
        schema: v1.ElicitationSchema | None = None,
        *,
        url: str | None = None,
        elicitation_id: str | None = None,
    ) -> Answer:
        """The user's input for the request that is being answered, by a form (`schema`) or on a page (`url`).

        Raises: CapabilityError when the client did not advertise that mode, LocalProtocolError in the handler of a
        notification, ClientError.
        """
        if self._call is None:
            raise LocalProtocolError("a notification is no request the user could be asked about")
        scope = Scope(request_id=self._call.id)
        return await elicit(self.client, scope, message, schema, url, elicitation_id)
