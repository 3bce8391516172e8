"""From a name to a model.

Owns the names: `scripted`, `scripted:FILE`, `cassette:FILE`. A source is imported when it is named, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.harness.model import Model

NO_MODEL: Final = "no model is named; start the agent with --model NAME, such as --model scripted"


def find_model(name: str) -> Model:
    """Raises: ConfigError for a name nobody knows, or a file that is not there."""
    source, _, rest = name.partition(":")
    if source == "scripted":
        from dragoman.harness.models.scripted import ScriptedModel

        return ScriptedModel(_read(rest) if rest else None)
    if source == "cassette":
        from dragoman.harness.models.cassette import Cassette

        return Cassette(rest)
    raise ConfigError(f"no model is called {name!r}; there are scripted, scripted:FILE and cassette:FILE")


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {path} cannot be read: {error}") from None
