"""A provider's model, through `pydantic-ai`: any `provider:model` that the package accepts.

Owns loading the package, in a thread because it takes seconds, and one streamed call. `convert.py` converts messages,
`events.py` converts events to chunks, `failures.py` explains errors; these three import the package at the top, this
module does not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.models.catalogue import facts_of
from dragoman.builtin.models.model import Model, ModelAuthError, ModelError
from dragoman.builtin.models.providers import COMPATIBLE, provider_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    import pydantic_ai.models
    import pydantic_ai.providers

    from dragoman.builtin.models.model import ModelRequest, StepEnd
    from dragoman.uistream.chunks import Chunk

# The package does not know where these listen.
_LOCAL: Final = frozenset({"ollama", "vllm"})


def no_package() -> str:
    """Return why models of this kind cannot be called without their package, and how to get it."""
    from dragoman.extras import install_command

    return f"models of this provider need the package pydantic-ai-slim: {install_command('providers')}"


class ProviderModel(Model):
    """A provider's model. It is loaded by `warm_up`, or by the first call."""

    name = ""
    is_scripted = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._loading: Future[pydantic_ai.models.Model] | None = None
        self._is_entered = False
        self._key = ""
        """The stored key that it was loaded with; "" if the package finds its credentials itself."""

    @property
    def context_tokens(self) -> int | None:
        """What the package knows once it is loaded, otherwise what the catalogue knows."""
        if self._loading is not None and self._loading.done() and self._loading.exception() is None:
            known = self._loading.result().context_window
            if known is not None:
                return known
        facts = facts_of(self.name)
        return None if facts is None else facts.window

    @property
    def is_loading(self) -> bool:
        return self._loading is None or not self._loading.done()

    def warm_up(self) -> None:
        """Start to load in the background. The first call reports what went wrong."""
        if self._loading is None:
            self._loading = Future()
            # Not a thread of an executor: the end of the program would wait for the import to end.
            self._key = _stored_key(self.name.partition(":")[0], self.environment)
            arguments = (self._loading, self.name, self.environment)
            threading.Thread(target=_load_into, args=arguments, daemon=True).start()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        model = await self._loaded()
        from dragoman.builtin.models.package.events import stream_step
        from dragoman.builtin.models.package.failures import explained

        try:
            async with aclosing(stream_step(model, self.name, request)) as items:
                async for item in items:
                    yield item
        except ModelError:
            raise
        except Exception as error:
            raise explained(error, self.name) from error

    async def close(self) -> None:
        if self._is_entered and self._loading is not None:
            self._is_entered = False
            await self._loading.result().__aexit__(None, None, None)

    async def _loaded(self) -> pydantic_ai.models.Model:
        if self._loading is not None and self._key != _stored_key(self.name.partition(":")[0], self.environment):
            await self.close()
            self._loading = None  # the user has logged in again
        self.warm_up()
        assert self._loading is not None
        try:
            # Shielded: other calls wait for the same load, and the thread will set its result.
            model = await asyncio.shield(asyncio.wrap_future(self._loading))
        except ModelError:
            # The next call tries again: a key may have been set, a package installed.
            self._loading = None
            raise
        if not self._is_entered:
            self._is_entered = True
            await model.__aenter__()
        return model


def _load_into(loading: Future[Any], name: str, env: Mapping[str, str]) -> None:
    try:
        loading.set_result(_load(name, env))
    except BaseException as error:
        loading.set_exception(error)


def _load(name: str, env: Mapping[str, str]) -> pydantic_ai.models.Model:
    """Import and build everything that a call needs. Raises: ModelError that states what to do."""
    try:
        from pydantic_ai.exceptions import UserError
    except ImportError as error:
        raise ModelError(no_package()) from error
    try:
        model = _build(name, env)
        import dragoman.builtin.models.package.events
        import dragoman.builtin.models.package.failures  # noqa: F401  # loaded here, so that the first call finds it
    except ImportError as error:
        raise ModelError(f"{name} cannot be used: {error}") from error
    except UserError as error:
        from dragoman.builtin.models.package.failures import named_variables

        variables = named_variables(str(error), name)
        if variables:
            raise ModelAuthError(f"{name} cannot be used: {error}", variables=variables) from error
        raise ModelError(f"{name} cannot be used: {error}") from error
    return model


def _build(name: str, env: Mapping[str, str]) -> pydantic_ai.models.Model:
    from pydantic_ai.models import infer_model

    provider, _, model = name.partition(":")
    if provider == COMPATIBLE:
        from pydantic_ai.models.openai import OpenAIChatModel

        return OpenAIChatModel(model, provider=_provider(provider, env))
    return infer_model(name, partial(_provider, env=env))


def _provider(id: str, env: Mapping[str, str]) -> pydantic_ai.providers.Provider[Any]:
    """Make the package's provider. It reads `os.environ`; a key that is not there is passed to it."""
    from pydantic_ai.providers import infer_provider, infer_provider_class

    if id == COMPATIBLE:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        url = env.get("OPENAI_BASE_URL", "")
        return OpenAICompatibleProvider(COMPATIBLE, base_url=url, api_key=env.get("OPENAI_API_KEY"))
    known = provider_of(f"{id}:any")
    if known is not None and id in _LOCAL and not env.get(f"{id.upper()}_BASE_URL"):
        kind: Any = infer_provider_class(id)
        made: pydantic_ai.providers.Provider[Any] = kind(base_url=known.url)
        return made
    if key := _stored_key(id, env):
        with_key: Any = infer_provider_class(id)
        given: pydantic_ai.providers.Provider[Any] = with_key(api_key=key)
        return given
    return infer_provider(id)


def _stored_key(id: str, env: Mapping[str, str]) -> str:
    """Return the key of a provider that the package cannot find itself, "" if there is none."""
    known = provider_of(f"{id}:any")
    variable = "" if known is None else known.key_variable
    key = env.get(variable, "") if variable else ""
    return "" if key == os.environ.get(variable) else key
