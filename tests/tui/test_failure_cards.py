"""The cards of failures on the full screen, with a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("textual")

from dragoman.errors import ConfigError, RequestError
from dragoman.tui.questions.failures import explain
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.cards import ActionCard
from tests.tui.test_questions import Clock
from tests.tui.test_screen import grid, painted, shown


async def test_a_failure_is_a_card_whose_keys_work_only_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def restart() -> None:
        done.append("restart")

    async with shown(monkeypatch) as (app, pilot):
        clock = Clock(app)
        monkeypatch.setattr(app.conversation, "restart", restart)
        data = {"reason": "agent_exited", "exitCode": -9, "signal": "SIGKILL", "stderr": ["heap out of memory"]}
        app.conversation.trouble = explain(RequestError(-32603, "gone", data), is_fatal=False, agent="claude")
        lines = await painted(app, pilot)
        text = "\n".join(lines)
        assert "✘ claude ended while working (signal KILL)" in text
        assert "likely: out of memory" in text
        assert "[r] restart and resume" in text
        await pilot.press("r")
        assert done == []
        assert app.query_one(PromptInput).text == "r"
        await pilot.press("tab", "r")
        assert done == [], "too soon"
        clock.now += 1
        await pilot.press("r")
        await pilot.pause()
        assert done == ["restart"]
        await pilot.press("x")
        await painted(app, pilot)
        assert not app.query_one(ActionCard).display
        assert app.query_one(PromptInput).has_focus


async def test_an_agent_is_installed_only_after_a_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    async def run(argv: Any, **options: Any) -> int:
        ran.append(argv[1:])
        return 0

    monkeypatch.setattr("dragoman.process.foreground.run_in_foreground", run)
    async with shown(monkeypatch) as (app, pilot):
        clock = Clock(app)
        app.conversation.phase = "failed"
        error = ConfigError("claude is not installed; install it with: dragoman agents install claude")
        app.conversation.trouble = explain(error, is_fatal=True)
        await painted(app, pilot)
        clock.now += 1
        await pilot.press("tab", "i")
        await pilot.pause()
        assert any("run dragoman agents install claude?" in line for line in grid(app))
        await pilot.press("enter")
        await pilot.pause()
        assert ran == [], "the first answer is no"


async def test_a_turn_from_which_nothing_comes_is_offered_to_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        app.conversation.is_foreign_turn = True
        assert not any("nothing came" in line for line in await painted(app, pilot))
        app.conversation.last_sign -= 200
        assert any("nothing came from claude for" in line for line in await painted(app, pilot))
        assert any("[s] stop the turn" in line for line in grid(app))
        app.conversation.last_sign += 200
        assert not any("nothing came" in line for line in await painted(app, pilot))


async def test_a_report_holds_the_failure_and_none_of_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.text.secrets import Secrets

    secrets = Secrets({"OPENAI_API_KEY": "sk-very-secret-key"})
    monkeypatch.setattr("dragoman.tui.questions.failures.known_keys", secrets)
    data = {"reason": "agent_exited", "exitCode": 1, "stderr": ["bad key sk-very-secret-key"]}
    failure = explain(RequestError(-32603, "gone", data), is_fatal=False, agent="codex")
    report = failure.report([("agent", "codex sk-very-secret-key")])
    assert "sk-very-secret-key" not in report
    assert "[OPENAI_API_KEY]" in report
    assert "codex ended while working (exit code 1)" in report


def test_a_turn_that_the_end_of_the_host_interrupted_is_explained_in_words() -> None:
    error = RequestError(-32603, "the host ended in the middle", {"reason": "interrupted", "maybeExecuted": True})
    failure = explain(error, is_fatal=False, agent="codex")
    assert not any("maybeExecuted" in line for line in failure.lines())
    assert failure.choice("g") is None, "a login does not help"


async def test_the_card_names_why_an_agent_does_not_take_up_its_session_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Remote:
        async def request(self, method: str, params: Any) -> Any:
            raise RequestError(-32603, "Internal error", {"details": "Invalid session identifier"})

        async def close(self) -> None:
            pass

    async with shown(monkeypatch) as (app, pilot):
        monkeypatch.setattr(app.conversation, "_remote", Remote())
        data = {"reason": "agent_exited", "exitCode": -9, "signal": "SIGKILL"}
        app.conversation.trouble = explain(RequestError(-32603, "gone", data), is_fatal=False, agent="claude")
        await app.conversation.restart()
        text = "\n".join(await painted(app, pilot))
        assert "✘ claude cannot go on with this session: Invalid session identifier" in text
        assert "[r] restart and resume   [R] restart with a new session" in text
