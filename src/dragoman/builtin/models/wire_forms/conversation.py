"""The walk over a conversation that all wire forms share: our messages become prompts, steps and results.

Owns what a model reads of a part: which parts are shown to it at all, the words of a link or a resource, the outcome of
a tool call. A turn of ours has all its steps in one message; a form writes a step as the assistant's message, followed
by the results of its calls. The same message always gives the same items, because providers cache by prefix.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Struct

from dragoman.builtin.refusals import refusal_in
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    OtherPart,
    ReasoningPart,
    SourceUrlPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.uistream.messages import Part

INTERRUPTED: Final = "This call was interrupted; whether it did anything is not known."
# Several servers refuse a result without any text.
NO_OUTPUT: Final = "(no output)"
ENVIRONMENT: Final = "environment"
"""The name of a data part of the user's message that the agent added: date, branch, changed files."""
DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)
# Media types that models accept; a provider refuses a request with others.
_SHOWN: Final = ("image/", "audio/", "video/", "application/pdf")


class Media(Struct, frozen=True):
    """An image or a document, in base64."""

    data: str
    media_type: str
    filename: str = ""

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")

    @property
    def is_document(self) -> bool:
        return self.media_type == "application/pdf"

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def note(self) -> str:
        """The text for a model that does not accept it."""
        return f"[a file {self.filename} of type {self.media_type}, which cannot be shown to this model]"


StepPart: TypeAlias = TextPart | ReasoningPart | ToolPart | Media


class PromptEntry(Struct, frozen=True):
    """What the user sent: texts and media, in order."""

    content: tuple[str | Media, ...]

    @property
    def text(self) -> str | None:
        """The whole prompt if it consists of text only, otherwise None."""
        texts = [piece for piece in self.content if isinstance(piece, str)]
        return "\n\n".join(texts) if len(texts) == len(self.content) else None


class SystemNote(Struct, frozen=True):
    """A message of the role `system` within the conversation."""

    text: str


class StepEntry(Struct, frozen=True):
    """What the model answered in one step. Each call has a result, which `result_of` returns."""

    parts: tuple[StepPart, ...]

    @property
    def calls(self) -> list[ToolPart]:
        return [part for part in self.parts if isinstance(part, ToolPart)]


class Result(Struct, frozen=True):
    """What a model reads about a call that is over."""

    text: str
    media: tuple[Media, ...] = ()
    is_error: bool = False


def entries_of(message: UIMessage) -> Iterator[PromptEntry | SystemNote | StepEntry]:
    """Return what the model reads of one message, in order."""
    if message.role == "user":
        content = tuple(piece for part in message.parts for piece in _content(part))
        if content:
            yield PromptEntry(content)
    elif message.role == "assistant":
        yield from _turn(message.parts)
    else:
        text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
        if text:
            yield SystemNote(text)


def _turn(parts: Sequence[Part]) -> Iterator[PromptEntry | StepEntry]:
    step: list[StepPart] = []
    for part in parts:
        match part:
            case StepStartPart():
                yield from _ended(step)
                step = []
            case TextPart():
                if part.text:
                    step.append(part)
            case ReasoningPart() | ToolPart():
                step.append(part)
            case FilePart():
                media = _media_of(part.url, part.media_type)
                if media is not None:
                    step.append(media)
            case OtherPart(raw={"type": "steering-message", "parts": list(sent)}):
                yield from _ended(step)
                step = []
                texts = [item["text"] for item in sent if isinstance(item, dict) and item.get("type") == "text"]
                yield PromptEntry(tuple(texts))
            case _:
                pass  # shown to the user only: plans, notices, sources
    yield from _ended(step)


def _ended(step: list[StepPart]) -> Iterator[StepEntry]:
    # Reasoning without a result comes from a step that was cut off; providers refuse it.
    if not all(isinstance(part, ReasoningPart) for part in step):
        yield StepEntry(tuple(step))


# Calls


def arguments_of(part: ToolPart) -> dict[str, Any]:
    """Return the arguments as an object. Providers accept nothing else, so other values are put into one."""
    return part.input if isinstance(part.input, dict) else {} if part.input is UNSET else {"input": part.input}


