"""What a handler of a request without a session gets.

Owns the connection between a handler and the request it answers. `client.py` holds what can be asked of the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import LocalProtocolError

if TYPE_CHECKING:
    from dragoman.agent.client import RemoteClient
    from dragoman.agent.elicitation import Answer
    from dragoman.rpc import Call
    from dragoman.schema import v1


class Context:
    """The client that a handler serves, and the request that it answers."""

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
        """Ask the user for input that the request needs, in a form or on a web page.

        Args:
            message: What the user is asked.
            schema: The fields of a form. Give this or `url`.
            url: A page that the user is asked to visit.
            elicitation_id: The id of the page, for `RemoteClient.complete_elicitation`; made if not given.

        Raises:
            CapabilityError: The client did not advertise this mode. LocalProtocolError: This is the handler of a
            notification, or both or neither of `schema` and `url` are given. ClientError: The client answered with an
            error.
        """
        if self._call is None:
            raise LocalProtocolError("the handler of a notification cannot ask the user; the handler of a request can")
        from dragoman.agent.elicitation import ElicitationScope, elicit

        scope = ElicitationScope(request_id=self._call.id)
        return await elicit(self.client, scope, message, schema, url, elicitation_id)
