"""`dragoman exec --session NAME`: warm prompts, output forms, exit codes, cancelling, and what a thin client loads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.exec.hosted.text import TextView
from dragoman.cli.exec.hosted.warm import read_words
from tests.cli.exec_kit import read_until
from tests.cli.terminal_kit import at_terminal
from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit, local_place, scripted, wait_for


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    """One host for the tests of this file; each test has a project of its own, and so its own names."""
    with local_place(tmp_path_factory.mktemp("host"), warm_python) as found:
        yield found


@pytest.fixture
def place(shared: HostPlaceKit, tmp_path: Path) -> HostPlaceKit:
    shared.project = tmp_path
    return shared


@pytest.fixture
def own_place(tmp_path: Path, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    """A host of the test's own."""
    with local_place(tmp_path, warm_python) as found:
        yield found


def rows(place: HostPlaceKit) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        place.run("list", "--offline", "--json", "--cwd", str(place.project), verb="sessions").out
    )
    return found


def state(place: HostPlaceKit, name: str) -> str:
    return str(next(row["state"] for row in rows(place) if row["name"] == name))


@pytest.mark.convention("sessions", "exec")
def test_a_session_is_opened_at_its_first_use_and_goes_on(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "title The first").code == 6  # a title is not an answer
    done = place.run("--session", "s", "say one two")
    assert (done.code, done.out.strip()) == (0, "one two")
    (row,) = [each for each in rows(place) if each["name"] == "s"]
    assert row["title"] == "The first"
    assert row["agent"] == "scripted"
    assert "host" in row["known_by"]
    assert row["cwd"] == str(place.project)


def test_a_name_belongs_to_a_folder(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "title Here").code == 6  # a title is not an answer
    other = place.project / "elsewhere"
    other.mkdir()
    assert scripted(place, "s", "title There", "--cwd", str(other)).code == 6
    assert [row["title"] for row in rows(place)] == ["Here"]
    place.project = other
    assert [row["title"] for row in rows(place)] == ["There"]


def test_two_first_uses_at_once_open_one_session(place: HostPlaceKit) -> None:
    runs = [
        subprocess.Popen(
            place.words("exec", "--session", "s", "-a", "scripted", "--queue", "hello"),
            cwd=place.project,
            env=place.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for run in runs:
        out, err = run.communicate(timeout=60)
        assert (run.returncode, out) in ((0, "hello\n"), (2, "")), err
    assert any(run.returncode == 0 for run in runs)
    assert [row["name"] for row in rows(place)] == ["s"]


def test_the_forms_of_output_are_those_of_exec(place: HostPlaceKit) -> None:
    assert scripted(place).code == 0
    result = place.run("--session", "s", "--output", "json", "tool").result
    assert result["schema"] == "dragoman.exec.result/1"
    assert [call["title"] for call in result["tool_calls"]] == ["Reading README.md"]
    assert result["stop_reason"] == "end_turn"
    assert result["agent"]["name"] == "scripted"
    assert result["scripted"] is True
    events = place.run("--session", "s", "--output", "events", "say one two").events
    assert [event["event"] for event in events[:3]] == ["starting", "initialized", "session"]
    assert events[2]["session_id"] == result["session_id"]
    assert events[2]["is_resumed"] is True
    assert "".join(event["text"] for event in events if event["event"] == "message") == "one two "
    assert events[-1]["event"] == "result"


@pytest.mark.parametrize(
    ("prompt", "code"),
    [("stop refusal", 6), ("error -32603", 1), ("error -32000", 7), ("permission", 5), ("crash 3", 4)],
)
def test_exit_codes_of_a_warm_prompt_are_those_of_exec(place: HostPlaceKit, prompt: str, code: int) -> None:
    assert scripted(place).code == 0
    plain = place.run("--session", "s", prompt)
    assert plain.code == code
    assert "error:" in plain.err


def test_rules_of_the_session_and_of_the_user_decide_in_the_host(place: HostPlaceKit) -> None:
    done = scripted(place, "s", "terminal echo hi", "--allow", "execute:echo *", "--output", "json")
    assert done.code == 0, done.err
    assert [each["action"] for each in done.result["permissions"]] == ["allow"]
    assert [each["exit_code"] for each in done.result["commands"]] == [0]
    denied = scripted(place, "t", "permission", "--deny", "delete", "--fail-on-deny", "--output", "json")
    assert denied.code == 9
    assert denied.result["permissions"][0]["action"] == "deny"
    (place.project / ".dragoman").mkdir()
    (place.project / ".dragoman" / "settings.json").write_text('{"rules": {"deny": ["delete"]}}')
    again = scripted(place, "u", "permission", "--fail-on-deny")
    assert again.code == 9
    assert "this was denied" in again.err


def test_terms_of_a_session_cannot_be_changed_by_a_later_prompt(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "hello", "--allow", "edit:src/**").code == 0
    assert place.run("--session", "s", "--allow", "edit:src/**", "hello").code == 0
    for words in (["--allow", "execute"], ["--sandbox", "auto"], ["-a", "dragoman"], ["--add-dir", "/tmp"]):
        done = place.run("--session", "s", *words, "hello")
        assert done.code == 2, words
        assert "hint:" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["--resume", "last"],
        ["--sandbox-agent"],
        ["--no-wait", "--patch", "x.patch"],
        ["--no-wait", "--record", "x.jsonl"],
        ["--no-wait", "--retries", "2"],
        ["--no-wait", "--stop-on-violation"],
        ["--no-wait", "--output", "raw"],
    ],
)
def test_what_a_session_cannot_have_is_refused_before_anything_starts(
    own_place: HostPlaceKit, words: list[str]
) -> None:
    done = own_place.run("--session", "s", "-a", "scripted", *words, "hello")
    assert done.code == 2
    assert words[-1].startswith("--") or words[-2] in done.err
    assert "hint:" in done.err
    assert own_place.pids() == []


