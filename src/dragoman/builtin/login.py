"""The provider keys as ACP auth methods, and the error for a missing or refused key.

Owns the auth methods of the built-in agent. A key is a variable of the agent's environment and is never asked for or
stored: to log in is to set the variable, and `authenticate` only checks that it is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.builtin.models.find import NO_MODEL
from dragoman.builtin.models.providers import CHOSEN, PROVIDERS, Provider, default_model, missing_key, provider_of
from dragoman.errors import RequestError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.builtin.models.model import ModelAuthError


def auth_methods(model: str | None) -> list[v1.AuthMethodAgent]:
    """Return the auth methods of an agent with this model, one for each provider whose key can be used."""
    return [
        v1.AuthMethodAgent(
            provider.id,
            f"{provider.title} API key",
            f"{_advice(provider)} in the environment the agent is started with",
            meta={"dragoman": {"variables": list(provider.variables)}},
        )
        for provider in _wanted(model)
    ]


def require_key(method_id: str, env: Mapping[str, str]) -> None:
    """Check that the key of an auth method is set. Raises: RequestError -32000 if it is not."""
    provider = PROVIDERS[method_id]
    if not provider.has_key(env):
        raise _refusal(f"{_advice(provider)} and start the agent again", [provider])


def usable_model(named: str | None, env: Mapping[str, str]) -> str:
    """Return the model for new sessions: the named one, otherwise the default of a provider whose key is set.

    Raises: RequestError -32000 with the auth methods and variables if a key is missing.
    """
    name = named or default_model(env)
    if name is None:
        raise _refusal(NO_MODEL, CHOSEN)
    missing = missing_key(name, env)
    if missing is not None:
        raise _refusal(f"{name} needs a key; {_advice(missing)} and start the agent again", [missing])
    return name


def refused_key(error: ModelAuthError, model: str) -> RequestError:
    """Return the error for the client if a provider refuses the key."""
    provider = provider_of(model)
    refusal = _refusal(str(error), [] if provider is None else [provider])
    refusal.data["variables"] = list(error.variables) or refusal.data["variables"]
    return refusal


def _wanted(model: str | None) -> Sequence[Provider]:
    if model is None:
        return CHOSEN
    provider = provider_of(model)
    return () if provider is None or provider.id not in PROVIDERS or not provider.variables else (provider,)


def _advice(provider: Provider) -> str:
    return f"set {' or '.join(provider.variables)}"


def _refusal(message: str, providers: Sequence[Provider]) -> RequestError:
    variables = [variable for provider in providers for variable in provider.variables]
    return RequestError.auth_required(message, {"methods": [each.id for each in providers], "variables": variables})
