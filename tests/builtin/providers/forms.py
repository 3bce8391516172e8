"""What the tests of the wire forms share: targets, conversations, and answers fed to a form as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from dragoman.builtin.models.catalogue import facts_of
from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd, ToolSpec
from dragoman.builtin.models.providers import provider_of
from dragoman.builtin.models.wire_forms.form import Target, WireForm
from dragoman.builtin.models.wire_forms.sse import Events, NotAStream
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import Part, StepStartPart, TextPart, ToolPart, UIMessage

PNG: Final = "iVBORw=="
PDF: Final = "JVBERg=="
LOOK: Final = ToolSpec("look", "looks", {"type": "object", "properties": {"value": {"type": "string"}}})


def target_of(name: str) -> Target:
    provider = provider_of(name)
    assert provider is not None
    return Target(provider, name.partition(":")[2], facts_of(name))


def user(*parts: Part, id: str = "u") -> UIMessage:
    return UIMessage(id, "user", list(parts))


def agent(*parts: Part, id: str = "a") -> UIMessage:
    return UIMessage(id, "assistant", [StepStartPart(), *parts])


def done(id: str, text: str = "ok", **output: Any) -> ToolPart:
    """A call of `look` that is over."""
    return ToolPart(id, "look", "output-available", {"value": id}, {"text": text, **output})


def conversation(*messages: UIMessage, **settings: Any) -> ModelRequest:
    """A request whose answer is being written: the last message is the agent's, with an empty step at its end."""
    if messages and messages[-1].role == "assistant":
        messages[-1].parts.append(StepStartPart())
    else:
        messages = (*messages, agent(id="reply"))
    return ModelRequest(messages, **{"system": "You are a test.", "tools": (LOOK,), **settings})


HELLO: Final = conversation(user(TextPart("hello")))


def body_of(form: WireForm, request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(form.request(request).body)
    return body


def as_bytes(events: Iterable[Any]) -> bytes:
    """Events as a server sends them; each is an object, or a text that is sent as it is."""
    lines = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if isinstance(event, dict) and isinstance(event.get("type"), str) else ""
        lines.append(f"{name}data: {data}\n\n")
    return "".join(lines).encode()


def read(form: WireForm, *pieces: bytes, request: ModelRequest = HELLO) -> Iterator[c.Chunk | StepEnd]:
    """What a form reads in the bytes of a response that ends behind the last of them."""
    reader, events = form.reader(request), Events()
    for found in (*(events.feed(piece) for piece in pieces), events.end()):
        for event, data in found:
            for item in reader.feed(event, data):
                yield item
                if isinstance(item, StepEnd):
                    return
    yield from reader.end()


def answer_of(form: WireForm, *events: Any, request: ModelRequest = HELLO) -> tuple[list[Part], StepEnd]:
    """The parts that an answer is folded into, and its end."""
    *chunks, end = read(form, as_bytes(events), request=request)
    assert isinstance(end, StepEnd)
    message = UIMessage("reply", "assistant", [])
    reducer = Reducer(message)
    for chunk in chunks:
        assert not isinstance(chunk, StepEnd)
        reducer.feed(chunk)
    return message.parts, end


def check_any_answer(form: WireForm, data: bytes, splits: Iterable[int] = ()) -> None:
    """Bytes of any kind end in a StepEnd or a ModelError, and the chunks before it can be folded and closed."""
    places = sorted({0, len(data), *(split % (len(data) + 1) for split in splits)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    reducer = Reducer(UIMessage("reply", "assistant", []))
    has_end = False
    with suppress(ModelError, NotAStream):  # the model turns the second into the first
        for item in read(form, *pieces):
            if not isinstance(item, StepEnd):
                reducer.feed(item)
            has_end = isinstance(item, StepEnd)
        assert has_end
    reducer.close()