def test_queue_and_no_wait_need_a_session(place: HostPlaceKit) -> None:
    for flag in ("--queue", "--no-wait"):
        done = place.run("-a", "scripted", flag, "hello")
        assert done.code == 2
        assert "--session" in done.err


def test_a_busy_session_is_an_error_that_says_so_and_queue_waits(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "slow", "--no-wait").code == 0
    busy = place.run("--session", "s", "hello")
    assert busy.code == 2
    assert "a turn of this session runs" in busy.err
    assert "--queue" in busy.err
    queued = place.run("--session", "s", "--no-wait", "--output", "json", "say second")
    assert json.loads(queued.out)["session"] == "s"
    with place.started("--session", "s", "--queue", "say third") as waiting:
        wait_for(lambda: attached(place) == 1)
        assert place.run("cancel", "s", verb="sessions").code == 0
        assert waiting.stdout is not None
        # What the turn before it says is not part of its answer.
        assert waiting.stdout.read().strip() == "third"
        assert waiting.wait(60) == 0


def attached(place: HostPlaceKit) -> int:
    return int(rows(place)[0]["attached"])


def test_no_wait_returns_after_the_prompt_is_in_the_log(place: HostPlaceKit) -> None:
    done = scripted(place, "s", "slow", "--no-wait")
    assert (done.code, done.out) == (0, "")
    assert "dragoman sessions watch s" in done.err
    assert state(place, "s") == "running"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_turn_and_the_session_stays(place: HostPlaceKit, number: int, code: int) -> None:
    assert scripted(place).code == 0
    with place.started("--session", "s", "--output", "events", "slow") as run:
        read_until(run, "working")
        run.send_signal(number)
        assert run.wait(60) == code
    with place.started("--session", "s", "slow") as run:
        assert run.stderr is not None
        assert "the agent is scripted" in run.stderr.readline()
        assert "Waiting" in run.stderr.readline()
        run.send_signal(number)
        assert run.wait(60) == code
    assert state(place, "s") == "idle"
    assert place.run("--session", "s", "hello").out == "hello\n"


