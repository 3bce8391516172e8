"""Forms, pages, logins and failures in the plain client, as a user meets them; and the lines that they are made of."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.elicitation.form import UnreadableForm
from dragoman.errors import ConfigError, ConnectionClosed, RemoteProtocolError, RequestError, StoreError
from dragoman.host.local.start import NoHost
from dragoman.host.working.question_details import answers_of
from dragoman.schema import Unknown, v1
from dragoman.state import SessionState, fold
from dragoman.tui.question_lines import answer_lines
from dragoman.tui.questions.failures import Failure, explain, work_of
from dragoman.tui.questions.form_values import FormDialogue
from dragoman.tui.questions.logins import login_command, shown_command
from tests.tui.here import SCRIPTED, UserHere

LOGIN_AGENT = str(Path(__file__).parent / "login_agent.py")


async def test_a_form_is_asked_line_by_line_and_a_page_is_declined(user: UserHere) -> None:
    async with user.host_here(), user.plain(agent="scripted") as client:
        client.type("elicitation")
        await client.until("question: scripted asks you to fill in a form")
        await client.until("form: Name")
        client.type("")
        await client.until("note: an empty line is not an answer: this field is required")
        client.type("Ada")
        await client.until("form: Colour")
        client.type("2")
        await client.until("form: Age")
        client.type("old")
        await client.until("note: old is not a whole number")
        client.type("")
        await client.until("form: Subscribe")
        client.type("y")
        await client.until("form: this will be sent")
        await client.until("3: Age: (left out)")
        client.type("/send")
        await client.until("AcceptElicitation: {'name': 'Ada', 'colour': 'green', 'subscribe': True}")
        await client.until("-- done")
        client.type("elicitation")
        await client.until("form: Name")
        client.type("/decline")
        await client.until("DeclineElicitation")
        await client.until("-- done")
        client.type("url")
        await client.until("host: example.org")
        await client.until("  https://example.org/")
        client.type("/cancel")
        await client.until("CancelElicitation")
        await client.until("-- done")


async def test_a_login_by_the_agent_opens_the_session_with_the_prompt_that_waited(
    user: UserHere, tmp_path: Path
) -> None:
    command = (sys.executable, LOGIN_AGENT, str(tmp_path / "never"))
    async with user.host_here(), user.plain(command=command) as client:
        client.type("say kept")
        await client.until("wants a login first")
        await client.until("/1: log in")
        client.type("/1")
        await client.until("1: Scripted login (the agent does it)")
        await client.until("answer with a number")
        # Without a terminal, what needs one can only fail.
        assert not any("dragoman login" in line or "in a terminal" in line for line in client.seen)
        client.type("1")
        await client.until("note: logged in")
        await client.until("  kept")
        await client.until("-- done")


async def test_a_prompt_that_could_not_run_after_a_crash_goes_to_the_new_session(user: UserHere) -> None:
    async with user.host_here(has_programs=True), user.plain(agent="scripted") as client:
        client.type("crash 3")
        await client.until("error: scripted ended while working (exit code 3)")
        await client.until("scripted agent: crashing on request")
        await client.until("restart and resume")
        client.type("say not lost")  # this agent forgets its sessions with its process
        await client.until("error: this session cannot go on")
        await client.until("/1: restart with a new session")
        client.type("/1")
        await client.until("note: session")
        await client.until("  not lost")
        await client.until("-- done")


async def test_a_rejected_question_says_why_to_the_built_in_agent(user: UserHere) -> None:
    async with user.host_here(), user.plain(**SCRIPTED) as client:
        client.type("edit a.txt hello => bye\\", "say {result}")
        await client.until("why: no rule allows it")
        await client.until("writes: allow edit:a.txt, in ")
        await client.answer("/why use b.txt")
        await client.until("note: rejected, with your reason")
        await client.until("The user refused this call and wrote: use b.txt")
        await client.until("-- done")
        assert (user.project / "a.txt").read_text() == "hello\n"


async def test_a_prompt_after_a_killed_agent_is_not_swallowed(user: UserHere) -> None:
    async with user.host_here(has_programs=True), user.plain(**SCRIPTED) as client:
        client.type("run sleep 1000")
        await client.until("another line is a prompt")
        for pid in user.agent_pids():
            os.kill(pid, signal.SIGKILL)
        await client.until("ended while working (signal KILL)")
        await client.until("likely: it was killed")
        client.type("say after")
        await client.until("  after")
        await client.until("-- done")


# Pure


@pytest.mark.parametrize(
    ("error", "kind", "text", "acts"),
    [
        (NoHost("no host runs"), "host", "cannot be reached: no host runs", {"retry", "log"}),
        (ConnectionClosed("gone"), "host", "cannot be reached", {"retry"}),
        (RequestError(-32000, "Log in first"), "login", "agent wants a login first: Log in first", {"login"}),
        (RequestError(-32002, "no such session"), "session", "no such session", {"new", "agent"}),
        (RequestError(-32603, "x", {"reason": "agent_lost"}), "session", "x", {"new"}),
        (StoreError("the disk is full"), "disk", "the disk is full", {"retry"}),
        (OSError(28, "No space left on device"), "disk", "No space left", {"retry"}),
        (RemoteProtocolError("bad", path="$.x"), "protocol", "sent what the protocol does not allow: bad", {"retry"}),
        (ConfigError("x; dragoman agents install codex"), "missing", "agents install codex", {"install"}),
        (ConfigError("no agent is called 'x'"), "other", "no agent is called 'x'", {"retry", "agent"}),
        (RequestError(-32603, "x", {"reason": "agent_start", "exitCode": 127}), "ended", "x", {"new", "agent", "log"}),
    ],
)
def test_every_failure_names_its_cause_and_what_can_be_done(
    error: Exception, kind: str, text: str, acts: set[str]
) -> None:
    found = explain(error, is_fatal=True, agent="agent")
    assert found.kind == kind
    assert text in found.lines()[0]
    offered = {each.act for each in found.choices}
    assert acts <= offered
    assert "report" in offered
    assert not offered & {"dismiss", "restart", "stop"}, "there is no turn to go back to"
    keys = [each.key for each in found.choices]
    assert len(set(keys)) == len(keys)


def test_a_model_that_fails_is_shown_with_the_data_of_its_error() -> None:
    error = RequestError(-32603, "overloaded", {"status": 529, "provider": "anthropic", "nested": {}})
    found = explain(error, is_fatal=False)
    assert found.lines() == ["the turn failed: overloaded", "status: 529, provider: anthropic"]
    assert {"login", "dismiss"} <= {each.act for each in found.choices}


@pytest.mark.parametrize(
    ("data", "likely"),
    [
        ({"exitCode": 134, "stderr": ["FATAL ERROR: Reached heap limit Allocation failed"]}, "out of memory"),
        ({"exitCode": -9, "signal": "SIGKILL"}, "it was killed: by the system because memory ran out, or by hand"),
        ({"exitCode": 1, "stderr": ["ENOSPC: no space left on device"]}, "the disk is full"),
        ({"exitCode": 1, "stderr": ["Error: Cannot find module 'x'"]}, "part of its program is missing"),
        ({"exitCode": 1}, ""),
    ],
)
def test_the_likely_cause_of_an_end(data: dict[str, Any], likely: str) -> None:
    found = explain(RequestError(-32603, "gone", {"reason": "agent_exited", **data}), is_fatal=False)
    assert likely in found.likely
    assert bool(found.likely) == bool(likely)


def test_what_was_kept_and_what_was_not() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("go")])
    for update in (
        v1.Plan([v1.PlanEntry("a", "high", "completed"), v1.PlanEntry("b", "high", "in_progress")]),
        v1.ToolCall("1", "edit", kind="edit", status="completed", content=[v1.Diff("a.py", "x", old_text="y")]),
        v1.ToolCall("2", "pytest -q", kind="execute", status="in_progress"),
    ):
        fold(state, update)
    work = work_of(state, 252.0)
    assert work.kept == "the conversation, 1 of 2 steps, changes in 1 file"
    assert work.lost == 'what was running: "pytest -q"'
    data = {"reason": "agent_exited", "exitCode": 137}
    lines = explain(RequestError(-32603, "gone", data), is_fatal=False, agent="claude", work=work).lines()
    assert lines[0].startswith("claude ended while working (exit code 137) after ")
    assert lines[1] == f"kept: {work.kept}"


def test_a_missing_agent_whose_name_is_an_option_is_not_installed() -> None:
    found = explain(ConfigError("install it with: dragoman agents install --without-checksum"), is_fatal=True)
    assert found.program == ()
    assert "install" not in {each.act for each in found.choices}
    assert isinstance(found, Failure)


@pytest.mark.parametrize(
    ("agent", "method", "command"),
    [
        ("gemini", "oauth", "dragoman login -a gemini oauth"),
        ("dragoman --model scripted", "", "dragoman login -a dragoman"),
        ("-- ./my agent", "x", "dragoman login x -- ./my agent"),
    ],
)
def test_the_login_of_an_agent_is_a_command(agent: str, method: str, command: str) -> None:
    assert shown_command(login_command(agent, method)) == command


def test_options_whose_meaning_is_not_clear_cannot_be_chosen() -> None:
    options = [
        v1.PermissionOption("a", "Allow", "allow_once"),
        v1.PermissionOption("a", "Reject", "reject_once"),
        v1.PermissionOption("b", "Later", "allow_for_an_hour"),
        v1.PermissionOption("c", "No", "reject_once"),
    ]
    request = v1.RequestPermissionRequest("s", v1.ToolCallPatch("1", title="x"), options)
    assert [each.is_clear for each in answers_of(request)] == [False, False, False, True]
    assert [line.partition(":")[0].strip() for line in answer_lines(request, 80)] == ["-", "-", "-", "4"]


async def test_a_form_dialogue_sends_declines_and_cancels() -> None:
    properties: dict[str, Any] = {
        "when": v1.StringPropertySchema(title="When", format="date"),
        "size": v1.NumberPropertySchema(title="Size", maximum=2.5, default=1.5),
    }
    schema = v1.ElicitationSchema(properties=properties, required=["when"])
    request = v1.ElicitationFormMode(message="?", requested_schema=schema, session_id="s")
    dialogue = FormDialogue(request, "agent", 80)
    for line in ("2026-02-31", "2026-02-28", "", "1", "2026-03-01", "9", "2", "/send"):
        assert dialogue.outcome is None
        await dialogue.take(line)
    assert dialogue.outcome == v1.AcceptElicitation({"when": "2026-03-01", "size": 2})
    for word, outcome in (("/decline", v1.DeclineElicitation()), ("/cancel", v1.CancelElicitation())):
        dialogue = FormDialogue(request, "agent", 80)
        await dialogue.take(word)
        assert dialogue.outcome == outcome


def test_a_form_with_a_required_field_of_an_unknown_kind_is_not_asked() -> None:
    odd: Any = Unknown("tensor", {"type": "tensor"})
    schema = v1.ElicitationSchema(properties={"x": odd}, required=["x"])
    request = v1.ElicitationFormMode(message="?", requested_schema=schema, session_id="s")
    with pytest.raises(UnreadableForm, match="the field x is of a kind"):
        FormDialogue(request, "agent", 80)
