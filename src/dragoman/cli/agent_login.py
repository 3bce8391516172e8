"""`dragoman agent login` and `logout`: store the key of a provider, or remove it.

Owns the questions and what is shown. A key is read from the terminal without showing it, or from stdin; it is checked
with the provider's list of models before it is stored. It is never written to stdout or stderr.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.console import write_note
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.builtin.models.providers import Provider
    from dragoman.settings.credentials import KeyPlace

_LONGEST_KEY = 64 * 1024
_EXAMPLE = "dragoman agent login anthropic"


def log_in(named: str | None, model: str | None, config_dir: Path, place: KeyPlace) -> int:
    """Ask for a key, check it and store it.

    Args:
        named: the provider on the command line.
        model: the model that was chosen; its provider is used if none is named.
    """
    from dragoman.builtin.login import is_key
    from dragoman.builtin.models.providers import provider_of
    from dragoman.settings.credentials import Credentials

    of_model = None if model is None else provider_of(model)
    provider = _provider(named or (of_model.id if of_model is not None else "") or _ask_which())
    credentials = Credentials(config_dir)
    credentials.keys()  # a broken file is reported before the user types a key
    key = _read_key(provider)
    if not is_key(key):
        what = "no key was given" if not key else "a key has no spaces or special characters"
        raise exits.CliError(what, hint=f"copy the key again, and repeat: dragoman agent login {provider.id}")
    checked = _check(provider, key)
    credentials.put(provider.id, key, place)
    where = "the keyring of the system" if place == "keyring" else str(credentials.path)
    write_note(f"the key of {provider.title} is stored in {where}; {checked}")
    set_names = [name for name in provider.keys if os.environ.get(name)]
    if set_names:
        write_note(f"note: {set_names[0]} is set, and is used in place of the stored key")
    return exits.OK


def log_out(named: str | None, config_dir: Path) -> int:
    """Remove a stored key."""
    from dragoman.settings.credentials import Credentials

    credentials = Credentials(config_dir)
    stored = credentials.keys()
    if named is None and not stored:
        write_note(f"no key is stored in {credentials.path}")
        return exits.OK
    if named is None and len(stored) > 1:
        raise exits.CliError(
            f"keys of {', '.join(sorted(stored))} are stored", hint="name one: dragoman agent logout PROVIDER"
        )
    id = next(iter(stored)) if named is None else named
    # A provider of another version may have been stored, too.
    found = credentials.remove(id) or credentials.remove(_provider(id).id)
    if found is None:
        write_note(f"no key of {one_line(id)} is stored in {credentials.path}")
        return exits.OK
    where = "the keyring of the system" if found.place == "keyring" else str(credentials.path)
    write_note(f"the key of {found.provider} was removed from {where}")
    return exits.OK


def _provider(named: str) -> Provider:
    """Return the provider whose key is stored under this name. Raises: CliError."""
    from dragoman.builtin.models.providers import PROVIDERS, key_owner, login_providers
    from dragoman.settings.documents import did_you_mean

    owner = key_owner(named.casefold())
    if owner is not None:
        return owner
    if named in PROVIDERS:
        raise exits.CliError(
            f"{named} does not log in with a key alone", hint="docs/agent.md names what it needs in the environment"
        )
    known = [provider.id for provider in login_providers()]
    hint = did_you_mean(named, known) or f"there are {', '.join(known)}"
    raise exits.CliError(f"no provider is called {named!r}", hint=hint)


def _ask_which() -> str:
    """Ask the user for a provider. Raises: CliError without a terminal."""
    from dragoman.builtin.models.providers import login_providers

    if not _is_terminal():
        raise exits.CliError("login needs the name of a provider", hint=_EXAMPLE)
    providers = login_providers()
    write = sys.stderr.write
    write("Whose key do you want to store?\n")
    for number, provider in enumerate(providers, 1):
        write(f"  {number:2}  {provider.id:12}  {provider.title}\n")
    write("number or name: ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer:
        raise exits.CliError("no provider was chosen", hint=_EXAMPLE, exit_code=exits.CANCELLED)
    if answer.isdecimal() and 0 < int(answer) <= len(providers):
        return providers[int(answer) - 1].id
    return answer


def _read_key(provider: Provider) -> str:
    if not _is_terminal():
        return sys.stdin.read(_LONGEST_KEY).strip()
    import getpass

    return getpass.getpass(f"API key of {provider.title} (it is not shown): ", sys.stderr).strip()


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _check(provider: Provider, key: str) -> str:
    """Return what is known about the key, as a clause. Raises: CliError if the provider refuses it."""
    import asyncio

    from dragoman.builtin.models.model import ModelAuthError, ModelError
    from dragoman.builtin.models.model_lists import list_models
    from dragoman.builtin.models.refreshed import OFF
    from dragoman.text.secrets import remember_keys

    remember_keys({provider.key_variable: key})
    if os.environ.get(OFF) == "off":
        return f"it was not checked, because {OFF} is off"
    env = {**os.environ, provider.key_variable: key}
    try:
        models = asyncio.run(list_models(provider, env))
    except ModelAuthError as error:
        raise exits.CliError(
            f"{provider.title} refused the key, and nothing was stored: {error}",
            hint=f"copy the key again, and repeat: dragoman agent login {provider.id}",
            exit_code=exits.AUTH_REQUIRED,
        ) from None
    except ModelError as error:
        return f"it was not checked: {error}"
    return f"{provider.title} lists {len(models)} models with it"
