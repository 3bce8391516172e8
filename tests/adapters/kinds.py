"""One agent of every kind that needs no more than the tests' environment, for tests that hold for all of them."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.adapters import Adapter, FunctionAdapter, ag_ui, command, openai_chat, pydantic_ai, ui_stream
from dragoman.adapters.codex import codex
from examples import wrapped_function, wrapped_pydantic_ai
from tests.adapters.claude.claude_fixtures import adapter_in
from tests.adapters.codex_program import install
from tests.adapters.http_server import Prepared, PreparedServer, Received, sse

WORDS = ("This ", "is ", "an ", "answer ", "of ", "some ", "length ", "that ", "comes ", "in ", "pieces ", ".")


def _ui_stream(request: Received) -> Prepared:
    deltas = [{"type": "text-delta", "id": "t", "delta": word} for word in WORDS]
    call = {"type": "tool-input-available", "toolCallId": f"c{len(request.body['messages'])}", "toolName": "look"}
    return Prepared(
        sse(
            {"type": "start", "messageId": f"m{len(request.body['messages'])}"},
            {**call, "input": {"path": "/a.txt"}},
            {"type": "tool-output-available", "toolCallId": call["toolCallId"], "output": "seen"},
            {"type": "text-start", "id": "t"},
            *deltas,
            {"type": "text-end", "id": "t"},
            {"type": "finish", "finishReason": "stop"},
        )
    )


def _ag_ui(request: Received) -> Prepared:
    deltas = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": word} for word in WORDS]
    start = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
    finished = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
    return Prepared(sse(start, *deltas, {"type": "TEXT_MESSAGE_END", "messageId": "m"}, finished, done=False))


def _chat(request: Received) -> Prepared:
    if request.method == "GET":
        body = json.dumps({"data": [{"id": "small"}, {"id": "large"}]}).encode()
        return Prepared(body, media_type="application/json")
    pieces = [{"choices": [{"delta": {"content": word}}]} for word in WORDS]
    return Prepared(sse(*pieces, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))


@contextmanager
def adapters(kind: str) -> Iterator[Callable[[], Adapter]]:
    """A function that makes an adapter of this kind, and what it needs for as long as the context lasts."""
    if kind == "function":
        yield lambda: FunctionAdapter(wrapped_function.assistant, settings=wrapped_function.SETTINGS)
        return
    if kind == "pydantic_ai":
        yield lambda: pydantic_ai(wrapped_pydantic_ai.assistant)
        return
    if kind == "command":
        yield lambda: command([sys.executable, "-S", "-c", f"for word in {WORDS}: print(word, end='')", "{prompt}"])
        return
    if kind == "claude":
        with TemporaryDirectory(prefix="dragoman-claude-") as folder:
            yield lambda: adapter_in(Path(folder))
        return
    if kind == "codex":
        with TemporaryDirectory() as folder:
            program = str(install(Path(folder)))
            yield lambda: codex(program)
        return
    answers = {"ui_stream": _ui_stream, "ag_ui": _ag_ui, "openai_chat": _chat}
    makers: dict[str, Callable[[str], Adapter]] = {"ui_stream": ui_stream, "ag_ui": ag_ui, "openai_chat": openai_chat}
    with PreparedServer(answers[kind]) as server:
        yield lambda: makers[kind](server.url)


KINDS = ("function", "pydantic_ai", "ui_stream", "ag_ui", "openai_chat", "command", "claude", "codex")