def kept_of(part: TextPart | ReasoningPart | ToolPart, provider: str) -> dict[str, Any]:
    """Return what `AnswerChunks.keep` stored with the part, if the same provider stored it; otherwise an empty dict."""
    metadata = part.provider_metadata
    kept = metadata.get(provider) if isinstance(metadata, dict) else None
    return kept if isinstance(kept, dict) else {}


def kept_by_package(part: TextPart | ReasoningPart | ToolPart, provider: str) -> dict[str, Any]:
    """Return what earlier versions, which made all calls through a package, stored with the part for this provider."""
    kept = kept_of(part, "pydantic-ai")
    return kept if kept.get("provider") == provider else {}


def call_id_of(part: ToolPart, provider: str) -> str:
    """Return the id that the provider gave the call; ours differs if the provider used one id twice."""
    return str(kept_of(part, provider).get("call_id") or part.tool_call_id)


def result_of(part: ToolPart) -> Result:
    """Return what the model reads about the call: its output, or why there is none."""
    if part.state == "output-denied":
        return Result(refusal_in(part), is_error=True)
    if part.state == "output-error":
        return Result(part.error_text or "it failed", is_error=True)
    if part.state != "output-available" or part.is_preliminary:
        return Result(INTERRUPTED, is_error=True)
    output = part.output
    if isinstance(output, dict) and isinstance(output.get("text"), str):
        media = [
            found
            for image in output.get("images") or ()
            if (found := _media(image.get("data", ""), image.get("media_type", ""))) is not None
        ]
        media += [
            found
            for resource in output.get("resources") or ()
            if resource.get("media_type") == "application/pdf"
            and (found := _media(resource.get("blob") or "", resource["media_type"], _name_of(resource))) is not None
        ]
        text = output["text"] or ("" if media else NO_OUTPUT)
        return Result(text, tuple(media), bool(output.get("is_error")))
    is_error = isinstance(output, dict) and bool(output.get("is_error"))
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return Result(text or NO_OUTPUT, is_error=is_error)


def _name_of(resource: dict[str, Any]) -> str:
    return unquote(str(resource.get("uri") or "").rpartition("/")[2])


# Content of the user's messages


def _content(part: Part) -> tuple[str | Media, ...]:
    match part:
        case TextPart():
            return (part.text,) if part.text else ()
        case FilePart():
            name = part.filename if part.filename is not UNSET else ""
            return (_file(part.url, part.media_type, name),)
        case SourceUrlPart():
            return (link_text(part.url, part.title or part.url),)
        case DataPart(name="resource", data={"uri": str(uri)}):
            return (_resource(uri, part.data),)
        case DataPart(name="resource-link", data={"uri": str(uri)}):
            return (link_text(uri, part.data.get("title") or part.data.get("name"), part.data.get("description")),)
        case DataPart(name=name, data={"text": str(text)}) if name == ENVIRONMENT:
            return (text,) if text else ()
        case _:
            return ()


def _file(url: str, media_type: str, name: str) -> str | Media:
    media = _media_of(url, media_type, name)
    if media is not None:
        return media
    if url.startswith("data:"):
        return f"[a file {name} of type {media_type}, which cannot be shown here]"
    return link_text(url, name or None)


def _resource(uri: str, contents: dict[str, Any]) -> str | Media:
    if isinstance(contents.get("text"), str):
        return f'<resource uri="{uri}">\n{contents["text"]}\n</resource>'
    media_type = contents.get("media_type") or ""
    media = _media(contents.get("blob") or "", media_type)
    return media if media is not None else f'<resource uri="{uri}" type="{media_type}"/>'


def link_text(uri: str, title: str | None, description: str | None = None) -> str:
    """Return a link as a model reads it."""
    about = f": {description}" if description else ""
    return f"[{title or uri}]({uri}){about}"


def _media_of(url: str, media_type: str, name: str = "") -> Media | None:
    found = DATA_URL.fullmatch(url)
    return None if found is None else _media(found[2], media_type or found[1], name)


def _media(data: str, media_type: str, name: str = "") -> Media | None:
    """Return content of a media type that models accept, None for any other."""
    if not media_type.startswith(_SHOWN):
        return None
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Media(data, media_type, name)
