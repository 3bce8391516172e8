"""Which model a session may use: keys, model names, and the lists of the providers.

Owns the checks that a request to the agent needs before a model is used, and their errors. One object for the agent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.agent import Context
    from dragoman.builtin.environment import UserEnvironment
    from dragoman.builtin.models.refreshed import ModelLists
    from dragoman.builtin.settings import AgentSettings
    from dragoman.schema import v1


class ModelAccess:
    """The models of one agent."""

    def __init__(self, settings: AgentSettings, environment: UserEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._lists: ModelLists | None = None

    async def close(self) -> None:
        """Stop to refresh the lists of the providers."""
        if self._lists is not None:
            await self._lists.close()

    async def require(self) -> str:
        """The model of new sessions. Raises: RequestError, with code -32000 and what to set if a key is missing."""
        from dragoman.builtin.login import usable_model
        from dragoman.builtin.models.choice import check_model

        env = self._environment.models
        await self._environment.reread_keys()
        try:
            name = usable_model(self._settings.model, env)
        except RequestError:
            # A graphical editor may have started the agent without the user's keys.
            await self._environment.ready()
            name = usable_model(self._settings.model, env)
        try:
            check_model(name, env)
        except ConfigError as error:
            raise RequestError.invalid_params(str(error)) from error
        return name

    async def check(self, name: str) -> None:
        """Raises: RequestError -32602 with near names for a model that does not exist, -32000 for a missing key."""
        from dragoman.builtin.login import usable_model
        from dragoman.builtin.models.choice import check_model

        env = self._environment.models
        await self._environment.reread_keys()
        try:
            check_model(name, env, None if self._lists is None else self._lists.listed(name))
        except ConfigError as error:
            raise RequestError.invalid_params(str(error), path="$.value") from error
        usable_model(name, env)

    def lists(self, model: str, show: Callable[[], Awaitable[None]]) -> ModelLists:
        """The lists of the providers, which begin to be refreshed with the first session."""
        from dragoman.builtin.models.refreshed import ModelLists

        if self._lists is None:
            self._lists = ModelLists(self._settings.model_lists, self._environment.models)
        self._lists.begin(model, show)
        return self._lists

    async def authenticate(self, params: v1.AuthenticateRequest, context: Context) -> None:
        """Take the key that the client passes, or look for one: in the environment, and among the stored keys."""
        from dragoman.builtin.login import require_key, take_key

        env = self._environment.models
        await self._environment.ready()
        await self._environment.reread_keys()
        if not await asyncio.to_thread(take_key, params, self._settings.model, env):
            require_key(params.method_id, self._settings.model, env)
