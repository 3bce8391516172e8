"""A login to one agent from where the user is: the methods that can succeed here, a typed key, and where it goes.

`dragoman login` and a run at a terminal that is refused for want of a login use it. The questions are in `cli/prompt`.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from dragoman.cli import exits

if TYPE_CHECKING:
    from dragoman.cli.prompt.user import UserPrompt
    from dragoman.client import RemoteAgent
    from dragoman.client.login import LoginMethod
    from dragoman.registry.agents import AgentEntry


def user_here(entry: AgentEntry) -> UserPrompt | None:
    """Return the user at this terminal; None if no user can be asked."""
    from dragoman.cli.console import uses_colour
    from dragoman.cli.prompt.user import UserPrompt

    return UserPrompt(agent=entry.name, colour=uses_colour(sys.stderr)) if UserPrompt.is_available() else None


async def choose(
    entry: AgentEntry, methods: tuple[LoginMethod, ...], wanted: str | None, user: UserPrompt | None
) -> LoginMethod:
    """Return the login method to use.

    Raises:
        CliError: there is none, several are possible, or it cannot be used from here.
    """
    from dragoman.client.login import usable_methods

    if not methods:
        raise exits.CliError(f"{entry.name} offers no login method", hint="log in with the agent's own program")
    usable = [method for method in usable_methods(methods, has_terminal=user is not None) if _fits(entry, method)]
    candidates = usable or list(methods)  # one that cannot succeed here gets to its own error
    known = ", ".join(method.id for method in candidates)
    if wanted is not None:
        candidates = [method for method in methods if method.id == wanted]
        if not candidates:
            raise exits.CliError(f"{entry.name} has no login method {wanted!r}", hint=f"it has: {known}")
    elif len(candidates) > 1:
        if user is None or not usable:
            raise exits.CliError(f"{entry.name} offers several login methods", hint=f"choose one of them: {known}")
        chosen = await user.choose_login(usable)
        if chosen is None:
            raise exits.CliError("no login method was chosen", exit_code=exits.CANCELLED)
        return chosen
    method = candidates[0]
    if method.kind == "environment" and method not in usable:
        names = " and ".join(method.variables)
        raise exits.CliError(f"for {method.name} set {names}", hint="set it in your shell, or in the agent's `env`")
    if method.kind == "unknown":
        raise exits.CliError(f"login method {method.id!r} is of a kind this version does not support")
    return method


def _fits(entry: AgentEntry, method: LoginMethod) -> bool:
    """Whether a key can be kept for the agent: one for a variable is stored under its name."""
    return method.kind != "environment" or entry.source not in ("command", "project")


async def use(entry: AgentEntry, agent: RemoteAgent, method: LoginMethod, user: UserPrompt | None) -> str:
    """Log in by a method that needs no program on the terminal, and return a sentence about that.

    Raises:
        CliError: the login failed, or the user gave no key.
    """
    from dragoman.errors import RequestError

    key: str | None = ""
    if user is not None and (method.takes_key or method.kind == "environment"):
        key = await user.type_key(method)
        if key is None:
            raise exits.CliError("nothing was stored", exit_code=exits.CANCELLED)
    if key and method.kind == "environment":
        return _store_variable(entry, method, key)
    if key and method.takes_key and _is_own(entry):
        from dragoman.builtin.models.providers import PROVIDERS
        from dragoman.builtin.typed_key import store_key

        return store_key(PROVIDERS[method.provider], key)
    try:
        await agent.authenticate(method.id, key=key or None)
    except RequestError as error:
        words = str(error).replace(key, "[key]") if key else str(error)
        raise exits.CliError(f"the login failed: {words}", exit_code=exits.AUTH_REQUIRED) from None
    return f"logged in to {entry.name}"


def _is_own(entry: AgentEntry) -> bool:
    from dragoman.registry.built_in import runs_built_in

    return runs_built_in(entry)


def _store_variable(entry: AgentEntry, method: LoginMethod, key: str) -> str:
    """Raises: ConfigError."""
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir

    credentials, variable = Credentials(config_dir()), method.variables[0]
    credentials.put_variable(entry.name, variable, key)
    return f"{entry.name} gets the key as {variable}; it is stored in {credentials.path}"


def login_words(entry: AgentEntry) -> list[str]:
    """Return the words behind `dragoman` that log in to an agent."""
    from dragoman.process.own_program import own_words
    from dragoman.registry.built_in import is_built_in

    if is_built_in(entry):
        return [*(own_words(entry.command) or ["agent"]), "login"]
    return ["login", "-a", entry.name] if entry.source != "command" else ["login", "--", *entry.command]


def shown_login(entry: AgentEntry) -> str:
    """Return the command that logs in to an agent, as a user types it."""
    return shlex.join(["dragoman", *login_words(entry)])
