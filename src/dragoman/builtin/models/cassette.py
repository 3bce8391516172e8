"""A model that records the answers of another model to a file, or plays them back without it.

Owns the file: JSON lines, each with one answer and the fingerprint of its request. A request that is repeated plays the
next answer recorded for it; a request that was never recorded is an error. Loaded for such models only.
"""

from __future__ import annotations

import hashlib
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.models.model import Model, ModelError, StepEnd
from dragoman.errors import ConfigError
from dragoman.store.messages import part_to_json
from dragoman.uistream.chunks import ChunkError, decode_chunk, encode_chunk
from dragoman.uistream.messages import DataPart

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from dragoman.builtin.models.model import ModelRequest
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import Part

_HEADER: Final = {"cassette": "dragoman", "version": 1}
# Members that differ from run to run and mean nothing to a model.
_VOLATILE: Final = frozenset(
    {"toolCallId", "id", "providerMetadata", "callProviderMetadata", "approval", "duration_ms"}
)


class Cassette(Model):
    """A cassette file. With a model it appends the model's answers; without one it plays the file back."""

    def __init__(self, path: str | Path, model: Model | None = None) -> None:
        """Raises: ConfigError for a file that is not a cassette, or for a missing one without a model."""
        self._path = Path(path)
        self._model = model
        self._answers: dict[str, list[list[Any]]] = {}
        self._played: dict[str, int] = {}
        if self._path.exists():
            self._read()
        elif model is None:
            raise ConfigError(f"there is no cassette {path}; record one first")

    @property
    def name(self) -> str:
        return f"cassette:{self._path.name}" if self._model is None else self._model.name

    @property
    def context_tokens(self) -> int | None:
        return None if self._model is None else self._model.context_tokens

    @property
    def is_scripted(self) -> bool:
        return self._model is None or self._model.is_scripted

    def warm_up(self) -> None:
        if self._model is not None:
            self._model.warm_up()

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        """Raises: ModelError when the cassette has no answer to this request."""
        key = fingerprint(request)
        if self._model is not None:
            # An answer is written when it is complete: an incomplete one would play back as a model that hangs.
            kept: list[Any] = []
            async with aclosing(self._model.stream(request)) as items:
                async for item in items:
                    kept.append(msgspec.Raw(_encode(item)))
                    yield item
            self._append(key, kept)
            return
        answers = self._answers.get(key, [])
        position = self._played.get(key, 0)
        if position >= len(answers):
            what = "was repeated more often than recorded" if answers else "was never recorded"
            raise ModelError(f"cassette {self._path}: request {key[:12]} {what}; record it again")
        self._played[key] = position + 1
        for item in answers[position]:
            yield item

    def _append(self, key: str, answer: list[Any]) -> None:
        is_new = not self._path.exists()
        with self._path.open("ab") as file:
            if is_new:
                file.write(msgspec.json.encode(_HEADER) + b"\n")
            file.write(msgspec.json.encode({"question": key, "answer": answer}) + b"\n")

    def _read(self) -> None:
        try:
            header, *lines = self._path.read_bytes().splitlines()
            if msgspec.json.decode(header).get("cassette") != _HEADER["cassette"]:
                raise ValueError("its first line is not the header of one")
            for line in lines:
                entry = msgspec.json.decode(line, type=dict[str, Any])
                answer = [_decode(msgspec.json.encode(item)) for item in entry["answer"]]
                self._answers.setdefault(entry["question"], []).append(answer)
        except (ValueError, KeyError, AttributeError, msgspec.DecodeError, ChunkError) as error:
            raise ConfigError(f"{self._path} is not a cassette: {error}") from None


def fingerprint(request: ModelRequest) -> str:
    """Return a hash of the conversation that does not depend on its ids."""
    messages = [
        [message.role, [_stable(part_to_json(part)) for part in message.parts if not _is_environment(part)]]
        for message in request.messages
    ]
    tools = sorted(tool.name for tool in request.tools)
    return hashlib.sha256(msgspec.json.encode([messages, tools, request.effort], order="sorted")).hexdigest()


def _is_environment(part: Part) -> bool:
    """Whether a part states the environment, whose day and branch differ from run to run."""
    return isinstance(part, DataPart) and part.name == "environment"


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(item) for name, item in value.items() if name not in _VOLATILE}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return value


def _encode(item: Chunk | StepEnd) -> bytes:
    if isinstance(item, StepEnd):
        return msgspec.json.encode({"type": "step-end", **msgspec.to_builtins(item)})
    return encode_chunk(item)


def _decode(data: bytes) -> Chunk | StepEnd:
    raw = msgspec.json.decode(data)
    if isinstance(raw, dict) and raw.get("type") == "step-end":
        return msgspec.convert(raw, StepEnd)
    return decode_chunk(data)
