"""The keys of providers, told the ACP way: which there are to set, and a refusal that says so.

Owns the auth methods of the built-in agent. A key is never asked for and never kept here: it is a variable of the
agent's environment, so "logging in" is to set it, and `authenticate` only looks whether it is there.
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
    """The ways to log in that an agent with this model offers, one for each key that would do."""
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
    """Raises: RequestError when the key of that method is not there."""
    provider = PROVIDERS[method_id]
    if not provider.has_key(env):
        raise _refusal(f"{_advice(provider)} and start the agent again", [provider])


def usable_model(named: str | None, env: Mapping[str, str]) -> str:
    """The model of new sessions: the one named, else one whose key is there.

    Raises: RequestError -32000 with the methods and variables when a key is missing.
    """
    name = named or default_model(env)
    if name is None:
        raise _refusal(NO_MODEL, CHOSEN)
    missing = missing_key(name, env)
    if missing is not None:
        raise _refusal(f"{name} needs a key; {_advice(missing)} and start the agent again", [missing])
    return name


def refused_key(error: ModelAuthError, model: str) -> RequestError:
    """How it is told that a provider does not take the key."""
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
