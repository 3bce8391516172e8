"""Background jobs in a real session: permission, the line about their end, compaction, and that none survives."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dragoman.builtin.context.window.facts import Notes
from dragoman.builtin.context.window.notes import fit_notes, fixed_block, notes_of
from dragoman.testing.scripted_client import RealTerminals
from dragoman.uistream.messages import DataPart, ToolPart
from tests.builtin.http_service import Answers, Service, ask, recording_model
from tests.builtin.test_kill import agent_at, allow, pid_of
from tests.process.kit import is_alive, until

START = 'call bash {"command": "%s", "background": true}'


async def noted_pid(folder: Path) -> int:
    """What a job wrote; its first second may be over before it runs."""
    file = folder / "pid"
    await until(lambda: file.exists() and file.read_text())
    return int(file.read_text())


async def test_a_job_is_asked_about_and_never_runs_in_the_terminal_of_the_client(tmp_path: Path) -> None:
    service, user, terminals = Service(tmp_path), Answers("reject_once", "allow_once"), RealTerminals()
    async with service.session(permission=user, terminals=terminals) as session:
        await ask(session, START % "echo $$ >pid; exec sleep 60", "say {result}")
        assert len(user.asked) == 1
        assert not (service.project / "pid").exists()
        await ask(session, START % "echo $$ >pid; exec sleep 60", "say {result}")
        assert "[job bg_1 runs in the background (timeout 1800 s)" in session.state.text
        assert all("terminal_id" not in str(call.content) for call in session.state.tool_calls.values())
        pid = await noted_pid(service.project)
        assert is_alive(pid)
        await ask(session, "/context")
        assert "- bg_1 is running since" in session.state.text
    await until(lambda: not is_alive(pid))


async def test_a_job_is_found_and_ended_after_the_model_has_forgotten_the_conversation(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        await ask(session, START % "echo $$ >pid; exec sleep 60")
        pid = await noted_pid(service.project)
        await ask(session, "/clear")
        await ask(session, 'call bash_output {"id": "bg_1"}', "say {result}")
        assert "is running" in session.state.text
        assert is_alive(pid)
    await until(lambda: not is_alive(pid))


async def test_the_end_of_a_job_is_a_line_of_the_next_result_or_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, service = recording_model(monkeypatch), Service(tmp_path, mode="full")
    (service.project / "a").write_text("text\n")
    os.mkfifo(service.project / "go")
    async with service.session() as session:
        await ask(session, START % "read x <go; seq 214; touch done1; exit 1")
        await asyncio.to_thread((service.project / "go").write_text, "\n")
        await until((service.project / "done1").exists)
        await until(lambda: "ended" in _listed(service))
        await ask(session, "read a", "say {result}")
        [said] = [
            part
            for part in model.requests[-1].messages[-2].parts
            if isinstance(part, DataPart) and "job" in str(part.data)
        ]
        assert said.data["text"] == "[job bg_1 ended with exit code 1; 214 new lines, see bash_output]"
        assert model.requests[-1].messages[-2].parts[0] is said
        assert session.state.text == "1\ttext"

        os.mkfifo(service.project / "go2")
        asking = asyncio.ensure_future(
            ask(session, START % "read x <go; exit 0", "run touch on; read x <go2", "read a")
        )
        await until((service.project / "on").exists)
        await asyncio.to_thread((service.project / "go").write_text, "\n")
        await until(lambda: "bg_2 ended" in _listed(service))
        await asyncio.to_thread((service.project / "go2").write_text, "\n")
        await asking
        results = [part.output["text"] for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolPart)]
        assert [text.startswith("[job bg_2 ended with exit code 0; 0 new lines") for text in results].count(True) == 1


def _listed(service: Service) -> str:
    from dragoman.builtin.agent import BuiltInAgent
    from dragoman.builtin.tools.jobs import job_lines

    own: BuiltInAgent = service.agent._built_in  # type: ignore[attr-defined]  # the agent behind the handlers
    return "\n".join(line for session in own._sessions.values() for line in job_lines(session.memory))


async def test_no_job_survives_a_kill_of_the_agent(tmp_path: Path) -> None:
    async with agent_at(tmp_path, permission=allow) as agent:
        session = await agent.new_session(tmp_path)
        await ask(session, START % "trap '' TERM HUP; echo $$ >pid; while true; do sleep 1; done")
        pid = await noted_pid(tmp_path)
        assert is_alive(pid)
        os.kill(pid_of(agent), signal.SIGKILL)
        await until(lambda: not is_alive(pid))


def test_a_summary_lists_the_jobs_of_its_time() -> None:
    before = notes_of([], Notes(goal="go"), (), ["bg_1 is running since 3 s: make"])
    assert "Commands and background jobs:\n- bg_1 is running since 3 s: make" in fixed_block(before)
    after = notes_of([], before, (), ["bg_2 is running since 1 s: npm start"])
    assert after.jobs == ["bg_2 is running since 1 s: npm start"]
    assert fit_notes(after, 10_000).jobs == after.jobs


async def test_a_summary_of_a_session_names_its_jobs_and_the_folder_of_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, service = recording_model(monkeypatch), Service(tmp_path, mode="full")
    (service.project / "sub").mkdir()
    async with service.session() as session:
        await ask(session, START % "exec sleep 60", "run cd sub")
        for _ in range(4):
            await ask(session, f"say {'word ' * 2000}")
        await ask(session, "/compact")
        assert "The conversation was shortened" in session.state.text
        await ask(session, "say on")
        summary = model.words[0]
        assert "Commands and background jobs:\n- commands run in sub\n- bg_1 is running since" in summary
