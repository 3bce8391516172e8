"""Names of models: what another program calls one, as `PROVIDER:MODEL`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dragoman.foreign.proposal import Program

_ALIASES: Final = frozenset(("sonnet", "opus", "haiku", "default", "best", "opusplan", "auto", "pro", "flash"))
_OWN: Final[dict[str, str]] = {"claude": "anthropic", "codex": "openai", "gemini": "google"}


def model_name(program: Program, name: str, provider: str = "") -> tuple[str, str]:
    """Return `PROVIDER:MODEL` and "", or "" and why there is no such name."""
    from dragoman.builtin.models.providers import PROVIDERS

    name = name.strip()
    if name.lower() in ("", "inherit"):
        return "", ""
    base = name.split("[")[0].lower()
    if base in _ALIASES:
        return "", f"{name!r} stands for a model that {program} chooses; name one with --model PROVIDER:MODEL"
    if program == "opencode":
        provider, slash, name = name.partition("/")
        if not slash:
            return "", f"{provider!r} names no provider"
    elif not provider:
        provider = _OWN[program]
    if provider not in PROVIDERS:
        return "", f"the provider {provider!r} of {name} is not known under this name"
    return f"{provider}:{name.split('[')[0]}", ""
