"""Session models: a dropped draft of the protocol that several real agents still speak.

Such an agent lists `models` in the answer that opens a session and takes `session/set_model`. The schema knows neither,
so this watches the lines as an observer. Agents with a config option of category `model` do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, json

from dragoman.rpc.observer import Observer

if TYPE_CHECKING:
    from dragoman.client.session import Session


class Model(Struct, rename="camel"):
    """A model an agent can be switched to."""

    model_id: str
    name: str = ""


class _Models(Struct, rename="camel"):
    available_models: list[Model]


class _Opened(Struct):
    models: _Models


class _Answer(Struct):
    result: _Opened


class LegacyModels(Observer):
    """The models of the session opened last on the connection it is given to."""

    def __init__(self) -> None:
        self.offered: tuple[Model, ...] = ()

    def received(self, line: bytes) -> None:
        """Looks at answers that list models; everything else costs one search."""
        if b'"availableModels"' not in line or b'"result"' not in line:
            return
        try:
            self.offered = tuple(json.decode(line, type=_Answer).result.models.available_models)
        except ValidationError:  # the words stand in something else
            return

    async def choose(self, session: Session, model_id: str) -> None:
        """Switches the session to another model.

        Raises: RequestError when the agent refuses.
        """
        params = {"sessionId": session.id, "modelId": model_id}
        await session._connection.peer.request("session/set_model", params, Any)
