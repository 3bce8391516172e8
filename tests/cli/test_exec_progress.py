"""The progress of `dragoman exec` on stderr: a status line on a terminal, lines in a log, groups in GitHub Actions."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any

import jsonschema
import pytest

from dragoman.cli.exec.github import GithubStream, defuse, defuse_output, format_command
from dragoman.cli.exec.heartbeat import Heartbeat
from dragoman.cli.prompt.diff import view_diff
from dragoman.cli.prompt.progress import Progress
from dragoman.cli.prompt.subject import subject
from dragoman.policy.decide import Decision
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.text.colour import Painter
from tests.cli.exec_kit import Done, Place, place
from tests.cli.step_kit import play, script, tool
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]

INFO = {"name": "stepper", "title": "Stepper", "version": "1.2"}
MODEL = {
    "configOptions": [
        {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": "large",
            "options": [{"value": "large", "name": "Large"}],
        }
    ]
}


def test_a_terminal_shows_a_status_line_at_once_and_clears_it(place: Place) -> None:
    call = tool("1", title="execute", kind="execute", rawInput={"command": "make test"})
    usage = ["update", {"sessionUpdate": "usage_update", "used": 12_300, "size": 200_000}]
    steps = [usage, call, ["await", "session/cancel"], ["answer", {"stopReason": "cancelled"}]]
    agent = script(place, steps, info=INFO, session=MODEL)
    with at_terminal(place, "exec", "x", odd=agent) as terminal:
        terminal.until("· starting")
        terminal.until("opening the session")
        terminal.until("→")
        terminal.until("execute: make test · 12.3k tokens")
        assert re.search(r"\S+ 1\.2 · large · \d+s · execute: make test · 12\.3k tokens", terminal.text)
        terminal.type("\x03")
        assert terminal.wait() == 130
    last = terminal.text.rpartition("12.3k tokens")[2]
    assert "\r\x1b[K" in last, "the line is gone when the run is over"
    assert "tokens" not in last


def test_the_status_line_says_that_the_model_works_as_soon_as_it_has_the_prompt(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = script(place, [["await", "session/cancel"], ["answer", {"stopReason": "cancelled"}]], info=INFO)
    write_status_each(1000.0, place, monkeypatch)  # not again, that is
    with at_terminal(place, "exec", "x", odd=agent) as terminal:
        terminal.until("the model works")
        terminal.type("\x03")
        assert terminal.wait() == 130


def write_status_each(seconds: float, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs in this place write their status line again after this time, instead of a second."""
    change = f"import dragoman.cli.exec.heartbeat as beat; beat._STATUS_SECONDS = {seconds}; "
    program = [sys.executable, "-c", change + "from dragoman.cli.main import program; program()"]
    words = place.words
    monkeypatch.setattr(place, "words", lambda *own, odd: [*program, *words(*own, odd=odd)[3:]])


