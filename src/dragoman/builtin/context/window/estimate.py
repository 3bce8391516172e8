"""How many tokens a part of a conversation has, about: providers count exactly, but only after the request.

Owns the rule of thumb and its cache. Errs on the side of too many. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from dragoman.builtin.context.history import output_text
from dragoman.builtin.growing import GrowingParts
from dragoman.uistream.messages import DataPart, FilePart, OtherPart, ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.builtin.models.model import ToolSpec
    from dragoman.uistream.messages import Part, UIMessage

BYTES_PER_TOKEN: Final = 3.5
IMAGE_TOKENS: Final = 1600
PAGE_TOKENS: Final = 2000
_PAGE_BYTES: Final = 60_000  # of a PDF in base64, about
_PART_TOKENS: Final = 4  # roles, names and brackets around each part


def tokens_in(text: str) -> int:
    """Return the tokens of a text."""
    size_bytes = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return int(size_bytes / BYTES_PER_TOKEN) + 1 if text else 0


def tokens_of_tools(tools: Iterable[ToolSpec]) -> int:
    """Return the tokens of tool descriptions, which every request has."""
    return sum(
        tokens_in(tool.name + tool.description + msgspec.json.encode(tool.parameters).decode()) for tool in tools
    )


def tokens_of_output(part: ToolPart) -> int:
    """Return the tokens of a call's outcome."""
    tokens = tokens_in(output_text(part))
    if isinstance(part.output, dict) and isinstance(part.output.get("images"), (list, tuple)):
        tokens += IMAGE_TOKENS * len(part.output["images"])
    if isinstance(part.output, dict) and isinstance(part.output.get("resources"), (list, tuple)):
        for resource in part.output["resources"]:  # of these, models are given documents only
            if isinstance(resource, dict) and resource.get("media_type") == "application/pdf":
                tokens += PAGE_TOKENS * max(len(resource.get("blob") or "") // _PAGE_BYTES, 1)
    return tokens


class TokenCounter:
    """A counter of parts.

    A message that is finished is counted once, and so is a finished step of one that still grows.
    """

    def __init__(self) -> None:
        self._messages: dict[int, tuple[UIMessage, int]] = {}
        self._before: tuple[tuple[UIMessage, ...], int] = ((), 0)
        self._growing = GrowingParts()
        self._ended = 0

    def message(self, message: UIMessage, *, is_finished: bool = True) -> int:
        """Return the tokens of a message."""
        found = self._messages.get(id(message)) if is_finished else None
        if found is not None and found[0] is message:
            return found[1]
        tokens = self.parts(message.parts)
        if is_finished:
            self._messages[id(message)] = (message, tokens)
        return tokens

    def parts(self, parts: Iterable[Part]) -> int:
        return sum(map(tokens_of_part, parts))

    def conversation(self, messages: tuple[UIMessage, ...]) -> int:
        """Return the tokens of a conversation whose last message may still grow."""
        if not messages:
            return 0
        tokens = self.finished(messages[:-1])
        goes_on, ended, running = self._growing.divide(messages[-1].parts)
        self._ended = (self._ended if goes_on else 0) + self.parts(ended)
        return tokens + self._ended + self.parts(running)

    def finished(self, messages: tuple[UIMessage, ...]) -> int:
        """Return the tokens of messages that do not grow: mostly those of the last call and some new ones."""
        counted, tokens = self._before
        if messages[: len(counted)] != counted:  # cheap: the same objects are not compared
            counted, tokens = (), 0
        tokens += sum(map(self.message, messages[len(counted) :]))
        self._before = messages, tokens
        return tokens


def tokens_of_part(part: Part) -> int:
    """Return the tokens of one part, 0 if the model is not given it."""
    match part:
        case TextPart():
            return tokens_in(part.text) + _PART_TOKENS
        case ReasoningPart():
            kept = "" if part.provider_metadata is UNSET else msgspec.json.encode(part.provider_metadata).decode()
            return tokens_in(part.text) + tokens_in(kept) + _PART_TOKENS
        case ToolPart():
            given = part.input_text if part.input is UNSET else msgspec.json.encode(part.input).decode()
            return tokens_in(part.name + given) + tokens_of_output(part) + 2 * _PART_TOKENS
        case FilePart():
            return _tokens_of_file(part)
        case DataPart(data={"text": str(text)}):
            return tokens_in(text) + _PART_TOKENS
        case DataPart(data={"blob": str()}):
            return IMAGE_TOKENS
        case OtherPart(raw={"type": "steering-message", "parts": list(sent)}):
            texts = (item.get("text") for item in sent if isinstance(item, dict))
            return sum(tokens_in(text) for text in texts if isinstance(text, str)) + _PART_TOKENS
        case _:
            return 0


def _tokens_of_file(part: FilePart) -> int:
    if part.media_type == "application/pdf":
        return PAGE_TOKENS * max(len(part.url) // _PAGE_BYTES, 1)
    return IMAGE_TOKENS if part.url.startswith("data:") else tokens_in(part.url)
