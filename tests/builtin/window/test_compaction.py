"""Sessions that grow far beyond the model's context window."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.builtin.context.history import ModelConversation, ModelView
from dragoman.builtin.models.model import ModelError
from dragoman.builtin.tools.tool import ToolOutput
from dragoman.uistream.messages import DataPart, StepStartPart, TextPart, ToolPart, UIMessage
from tests.builtin.fixtures import FakeTool, SessionFixture, open_fixture
from tests.builtin.window.counting_model import (
    CountingModel,
    message_text,
    words,
)

WISH = "Rebuild the parser of the config files."
RULE = "Never touch the file secrets.env."


def use(fixture: SessionFixture, model: CountingModel, output_tokens: int = 800) -> None:
    fixture.model = model
    fixture.add(FakeTool("look", lambda arguments, context: ToolOutput(words(output_tokens, f"o{arguments.value}"))))


async def turn(fixture: SessionFixture, text: str) -> ModelError | None:
    model = fixture.model
    assert isinstance(model, CountingModel)
    model.begin_turn()
    end = await fixture.prompt(text)
    assert end.error is None or isinstance(end.error, ModelError), end.error
    return end.error


def facts(fixture: SessionFixture, name: str = "compaction") -> list[DataPart]:
    messages = [*fixture.session.history]
    return [part for message in messages for part in message.parts if isinstance(part, DataPart) and part.name == name]


def check_requests(model: CountingModel) -> None:
    """No request was larger than the window, and each was one that providers accept."""
    assert all(model.tokens(text) <= model.window for text in model.texts)
    assert all(request.messages[0].role == "user" for request in model.requests)
    assert all(request.messages[-1].role == "assistant" for request in model.requests)
    assert model.open_calls == []


@pytest.mark.parametrize("states_window", [True, False], ids=["window known", "window learned"])
async def test_one_session_grows_to_ten_times_its_window(tmp_path: Path, states_window: bool) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=6, states_window=states_window)
        use(fixture, model)
        for number in range(26):
            text = f"{WISH} {RULE}" if number == 0 else f"And now part {number}. {words(150)}"
            assert await turn(fixture, text) is None
            assert fixture.texts()[-1] == f"done {model.calls}"
        whole = sum(model.tokens(message_text(message)) for message in fixture.session.history)
        assert whole > 10 * model.window
        assert model.refused <= (0 if states_window else 1)
        check_requests(model)
        last = model.texts[-1]
        assert WISH in last
        assert RULE in last
        assert "And now part 25" in last
        assert len(facts(fixture)) >= 8
        assert len(model.summaries) == len(facts(fixture))
        # The summary of the summary is merged, never nested.
        assert last.count("The conversation so far was too long") == 1


async def test_leaving_out_many_outputs_looks_at_the_conversation_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of days has thousands of calls, and the event loop serves other sessions meanwhile."""
    looks: list[int] = []
    view = ModelConversation.view

    def counting(self: ModelConversation, running: UIMessage | None = None) -> ModelView:
        looks.append(1)
        return view(self, running)

    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(60_000, steps=1, states_window=True)
        use(fixture, model)
        for number in range(60):
            done = ToolPart(
                f"c{number}", "look", "output-available", {"value": "1"}, {"text": words(900, f"w{number}")}
            )
            fixture.session.history += [
                UIMessage(f"u{number}", "user", [TextPart(f"part {number}")]),
                UIMessage(f"a{number}", "assistant", [StepStartPart(), done, StepStartPart(), TextPart("done")]),
            ]
        await fixture.session.past.read([])
        monkeypatch.setattr(ModelConversation, "view", counting)
        assert await turn(fixture, "go on") is None
        (pruned,) = facts(fixture, "pruning")
        assert len(pruned.data["calls"]) > 20
        assert len(looks) < 20
        kept = [Path(cut["path"]) for cut in pruned.data["calls"].values()]
    assert all(path.name.startswith("c") for path in kept)
    assert len(set(kept)) == len(kept)