def test_no_status_line_follows_the_end_of_a_turn(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is ended after its answer was shown, and takes its time; a line that is written then would stay."""
    write_status_each(0.01, place, monkeypatch)
    with at_terminal(place, "exec", "x", odd="lingers") as terminal:
        assert terminal.wait() == 0
    before, end, after = terminal.text.rpartition("end_turn")
    assert "the model works" in before
    assert end
    assert "the model works" not in after


def test_a_decision_is_shown_after_everything_that_the_agent_sent_before_it_asked(place: Place) -> None:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "t", "title": "Write a.txt", "kind": "edit", "rawInput": {}, "locations": [{"path": "a.txt"}]}
    lines = [["say", f"line {number}\n"] for number in range(400)]
    steps = [*lines, ["ask", "session/request_permission", {"toolCall": call, "options": options}], ["say", "after"]]
    agent = script(place, steps, info=INFO)
    with at_terminal(place, "exec", "x", "--deny", "edit", odd=agent) as terminal:
        terminal.wait()
    before, decision, after = re.sub(r"\x1b\[\d*m", "", terminal.text).partition("denied edit")
    assert decision
    assert "line 399" in before, before[-300:]
    assert "line" not in after


def test_the_status_line_counts_the_seconds(place: Place) -> None:
    with at_terminal(place, "exec", "x", odd=script(place, [], never="initialize")) as terminal:
        shown: set[str] = set()
        while len(shown) < 2:  # a busy machine may leave a second out
            terminal.until("s · starting")
            shown.add(re.findall(r"· (\d+)s · starting", terminal.text)[-1])


def test_the_status_line_does_not_disturb_the_answer(place: Place) -> None:
    steps = [["say", "first line\nsecond"], ["say", " line"]]
    with at_terminal(place, "exec", "x", odd=script(place, steps)) as terminal:
        assert terminal.wait() == 0
    shown = re.sub(r"\r\x1b\[K|\x1b\[[0-9;]*m", "", terminal.text)
    assert "first line\nsecond line\n" in shown.replace("\r", "")


def test_inside_a_line_there_is_no_status(place: Place) -> None:
    steps = [
        ["say", "no newline yet"],
        ["await", "session/cancel"],
        ["say", " and now\n"],
        ["answer", {"stopReason": "cancelled"}],
    ]
    with at_terminal(place, "exec", "x", odd=script(place, steps)) as terminal:
        terminal.until("no newline yet")
        terminal.type("\x03")
        assert terminal.wait() == 130
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).replace("\r\n", "\n")
    assert "the model works" not in shown.partition("no newline yet")[2].partition("\n")[0]


def test_a_terminal_that_cannot_move_the_cursor_has_no_status_line(place: Place) -> None:
    place.environment["TERM"] = "dumb"
    with at_terminal(place, "exec", "hi", odd="plain", term="dumb") as terminal:
        assert terminal.wait() == 0
    assert "\x1b" not in terminal.text


def test_a_log_has_lines_at_once_and_the_answer_only_on_stdout(place: Place) -> None:
    steps = [tool("1", title="Read a.txt", kind="read", status="completed"), ["say", "the answer"]]
    done = play(place, steps, info=INFO, session=MODEL)
    assert done.out == "the answer\n"
    lines = done.err.splitlines()
    assert lines[0].startswith("dragoman: starting ")
    assert re.fullmatch(r"dragoman: \S+ 1\.2, model large, session s", lines[1])
    assert "Read a.txt" in lines[2]
    assert lines[-1].startswith("end_turn · 1 tool call")
    assert "the answer" not in done.err
    assert "\x1b" not in done.err


def test_a_log_gets_a_heartbeat_that_names_what_is_waited_for(place: Place) -> None:
    place.environment["DRAGOMAN_HEARTBEAT"] = "0.1"
    call = tool("1", title="execute", kind="execute", rawInput={"command": "make"})
    with place.started("x", odd=script(place, [call, ["await", "session/cancel"]])) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "still waiting for a tool: execute: make, " in line:
                break
        else:
            raise AssertionError("no heartbeat came")
        process.terminate()
        process.communicate()


def test_a_heartbeat_is_due_only_if_nothing_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("dragoman.cli.exec.heartbeat.monotonic", lambda: now[0])
    heartbeat = Heartbeat()
    assert heartbeat.seconds == 30.0
    assert not heartbeat.is_due(1)
    now[0] += 29
    assert not heartbeat.is_due(1)
    assert not heartbeat.is_due(2), "something was shown"
    now[0] += 29
    assert not heartbeat.is_due(2)
    now[0] += 2
    assert heartbeat.is_due(2)
    assert not heartbeat.is_due(3), "its own line"
    now[0] += 31
    assert heartbeat.is_due(3)


@pytest.mark.parametrize(
    "words",
    [("-q",), ("--progress", "none"), ("--output", "events"), ("--output", "raw")],
    ids=["quiet", "none", "events", "raw"],
)
def test_where_progress_is_not_wanted_there_is_none(words: tuple[str, ...], place: Place) -> None:
    assert play(place, [["say", "hi"]], *words).err == ""


@pytest.mark.parametrize("words", [("-q", "--progress", "plain"), ("-v", "--progress", "none")])
def test_contradictions_are_refused(words: tuple[str, ...], place: Place) -> None:
    done = play(place, [["say", "hi"]], *words)
    assert done.code == 2
    assert "contradict" in done.err


def test_json_progress_is_events_only(place: Place) -> None:
    place.environment["DRAGOMAN_HEARTBEAT"] = "0.01"
    steps = [tool("1", kind="read", status="completed"), ["say", "hi"], ["error", {"code": 1, "message": "no"}]]
    done = play(place, steps, "--progress", "json", "--output", "json")
    assert done.code == 1
    events = [json.loads(line) for line in done.err.splitlines()]
    validator = jsonschema.Draft202012Validator(json.loads(place.run("--schema", "--output", "events").out))
    for event in events:
        validator.validate(event)
    kinds = [event["event"] for event in events if event["event"] != "progress"]
    assert kinds == ["starting", "initialized", "session", "tool_call", "message", "end"]
    assert (events[-1]["exit_code"], events[-1]["error"]["message"]) == (1, "no (1)")
    assert done.result["error"]["message"] == "no (1)"


# GitHub Actions

ATTACK = (
    "a\n::set-output name=x::y\n  ::add-mask::abc\n##[set-env name=PATH]evil\ntext ##[error]x\r::stop-commands::t\n"
)


def commands(text: str) -> list[str]:
    """Return what the runner would take for a command: in any line, as it reads it."""
    lines = re.split(r"\r\n|\n|\r", text)
    return [line for line in lines if line.strip().startswith("::") or "##[" in line]


def on_github(place: Place, steps: list[Any], *words: str, **more: Any) -> tuple[Done, str]:
    summary = place.home / "summary.md"
    summary.touch()
    place.environment |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = play(place, steps, *words, **more)
    return done, summary.read_text()


def test_text_of_an_agent_cannot_be_a_workflow_command(place: Place) -> None:
    assert len(commands(ATTACK)) == 5
    content = [{"type": "content", "content": {"type": "text", "text": ATTACK}}]
    meta = {"terminal_output": {"terminal_id": "1", "data": ATTACK}}
    options = [{"optionId": ATTACK, "name": ATTACK, "kind": "allow_once"}]
    asked = {"toolCallId": "2", "title": ATTACK, "kind": "execute", "rawInput": {"command": ATTACK}}
    steps = [
        ["stderr", ATTACK],
        ["say", ATTACK],
        ["update", {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": ATTACK}}],
        ["update", {"sessionUpdate": "plan", "entries": [{"content": ATTACK, "priority": "low", "status": "pending"}]}],
        tool("1", title=ATTACK, kind="execute", status="failed", content=content, _meta=meta),
        ["ask", "session/request_permission", {"toolCall": asked, "options": options}],
        *(["say", letter] for letter in ATTACK),
        ["error", {"code": -32603, "message": ATTACK, "data": ATTACK}],
    ]
    ours = {"group", "endgroup", "error", "warning"}
    for words in (("-v",), (), ("--output", "json"), ("--output", "events"), ("--output", "raw")):
        done, _ = on_github(place, steps, *words, info={"name": ATTACK, "version": ATTACK})
        assert done.code == 1
        assert commands(done.out) == []
        found = commands(done.err)
        assert {re.split(r"[ :]", line[2:])[0] for line in found} <= ours, found
        assert all("##[" not in line and "\u200b" not in line[:3] for line in found)
    result = on_github(place, steps, "--output", "json")[0].result
    assert "##[set-env name=PATH]evil" in result["messages"][0], "JSON keeps its value"


def test_github_gets_groups_annotations_and_a_summary(place: Place) -> None:
    diff = {"type": "diff", "path": str(place.project / "a.txt"), "oldText": "a\n", "newText": "b\n"}
    asked = {"toolCallId": "2", "title": "execute", "kind": "execute", "rawInput": {"command": "rm -r | x"}}
    steps: list[Any] = [
        tool("1", title="Edit a.txt", kind="edit", status="completed", content=[diff]),
        ["ask", "session/request_permission", {"toolCall": asked, "options": []}],
        ["say", "# All done\n\n| exit code | 0 |"],
    ]
    done, summary = on_github(place, steps, "--deny", "execute", info=INFO, session=MODEL)
    assert done.code == 0, done.err
    group = done.err.index("::group::Edit a.txt\n")
    assert group < done.err.index("+b\n") < done.err.index("::endgroup::\n")
    assert "::warning title=dragoman%3A Denied::execute: rm -r | x (rule execute (--deny))\n" in done.err
    assert "### dragoman exec: ⚠️ done, 1 not permitted\n" in summary
    assert "| model | `large` |" in summary
    assert f"| modified | `{place.project / 'a.txt'}` |" in summary
    assert "| deny | `execute` | `rm -r \\| x` |" in summary
    assert "\n> # All done\n>\n> | exit code | 0 |\n" in summary
    assert "Stepper 1.2" in summary


def test_a_failure_on_github_is_an_annotation_and_in_the_summary(place: Place) -> None:
    done, summary = on_github(place, [["error", {"code": 400, "message": "no model\n<b>50%</b>"}]])
    assert done.code == 1
    assert "::error title=dragoman%3A exec failed with exit code 1::no model" in done.err
    assert "50%25" in done.err
    assert "❌ exit code 1" in summary
    assert "<b>" not in summary


def test_a_summary_that_cannot_be_written_is_a_note(place: Place) -> None:
    place.environment |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(place.home)}
    done = play(place, [["say", "hi"]])
    assert (done.code, done.out) == (0, "hi\n")
    assert "the job summary cannot be written" in done.err


def test_text_is_changed_only_where_it_would_be_a_command() -> None:
    for harmless in ("a::b", "std::string x;\n", "# heading", "#[derive]", '{"a": "::b"}'):
        assert defuse(harmless) == harmless
    assert json.loads(defuse_output(b'{"a": "##[x]"}')) == {"a": "##[x]"}
    assert format_command("error", "a\nb: 1,2 %", title="x:y,z") == "::error title=x%3Ay%2Cz::a↵b: 1,2 %25\n"


def test_a_command_in_pieces_is_found_too() -> None:
    below = io.StringIO()
    stream = GithubStream(below)
    for letter in "x\n::set-output name=a::b\n##[x]":
        stream.write(letter)
    stream.finish()
    assert commands(below.getvalue()) == []
    assert below.getvalue().startswith("x\n\u200b::set-output")


# Lines about decisions and changes


@pytest.mark.parametrize(
    ("title", "kind", "command", "paths", "shown"),
    [
        ("execute", "execute", "npm test", (), "npm test"),
        ("npm test", "execute", "npm test", (), "npm test"),
        ("Run the tests", "execute", "npm test", (), "Run the tests: npm test"),
        ("edit", "edit", None, ("/p/src/a.py",), "src/a.py"),
        ("Edit a.py", "edit", None, ("/p/src/a.py",), "Edit a.py"),
        ("edit", "edit", None, ("/p/a", "/q/b"), "a and 1 more"),
        ("Ask", "other", None, (), "Ask"),
    ],
)
def test_a_line_about_a_decision_names_the_command_or_the_path(
    title: str, kind: str, command: str | None, paths: tuple[str, ...], shown: str
) -> None:
    decision = Decision(action="allow", decided_by="x", title=title, kind=kind, command=command, paths=paths)
    assert subject(decision, "/p") == shown


def shown_diff(old: str | None, new: str, *, is_whole: bool) -> str:
    return "\n".join(view_diff("a", old, new, paint=Painter(False), width=80, is_whole=is_whole).lines)


def test_a_piece_of_a_file_says_nothing_about_the_end_of_the_file() -> None:
    assert "newline" not in shown_diff("alpha", "omega", is_whole=False)
    assert "newline" not in shown_diff("", "omega", is_whole=False)
    assert "no newline at the end of this piece" in shown_diff("a\n", "a", is_whole=False)
    assert "no newline at the end of the file" in shown_diff("a\n", "a", is_whole=True)


def test_a_change_is_shown_once() -> None:
    stream = io.StringIO()
    progress, state = Progress(stream, False, False), SessionState()
    state.begin_turn([v1.TextContent("x")])
    diff = v1.Diff("a.txt", "omega\n", old_text="alpha\n")
    for id in ("1", "2"):
        update = v1.ToolCall(id, "Edit", kind="edit", status="completed", content=[diff, diff])
        fold(state, update)
        progress.update(update, state)
    assert stream.getvalue().count("+omega") == 1
    assert stream.getvalue().count("+1 -1") == 2, "the figures of both calls"


def test_a_change_that_the_user_saw_in_a_question_is_not_shown_again(place: Place) -> None:
    path = str(place.project / "a.txt")
    diff = {"type": "diff", "path": path, "oldText": "alpha", "newText": "omega"}
    call = {"toolCallId": "1", "title": "Edit", "kind": "edit", "content": [diff]}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    steps = [
        ["ask", "session/request_permission", {"toolCall": call, "options": options}],
        tool("1", new=False, status="completed"),
        ["say", "done"],
    ]
    with at_terminal(place, "exec", "x", odd=script(place, steps)) as terminal:
        terminal.until(" > ")
        assert "no newline" not in terminal.text
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert terminal.text.count("+omega") == 1


@pytest.mark.convention("cost", "exec")
def test_a_cost_of_nothing_is_not_shown(place: Place) -> None:
    usage = {"sessionUpdate": "usage_update", "used": 5, "size": 10}
    for amount, is_shown in ((0, False), (0.25, True)):
        step = ["update", {**usage, "cost": {"amount": amount, "currency": "USD"}}]
        assert ("USD" in play(place, [step, ["say", "x"]]).err) is is_shown
