"""The key of a provider that a user types: whose it can be, whether the provider accepts it, and where it is stored.

Owns the order in which providers are offered and the verdict about a key. The command line and the terminal client ask
for the key, and show neither it nor a part of it. A key is sent to the provider it was typed for, and nowhere else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dragoman.builtin.models.providers import PROVIDERS, key_owner, login_providers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.builtin.models.providers import Provider
    from dragoman.settings.credentials import KeyPlace

Outcome = Literal["accepted", "refused", "malformed", "unreachable", "unchecked"]

FREQUENT: Final = 6
"""So many providers are offered at first; the others when they are asked for, or by their names."""
# Those that most keys are for, then gateways to many models, then the others in the order of the table.
_IN_ORDER: Final = ("anthropic", "openai", "google", "openrouter", "deepseek", "mistral", "groq", "xai")
# How keys begin, where that is a mark of one provider.
_PREFIXES: Final = {
    "sk-ant-": "anthropic",
    "sk-or-": "openrouter",
    "sk-proj-": "openai",
    "AIza": "google",
    "gsk_": "groq",
    "xai-": "xai",
    "hf_": "huggingface",
    "csk-": "cerebras",
    "fw_": "fireworks",
}
# Addresses that answer only to a key, of providers whose list of models is public.
_ASKING_FOR_A_KEY: Final = {"openrouter": "/key"}


class KeyVerdict(NamedTuple):
    """What is known about a key, and a sentence for the user, which does not contain it.

    A key that is `refused` or `malformed` must not be stored. One that is `unreachable` could not be checked: the user
    decides. `unchecked` is one whose check is switched off, or that its provider does not check.
    """

    outcome: Outcome
    sentence: str

    @property
    def may_be_stored(self) -> bool:
        return self.outcome in ("accepted", "unchecked")


def ranked_providers() -> list[Provider]:
    """Return the providers whose key can be stored and used here, the most frequent ones first."""
    from dragoman.builtin.models.find import missing_package

    usable = [provider for provider in login_providers() if not missing_package(provider)]
    first = {id: place for place, id in enumerate(_IN_ORDER)}
    # Servers on the user's own machine mostly need no key; they come last.
    return sorted(usable, key=lambda provider: (first.get(provider.id, len(first)), not provider.variables))


def providers_named(typed: str) -> list[Provider]:
    """Return the providers whose id or title a text begins or is part of, the nearest first."""
    wanted = typed.strip().casefold()
    found = []
    for place, provider in enumerate(ranked_providers()):
        names = (provider.id.casefold(), provider.title.casefold())
        if wanted in names:
            return [provider]
        if any(wanted in name for name in names):
            found.append((not any(name.startswith(wanted) for name in names), place, provider))
    return [provider for _, _, provider in sorted(found, key=lambda row: row[:2])]


def key_in_text(text: str) -> Provider | None:
    """Return the provider whose keys begin like this text; None if that is not clear."""
    id = next((id for prefix, id in _PREFIXES.items() if text.strip().startswith(prefix)), "")
    return PROVIDERS.get(id)


async def check_key(
    provider: Provider, key: str, env: Mapping[str, str] = os.environ, *, came_from: str = "your input"
) -> KeyVerdict:
    """Ask the provider whether it accepts a key. From now on the key is masked in everything that is masked."""
    from dragoman.builtin.login import is_key
    from dragoman.builtin.models.model import ModelAuthError, ModelError
    from dragoman.builtin.models.refreshed import OFF
    from dragoman.text.secrets import remember_keys

    if not is_key(key):
        what = "no key was given" if not key else "a key has no spaces or special characters"
        return KeyVerdict("malformed", f"{what}; copy it again")
    remember_keys({provider.key_variable: key})
    owner = key_in_text(key)
    has_own_address = provider.base_url(env) != provider.base_url({})  # a gateway has keys of its own
    if owner is not None and owner is not key_owner(provider.id) and not has_own_address:
        words = f"this looks like a key of {owner.title}, and was not sent to {provider.title}"
        return KeyVerdict("malformed", f"{words}; log in with: dragoman agent login {owner.id}")
    if env.get(OFF) == "off":
        return KeyVerdict("unchecked", f"it was not checked, because {OFF} is off")
    # Another variable of the provider would win over the one that a stored key stands for.
    given = {**{name: value for name, value in env.items() if name not in provider.keys}, provider.key_variable: key}
    try:
        return await _asked(provider, given, came_from)
    except ModelAuthError as error:
        return KeyVerdict("refused", str(error))
    except ModelError as error:
        return KeyVerdict("unreachable", str(error))


async def _asked(provider: Provider, given: Mapping[str, str], came_from: str) -> KeyVerdict:
    """Raises: ModelError, ModelAuthError."""
    from dragoman.builtin.models.model import ModelError
    from dragoman.builtin.models.model_lists import ask_server, list_models

    if provider.form == "package":
        return KeyVerdict("unchecked", f"it was not checked: {provider.title} is asked with the first prompt")
    if provider.id in _ASKING_FOR_A_KEY:
        await ask_server(provider, given, _ASKING_FOR_A_KEY[provider.id], key_place=came_from)
    models = await list_models(provider, given, key_place=came_from)
    listed = f"{provider.title} lists {len(models)} {'model' if len(models) == 1 else 'models'}"
    if provider.form == "chat" and provider.id not in _ASKING_FOR_A_KEY:
        keyless = {name: value for name, value in given.items() if name != provider.key_variable}
        try:
            await ask_server(provider, keyless, "/models")
        except ModelError:
            pass  # it wants a key for its list, and took this one
        else:
            return KeyVerdict("unchecked", f"it was not checked: {listed} without a key, too")
    return KeyVerdict("accepted", f"{listed} with it")


def store_key(provider: Provider, key: str, place: KeyPlace = "file") -> str:
    """Store a key for the built-in agent, and return a sentence about that. Blocks. Raises: ConfigError."""
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir

    owner = key_owner(provider.id) or provider
    credentials = Credentials(config_dir())
    credentials.put(owner.id, key, place)
    where = "the keyring of the system" if place == "keyring" else str(credentials.path)
    wins = next((name for name in owner.keys if os.environ.get(name)), "")
    note = f"; {wins} is set, and is used in place of it" if wins else ""
    return f"the key of {owner.title} is stored in {where}{note}"
