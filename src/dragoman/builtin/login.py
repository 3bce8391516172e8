"""Logging in over ACP: the auth methods of the built-in agent, `authenticate`, and the error for a missing key.

Owns the methods. A client with terminals is offered `dragoman agent login`; each provider is a method of its own, whose
`authenticate` looks for the key in the environment and among the stored keys, or takes the key that the client passes
in `_meta["api-key"]`. Such a key counts in this process, and is stored only if the client asks for that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.models.find import NO_MODEL
from dragoman.builtin.models.providers import (
    CHOSEN,
    PROVIDERS,
    Provider,
    default_model,
    key_owner,
    missing_key,
    provider_of,
)
from dragoman.errors import ConfigError, RequestError
from dragoman.process.own_program import own_command
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.models.keys import ModelEnvironment
    from dragoman.builtin.models.model import ModelAuthError

TERMINAL: Final = "login"
"""The method that runs `dragoman agent login` in a terminal of the client."""
API_KEY: Final = "api-key"
"""The member of `_meta` with a key: a text, or `{"apiKey", "provider"?, "store"?}`."""
_PATH: Final = '$._meta["api-key"]'


def auth_methods(model: str | None) -> list[v1.AuthMethod]:
    """Return the auth methods of an agent with this model: a terminal, and each provider whose key can be used."""
    wanted = _wanted(model)
    methods: list[v1.AuthMethod] = [
        v1.AuthMethodAgent(
            provider.id,
            f"{provider.title} API key",
            f"{_advice(provider)}",
            meta={"dragoman": {"variables": list(provider.variables)}, API_KEY: {"provider": provider.id}},
        )
        for provider in wanted
    ]
    if not wanted:
        return []
    return [*methods, terminal_method()]


def terminal_method() -> v1.AuthMethodTerminal:
    """Return the method for clients with terminals. The client runs its own command of this agent with the arguments.

    Clients from before the protocol had this type read `_meta["terminal-auth"]`, and get only what they can read.
    """
    command, *arguments = _own_command()
    legacy = {"command": command, "args": [*arguments, "agent", TERMINAL], "label": "Log in"}
    return v1.AuthMethodTerminal(
        TERMINAL,
        "Log in with an API key",
        "asks for the key of a provider in a terminal and stores it",
        args=[TERMINAL],
        meta={"terminal-auth": legacy},
    )


def take_key(params: v1.AuthenticateRequest, model: str | None, env: ModelEnvironment) -> bool:
    """Use the key that a client passes, and store it if the client asks for that. Return False if it passes none.

    Blocks. Raises: RequestError -32602 for what is not a key, -32603 if it cannot be stored.
    """
    passed = params.meta.get(API_KEY) if isinstance(params.meta, Mapping) else None
    if passed is None:
        return False
    named: Mapping[str, Any] = passed if isinstance(passed, Mapping) else {"apiKey": passed}
    key = named.get("apiKey")
    if key is None and "apiKey" not in named:
        return False
    if not isinstance(key, str) or not is_key(key.strip()):
        raise RequestError.invalid_params("the key must be a text without spaces", path=_PATH)
    provider = _passed_for(named.get("provider"), params.method_id, model)
    env.pass_key(provider, key.strip())
    if named.get("store") is True and env.credentials is not None:
        try:
            env.credentials.put(provider.id, key.strip())
        except ConfigError as error:
            raise RequestError(-32603, f"the key is used, but it cannot be stored: {error}") from error
    return True


def is_key(text: str) -> bool:
    """Whether a text can be a key: it is sent in a header."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def require_key(method_id: str, model: str | None, env: Mapping[str, str]) -> None:
    """Check that there is a key for an auth method. Raises: RequestError -32000 if there is none."""
    if method_id == TERMINAL:
        usable_model(model, env)
        return
    provider = PROVIDERS[method_id]
    if not provider.has_key(env):
        raise _refusal(_advice(provider), [provider])


def usable_model(named: str | None, env: Mapping[str, str]) -> str:
    """Return the model for new sessions: the named one, otherwise the default of a provider with a key.

    Raises: RequestError -32000 with the auth methods and variables if a key is missing.
    """
    name = named or default_model(env)
    if name is None:
        raise _refusal(NO_MODEL, CHOSEN)
    missing = missing_key(name, env)
    if missing is not None:
        raise _refusal(f"{name} needs a key; {_advice(missing)}", [missing])
    return name


def refused_key(error: ModelAuthError, model: str) -> RequestError:
    """Return the error for the client if a provider refuses the key."""
    provider = provider_of(model)
    refusal = _refusal(str(error), [] if provider is None else [provider])
    refusal.data["variables"] = list(error.variables) or refusal.data["variables"]
    return refusal


def _passed_for(named: object, method_id: str, model: str | None) -> Provider:
    """Return the provider of a passed key: the one that is named, that of the method, or that of the agent's model."""
    if named is not None and not isinstance(named, str):
        raise RequestError.invalid_params("provider must be the name of a provider", path=f"{_PATH}.provider")
    of_model = None if model is None else provider_of(model)
    id = named or (method_id if method_id != TERMINAL else "" if of_model is None else of_model.id)
    if not id:
        raise RequestError.invalid_params("provider is needed: whose key is it?", path=f"{_PATH}.provider")
    owner = key_owner(id)
    if owner is None:
        raise RequestError.invalid_params(f"{id!r} does not log in with a key", path=f"{_PATH}.provider")
    return owner


def _wanted(model: str | None) -> Sequence[Provider]:
    if model is None:
        return CHOSEN
    provider = provider_of(model)
    return () if provider is None or provider.id not in PROVIDERS or not provider.variables else (provider,)


def _advice(provider: Provider) -> str:
    set_it = f"set {' or '.join(provider.variables)} in the environment the agent is started with"
    owner = key_owner(provider.id)
    return set_it if owner is None else f"log in with: dragoman agent login {owner.id}, or {set_it}"


def _own_command() -> tuple[str, ...]:
    """Return the command of this program, with an absolute path."""
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "dragoman" and os.access(program, os.X_OK):
        return (program,)
    return own_command()


def _refusal(message: str, providers: Sequence[Provider]) -> RequestError:
    variables = [variable for provider in providers for variable in provider.variables]
    return RequestError.auth_required(
        message, {"methods": [provider.id for provider in providers], "variables": variables}
    )
