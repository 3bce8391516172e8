"""The keyring of the system (Secret Service, KWallet, Keychain), through the package `keyring` if it is installed.

Owns the calls and their time limit: a keyring that is locked may show a dialog, or wait for one that no screen shows.
A call runs in a thread that is left behind when the time is over, because it cannot be ended.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SERVICE: Final = "dragoman"
# A user needs longer to type the password of a keyring, but a session must not wait so long for a key.
SECONDS: Final = 10.0
_INSTEAD: Final = "or store the key in the file, without --keyring"


def write_to_keyring(provider: str, key: str) -> None:
    """Raises: ConfigError if there is no keyring, or it does not answer in time."""
    _call("cannot be written", lambda keyring: keyring.set_password(SERVICE, provider, key))


def read_from_keyring(provider: str) -> str:
    """Raises: ConfigError if there is no keyring, it does not answer in time, or it has no such key."""
    key = _call("cannot be read", lambda keyring: keyring.get_password(SERVICE, provider))
    if not isinstance(key, str) or not key:
        raise ConfigError(
            f"the keyring has no key of {provider}; store it again: dragoman agent login {provider} --keyring"
        )
    return key


def remove_from_keyring(provider: str) -> None:
    """Remove a key; one that is gone already is not an error. Raises: ConfigError."""

    def remove(keyring: Any) -> None:
        if keyring.get_password(SERVICE, provider) is not None:
            keyring.delete_password(SERVICE, provider)

    _call("cannot be changed", remove)


def _call(problem: str, work: Callable[[Any], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            import keyring  # type: ignore[import-not-found, unused-ignore]  # not part of any install of ours

            results.append(work(keyring))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="dragoman-keyring", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if results:
        return results[0]
    if not errors:
        raise ConfigError(
            f"the keyring {problem}: it did not answer within {SECONDS:g} s; unlock it and repeat, {_INSTEAD}"
        )
    if isinstance(errors[0], ImportError):
        raise ConfigError(f"the keyring {problem}: install it with pip install keyring, {_INSTEAD}") from errors[0]
    # The package's own errors have a base class that is only known once it is installed.
    name = type(errors[0]).__name__
    raise ConfigError(f"the keyring {problem}: {name}: {errors[0]}; {_INSTEAD}") from errors[0]
