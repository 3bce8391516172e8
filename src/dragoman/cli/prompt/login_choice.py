"""The choice of a login method, from those that can succeed here, and the key for one that takes a key.

Loaded when an agent asks for a login. What is typed as a key is not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.cli.prompt.dialogue import InputEnded
from dragoman.text.colour import BOLD, DIM
from dragoman.text.visible import label, quoted, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.models.providers import Provider
    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.client.login import LoginMethod

_TRIES: Final = 3


async def choose_method(methods: Sequence[LoginMethod], dialogue: Dialogue) -> LoginMethod | None:
    """Ask the user for a login method; return None if none was chosen."""
    if not methods:
        return None
    await dialogue.write("", dialogue.paint(f"{label(dialogue.agent, 40)} offers these ways to log in", BOLD))
    for number, method in enumerate(methods, 1):
        await dialogue.write(f"  {number:>3}  {label(method.name, dialogue.width - 8)}")
        for line in _about(method, dialogue.width - 7):
            await dialogue.write(f"       {dialogue.paint(line, DIM)}")
    try:
        while (line := (await dialogue.ask(f"  1 to {len(methods)}, c cancels > ")).strip()) != "c":
            if line.isascii() and line.isdigit() and 1 <= int(line[:6]) <= len(methods):
                return methods[int(line) - 1]
    except InputEnded:
        pass
    return None


async def ask_key(method: LoginMethod, dialogue: Dialogue) -> str | None:
    """Ask for the key of a method, and its provider about the key.

    Returns: the key; "" if the user typed none and the agent may have one; None if there is to be no login.
    """
    from dragoman.builtin.typed_key import check_key
    from dragoman.text.secrets import remember_key

    provider = _provider_of(method)
    what = label(method.name, 40) if provider is None else f"API key of {provider.title}"
    keeps = "" if method.kind == "environment" else "; Enter alone: the agent looks for one"
    for _ in range(_TRIES):
        with dialogue.hidden():
            key = (await dialogue.ask_again(f"  {what} (it is not shown{keeps}): ")).strip()
            await dialogue.write("")  # the line end that was typed is not shown either
            if not key:
                return "" if keeps else None
            remember_key(method.variables[0] if method.variables else "key", key)
            if provider is None:
                return key
            await dialogue.write(f"  {len(key)} characters were read; asking {provider.title}")
            verdict = await check_key(provider, key)
        if verdict.may_be_stored:
            return key
        await dialogue.refuse(label(verdict.sentence, 400))
        if verdict.outcome == "unreachable":
            answer = await dialogue.ask_again("  use the key unchecked? [y/N] ")
            return key if answer.strip().lower() in ("y", "yes") else None
    return None


def _provider_of(method: LoginMethod) -> Provider | None:
    from dragoman.builtin.models.providers import PROVIDERS

    variable = next(iter(method.variables), "")
    named = (provider for provider in PROVIDERS.values() if variable and variable in provider.keys)
    return PROVIDERS.get(method.provider) or next(named, None)


def _about(method: LoginMethod, width: int) -> list[str]:
    lines = [label(method.description, width)] if method.description else []
    if method.kind == "terminal":
        words = " ".join(map(quoted, method.argv))
        sets = " ".join(f"{quoted(name)}={quoted(value)}" for name, value in method.env.items())
        for text in (f"runs here: {words}", f"sets {sets}" if sets else ""):
            lines += wrapped(text, width) if text else []
    elif method.takes_key or method.kind == "environment":
        lines.append("you type the key")
    return lines
