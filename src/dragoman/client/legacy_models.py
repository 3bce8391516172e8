"""Session models: a dropped draft of the protocol that several real agents still implement.

Such an agent lists `models` in the response that opens a session and implements `session/set_model`, which
`Session.set_model` sends. The schema has neither, so the list is read from the received lines, as an observer. Agents
with a config option of category `model` do not need this.
"""

from __future__ import annotations

from msgspec import Struct, ValidationError, json

from dragoman.rpc.observer import Observer


class LegacyModel(Struct, rename="camel"):
    """A model an agent can be switched to."""

    model_id: str
    name: str = ""


class _Models(Struct, rename="camel"):
    available_models: list[LegacyModel]


class _Opened(Struct):
    models: _Models


class _Answer(Struct):
    result: _Opened


class LegacyModels(Observer):
    """Observer that keeps the models of the session that its connection opened last."""

    def __init__(self) -> None:
        self.offered: tuple[LegacyModel, ...] = ()

    def received(self, line: bytes) -> None:
        """Read the responses that list models; every other line costs one search."""
        if b'"availableModels"' not in line or b'"result"' not in line:
            return
        try:
            self.offered = tuple(json.decode(line, type=_Answer).result.models.available_models)
        except ValidationError:  # the words are part of something else
            return
