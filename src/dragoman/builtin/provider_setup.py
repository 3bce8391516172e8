"""What a client sets for a provider in the running agent, and who is logged in: unstable parts of the protocol.

Owns `providers/list`, `providers/set`, `providers/disable` and `auth/status`. What a client sets counts in this process
only; headers hold keys, so they are neither stored nor shown. Loaded where those are offered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.builtin.models.providers import PROVIDERS, key_owner, missing_key, provider_of
from dragoman.errors import RequestError
from dragoman.schema import v1

if TYPE_CHECKING:
    from dragoman.agent import Agent, Context
    from dragoman.builtin.environment import UserEnvironment
    from dragoman.builtin.models.providers import Provider
    from dragoman.builtin.settings import AgentSettings

# A wire form of ours -> the protocol's word for it, or one of our own.
_PROTOCOLS: Final = {"messages": "anthropic", "responses": "openai", "chat": "openai", "gemini": "_gemini"}
_LONGEST_HEADER: Final = 16 * 1024


class ProviderSetup:
    """The handlers of one agent."""

    def __init__(self, settings: AgentSettings, environment: UserEnvironment) -> None:
        self._settings = settings
        self._environment = environment

    def register(self, agent: Agent) -> None:
        agent.list_providers(self.list_providers)
        agent.set_provider(self.set_provider)
        agent.disable_provider(self.disable_provider)
        agent.auth_status(self.auth_status)

    async def list_providers(self, params: v1.ListProvidersRequest, context: Context) -> v1.ListProvidersResponse:
        await self._read()
        return v1.ListProvidersResponse([self._described(provider) for provider in _offered()])

    async def set_provider(self, params: v1.SetProviderRequest, context: Context) -> None:
        """Use another address, with the key in a header; it replaces what was set before."""
        provider = _named(params.provider_id)
        protocol = _PROTOCOLS[provider.form]
        if params.api_type != protocol:
            raise RequestError.invalid_params(f"{provider.id} is called with {protocol!r}", path="$.apiType")
        if not params.base_url.startswith(("http://", "https://")):
            raise RequestError.invalid_params("baseUrl must begin with http:// or https://", path="$.baseUrl")
        for name, value in params.headers_or_default.items():
            is_name = bool(name) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
            if not is_name or not value.isascii() or not value.isprintable() or len(value) > _LONGEST_HEADER:
                # Without its value, which may be a key.
                raise RequestError.invalid_params("not a header that can be sent", path=f"$.headers[{name!r}]")
        self._environment.models.set_address(provider, params.base_url, params.headers_or_default)

    async def disable_provider(self, params: v1.DisableProviderRequest, context: Context) -> None:
        self._environment.models.disable(_named(params.provider_id))

    async def auth_status(self, params: v1.AuthStatusRequest, context: Context) -> v1.AuthStatusResponse:
        """State whether a session could be opened, and whose keys there are. It never asks a provider."""
        await self._read()
        env, model = self._environment.models, self._settings.model
        named = None if model is None else provider_of(model)
        if model is not None and (named is None or not named.variables):
            return v1.AuthStatusResponse("not_required")
        usable = [provider for provider in _offered() if key_owner(provider.id) is provider and env.can_call(provider)]
        accounts = [
            v1.AuthAccount(
                f"{provider.title} ({env.source_of(provider)})", active=named is None or _shares(provider, named)
            )
            for provider in usable
        ]
        is_ready = bool(usable) if model is None else missing_key(model, env) is None
        return v1.AuthStatusResponse("authenticated" if is_ready else "unauthenticated", accounts)

    async def _read(self) -> None:
        await self._environment.ready()
        await self._environment.reread_keys()

    def _described(self, provider: Provider) -> v1.ProviderInfo:
        env, protocol = self._environment.models, _PROTOCOLS[provider.form]
        url = provider.base_url(env)
        current = v1.ProviderCurrentConfig(protocol, url) if url and env.can_call(provider) else None
        return v1.ProviderInfo(provider.id, [protocol], required=False, current=current)


def _shares(one: Provider, other: Provider) -> bool:
    return one.key_variable == other.key_variable


def _offered() -> list[Provider]:
    """Return the providers that we call ourselves, with a key; pydantic-ai finds the addresses of the others."""
    return [provider for provider in PROVIDERS.values() if provider.form in _PROTOCOLS and provider.key_variable]


def _named(id: str) -> Provider:
    provider = PROVIDERS.get(id)
    if provider is None or provider not in _offered():
        raise RequestError.invalid_params(f"{id!r} is not one of providers/list", path="$.providerId")
    return provider
