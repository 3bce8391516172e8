"""A model by its name.

Owns the names: `scripted`, `scripted:FILE`, `tour`, `cassette:FILE`, and `PROVIDER:MODEL`. A source is imported when it
is named, and the packages of a provider when the model is first used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.builtin.models.providers import CHOSEN, provider_of
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.builtin.models.model import Model
    from dragoman.builtin.models.providers import Provider

WITHOUT_PROVIDER: Final = ("scripted", "tour", "cassette")
"""What stands before the colon of a model that calls no service."""
NO_MODEL: Final = (
    "no model is named and no key of a provider is set or stored; log in with: dragoman agent login, "
    f"set {', '.join(provider.variables[0] for provider in CHOSEN[:-1])} or {CHOSEN[-1].variables[0]}, "
    "or start the agent with --model PROVIDER:MODEL"
)


def find_model(name: str) -> Model:
    """Raises: ConfigError for an unknown name, a missing file, or a package that is not installed."""
    source, _, rest = name.partition(":")
    if source == "scripted":
        from dragoman.builtin.models.scripted import ScriptedModel

        return ScriptedModel(_read(rest) if rest else None)
    if name == "tour":
        from dragoman.builtin.models.tour import TourModel

        return TourModel()
    if source == "cassette":
        from dragoman.builtin.models.cassette import Cassette

        return Cassette(rest)
    provider = provider_of(name)
    if provider is not None:
        return _provided(provider, name)
    raise ConfigError(
        f"no model is called {name!r}; there are PROVIDER:MODEL, such as anthropic:{CHOSEN[0].models[0]} or "
        "ollama:qwen3, and for tests scripted, scripted:FILE and cassette:FILE"
    )


def missing_package(provider: Provider) -> str:
    """Return which package calls of a provider need and this install does not have; "" if nothing is missing."""
    from importlib.util import find_spec

    if provider.form != "package":
        if find_spec("httpx2") is None:
            from dragoman.builtin.models.http import no_http

            return no_http()
    elif find_spec("pydantic_ai") is None or (provider.id == "cohere" and find_spec("cohere") is None):
        from dragoman.builtin.models.package.provider import no_package

        own = f" and pydantic-ai-slim[{provider.id}]" if provider.id == "cohere" else ""
        return f"{no_package()}{own}"
    return ""


def _provided(provider: Provider, name: str) -> Model:
    if provider.form == "package":
        from importlib.util import find_spec

        from dragoman.builtin.models.package.provider import ProviderModel, no_package

        if find_spec("pydantic_ai") is None:
            raise ConfigError(no_package())
        return ProviderModel(name)
    if missing := missing_package(provider):
        raise ConfigError(missing)
    from dragoman.builtin.models.http import http_model

    return http_model(provider, name)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {path} cannot be read: {error}") from None
