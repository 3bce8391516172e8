"""Our messages as those of `pydantic-ai`.

Owns that direction: a turn of ours has all its steps in one message, which becomes alternating responses and requests.
The same messages always give the same result, and a longer conversation only appends to it, because providers cache by
prefix. Imports the package, so it is loaded only with a provider's model.
"""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.builtin.models.wire_forms.conversation import DATA_URL, INTERRUPTED, link_text
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

with suppress(ImportError):  # not part of a base install; nothing here is called without it
    from pydantic_ai import messages as pm
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.builtin.models.model import ModelRequest
    from dragoman.uistream.messages import Part

METADATA: Final = "pydantic-ai"
"""The key in a part's `provider_metadata` of what the provider needs back: signatures, ids."""
# Media types that models accept; a provider refuses a request with others.
_SHOWN: Final = ("image/", "audio/", "video/", "application/pdf")


def parameters_of(request: ModelRequest) -> ModelRequestParameters:
    """Return the system prompt and the tools, in the order of the request."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=tool.parameters, strict=False
            )
            for tool in request.tools
        ],
        instruction_parts=[pm.InstructionPart(content=request.system)] if request.system else None,
    )


def messages_of(messages: Iterable[UIMessage]) -> list[pm.ModelMessage]:
    """Return the conversation. It ends with a request, which the model is to answer."""
    conversation = _Conversation()
    for message in messages:
        if message.role == "user":
            conversation.ask(pm.UserPromptPart(content=_user_content(message.parts)))
        elif message.role == "assistant":
            conversation.add_turn(message.parts)
        else:
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            conversation.ask(pm.SystemPromptPart(content="\n".join(texts)))
    conversation.end_step()
    return conversation.messages


class _Conversation:
    """The messages of a conversation. Parts are added in order; consecutive parts of one role become one message."""

    def __init__(self) -> None:
        self.messages: list[pm.ModelMessage] = []
        self._response: list[pm.ModelResponsePart] = []
        self._calls: list[ToolPart] = []
        self._source: dict[str, Any] = {}

    def ask(self, *parts: pm.ModelRequestPart) -> None:
        self.end_step()
        if self.messages and isinstance(self.messages[-1], pm.ModelRequest):
            self.messages[-1] = pm.ModelRequest(parts=[*self.messages[-1].parts, *parts])
        else:
            self.messages.append(pm.ModelRequest(parts=list(parts)))

    def add_turn(self, parts: Sequence[Part]) -> None:
        for part in parts:
            match part:
                case StepStartPart():
                    self.end_step()
                case TextPart() if part.text:
                    self._respond(pm.TextPart(content=part.text, **_kept(part)), part.provider_metadata)
                case ReasoningPart():
                    signature = _metadata(part.provider_metadata).get("signature")
                    thought = pm.ThinkingPart(content=part.text, signature=signature, **_kept(part))
                    self._respond(thought, part.provider_metadata)
                case ToolPart():
                    self._respond(_call(part), part.provider_metadata)
                    self._calls.append(part)
                case FilePart() if (content := _bytes_of(part.url, part.media_type)) is not None:
                    self._respond(pm.FilePart(content=content), UNSET)
                case OtherPart(raw={"type": "steering-message", "parts": list(sent)}):
                    texts = [item["text"] for item in sent if isinstance(item, dict) and item.get("type") == "text"]
                    self.ask(pm.UserPromptPart(content="\n".join(texts)))
                case _:
                    pass  # shown to the user only: plans, notices, sources
        self.end_step()

    def _respond(self, part: pm.ModelResponsePart, metadata: Any) -> None:
        self._response.append(part)
        self._source = self._source or _metadata(metadata)

    def end_step(self) -> None:
        response, calls, source = self._response, self._calls, self._source
        self._response, self._calls, self._source = [], [], {}
        # Reasoning without a result comes from a step that was cut off; providers refuse it.
        if all(isinstance(part, pm.ThinkingPart) for part in response):
            return
        self.messages.append(
            pm.ModelResponse(
                parts=response,
                provider_name=source.get("provider"),
                canonical_system=source.get("system"),
                provider_url=source.get("url"),
            )
        )
        if calls:
            self.messages.append(pm.ModelRequest(parts=[_result(call) for call in calls]))


# Parts of the model's messages


def _kept(part: TextPart | ReasoningPart | ToolPart) -> dict[str, Any]:
    kept = _metadata(part.provider_metadata)
    return {"id": kept.get("id"), "provider_name": kept.get("provider"), "provider_details": kept.get("details")}


def _call(part: ToolPart) -> pm.ToolCallPart:
    # Providers accept only objects as arguments; arguments that were not JSON are put into one.
    arguments = part.input if isinstance(part.input, dict) else {} if part.input is UNSET else {"input": part.input}
    return pm.ToolCallPart(tool_name=part.name, args=arguments, tool_call_id=call_id_of(part), **_kept(part))


def call_id_of(part: ToolPart) -> str:
    """Return the id that the provider gave the call; ours differs if the provider used one id twice."""
    return str(_metadata(part.provider_metadata).get("call_id") or part.tool_call_id)


def _result(part: ToolPart) -> pm.ToolReturnPart:
    outcome: Any = "success"
    content: Any
    if part.state == "output-denied":
        content, outcome = refusal_in(part), "denied"
    elif part.state == "output-error":
        content, outcome = part.error_text or "it failed", "failed"
    elif part.state == "output-available" and not part.is_preliminary:
        content = _output(part.output)
        if isinstance(part.output, dict) and part.output.get("is_error"):
            outcome = "failed"
    else:
        content, outcome = INTERRUPTED, "interrupted"
    return pm.ToolReturnPart(tool_name=part.name, content=content, tool_call_id=call_id_of(part), outcome=outcome)


def _output(output: Any) -> Any:
    """Return what the model reads of a tool's output: its text, followed by its images."""
    if not isinstance(output, dict) or "text" not in output:
        return output
    images = [
        image
        for stored in output.get("images") or ()
        if (image := _bytes(stored.get("data", ""), stored.get("media_type", ""))) is not None
    ]
    return [output["text"], *images] if images else output["text"]


