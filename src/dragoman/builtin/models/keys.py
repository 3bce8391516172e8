"""The environment that models are called with: this process's own, with stored keys and those that a client passed.

Owns which of several keys counts: one that a client passed to this process, then the environment, then the stored one.
Stored keys are never put into `os.environ`, which every command and MCP server that the agent starts would inherit.
What it learns is masked in logs, errors and recordings (`text/secrets.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dragoman.builtin.models.providers import PROVIDERS, key_owner
from dragoman.errors import ConfigError
from dragoman.text.secrets import remember_keys

if TYPE_CHECKING:
    from dragoman.builtin.models.providers import Provider
    from dragoman.settings.credentials import Credentials, KeyPlace

_log = logging.getLogger("dragoman.builtin")

NO_KEY = "none"
"""Sent as the key to an address that a client set without one: a proxy that adds the key itself."""
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


class ModelEnvironment(Mapping[str, str]):
    """A mapping like `os.environ`, which it follows. Safe to use from threads: its parts are replaced, not changed."""

    def __init__(self, credentials: Credentials | None = None, env: Mapping[str, str] | None = None) -> None:
        self.credentials = credentials
        self._env = os.environ if env is None else env
        self._stored: dict[str, tuple[str, KeyPlace]] = {}
        self._stamp: tuple[int, ...] | None = ()  # of no file: the first look always reads
        self._passed: dict[str, str] = {}
        self._headers: dict[str, dict[str, str]] = {}
        self._disabled: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The file of the stored keys, "" if there is none."""
        return "" if self.credentials is None else str(self.credentials.path)

    # Mapping

    def __getitem__(self, name: str) -> str:
        if name in self._hidden():
            raise KeyError(name)
        if name in self._passed:
            return self._passed[name]
        value = self._env.get(name)
        if value:
            return value
        stored = self._stored_key(name)
        if stored is not None:
            return stored[0]
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys((*self._env, *self._passed, *self._stored))
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _stored_key(self, variable: str) -> tuple[str, KeyPlace] | None:
        """Return the stored key of a variable, unless another variable of its provider is set.

        The environment comes first.
        """
        found = self._stored.get(variable)
        if found is None:
            return None
        owner = next(provider for provider in PROVIDERS.values() if provider.key_variable == variable)
        return None if any(self._env.get(name) for name in owner.keys) else found

    def _hidden(self) -> frozenset[str]:
        return frozenset(name for id in self._disabled for name in PROVIDERS[id].keys) - self._passed.keys()

    # Stored keys

    def is_outdated(self) -> bool:
        """Whether the file of stored keys has changed since it was read. This costs a look at the file."""
        try:
            return self.credentials is not None and self.credentials.stamp() != self._stamp
        except ConfigError:
            return True  # `reread` logs what is wrong

    def reread(self) -> bool:
        """Read the stored keys again, if their file has changed. Return whether it had.

        Blocks: for some seconds, if a key is in a keyring that does not answer. A file that is broken is logged, and
        what was read before counts.
        """
        if self.credentials is None:
            return False
        try:
            stamp = self.credentials.stamp()
            if stamp == self._stamp:
                return False
            found = self.credentials.keys()
        except ConfigError as error:
            _log.warning("the stored keys cannot be used: %s", error)
            return False
        stored: dict[str, tuple[str, KeyPlace]] = {}
        for id, entry in found.items():
            owner = key_owner(id)
            if owner is None:
                continue
            try:
                stored[owner.key_variable] = (entry.read(), entry.place)
            except ConfigError as error:
                _log.warning("the stored key of %s cannot be used: %s", id, error)
        remember_keys({name: key for name, (key, _) in stored.items()})
        self._stored, self._stamp = stored, stamp
        return True

    # Keys and addresses of a client

    def pass_key(self, provider: Provider, key: str) -> None:
        """Use a key that a client passed, in this process only."""
        remember_keys({provider.key_variable: key})
        self._passed = {**self._passed, provider.key_variable: key}
        self._disabled -= {provider.id}

    def set_address(self, provider: Provider, base_url: str, headers: Mapping[str, str]) -> None:
        """Call a provider at this address with these headers, in this process only; they replace earlier ones."""
        # A header may hold a key under any name: all of them are masked, under the variable of the provider.
        for word in (word for value in headers.values() for word in value.split()):
            remember_keys({provider.key_variable: word})
        lower = {name.lower(): value for name, value in headers.items()}
        key = next((lower[name].split()[-1] for name in _KEY_HEADERS if lower.get(name, "").strip()), NO_KEY)
        self._passed = {**self._passed, provider.url_variable: base_url, provider.key_variable: key}
        # In lower case, so that they replace those of the wire form.
        self._headers = {**self._headers, provider.id: lower}
        self._disabled -= {provider.id}

    def disable(self, provider: Provider) -> None:
        """Do not use a provider in this process, whatever keys there are, until a client passes another."""
        ours = (provider.url_variable, *provider.keys)
        self._passed = {name: value for name, value in self._passed.items() if name not in ours}
        self._headers = {id: headers for id, headers in self._headers.items() if id != provider.id}
        self._disabled |= {provider.id}

    def headers_of(self, provider: Provider) -> Mapping[str, str]:
        """Return the headers that a client set."""
        return self._headers.get(provider.id, {})

    def is_disabled(self, provider: Provider) -> bool:
        """Whether a client has disabled it."""
        return provider.id in self._disabled

    def can_call(self, provider: Provider) -> bool:
        """Whether there is a key for it, and no client has disabled it."""
        return provider.id not in self._disabled and bool(provider.key(self))

    def source_of(self, provider: Provider) -> str:
        """Return where the key comes from.

        It is the name of a variable, `file`, `keyring` or `client`; "" if there is none.
        """
        for name in provider.keys:
            if not self.get(name):
                continue
            if name in self._passed:
                return "client"
            if self._env.get(name):
                return name
            stored = self._stored_key(name)
            return "" if stored is None else stored[1]
        return ""

    def place_of(self, provider: Provider) -> str:
        """Return where the key comes from, as words for a sentence; "" if there is none."""
        source, owner = self.source_of(provider), key_owner(provider.id) or provider
        words = {
            "client": "the client",
            "keyring": f"the keyring of the system (dragoman agent login {owner.id} --keyring replaces it)",
            "file": f"{self.path} (dragoman agent login {owner.id} replaces it)",
        }
        return words.get(source, f"{source} in the environment" if source else "")
