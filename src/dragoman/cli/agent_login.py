"""`dragoman agent login` and `logout`: store the key of a provider, or remove it.

Owns the questions and what is shown. A key is read from the terminal without showing it, or from stdin; it is checked
with the provider's list of models before it is stored. It is never written to stdout or stderr.
"""

from __future__ import annotations

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
    import asyncio

    from dragoman.builtin.models.find import missing_package
    from dragoman.builtin.models.providers import provider_of
    from dragoman.builtin.typed_key import check_key, store_key
    from dragoman.settings.credentials import Credentials

    of_model = None if model is None else provider_of(model)
    name = named or (of_model.id if of_model is not None else "")
    provider = _provider(name) if name else _ask_which()
    if missing := missing_package(provider):
        raise exits.CliError(f"a key of {provider.title} cannot be used yet: {missing}")
    Credentials(config_dir).keys()  # a broken file is reported before the user types a key
    key = _read_key(provider)
    verdict = asyncio.run(check_key(provider, key, came_from="your input" if _is_terminal() else "stdin"))
    again = f"copy the key again, and repeat: dragoman agent login {provider.id}"
    match verdict.outcome:
        case "malformed":
            raise exits.CliError(f"nothing was stored: {verdict.sentence}", hint=again)
        case "refused":
            raise exits.CliError(f"nothing was stored: {verdict.sentence}", hint=again, exit_code=exits.AUTH_REQUIRED)
        case "unreachable":
            _ask_about_unchecked(provider, verdict.sentence)
            checked = f"it was not checked: {verdict.sentence}"
        case _:
            checked = verdict.sentence
    write_note(f"{store_key(provider, key, place)}; {checked}")
    return exits.OK


def _ask_about_unchecked(provider: Provider, why: str) -> None:
    """Ask whether a key that could not be checked is stored; without a terminal it is. Raises: CliError if not."""
    if not _is_terminal():
        return
    import termios

    write_note(f"{provider.title} could not be asked: {why}")
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question does not answer it
    sys.stderr.write("Store the key unchecked? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise exits.CliError("nothing was stored", exit_code=exits.CANCELLED)


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


def _ask_which() -> Provider:
    """Ask the user for a provider. Raises: CliError without a terminal."""
    from dragoman.builtin.typed_key import FREQUENT, providers_named, ranked_providers

    if not _is_terminal():
        raise exits.CliError("login needs the name of a provider", hint=_EXAMPLE)
    providers = ranked_providers()
    if not providers:
        from dragoman.builtin.models.http import no_http

        raise exits.CliError(no_http())
    write = sys.stderr.write
    write("Whose key do you want to store?\n")
    shown = providers[:FREQUENT]
    while True:
        first = providers.index(shown[0]) + 1
        for number, provider in enumerate(shown, first):
            write(f"  {number:2}  {provider.id:12}  {provider.title}\n")
        more = len(providers) - FREQUENT
        write(f"number, name, or m for {more} more: " if shown == providers[:FREQUENT] else "number or name: ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip()
        if not answer:
            raise exits.CliError("no provider was chosen", hint=_EXAMPLE, exit_code=exits.CANCELLED)
        if answer.isdecimal() and 0 < int(answer) <= len(providers):
            return providers[int(answer) - 1]
        if answer.casefold() in ("m", "more", "?"):
            shown = providers[FREQUENT:]
            continue
        found = providers_named(answer)
        if len(found) <= 1:
            return found[0] if found else _provider(answer)
        names = ", ".join(provider.id for provider in found)
        write(f"{one_line(answer)} may be {names}; type more of it\n")


def _read_key(provider: Provider) -> str:
    if not _is_terminal():
        return sys.stdin.read(_LONGEST_KEY).strip()
    import getpass

    key = getpass.getpass(f"API key of {provider.title} (it is not shown): ", sys.stderr).strip()
    if key:  # nothing is seen while it is pasted: its length shows whether all of it arrived
        write_note(f"{len(key)} characters were read; asking {provider.title}")
    return key


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
