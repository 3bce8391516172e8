"""What every form of the terminal client shows of a request: what was read, and what an answer really saves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from tests.client.lying_agent import HIDDEN
from tests.tui.here import UserHere

LIAR: dict[str, Any] = {"command": (sys.executable, str(Path(__file__).parents[1] / "client/lying_agent.py"))}
ANSWERS = ("allow-once", "allow-session", "allow-project", "reject-once", "reject-session", "reject-project")


def check(user: UserHere, shown: str) -> None:
    """The question shows the command and, as the agent's word, the title; its answers say what they do."""
    assert f"question: run: {HIDDEN}" in shown
    assert f"shell: {HIDDEN}" in shown
    assert "the agent calls it: npm test" in shown
    assert "1: Allow" in shown
    assert "2: yes, always: Reject" in shown
    assert "the agent remembers this in its own way; dragoman writes no rule" in shown
    assert not (user.project / "hidden-file").exists()


async def test_plain_shows_the_command_that_runs(user: UserHere) -> None:
    async with user.host_here(), user.plain(**LIAR) as client:
        client.type("lie")
        await client.until("another line is a prompt")
        check(user, "\n".join(client.seen))
        client.clock.let_pass()
        client.type("1")
        await client.until("it ran")
    assert (user.project / "hidden-file").exists()


async def test_inline_shows_the_command_that_runs(user: UserHere) -> None:
    async with user.host_here(), user.inline(**LIAR) as client:
        await client.until("Enter send")
        client.type("lie\r")
        await client.until("3: Reject")
        check(user, client.everything)
        await client.answer("\x1b1", "it ran")
    assert (user.project / "hidden-file").exists()


async def test_the_full_screen_shows_the_command_that_runs(user: UserHere) -> None:
    async with user.host_here(), user.screen(**LIAR) as client:
        await client.until("F1 help")
        client.type("lie\r")
        check(user, await client.until("3: Reject"))
        await client.answer("1", "it ran")
    assert (user.project / "hidden-file").exists()


@pytest.mark.parametrize("number", range(1, 7))
async def test_every_answer_saves_what_it_stated(user: UserHere, number: int) -> None:
    option = ANSWERS[number - 1]
    action = "allow" if option.startswith("allow") else "deny"
    kept = user.home / "dragoman/config/rules.json"
    async with user.host_here(), user.plain(**LIAR) as client:
        client.type("run touch made")
        await client.answer(str(number))
        shown = " ".join(line.strip().removeprefix("⤷ ") for line in client.seen)
        assert f"keeps: {action} execute:touch made" in shown
        assert f"writes: {action} execute:touch made, in ~/dragoman/config/rules.json" in shown
        await client.until("-- done")
        assert rules(kept) == ([(action, "execute:touch made")] if option.endswith("project") else [])
        assert (user.project / "made").exists() == (action == "allow")
        # The same again: an answer that holds longer than once is not asked for a second time.
        client.type("run touch made")
        if option.endswith("once"):
            await client.answer("4")
        await client.until("it ran" if action == "allow" and not option.endswith("once") else "refused: ")
        await client.until("-- done")


async def test_an_answer_for_the_session_holds_when_its_agent_is_started_again(user: UserHere) -> None:
    async with user.host_here() as host, user.plain(**LIAR) as client:
        client.type("run touch made")
        await client.answer("5")
        await client.until("-- done")
        (session,) = host.live_sessions()
        assert session.facts["answered"] == [["deny", "execute:touch made"]]
        terms = host.services.terms_of(session)
        assert [(rule.action, rule.text, rule.scope) for rule in terms.rules(None)] == [
            ("deny", "execute:touch made", "session")
        ]


def rules(path: Path) -> list[Any]:
    """The rules of the one project that has some."""
    if not path.exists():
        return []
    ((_, found),) = json.loads(path.read_text())["projects"].items()
    return [(rule["action"], rule["rule"]) for rule in found]
