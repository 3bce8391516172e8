"""The context of a subagent is its own: what the parent's model is sent, and a window that fills inside a run."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from dragoman.builtin.context.window.facts import CONTEXT
from dragoman.builtin.models.model import Model, ModelRequest, StepEnd
from dragoman.builtin.subagents.run import RunEnd, SubagentRun
from dragoman.builtin.subagents.subagents import MOST_PARALLEL
from dragoman.store.messages import message_from_row
from dragoman.store.sessions import Store
from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import Chunk
from dragoman.uistream.messages import DataPart, Usage
from tests.builtin.http_service import RecordingModel, Service, ask
from tests.builtin.subagents.test_runs import calls, output_of, task
from tests.builtin.window.counting_model import GOOD_SUMMARY, is_summary, text_of

FILES = 12


class Reader(Model):
    """A subagent's model with a small window: it reads one file after the other, and counts what it is sent."""

    name = "scripted"
    context_tokens = 32_000
    is_scripted = True

    def __init__(self) -> None:
        self._steps = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        counted = Usage(input=len(text_of(request)) // 3, output=10)
        reads = not is_summary(request) and self._steps < FILES
        if reads:
            yield c.ToolInputAvailable(f"call_{self._steps}", "read", {"path": f"{self._steps}.txt"})
            self._steps += 1
        else:
            yield c.TextStart("t")
            yield c.TextDelta("t", GOOD_SUMMARY if is_summary(request) else "read all of them")
            yield c.TextEnd("t")
        yield StepEnd("tool-calls" if reads else "stop", counted)


class MainModel(RecordingModel):
    def for_subagent(self) -> Model:
        return Reader()


async def facts_of(service: Service, session_id: str, *, of_child: bool) -> list[str]:
    store = await Store.open(service.settings.store)
    try:
        id = (await store.children(session_id))[0].id if of_child else session_id
        messages = [message_from_row(row) for row in await store.messages(id)]
        return [part.name for message in messages for part in message.parts if isinstance(part, DataPart)]
    finally:
        await store.close()


async def test_a_window_that_fills_inside_a_run_is_shortened_there_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = Service(tmp_path), MainModel()
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    for number in range(FILES):
        (service.project / f"{number}.txt").write_text(f"line {number} of a long file\n" * 400)
    async with service.session() as session:
        await ask(session, task("explore", "read all files"), "say {result}")
        assert "read all of them" in session.state.text
        shortened = set(await facts_of(service, session.id, of_child=True)) & {CONTEXT, "compaction"}
        assert shortened
        assert not set(await facts_of(service, session.id, of_child=False)) & {CONTEXT, "compaction"}
        # The model of the parent reads the answer and nothing of the files.
        last = [each for each in model.requests if each.session_id == session.id][-1]
        assert "of a long file" not in str([message.parts for message in last.messages])


async def test_no_more_than_so_many_work_at_once_and_all_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, most = 0, 0
    work = SubagentRun.run

    async def counted(self: SubagentRun, prompt: str) -> RunEnd:
        nonlocal working, most
        working += 1
        most = max(most, working)
        try:
            return await work(self, prompt)
        finally:
            working -= 1

    monkeypatch.setattr(SubagentRun, "run", counted)
    async with Service(tmp_path).session() as session:
        lines = [task("explore", "pause 0.05", f"say answer {number}") for number in range(MOST_PARALLEL + 3)]
        await ask(session, lines[0], *(f"& {line}" for line in lines[1:]), "say end")
        answers = sorted(output_of(call).partition("\n")[0] for call in calls(session))
    assert answers == [f"answer {number}" for number in range(MOST_PARALLEL + 3)]
    assert most == MOST_PARALLEL