# Parts of the user's messages


def _user_content(parts: Sequence[Part]) -> str | list[pm.UserContent]:
    content = [piece for part in parts for piece in _content(part)]
    texts = [piece for piece in content if isinstance(piece, str)]
    return "\n\n".join(texts) if len(texts) == len(content) else content


def _content(part: Part) -> Sequence[pm.UserContent]:
    match part:
        case TextPart():
            return (part.text,)
        case FilePart():
            name = part.filename if part.filename is not UNSET else ""
            return (_file(part.url, part.media_type, name),)
        case SourceUrlPart():
            return (link_text(part.url, part.title or part.url),)
        case DataPart(name="resource", data={"uri": str(uri)}):
            return (_resource(uri, part.data),)
        case DataPart(name="resource-link", data={"uri": str(uri)}):
            return (link_text(uri, part.data.get("title") or part.data.get("name"), part.data.get("description")),)
        case DataPart(name="environment", data={"text": str(text)}):
            return (text,)
        case _:
            return ()


def _file(url: str, media_type: str, name: str) -> pm.UserContent:
    content = _bytes_of(url, media_type)
    if content is not None:
        return content
    if url.startswith("data:"):
        return f"[a file {name} of type {media_type}, which cannot be shown here]"
    return link_text(url, name or None)


def _resource(uri: str, contents: dict[str, Any]) -> pm.UserContent:
    if isinstance(contents.get("text"), str):
        return f'<resource uri="{uri}">\n{contents["text"]}\n</resource>'
    media_type = contents.get("media_type") or ""
    content = _bytes(contents.get("blob") or "", media_type)
    return content if content is not None else f'<resource uri="{uri}" type="{media_type}"/>'


def _bytes_of(url: str, media_type: str) -> pm.BinaryContent | None:
    found = DATA_URL.fullmatch(url)
    return None if found is None else _bytes(found[2], media_type or found[1])


def _bytes(data: str, media_type: str) -> pm.BinaryContent | None:
    """Return content of a media type that models accept, None for any other."""
    if not media_type.startswith(_SHOWN):
        return None
    try:
        return pm.BinaryContent(data=base64.b64decode(data, validate=True), media_type=media_type)
    except (binascii.Error, ValueError):
        return None


def _metadata(metadata: Any) -> dict[str, Any]:
    kept = metadata.get(METADATA) if isinstance(metadata, dict) else None
    return kept if isinstance(kept, dict) else {}
