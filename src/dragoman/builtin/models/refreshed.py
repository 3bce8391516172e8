"""The lists of models that providers themselves give, refreshed in the background and kept between runs.

Owns when a provider is asked, for how long, and the file with its last list. Theory of operation: a list is asked for
some time after the first session was opened, so that it does not compete with the first prompt, and only if the kept
one is old. What is offered uses a kept list too; a name is refused only by a list that this process received, because a
kept one may be of another key. Whatever fails is logged, and the catalogue is used.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.models.catalogue import ModelFacts, facts_of
from dragoman.builtin.models.model import ModelError
from dragoman.builtin.models.providers import PROVIDERS, provider_of
from dragoman.workspace.atomic import replace_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from dragoman.builtin.models.providers import Provider

_log = logging.getLogger("dragoman.builtin")

OFF: Final = "DRAGOMAN_MODEL_LISTS"
"""Set to `off`, no provider is asked for its list."""
KEPT_SECONDS: Final = 24 * 3600.0
# A first prompt has mostly left by then; `exec` with a quick model has ended.
GRACE_SECONDS: Final = 2.0
ASKING_SECONDS: Final = 10.0
# A provider without main models in the catalogue offers this many of its list.
_MOST_OFFERED: Final = 20


class _KeptList(Struct):
    """The file of one provider."""

    url: str
    received_at: float
    models: list[ModelFacts]


class ModelLists:
    """The lists of one agent process. Without a folder nothing is asked and nothing is kept."""

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._env = env
        self._lists: dict[str, _KeptList | None] = {}
        self._received: set[str] = set()
        self._refreshing: asyncio.Future[None] | None = None

    def begin(self, model: str, changed: Callable[[], Awaitable[None]]) -> None:
        """Begin to refresh the lists of the providers that can be used, once per process.

        Args:
            model: a model in use; its provider is asked even if it needs no key.
            changed: called when there is something new to offer.
        """
        if self._folder is None or self._refreshing is not None or os.environ.get(OFF) == "off":
            return
        self._refreshing = asyncio.ensure_future(self._refresh(model, changed))

    async def close(self) -> None:
        """End a refresh that is running."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    def listed(self, name: str) -> list[str] | None:
        """Return the ids that the provider of a model listed in this run; None without an answer."""
        provider = name.partition(":")[0]
        kept = self._lists.get(provider) if provider in self._received else None
        return None if kept is None else [facts.id for facts in kept.models]

    def offered(self, env: Mapping[str, str]) -> list[str]:
        """Return the models to offer: of each provider with a key its main ones, as far as it lists them."""
        names: list[str] = []
        for provider in PROVIDERS.values():
            if _has_own_key(provider, env):
                ids = _main_models(provider, self._list_of(provider, env))
            else:
                ids = self.listed(provider.id) or []
            names += [f"{provider.id}:{id}" for id in ids[:_MOST_OFFERED]]
        return names

    # The lists

    async def _refresh(self, model: str, changed: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(GRACE_SECONDS)
        used = provider_of(model)
        wanted = [
            provider
            for provider in PROVIDERS.values()
            if provider.form != "package" and _has_own_key(provider, self._env)
        ]
        if used is not None and used.id in PROVIDERS and used.form != "package" and used not in wanted:
            wanted.append(used)
        before = self.offered(self._env)
        await asyncio.gather(*(self._ask(provider) for provider in wanted if self._is_old(provider)))
        if self.offered(self._env) != before:
            try:
                await changed()
            except Exception:  # the clients are gone
                _log.debug("no client was shown the new list of models", exc_info=True)

    def _is_old(self, provider: Provider) -> bool:
        kept = self._list_of(provider, self._env)
        # A server on the user's machine may have other models than a minute ago.
        return kept is None or not provider.variables or not 0 <= time.time() - kept.received_at < KEPT_SECONDS

    async def _ask(self, provider: Provider) -> None:
        from dragoman.builtin.models.model_lists import list_models

        try:
            models = await list_models(provider, self._env, seconds=ASKING_SECONDS)
        except ModelError as error:
            _log.info("the catalogue is used for the models of %s: %s", provider.id, error)
            return
        if not models:
            return
        kept = self._lists[provider.id] = _KeptList(provider.base_url(self._env), time.time(), models)
        self._received.add(provider.id)
        await asyncio.to_thread(self._keep, provider, kept)

    def _list_of(self, provider: Provider, env: Mapping[str, str]) -> _KeptList | None:
        if provider.id not in self._lists:
            self._lists[provider.id] = self._read(provider, env)
        return self._lists[provider.id]

    def _read(self, provider: Provider, env: Mapping[str, str]) -> _KeptList | None:
        if self._folder is None:
            return None
        try:
            kept = msgspec.json.decode((self._folder / f"{provider.id}.json").read_bytes(), type=_KeptList)
        except (OSError, msgspec.DecodeError):  # there is none, or it is of another version
            return None
        return kept if kept.url == provider.base_url(env) else None

    def _keep(self, provider: Provider, kept: _KeptList) -> None:
        assert self._folder is not None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._folder / f"{provider.id}.json", msgspec.json.encode(kept))
        except OSError as error:
            _log.info("the list of models of %s cannot be kept: %s", provider.id, error)


def _has_own_key(provider: Provider, env: Mapping[str, str]) -> bool:
    return any(env.get(name) for name in provider.variables if name.endswith("_KEY"))


def _main_models(provider: Provider, kept: _KeptList | None) -> list[str]:
    """Return the main models of the catalogue that the provider lists, under the catalogue's names."""
    if kept is None:
        return list(provider.models)
    there = {facts.id for facts in kept.models}
    for model in kept.models:
        found = facts_of(f"{provider.id}:{model.id}")
        if found is not None:
            there.add(found.id)
    # None of them: an account or a server with models of its own.
    return [id for id in provider.models if id in there] or [facts.id for facts in kept.models]
