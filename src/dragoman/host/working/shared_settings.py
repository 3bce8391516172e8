"""Mode and options of a session: set at the agent, logged, and sent to the other clients.

Agents send no update after a change that a client asked for (rule 173), so the host does, with the complete list. Mode
and options are kept in step for clients that know only one of the two.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import DragomanError, RequestError
from dragoman.host.history.facts import in_step
from dragoman.host.working.prompts import as_request_error
from dragoman.schema import encode

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession


class SharedSettings:
    """Mode and options, set in the order in which the clients asked."""

    def __init__(self, session: HostedSession) -> None:
        self._session = session
        self._order = asyncio.Lock()

    async def set_mode(self, client: HostConnection, mode: str) -> None:
        """Switch the mode. Raises: RequestError."""
        async with self._order:
            run = await self._session.agent.ensure()
            try:
                await run.session.set_mode(mode)
            except DragomanError as error:
                raise as_request_error(error) from None
            self._changed(client, in_step(self._session.facts, mode=mode))
            await self._session.settle()

    async def set_option(self, client: HostConnection, option: str, value: object) -> list[Any]:
        """Change an option; gives the complete list. Raises: RequestError."""
        if _find(self._session.facts.get("configOptions"), option).get("type") == "boolean":
            value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, str | bool):
            raise RequestError.invalid_params("the value must be text, true or false", path="$.value")
        async with self._order:
            run = await self._session.agent.ensure()
            try:
                await run.session.set_config_option(option, value)
            except DragomanError as error:
                raise as_request_error(error) from None
            options: list[Any] = msgspec.json.decode(encode(list(run.session.state.config_options)))
            self._session.facts["configOptions"] = options
            self._changed(client, in_step(self._session.facts))
            await self._session.settle()
            return options

    def _changed(self, client: HostConnection, updates: list[dict[str, Any]]) -> None:
        self._session.append("setting", {"by": client.key, "who": client.who, "updates": updates})
        self._session.describe()


def _find(options: Any, id: str) -> dict[str, Any]:
    for option in options or ():
        if isinstance(option, dict) and option.get("id") == id:
            return option
    return {}
