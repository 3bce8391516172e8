"""OpenAI chat completions: `POST /chat/completions`, which most servers speak.

Owns the request of this form; `chat_stream.py` reads the answer. Which members a server accepts is in
`chat_servers.py`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.builtin.models.wire_forms.answer import AnswerChunks
from dragoman.builtin.models.wire_forms.chat_stream import ChatReader
from dragoman.builtin.models.wire_forms.conversation import (
    Media,
    PromptEntry,
    StepEntry,
    SystemNote,
    arguments_of,
    call_id_of,
    entries_of,
    kept_of,
    result_of,
)
from dragoman.builtin.models.wire_forms.form import HttpRequest, Pieces, StreamReader, WireForm, encode
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.builtin.models.model import ModelRequest
    from dragoman.builtin.models.wire_forms.form import Target
    from dragoman.uistream.messages import UIMessage

_CACHED: Final = {"type": "ephemeral"}
# The templates of Gemma, Mistral and other models refuse two messages of the user in a row, in that request and in all
# later ones. They follow each other after a turn that ended before its first word, and after a summary.
_NO_ANSWER: Final = {"role": "assistant", "content": "(No answer was given here.)"}


class ChatForm(WireForm):
    def __init__(self, target: Target) -> None:
        self._target = target
        self._server = server_of(target.provider.id)
        self._pieces = Pieces(self._items_of, _NO_ANSWER)

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def request(self, request: ModelRequest) -> HttpRequest:
        server = self._server
        body: dict[str, Any] = {"model": self._target.model}
        is_marked = server.has_cache_marks and self._target.model.startswith("anthropic/")
        first = []
        if request.system:
            text = {"type": "text", "text": request.system, "cache_control": _CACHED}
            first.append({"role": "system", "content": [text] if is_marked else request.system})
        body["messages"] = self._pieces.join(request.messages, first=first)
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in request.tools
            ]
        most = request.max_output_tokens or server.usual_output
        if most is not None:
            body[server.tokens_member] = most
        if is_marked:
            body["cache_control"] = _CACHED
        if server.has_cache_key and request.session_id:
            body["prompt_cache_key"] = request.session_id
        body |= self._effort(request.effort)
        body["stream"] = True
        if server.has_stream_options:
            body["stream_options"] = {"include_usage": True}
        return HttpRequest("/chat/completions", encode(body))

    def reader(self, request: ModelRequest) -> StreamReader:
        return ChatReader(AnswerChunks(request, self._target), self._target)

    def _effort(self, effort: str | None) -> dict[str, Any]:
        facts, how = self._target.facts, self._server.effort
        if effort is None or how == "none":
            return {}
        wanted = self._target.effort(effort)
        if how == "openrouter":
            return {"reasoning": {"effort": wanted}} if facts is None or facts.thinks is not False else {}
        is_accepted = "gpt-oss" in self._target.model or (how == "thinking" and facts is not None and facts.thinks)
        return {"reasoning_effort": wanted} if is_accepted else {}

    # Messages

    def _items_of(self, message: UIMessage) -> Iterator[dict[str, Any]]:
        for entry in entries_of(message):
            if isinstance(entry, SystemNote):
                yield {"role": "system", "content": entry.text}
            elif isinstance(entry, PromptEntry):
                whole = entry.text
                yield {"role": "user", "content": list(map(self._content, entry.content)) if whole is None else whole}
            else:
                yield from self._step(entry)

    def _step(self, step: StepEntry) -> Iterator[dict[str, Any]]:
        texts = [part.text for part in step.parts if isinstance(part, TextPart)]
        calls = step.calls
        if texts or calls:
            message: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
            message |= self._thoughts(step)
            if calls:
                message["tool_calls"] = [self._call(call) for call in calls]
            yield message
        images: list[dict[str, Any]] = []
        for call in calls:
            result = result_of(call)
            # A result of this form is text; its images follow as a message of the user.
            text = result.text or "The result follows."
            yield {"role": "tool", "tool_call_id": self._id(call), "content": text}
            if result.media:
                note = {"type": "text", "text": f"What {call.name} ({self._id(call)}) returned:"}
                images += [note, *map(self._content, result.media)]
        if images:
            yield {"role": "user", "content": images}

    def _thoughts(self, step: StepEntry) -> dict[str, Any]:
        """Return the members that hold the thoughts, as the same server sent them."""
        members: dict[str, Any] = {}
        for part in step.parts:
            if not isinstance(part, ReasoningPart) or self._server.thoughts == "none":
                continue
            kept = kept_of(part, self._target.provider.id)
            if kept.get("details"):
                members["reasoning_details"] = [*members.get("reasoning_details", ()), *kept["details"]]
            elif kept.get("member") and part.text:
                members[kept["member"]] = members.get(kept["member"], "") + part.text
        return members

    def _call(self, call: ToolPart) -> dict[str, Any]:
        function = {"name": call.name, "arguments": encode(arguments_of(call)).decode()}
        # Gemini's servers of this form refuse a call without the signature that came with it.
        extra = kept_of(call, self._target.provider.id).get("extra_content")
        sent = {"id": self._id(call), "type": "function", "function": function}
        return {**sent, "extra_content": extra} if extra else sent

    def _id(self, call: ToolPart) -> str:
        id, server = call_id_of(call, self._target.provider.id), self._server
        is_kept = len(id) == server.id_length and id.isalnum() if server.has_exact_ids else len(id) <= server.id_length
        return id if is_kept else hashlib.sha256(id.encode()).hexdigest()[: server.id_length]

    def _content(self, content: str | Media) -> dict[str, Any]:
        if isinstance(content, str):
            return {"type": "text", "text": content}
        if content.is_image and self._server.sees_images and self._target.sees_images:
            return {"type": "image_url", "image_url": {"url": content.url}}
        if content.is_document and self._server.reads_documents and self._target.reads_documents:
            file = {"filename": content.filename or "document.pdf", "file_data": content.url}
            return {"type": "file", "file": file}
        return {"type": "text", "text": content.note}


class ChatServer(Struct, frozen=True):
    """What one server does differently. The defaults are what most accept: members that the form had from the start."""

    tokens_member: str = "max_tokens"
    """The member that limits the output."""
    usual_output: int | None = None
    """The limit to send when none is wanted, for a server whose own is too small for a coding agent."""
    has_stream_options: bool = True
    """Whether `stream_options` may be sent; without it most servers send no usage."""
    effort: Literal["gpt-oss", "thinking", "openrouter", "none"] = "gpt-oss"
    """When the effort is sent, as `reasoning_effort`: only to the gpt-oss models, to all that are known to think; as
    `reasoning`, OpenRouter's own member; or never."""
    thoughts: Literal["same", "details", "none"] = "same"
    """How thoughts are sent back: in the member they came in, as `reasoning_details`, or not at all."""
    sees_images: bool = True
    reads_documents: bool = False
    """Whether PDFs may be sent, as parts of the type `file`."""
    has_cache_key: bool = False
    """Whether `prompt_cache_key` may be sent."""
    has_cache_marks: bool = False
    """Whether `cache_control` may be sent for Anthropic's models."""
    id_length: int = 40
    """The longest id of a tool call."""
    has_exact_ids: bool = False
    """Whether ids must have exactly that length, in letters and digits."""


