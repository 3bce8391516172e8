"""Our reading of an answer next to that of the providers' own packages, through pydantic-ai, from the same bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import Model, StepEnd
from dragoman.builtin.models.package.provider import ProviderModel
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import Part, ReasoningPart, TextPart, ToolPart, UIMessage
from tests.builtin.providers import gemini_answers as gemini
from tests.builtin.providers import responses_answers as responses
from tests.builtin.providers.forms import HELLO, as_bytes
from tests.builtin.providers.server import WIRES


@contextmanager
def serving(data: bytes) -> Iterator[str]:
    """A server that answers every request with the same stream."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is recorded."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def answer_of(model: Model) -> tuple[list[Part], StepEnd]:
    reducer = Reducer(UIMessage("reply", "assistant", []))
    try:
        async for item in model.stream(HELLO):
            if isinstance(item, StepEnd):
                return reducer.message.parts, item
            reducer.feed(item)
    finally:
        await model.close()
    raise AssertionError("the answer has no end")


def shown(parts: list[Part]) -> list[tuple[Any, ...]]:
    """The words and calls of an answer. Thoughts and texts of no words only carry what goes back to the provider."""
    return [
        (part.name, part.tool_call_id, part.input) if isinstance(part, ToolPart) else (type(part), part.text)
        for part in parts
        if isinstance(part, ToolPart) or (isinstance(part, (TextPart, ReasoningPart)) and part.text)
    ]


ANSWERS: dict[str, tuple[str, list[Any]]] = {
    "responses: thoughts, words, calls": ("openai-responses", responses.STREAM),
    "responses: cut by a limit": (
        "openai-responses",
        [
            *responses.speech("too long", index=0),
            responses.completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ],
    ),
    "gemini: thoughts, words, calls": ("google", gemini.STREAM),
    "gemini: signed within a text": (
        "google",
        [
            gemini.piece({"text": "one "}),
            gemini.piece({"text": "two", "thoughtSignature": "QQ=="}),
            gemini.piece({"text": " three"}, reason="MAX_TOKENS"),
        ],
    ),
    "gemini: blocked": (
        "google",
        [{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}, "modelVersion": "m"}],
    ),
}


def completed(events: list[Any]) -> list[Any]:
    """The events with the members that the package of OpenAI wants and that we do not read."""
    ids = {event["output_index"]: event["item"]["id"] for event in events if "item" in event}
    found = []
    for number, event in enumerate(events):
        if "type" in event:
            event = {**event, "sequence_number": number, "item_id": ids.get(event.get("output_index"))}
        if "response" in event:
            event["response"] = {"output": [], **event["response"]}
        found.append(event)
    return found


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_is_read_in_the_same_way(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, events = ANSWERS[case]
    wire = WIRES[form]
    with serving(as_bytes(completed(events))) as url:
        for name, value in wire.variables(url).items():
            monkeypatch.setenv(name, value)
        theirs, their_end = await answer_of(ProviderModel(wire.model))
        ours, our_end = await answer_of(find_model(wire.model))
    assert shown(ours) == shown(theirs)
    assert our_end.usage == their_end.usage
    # The package reports "stop" for an answer with calls.
    assert our_end.reason.replace("tool-calls", "stop") == their_end.reason.replace("tool-calls", "stop")
