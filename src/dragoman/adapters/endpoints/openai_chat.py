"""A chat-completions endpoint: the conversation is sent each time, the answer is streamed.

Owns its requests and the mapping of its stream. The endpoint's models are offered as a setting. No tools are offered to
it; calls of a server's own tools are shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.endpoints.http import StreamBroken, StreamEndpoint, not_understood
from dragoman.adapters.members import as_input
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AdapterError, Setting, SettingValue
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.content import blocks_of
from dragoman.uistream.messages import TextPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.uistream.messages import UIMessage

_KIND: Final = "a stream of chat completions"
_PATH: Final = "/chat/completions"
_MODEL: Final = "model"
_DONE: Final = b"[DONE]"
_LIST_SECONDS: Final = 5.0
_MOST_MODELS: Final = 200
_FINISH: Final = {"length": "length", "content_filter": "content-filter"}
KEY_VARIABLE: Final = "OPENAI_API_KEY"


class OpenAIChatAdapter(Adapter):
    """A server that speaks chat completions: llama.cpp, vLLM, Ollama, LM Studio, OpenAI, a gateway.

    Args:
        url: the address of the API (`http://127.0.0.1:8080/v1`), or of its `/chat/completions`.
        model: the model's name; by default the first that the server lists.
        system: the system prompt.
        key: the key; by default the variable OPENAI_API_KEY, for addresses with https only.
        headers: headers of every request.
        body: further members of every request, such as `temperature`.
    """

    accepts = ("image", "embedded_context")
    uses_history = True

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        system: str = "",
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        base = url.rstrip("/").removesuffix(_PATH)
        key = key if key is not None or not url.startswith("https://") else os.environ.get(KEY_VARIABLE)
        own = {"authorization": f"Bearer {key}"} if key else {}
        self._endpoint = StreamEndpoint(base, {**own, **(headers or {})})
        self._model = model
        self._models: list[str] | None = None
        self._system = system
        self._body = dict(body or {})
        self.name, self.title = self._endpoint.name, self._endpoint.title

    async def open(self, session: AdapterSession) -> None:
        if self._models is None:
            found = await self._endpoint.json(f"{self._endpoint.url}/models", _LIST_SECONDS)
            rows = found.get("data") if isinstance(found, dict) else None
            names = [str(row["id"]) for row in rows or () if isinstance(row, dict) and row.get("id")]
            self._models = list(dict.fromkeys([*([self._model] if self._model else []), *names]))[:_MOST_MODELS]

    def settings(self, session: AdapterSession) -> list[Setting]:
        models = self._models or []
        if not models:
            return []
        chosen = session.metadata.get(_MODEL)
        current = chosen if chosen in models else models[0]
        return [
            Setting(_MODEL, "Model", current, tuple(SettingValue(model, model) for model in models), category="model")
        ]

    async def choose(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        session.metadata = {**session.metadata, setting_id: value}
        await session.save()

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        url = self._endpoint.url + _PATH
        model = ctx.session.current(_MODEL) or self._model
        if not model:
            raise AdapterError(f"{self._endpoint.url} lists no models; name one with model=, or with --model")
        messages: list[dict[str, Any]] = [{"role": "system", "content": self._system}] if self._system else []
        messages += _past(ctx.history)
        messages.append({"role": "user", "content": _content(ctx.blocks)})
        request = {**self._body, "model": model, "messages": messages, "stream": True}
        reader = CompletionReader()
        async for data in self._endpoint.events("POST", url, request, kind=_KIND):
            if data == _DONE:
                break
            for chunk in reader.feed(_decoded(url, data)):
                yield chunk
        for chunk in reader.close():
            yield chunk
        if not reader.has_ended:
            raise StreamBroken(f"the stream of {url} broke off; what arrived is kept")

    async def close(self) -> None:
        await self._endpoint.close()


class CompletionReader:
    """The pieces of one completion as chunks."""

    def __init__(self) -> None:
        self.has_ended = False
        self._open: str | None = None
        self._finish = "stop"
        self._calls: dict[Any, tuple[str, str, list[str]]] = {}

    def feed(self, value: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the chunks of one piece, or of a whole completion."""
        error = value.get("error")
        if error:
            message = error.get("message") if isinstance(error, dict) else error
            self.has_ended = True
            yield c.ErrorChunk(str(message or "the server failed without a reason"))
            return
        for choice in value.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            for kind, name in (("reasoning", "reasoning_content"), ("reasoning", "reasoning"), ("text", "content")):
                if isinstance(delta.get(name), str) and delta[name]:
                    yield from self._passage(kind, delta[name])
            for call in delta.get("tool_calls") or ():
                yield from self._call(call)
            if choice.get("finish_reason"):
                self.has_ended = True
                self._finish = _FINISH.get(choice["finish_reason"], "stop")

    def close(self) -> Iterator[c.Chunk]:
        """End what is open, and the completion if it came to its end."""
        yield from self._end_passage()
        for id, name, pieces in self._calls.values():
            yield c.ToolInputAvailable(id, name, as_input("".join(pieces)))
            yield c.ToolOutputError(id, "No tools are offered to this endpoint.")
        self._calls.clear()
        if self.has_ended:
            yield c.Finish(self._finish)

    def _passage(self, kind: str, text: str) -> Iterator[c.Chunk]:
        if self._open != kind:
            yield from self._end_passage()
            self._open = kind
            yield c.TextStart(kind) if kind == "text" else c.ReasoningStart(kind)
        yield c.TextDelta(kind, text) if kind == "text" else c.ReasoningDelta(kind, text)

    def _end_passage(self) -> Iterator[c.Chunk]:
        if self._open is not None:
            yield c.TextEnd(self._open) if self._open == "text" else c.ReasoningEnd(self._open)
            self._open = None

    def _call(self, call: dict[str, Any]) -> Iterator[c.Chunk]:
        function = call.get("function") or {}
        key = call.get("index", call.get("id"))
        if key not in self._calls:
            id, name = str(call.get("id") or f"call_{key}"), str(function.get("name") or "tool")
            self._calls[key] = (id, name, [])
            yield from self._end_passage()
            yield c.ToolInputStart(id, name)
        if isinstance(function.get("arguments"), str):
            self._calls[key][2].append(function["arguments"])


def _past(history: Sequence[UIMessage]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for message in history:
        if message.role == "user":
            text = text_of(blocks_of(message.parts))
        else:
            text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
        if text:
            found.append({"role": message.role, "content": text})
    return found


def _content(blocks: Sequence[v1.ContentBlock]) -> Any:
    images = [block for block in blocks if isinstance(block, v1.ImageContent)]
    if not images:
        return text_of(blocks)
    content: list[dict[str, Any]] = [{"type": "text", "text": text_of(blocks)}]
    content += (
        {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}} for image in images
    )
    return content


def _decoded(url: str, data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise not_understood(url, "a chat completion", data, error) from None