_DEFAULT: Final = ChatServer()
_SERVERS: Final = {
    "openai-chat": ChatServer(
        tokens_member="max_completion_tokens",
        effort="thinking",
        thoughts="none",
        reads_documents=True,
        has_cache_key=True,
    ),
    "openrouter": ChatServer(effort="openrouter", thoughts="details", reads_documents=True, has_cache_marks=True),
    "vercel": ChatServer(thoughts="details", has_cache_marks=True),
    # Refuses members that it does not know, and sends the usage without being asked for it.
    "mistral": ChatServer(has_stream_options=False, effort="none", thoughts="none", id_length=9, has_exact_ids=True),
    "github": ChatServer(thoughts="none"),
    "deepseek": ChatServer(effort="none", sees_images=False),
    "cerebras": ChatServer(tokens_member="max_completion_tokens", sees_images=False),
    "groq": ChatServer(tokens_member="max_completion_tokens"),
    # Its models refuse an effort, except the small ones of the third generation.
    "xai": ChatServer(tokens_member="max_completion_tokens", effort="none"),
    "moonshotai": ChatServer(effort="none"),
    "zai": ChatServer(effort="none"),
    "alibaba": ChatServer(effort="none"),
    "fireworks": ChatServer(usual_output=16_384),
}


def server_of(provider: str) -> ChatServer:
    return _SERVERS.get(provider, _DEFAULT)
