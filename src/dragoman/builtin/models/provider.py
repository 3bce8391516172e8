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
from typing import TYPE_CHECKING, Any

from dragoman.builtin.models.model import Model, ModelAuthError, ModelError
from dragoman.builtin.models.providers import COMPATIBLE, provider_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pydantic_ai.models
    import pydantic_ai.providers

    from dragoman.builtin.models.model import ModelRequest, StepEnd
    from dragoman.uistream.chunks import Chunk

MISSING = "models of providers need the package pydantic-ai-slim: pip install 'dragoman[agent]'"


class ProviderModel(Model):
    """A provider's model. It is loaded by `warm_up`, or by the first call."""

    name = ""
    is_scripted = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._loading: Future[pydantic_ai.models.Model] | None = None
        self._is_entered = False

    @property
    def context_tokens(self) -> int | None:
        """None before the model is loaded, and if its size is not known."""
        if self._loading is None or not self._loading.done() or self._loading.exception() is not None:
            return None
        return self._loading.result().context_window

    def warm_up(self) -> None:
        """Start to load in the background. The first call reports what went wrong."""
        if self._loading is None:
            self._loading = Future()
            # Not a thread of an executor: the end of the program would wait for the import to end.
            threading.Thread(target=_load_into, args=(self._loading, self.name), daemon=True).start()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        model = await self._loaded()
        from dragoman.builtin.models.events import stream_step
        from dragoman.builtin.models.failures import explained

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
        self.warm_up()
        assert self._loading is not None
        try:
            model = await asyncio.wrap_future(self._loading)
        except ModelError:
            # The next call tries again: a key may have been set, a package installed.
            self._loading = None
            raise
        if not self._is_entered:
            self._is_entered = True
            await model.__aenter__()
        return model


def _load_into(loading: Future[Any], name: str) -> None:
    try:
        loading.set_result(_load(name))
    except BaseException as error:
        loading.set_exception(error)


def _load(name: str) -> pydantic_ai.models.Model:
    """Import and build everything that a call needs. Raises: ModelError that states what to do."""
    try:
        from pydantic_ai.exceptions import UserError
    except ImportError as error:
        raise ModelError(MISSING) from error
    try:
        model = _build(name)
        import dragoman.builtin.models.events
        import dragoman.builtin.models.failures  # noqa: F401  # loaded here, so that the first call finds it
    except ImportError as error:
        raise ModelError(f"{name} cannot be used: {error}") from error
    except UserError as error:
        from dragoman.builtin.models.failures import named_variables

        variables = named_variables(str(error), name)
        if variables:
            raise ModelAuthError(f"{name} cannot be used: {error}", variables=variables) from error
        raise ModelError(f"{name} cannot be used: {error}") from error
    return model


def _build(name: str) -> pydantic_ai.models.Model:
    from pydantic_ai.models import infer_model

    provider, _, model = name.partition(":")
    if provider == COMPATIBLE:
        from pydantic_ai.models.openai import OpenAIChatModel

        return OpenAIChatModel(model, provider=_provider(provider))
    return infer_model(name, _provider)


def _provider(id: str) -> pydantic_ai.providers.Provider[Any]:
    from pydantic_ai.providers import infer_provider, infer_provider_class

    if id == COMPATIBLE:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        url = os.environ.get("OPENAI_BASE_URL", "")
        return OpenAICompatibleProvider(COMPATIBLE, base_url=url, api_key=os.environ.get("OPENAI_API_KEY"))
    known = provider_of(f"{id}:any")
    if known is not None and known.local_url and not os.environ.get(f"{id.upper()}_BASE_URL"):
        kind: Any = infer_provider_class(id)
        made: pydantic_ai.providers.Provider[Any] = kind(base_url=known.local_url)
        return made
    return infer_provider(id)
