"""Logging in and out of agents for clients.

Credentials belong to the operating system's user who runs the agent, so one login serves every session of the agent. A
login runs in a process of its own, one at a time per agent. Some agents remember it in their process only, so the
method that worked is used again when a new process asks for a login.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.client import connect
from dragoman.errors import AuthRequired, DragomanError, RequestError
from dragoman.host.agents import start_limit
from dragoman.host.working.prompts import as_request_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from dragoman.client import RemoteAgent
    from dragoman.host.clients.request_scope import RequestScope
    from dragoman.host.host import Host


class AgentLogins:
    """The logins of a host's agents."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._locks: dict[str, asyncio.Lock] = {}
        self._methods: dict[str, tuple[str, str | None]] = {}
        """The method that worked, and the key that the user typed for it, which is in memory only."""

    async def log_in(
        self, name: str, method: str, scope: RequestScope, *, is_local: bool, key: str | None = None
    ) -> None:
        """Forward `authenticate`, with the key that the user typed for it. Raises: RequestError."""
        async with self._locks.setdefault(name, asyncio.Lock()), self.short_agent(name, scope, scope.env) as agent:
            try:
                await agent.authenticate(method, key=key)
            except DragomanError as found:
                error = as_request_error(found)
                if is_local:
                    raise error from None
                raise RequestError(
                    error.code,
                    f"{error.message} (a login in a browser that returns to localhost can only be finished on the "
                    "machine of the host)",
                    error.data,
                ) from None
        self._methods[name] = (method, key)

    async def log_out(self, name: str, scope: RequestScope) -> None:
        """Forward `logout`. Raises: RequestError."""
        async with self._locks.setdefault(name, asyncio.Lock()), self.short_agent(name, scope, scope.env) as agent:
            try:
                await agent.logout()
            except DragomanError as error:
                raise as_request_error(error) from None
        self._methods.pop(name, None)

    async def with_login(self, agent: RemoteAgent, name: str, work: Callable[[], Awaitable[bool]]) -> bool:
        """Open a session; if the process wants a login and one worked before, that one is used."""
        try:
            return await work()
        except AuthRequired:
            if name not in self._methods:
                raise
            method, key = self._methods[name]
            await agent.authenticate(method, key=key)
            return await work()

    async def describe(self, name: str, env: Mapping[str, str] | None) -> None:
        """Start an agent that was never seen, to learn what it can do: once, however many connect at the same time."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            if self._host.description_of(name) is None:
                with suppress(RequestError):
                    async with self.short_agent(name, None, env):
                        pass

    @asynccontextmanager
    async def short_agent(
        self, name: str, scope: RequestScope | None, env: Mapping[str, str] | None, user: str = ""
    ) -> AsyncIterator[RemoteAgent]:
        """Start an agent without a session, for a client with this environment, and end it.

        Args:
            name: Of the agent.
            scope: The request that it is for, whose client is asked what the agent asks.
            env: Of the client.
            user: Among whose agents it counts; by default that of the request, or none.

        Raises:
            RequestError: it cannot be started.
        """
        host = self._host
        async with AsyncExitStack() as stack:
            if host.quotas is not None:
                user = scope.principal if scope is not None else user
                await stack.enter_async_context(host.quotas.places.short(user))
            try:
                source = host.source(name)
                options: Any = host.services.options_without_session(scope)
                async with start_limit(name):
                    transport = await source.start(str(Path.home()), env)
                    agent = await stack.enter_async_context(connect(transport, **options))
            except DragomanError as error:
                raise RequestError(-32603, f"{name} could not be started: {error}", {"reason": "agent_start"}) from None
            host.descriptions.learn(source, agent)
            yield agent