def test_a_timeout_cancels_the_turn(place: HostPlaceKit) -> None:
    assert scripted(place).code == 0
    done = place.run("--session", "s", "--timeout", "0.2", "slow")
    assert done.code == 3
    assert state(place, "s") == "idle"


def test_a_client_that_is_killed_leaves_its_turn_running(place: HostPlaceKit) -> None:
    assert scripted(place).code == 0
    with place.started("--session", "s", "--output", "events", "slow") as run:
        read_until(run, "working")
        run.kill()
        run.wait(60)
    assert state(place, "s") == "running"


def test_a_question_without_a_client_waits_and_can_be_cancelled(place: HostPlaceKit) -> None:
    assert scripted(place, "s", "permission", "--no-wait").code == 0
    wait_for(lambda: state(place, "s") == "waiting")
    assert place.run("cancel", "s", verb="sessions").code == 0
    wait_for(lambda: state(place, "s") == "idle")


def test_the_user_at_the_terminal_is_asked(place: HostPlaceKit) -> None:
    assert scripted(place).code == 0
    with at_terminal(place, "exec", "--session", "s", "permission") as terminal:
        terminal.until("your answer")
        terminal.type("1\n")
        assert terminal.wait() == 0
    assert "allowed" in terminal.text


def test_a_question_at_the_terminal_says_why_it_is_asked_and_what_always_writes(place: HostPlaceKit) -> None:
    (place.project / ".dragoman").mkdir()
    (place.project / ".dragoman" / "settings.json").write_text('{"rules": {"ask": ["execute:echo *"]}}')
    assert scripted(place).code == 0
    with at_terminal(place, "exec", "--session", "s", "terminal echo hi") as terminal:
        terminal.until("your answer")
        terminal.type("1\n")
        assert terminal.wait() == 0
    text = " ".join(terminal.text.split())
    assert "execute:echo *" in text[text.index("why") :].split("your answer")[0]
    assert "writes: allow execute:" in text


def test_a_question_that_another_client_answers_is_withdrawn_from_the_terminal(place: HostPlaceKit) -> None:
    assert scripted(place).code == 0
    with at_terminal(place, "exec", "--session", "s", "permission") as terminal:
        terminal.until("your answer")
        client = place.connect()
        (session,) = client.call("session/list", cwd=str(place.project))["sessions"]
        client.request("session/resume", sessionId=session["sessionId"], cwd=session["cwd"], mcpServers=[])
        while (asked := client.read()).get("method") != "session/request_permission":
            pass
        option = next(each for each in asked["params"]["options"] if each["kind"] == "allow_once")
        client.answer(asked["id"], {"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
        assert terminal.wait() == 0
    assert "allowed" in terminal.text


def test_the_built_in_agent_and_a_command_run_in_sessions(place: HostPlaceKit) -> None:
    assert place.run("--session", "own", "--model", "scripted", "hello").out == "hello\n"
    assert place.run("--session", "own", "hello again").out == "hello again\n"
    command = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]
    done = place.run("--session", "typed", "--output", "json", "hello", "--", *command)
    assert done.code == 0, done.err
    assert done.result["agent"]["command"] == command
    assert place.run("--session", "typed", "hello").out == "hello\n"


def test_an_agent_that_cannot_start_is_named(place: HostPlaceKit) -> None:
    done = place.run("--session", "s", "hello", "--", "/nonexistent/agent")
    assert done.code == 4
    assert "/nonexistent/agent" in done.err
    unknown = place.run("--session", "s", "-a", "no-such-agent", "hello")
    assert unknown.code == 2
    assert "no-such-agent" in unknown.err


LOADED = """
import sys
from dragoman.cli.main import main
code = main(["exec", "-q", "--session", "s", "hello"])
sys.stderr.write(" ".join(sorted(sys.modules)))
sys.exit(code)
"""


def test_a_warm_prompt_loads_no_event_loop_no_role_and_few_modules(place: HostPlaceKit) -> None:
    assert scripted(place).code == 0
    plain = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.modules))"],
        env=place.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=place.project,
        env=place.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "hello\n"
    names = done.stderr.splitlines()[-1].split()  # behind the note about the scripted agent
    heavy = {
        *(
            "asyncio",
            "argparse",
            "msgspec",
            "json",
            "re",
            "enum",
            "pathlib",
            "socket",
            "selectors",
            "subprocess",
            "typing",
            "signal",
        ),
        *("dragoman.client", "dragoman.agent", "dragoman.rpc", "dragoman.schema", "dragoman.state", "dragoman.errors"),
    }
    assert heavy.isdisjoint(names)
    # 25 of dragoman, and the C parts of `socket` and `json`.
    assert len(names) - int(plain.stdout) <= 32, names


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--session", "s", "hi"], {"session": "s", "prompt": "hi"}),
        (["--session=s", "-q", "hi", "--queue"], {"session": "s", "prompt": "hi", "quiet": "yes", "queue": "yes"}),
        (["--session", "s", "--output", "text", "hi"], {"session": "s", "output": "text", "prompt": "hi"}),
        (["--session", "s"], None),  # from stdin
        (["--session", "s", "-"], None),
        (["--session", "s", "look at @file"], None),
        (["--session", "s", "--output", "json", "hi"], {"session": "s", "output": "json", "prompt": "hi"}),
        (["--session", "s", "--output", "json", "--no-wait", "hi"], None),
        (["--session", "s", "-a", "x", "hi"], None),
        (["--session", "s", "two", "words"], None),
        (["--session", "s", "--session", "t", "hi"], None),
        (["--session", "", "hi"], None),
        (["hi", "--session"], None),
    ],
)
def test_only_a_plain_call_is_read_without_the_parser(
    words: list[str], found: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert read_words(words) == found


def piece(text: str, message_id: str | None = None) -> dict[str, object]:
    found: dict[str, object] = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return found if message_id is None else {**found, "messageId": message_id}


TOOL = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t"}
THOUGHT = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}


