"""A model on tape: records what another one answered, and plays it back without it.

Owns the file, JSON lines of which each is one answer under the fingerprint of its question. The same question asked
again plays the next answer to it. What was never recorded is an error, not a guess.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.models.model import ModelError, StepEnd
from dragoman.errors import ConfigError
from dragoman.store.messages import part_to_json
from dragoman.uistream.chunks import ChunkError, decode_chunk, encode_chunk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.builtin.models.model import Model, ModelRequest
    from dragoman.uistream.chunks import Chunk

_HEADER: Final = {"cassette": "dragoman", "version": 1}
# Names that differ from run to run and mean nothing to a model.
_UNSTEADY: Final = frozenset(
    {"toolCallId", "id", "providerMetadata", "callProviderMetadata", "approval", "duration_ms"}
)


class Cassette:
    """With a model it records, appending; without one it plays."""

    def __init__(self, path: str | Path, model: Model | None = None) -> None:
        """Raises: ConfigError for a file that is no cassette, or none where one is to be played."""
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

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk | StepEnd]:
        """Raises: ModelError when the tape has no answer to this question."""
        key = fingerprint(request)
        if self._model is not None:
            async for item in self._record(key, self._model, request):
                yield item
            return
        answers = self._answers.get(key, [])
        position = self._played.get(key, 0)
        if position >= len(answers):
            what = "was asked more often than recorded" if answers else "was never recorded"
            raise ModelError(f"cassette {self._path}: question {key[:12]} {what}; record it again")
        self._played[key] = position + 1
        for item in answers[position]:
            yield item

    async def _record(self, key: str, model: Model, request: ModelRequest) -> AsyncIterator[Chunk | StepEnd]:
        """An answer is written when it is complete: half of one would play back as a model that hangs."""
        kept: list[Any] = []
        async for item in model.stream(request):
            kept.append(msgspec.Raw(_encode(item)))
            yield item
        is_new = not self._path.exists()
        with self._path.open("ab") as file:
            if is_new:
                file.write(msgspec.json.encode(_HEADER) + b"\n")
            file.write(msgspec.json.encode({"question": key, "answer": kept}) + b"\n")

    def _read(self) -> None:
        try:
            header, *lines = self._path.read_bytes().splitlines()
            if msgspec.json.decode(header).get("cassette") != _HEADER["cassette"]:
                raise ValueError("its first line says so")
            for line in lines:
                entry = msgspec.json.decode(line, type=dict[str, Any])
                answer = [_decode(msgspec.json.encode(item)) for item in entry["answer"]]
                self._answers.setdefault(entry["question"], []).append(answer)
        except (ValueError, KeyError, AttributeError, msgspec.DecodeError, ChunkError) as error:
            raise ConfigError(f"{self._path} is no cassette: {error}") from None


def fingerprint(request: ModelRequest) -> str:
    """The same for the same conversation, whatever ids it was given."""
    messages = [[message.role, [_steady(part_to_json(part)) for part in message.parts]] for message in request.messages]
    tools = sorted(tool.name for tool in request.tools)
    return hashlib.sha256(msgspec.json.encode([messages, tools, request.effort], order="sorted")).hexdigest()


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _steady(item) for name, item in value.items() if name not in _UNSTEADY}
    if isinstance(value, list):
        return [_steady(item) for item in value]
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
