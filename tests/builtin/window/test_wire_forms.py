"""One session far beyond its window in each wire form and through the package; the provider counts and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.context.window.summary import SYSTEM
from dragoman.builtin.tools.tool import ToolOutput
from dragoman.uistream.messages import DataPart
from tests.builtin.fixtures import FakeTool, SessionFixture, open_fixture
from tests.builtin.providers.server import (
    AZURE,
    WIRES,
    Answer,
    Asked,
    ProviderServer,
    Wire,
    refused,
    text_answer,
)
from tests.builtin.providers.server import use as use_tool
from tests.builtin.window.counting_model import GOOD_SUMMARY, words

WINDOW = 16_000
WISH = "Rebuild the parser of the config files."
RULE = "Never touch the file secrets.env."
CALLS_PER_TURN = 5
# And through pydantic-ai.
FORMS = {**WIRES, "package": AZURE}


class CountingProvider:
    """Counts the bytes of each request, refuses what is too much, and plays an agent that looks five times a turn."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.refused_at: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        self.summaries = 0
        self.calls = 0
        self.goal = 0

    def play(self, asked: Asked) -> Answer:
        tokens = int(len(asked.data) / 3.3)
        self.sizes.append(tokens)
        if tokens > WINDOW:
            self.refused_at.append(len(self.sizes) - 1)
            return refused(400, f"prompt is too long: {tokens} tokens > {WINDOW} maximum")
        if json.dumps(SYSTEM[:60])[1:-1] in asked.data.decode():
            self.summaries += 1
            return counted(text_answer(GOOD_SUMMARY), tokens)
        self.bodies.append(asked.body)
        if self.calls < self.goal:
            self.calls += 1
            return counted(Answer((use_tool("look", value=str(self.calls)),)), tokens)
        return counted(text_answer(f"done {self.calls}"), tokens)


def counted(answer: Answer, tokens: int) -> Answer:
    """The answer with what the request had, in the words of every wire form."""
    inputs = ("input_tokens", "prompt_tokens", "promptTokenCount")
    cached = ("cached_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cachedContentTokenCount")

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            changed = {name: change(member) for name, member in value.items()}
            changed |= {name: tokens for name in inputs if name in changed}
            return changed | {name: 0 for name in cached if name in changed}
        return [change(each) for each in value] if isinstance(value, list) else value

    return answer._replace(rewrite=change)


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(each)


def calls_and_results(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of all calls and of all results in a request, whatever its wire form."""
    calls, results = [], []
    for each in objects_in(body):
        match each:
            case {"type": "tool_use", "id": id} | {"type": "function_call", "call_id": id}:
                calls.append(id)
            case {"type": "tool_result", "tool_use_id": id} | {"type": "function_call_output", "call_id": id}:
                results.append(id)
            case {"role": "tool", "tool_call_id": id}:
                results.append(id)
            case {"tool_calls": list(made)}:
                calls += [call["id"] for call in made]
            case {"functionCall": {"name": name}}:
                calls.append(name)
            case {"functionResponse": {"name": name}}:
                results.append(name)
    return sorted(calls), sorted(results)


def messages_of(body: dict[str, Any]) -> list[Any]:
    """The conversation without the cache breakpoints, which move."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(member) for name, member in value.items() if name != "cache_control"}
        return [plain(each) for each in value] if isinstance(value, list) else value

    found: list[Any] = plain(body.get("messages") or body.get("input") or body.get("contents"))
    return found


def facts(fixture: SessionFixture) -> list[DataPart]:
    parts = [part for message in fixture.session.history for part in message.parts]
    return [part for part in parts if isinstance(part, DataPart) and part.name in ("compaction", "pruning")]


@pytest.fixture
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    if found.is_packaged:
        import_module("pydantic_ai.models.openai")  # takes seconds, which do not belong to the test
    return found


# Two of the five forms in every run; make soak has all of them.
@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(wire, id=name, marks=() if name in ("anthropic", "openai-responses") else pytest.mark.soak)
        for name, wire in FORMS.items()
    ],
    indirect=True,
)
async def test_one_session_grows_to_ten_times_its_window(
    tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = CountingProvider()
    with ProviderServer(play=provider.play) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        async with open_fixture(tmp_path) as fixture:
            fixture.model = wire.make()
            look = FakeTool("look", lambda arguments, context: ToolOutput(words(1_700, f"o{arguments.value}")))
            fixture.add(look)
            seen = 0
            try:
                for number in range(200):
                    provider.goal += CALLS_PER_TURN
                    text = f"{WISH} {RULE}" if number == 0 else f"And now part {number}. {words(200)}"
                    end = await fixture.prompt(text)
                    assert end.error is None
                    assert fixture.texts()[-1] == f"done {provider.calls}"
                    seen += CALLS_PER_TURN * 1_700
                    if seen > 10 * WINDOW:
                        break
            finally:
                await fixture.model.close()
            assert server.failures == []
            stored = facts(fixture)
    assert seen > 10 * WINDOW
    assert len(provider.refused_at) <= 1, "the size is learned from the first refusal"
    assert provider.summaries == sum(part.name == "compaction" for part in stored) >= 8
    for body in provider.bodies:
        calls, results = calls_and_results(body)
        assert calls == results
    # The prefix changes where the conversation was shortened, and nowhere else.
    pairs = zip(provider.bodies, provider.bodies[1:], strict=False)
    breaks = sum(messages_of(after)[: len(messages_of(before))] != messages_of(before) for before, after in pairs)
    assert breaks <= len(stored)
    last = json.dumps(provider.bodies[-1])
    assert WISH in last
    assert RULE in last
    assert f"And now part {number}" in last