@pytest.mark.parametrize(
    ("updates", "text", "is_empty"),
    [
        ([piece("a"), piece("b")], "ab", False),
        ([piece("before"), TOOL, piece("after")], "after", False),
        ([piece("before"), TOOL], "before", False),
        ([piece("a"), THOUGHT, piece("b")], "ab", False),
        ([piece("a", "1"), piece("b", "2")], "a\n\nb", False),
        ([piece("a", "1"), TOOL, piece("b", "1")], "ab", False),
        ([piece("before"), TOOL, piece(" \n")], "before", False),
        ([THOUGHT], "", True),
        ([TOOL], "", False),
        ([], "", True),
    ],
)
def test_the_thin_client_finds_the_same_answer_as_the_state(
    updates: list[dict[str, object]], text: str, is_empty: bool
) -> None:
    from msgspec import json as written

    from dragoman.runs.result import final_text
    from dragoman.schema import decode, v1
    from dragoman.state import SessionState, fold

    view = TextView(is_quiet=True)
    state = SessionState()
    state.begin_turn([])
    for update in updates:
        view.update(update)
        fold(state, decode(v1.SessionUpdate, written.encode(update)))
    state.end_turn("end_turn")
    assert view.text() == final_text(state, state.turns[-1]) == text
    assert view.is_empty == is_empty


@pytest.mark.parametrize(
    ("chosen", "after"),
    [((), "ask"), (("--mode", "accept-edits"), "accept-edits"), (("--mode", "auto-approve"), "default")],
)
def test_an_agent_that_is_started_again_goes_back_to_the_mode_of_its_session_if_it_asks_there(
    place: HostPlaceKit, chosen: tuple[str, ...], after: str
) -> None:
    """Vibe: `ask` is the mode in which it asks, and nobody has chosen `default`, in which its process begins."""
    place.name_agent("vibe-acp")
    name = ("--session", f"back-to-{after}")
    first = place.run(*name, *chosen, "go", odd="comes-back-in-default")
    assert first.out.strip() == f"in mode {chosen[1] if chosen else 'ask'}", first.err
    assert place.run(*name, "die").code == 4
    again = place.run(*name, "go")
    assert again.out.strip() == f"in mode {after}", again.err
