"""Compaction in the life of a session: restart, cancel, forks, commands, and what clients are shown."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from dragoman.builtin.context.history import ModelConversation
from dragoman.builtin.context.window.facts import Compaction, TailStart
from dragoman.builtin.models.model import ModelRequest
from dragoman.schema import v1
from dragoman.store.messages import message_from_row
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import DataPart, OtherPart, TextPart, ToolPart, UIMessage
from dragoman.uistream.updates import Projector
from tests.builtin.fixtures import SessionFixture, model_view, open_fixture
from tests.builtin.http_service import Service, ask
from tests.builtin.window.counting_model import GOOD_SUMMARY, CountingModel, words
from tests.builtin.window.test_compaction import RULE, WISH, check_requests, facts, turn, use


def encoded(messages: tuple[UIMessage, ...]) -> bytes:
    """Everything of the messages that a wire form sends: ids of texts are not sent and not stored."""
    plain = []
    for message in messages:
        parts = [
            msgspec.structs.replace(part, id="") if isinstance(part, TextPart) else part
            for part in message.parts
            if not isinstance(part, DataPart)
        ]
        plain.append((message.role, parts))
    return msgspec.json.encode(plain)


async def stored_messages(fixture: SessionFixture, session_id: str) -> tuple[UIMessage, ...]:
    """All messages of a session as another process reads them."""
    return tuple(map(message_from_row, await fixture.store.messages(session_id)))


async def filled(fixture: SessionFixture, compactions: int = 1, **options: Any) -> CountingModel:
    """A session that was shortened so many times."""
    model = CountingModel(12_000, steps=4, states_window=True, **options)
    use(fixture, model)
    while len(facts(fixture)) < compactions:
        assert await turn(fixture, f"{WISH} {RULE}" if not model.calls else f"part {model.calls}") is None
    return model


async def test_after_a_restart_the_model_is_given_the_same_bytes(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = await filled(fixture, 3)
        while not facts(fixture, "pruning"):
            assert await turn(fixture, "go on") is None
        before = encoded(model_view(fixture.session.history))
        whole = encoded(tuple(fixture.session.history))
        stored = await stored_messages(fixture, fixture.session.row.id)
        assert encoded(model_view(stored)) == before
        assert encoded(stored) == whole, "nothing stored has changed"
        await fixture.reopen()
        requests = len(model.texts)
        assert await turn(fixture, "after the restart") is None
        assert model.texts[requests].startswith(model.texts[requests - 1][:2000])
        check_requests(model)


async def test_unchanged_messages_are_the_same_objects_from_step_to_step(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        use(fixture, model)
        for number in range(8):
            assert await turn(fixture, f"part {number}") is None
        assert facts(fixture)
        changed = 0
        for before, after in zip(model.requests, model.requests[1:], strict=False):
            same = all(one is other for one, other in zip(before.messages[:-1], after.messages, strict=False))
            changed += not same
        assert changed <= len(facts(fixture)) + len(facts(fixture, "pruning")) + 1
        assert [request.stable_until for request in model.requests][-1] == 1
        assert model.requests[0].stable_until == 0


async def test_a_cancelled_compaction_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        use(fixture, model)
        asked = asyncio.Event()

        async def hang() -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        model.summarise = lambda request: hang()
        running: asyncio.Task[Any] | None = None
        while not asked.is_set():
            model.begin_turn()
            running = fixture.start("go on")
            waiting = asyncio.ensure_future(asked.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        assert running is not None
        running.cancel()
        end = await running
        assert end.was_cancelled
        assert facts(fixture) == []
        projector = Projector(shows_compactions=True)
        statuses = [
            update.status
            for chunk in fixture.seen
            for update in projector.project(chunk)
            if isinstance(update, v1.CompactionUpdate)
        ]
        assert statuses == ["in_progress", "cancelled"]
        model.summarise = lambda request: GOOD_SUMMARY
        assert await turn(fixture, "again") is None
        assert len(facts(fixture)) == 1
        check_requests(model)


async def test_what_the_user_adds_during_a_turn_survives_its_compaction(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=30, states_window=True)
        use(fixture, model)
        model.begin_turn()
        # Not by what was shown: the turn runs ahead of that.
        stream, calls = model.stream, count(1)

        def steered(request: ModelRequest) -> Any:
            if next(calls) == 3:
                assert fixture.session.steer("Leave the tests alone, please.")
            return stream(request)

        model.stream = steered  # type: ignore[method-assign]
        end = await fixture.start(WISH)
        assert end.error is None
        assert len(facts(fixture)) >= 2
        assert any(isinstance(part, OtherPart) for part in fixture.session.history[-1].parts)
        assert "Leave the tests alone, please." in model.texts[-1]
        assert WISH in model.texts[-1]
        check_requests(model)


async def test_the_to_do_list_and_files_are_carried_over(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        use(fixture, model)
        assert await turn(fixture, WISH) is None
        history = fixture.session.history
        history[-1].parts += [
            ToolPart("r1", "read", "output-available", {"path": "src/a.py"}, {"text": "a"}),
            ToolPart("w1", "edit", "output-available", {"path": "src/b.py"}, {"text": "b"}),
            ToolPart("w2", "edit", "output-error", {"path": "src/failed.py"}, error_text="no"),
            DataPart("plan", {"entries": [{"content": "write tests", "status": "in_progress"}]}, "plan"),
        ]
        for _ in range(3):
            count = len(facts(fixture))
            while len(facts(fixture)) == count:
                assert await turn(fixture, "go on") is None
        last = model.texts[-1]
        assert "Files changed so far:\n- src/b.py" in last
        assert "Files read so far:\n- src/a.py" in last
        assert "src/failed.py" not in last
        assert "- [in_progress] write tests" in last


async def test_a_fork_before_a_compaction_has_none_and_one_after_it_has_the_same(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        await filled(fixture, 2)
        session, store = fixture.session, fixture.store
        carriers = [
            m for m in session.history if any(isinstance(p, DataPart) and p.name == "compaction" for p in m.parts)
        ]
        before = session.history[session.history.index(carriers[0]) - 2]
        for until, expected in ((before.id, None), (None, encoded(model_view(session.history)))):
            row = msgspec.structs.replace(session.row, id=f"ses_{until}", parent_id=session.row.id, created_at="")
            fork = await store.fork_session(row, until=until)
            view = encoded(model_view(await stored_messages(fixture, fork.id)))
            if expected is None:
                assert b"was too long and was replaced" not in view
            else:
                assert view == expected


async def test_clear_forgets_the_summary_too(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        await filled(fixture)
        await fixture.session.submit(fixture.prompt_of("/clear"))
        assert model_view(fixture.session.history) == ()


# Commands


async def test_compact_shortens_at_once_and_keeps_what_the_user_names(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(40_000, steps=6, states_window=True)
        use(fixture, model)
        for number in range(4):
            assert await turn(fixture, f"{WISH} {RULE}" if not number else "go on") is None
        requests = len(model.requests)
        end = await fixture.session.submit(fixture.prompt_of("/compact the names of the functions"))
        assert end.error is None
        assert len(model.requests) == requests, "the conversation itself is not continued"
        (asked,) = model.summaries
        assert "keep in particular: the names of the functions" in asked.system
        assert "The conversation was shortened: about" in fixture.texts()[-1]
        assert await turn(fixture, "and now") is None
        assert "/compact" not in model.texts[-1]
        assert "The conversation was shortened" not in model.texts[-1]
        assert RULE in model.texts[-1]
        assert model.tokens(model.texts[requests]) < model.tokens(model.texts[requests - 1]) // 2
        check_requests(model)


async def test_compact_of_a_short_conversation_does_nothing(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(40_000, steps=0, states_window=True)
        use(fixture, model)
        assert await turn(fixture, "hi") is None
        await fixture.session.submit(fixture.prompt_of("/compact"))
        assert "There is nothing to shorten" in fixture.texts()[-1]
        assert facts(fixture) == []
        assert not [chunk for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "compaction"]


async def test_context_shows_what_fills_the_window(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = await filled(fixture)
        await fixture.session.submit(fixture.prompt_of("/context"))
        text = fixture.texts()[-1]
        for name in ("System prompt", "Tools", "Summary", "Messages", "Outputs of tools", "Free"):
            assert f"| {name} |" in text
        assert "of 12,000 tokens" in text
        rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and "█" in line]
        assert rows
        shown = int(text.split("about ")[1].split(" ")[0].replace(",", ""))
        assert abs(shown - model.tokens(model.texts[-1])) < 800


# Sizes


async def test_an_unknown_window_is_assumed_and_reported_once_for_all_sessions(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(500_000, steps=0)
        use(fixture, model)
        assert await turn(fixture, "hi") is None
        assert await turn(fixture, "hi") is None
        notices = [
            chunk.data["title"] for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "notice"
        ]
        assert notices == ["The context window of counting:one is not known; 128,000 tokens are assumed"]
    async with open_fixture(tmp_path) as fixture:
        use(fixture, CountingModel(500_000, steps=0))
        assert await turn(fixture, "hi") is None
        assert not [chunk for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "notice"]


async def test_a_server_that_cuts_the_conversation_without_an_error_is_noticed(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(500_000, steps=4)
        model.name = "ollama:small"
        model.counts_at_most = 4_096
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, "go on") is None
        notices = [
            chunk.data["title"] for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "notice"
        ]
        assert any("only the end of the conversation" in title for title in notices)
        assert fixture.session.row.metadata["windows"] == {"ollama:small": 4_096}
        model.texts.clear()
        assert await turn(fixture, "go on") is None
        assert all(model.tokens(text) < 6_000 for text in model.texts)


async def test_a_message_that_is_not_a_fact_changes_nothing() -> None:
    odd = UIMessage("a", "assistant", [DataPart("compaction", {"id": 1}), DataPart("pruning", "x"), TextPart("hi")])
    history = (UIMessage("u", "user", [TextPart("hello")]), odd)
    assert model_view(history) == history


def test_a_compaction_refers_to_messages_by_distance() -> None:
    """Positions, not ids, so that a fork finds the same messages."""
    question, answer = UIMessage("u", "user", [TextPart("one")]), UIMessage("a", "assistant", [TextPart("two")])
    fact = Compaction("c", "the summary", TailStart(1))
    carrier = UIMessage("b", "assistant", [DataPart("compaction", msgspec.to_builtins(fact)), TextPart("five")])
    late = UIMessage("v", "user", [TextPart("four")])
    view = ModelConversation((question, answer, late, carrier)).view()
    assert [message.parts[0] for message in view.messages if isinstance(message.parts[0], TextPart)] == [
        TextPart("the summary"),
        TextPart("four"),
    ]
    assert view.messages[-1] is carrier


# What clients are shown


@pytest.mark.parametrize("announces", [True, False])
async def test_clients_are_shown_a_compaction_and_a_loaded_session_is_whole(
    tmp_path: Path, announces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CountingModel(30_000, steps=0, states_window=True)
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    service = Service(tmp_path)
    if not announces:
        monkeypatch.setattr(v1, "CompactionCapabilities", lambda: UNSET)  # our client announces it always
    async with service.client() as agent:
        session = await agent.new_session(service.project)
        for number in range(16):
            await ask(session, f"part {number} {words(1_500)}")
        shown(session, announces=announces)
        used = session.state.usage
        assert used is not None
        assert used.used < 20_000
    async with service.client() as agent:
        loaded = await agent.load_session(session.id, service.project)
        shown(loaded, announces=announces)
        asked = [message.text for message in loaded.state.messages if message.role == "user"]
        assert [text.split(" word")[0].split(" ")[1] for text in asked] == [str(number) for number in range(16)]


def shown(session: Any, *, announces: bool) -> None:
    state = session.state
    calls = [call for call in state.tool_calls.values() if call.kind == "think"]
    lines = [message.text for message in state.messages if "was shortened: about" in message.text]
    if announces:
        assert [each.status for each in state.compactions.values()] == ["completed"]
        assert "## Goal and wishes" in next(iter(state.compactions.values())).text
        assert (calls, lines) == ([], [])
    else:
        assert not state.compactions
        (call,) = calls
        assert call.status == "completed"
        assert "## Goal and wishes" in call.content[0].content.text
        assert len(lines) == 1
