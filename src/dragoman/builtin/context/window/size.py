"""The size of a model's context window: learned from an error, stated by the model, or assumed.

Owns that order, and which servers are local.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dragoman.builtin.context.window.limits import SMALLEST_WINDOW, UNKNOWN_LOCAL_WINDOW, UNKNOWN_WINDOW
from dragoman.builtin.models.catalogue import facts_of
from dragoman.builtin.models.providers import COMPATIBLE

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.builtin.models.model import Model
    from dragoman.builtin.session import OpenSession

WINDOWS: Final = "windows"
"""Key in the metadata of a session."""
_NOTICED: Final = "assumed-windows"
"""The file with the models whose assumed size was reported, next to the sessions."""
_LOCAL_PROVIDERS: Final = frozenset({"ollama", "lmstudio", "lm-studio", "llamacpp", "llama-cpp", "vllm", "sglang"})
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


class LearnedWindows:
    """Sizes that errors of providers stated, in the metadata of a session, which its forks have too."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def get(self, model: str) -> int | None:
        """Return the size for a model of this name."""
        size = self._session.row.metadata.get(WINDOWS, {}).get(model)
        return size if isinstance(size, int) else None

    async def learn(self, model: str, tokens: int) -> None:
        """Store a size. Raises: StoreError."""
        metadata = self._session.row.metadata
        await self._session.set(metadata={**metadata, WINDOWS: {**metadata.get(WINDOWS, {}), model: tokens}})

    async def is_first_notice(self, model: str) -> bool:
        """Note that the user is informed of an assumed size; False if that was so before, in any session."""
        return await asyncio.to_thread(_is_new, self._session.settings.store.parent / _NOTICED, model)


def _is_new(path: Path, line: str) -> bool:
    """Append a line to a file, unless it has it; a file that cannot be used has none."""
    try:
        if line in path.read_text("utf-8").split("\n"):
            return False
    except (OSError, ValueError):  # the first of all, or not readable
        pass
    with suppress(OSError), open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
        file.write(f"{line}\n")
    return True


def window_of(model: Model, learned: LearnedWindows) -> tuple[int, bool]:
    """Return the size of the window, and whether it is known rather than assumed."""
    known = learned.get(model.name) or model.context_tokens
    if known is not None:
        return max(known, SMALLEST_WINDOW), True
    return (UNKNOWN_LOCAL_WINDOW if is_local(model.name) else UNKNOWN_WINDOW), False


def output_limit_of(model: Model) -> int | None:
    """Return the most tokens of one answer, None if it is not known."""
    facts = None if model.is_scripted else facts_of(model.name)
    return None if facts is None else facts.output_limit


def is_local(name: str) -> bool:
    """Whether a model is served on this machine, as far as its name and the environment show."""
    prefix = name.partition(":")[0]
    if prefix in _LOCAL_PROVIDERS:
        return True
    variable = "OPENAI_BASE_URL" if prefix == COMPATIBLE else f"{prefix.upper().replace('-', '_')}_BASE_URL"
    return (urlsplit(os.environ.get(variable, "")).hostname or "") in _LOCAL_HOSTS
