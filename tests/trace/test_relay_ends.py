"""`dragoman record` dies with neither side, passes every end on, and kills nothing it should not."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from dragoman.cli import exits
from dragoman.trace import End, Exit
from tests.process.kit import Deaths
from tests.trace.kit import DRAGOMAN, ECHO, SECONDS, frames, python, read_exactly, recording


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_agents(code: int, tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", f"echo bye; exit {code}"]) as relay:
        assert relay.rest() == (b"bye\n", b"", code)
    assert [entry.code for entry in relay.trace().entries if isinstance(entry, Exit)] == [code]


def test_an_agent_that_dies_by_a_signal_ends_the_relay_as_a_shell_would(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", "kill -KILL $$"]) as relay:
        assert relay.rest() == (b"", b"", 128 + signal.SIGKILL)
    assert [entry.signal for entry in relay.trace().entries if isinstance(entry, Exit)] == ["SIGKILL"]


def test_an_agent_that_dies_first_leaves_no_end_of_the_client_in_the_recording(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", "read line; exit 1"]) as relay:
        relay.send(b"hello\nunfinished")
        assert relay.rest()[2] == 1
    assert [entry.dir for entry in relay.trace().entries if isinstance(entry, End)] == ["a2c"]
    assert frames(relay.trace()) == [("c2a", b"hello", b"\n"), ("c2a", b"unfinished", b"")]


def test_an_agent_sees_the_end_of_stdin_and_its_last_output_still_arrives(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", "cat; sleep 0.2; echo last words; exit 4"]) as relay:
        relay.send(b"hello\n")
        relay.close_stdin()
        assert relay.rest() == (b"hello\nlast words\n", b"", 4)


def test_an_agent_that_still_talks_after_the_end_is_left_alone(tmp_path: Path) -> None:
    talker = ["sh", "-c", "cat; for n in 1 2 3 4 5 6 7 8; do sleep 0.1; echo $n; done; exit 5"]
    with recording(tmp_path / "trace.jsonl", talker, "--grace", "0.4") as relay:
        relay.close_stdin()
        assert relay.rest() == (b"1\n2\n3\n4\n5\n6\n7\n8\n", b"", 5)


def test_an_agent_that_ignores_the_end_is_asked_by_a_signal(tmp_path: Path) -> None:
    with recording(
        tmp_path / "trace.jsonl",
        ["sh", "-c", "trap 'echo asked; exit 6' TERM; echo ready; while :; do sleep 0.05; done"],
        "--grace",
        "0.2",
    ) as relay:
        assert relay.read_line() == b"ready\n"
        relay.close_stdin()
        out, _, code = relay.rest()  # on stderr the shell tells of its own child
        assert (out, code) == (b"asked\n", 6)


def test_an_agent_that_does_not_even_read_is_ended_too(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sleep", "60"], "--grace", "0.2") as relay:
        os.set_blocking(relay.stdin.fileno(), False)
        while select.select([], [relay.stdin], [], 0.3)[1]:
            relay.send(b"z" * (1 << 14))
        relay.close_stdin()
        assert relay.rest() == (b"", b"", 128 + signal.SIGTERM)


def test_an_agent_that_ignores_everything_is_killed(tmp_path: Path) -> None:
    with recording(
        tmp_path / "trace.jsonl",
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"],
        "--grace",
        "0.1",
    ) as relay:
        assert relay.read_line() == b"ready\n"
        relay.close_stdin()
        assert relay.rest()[2] == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_reaches_the_agent_and_leaves_the_rest_to_it(number: signal.Signals, tmp_path: Path) -> None:
    name = number.name.removeprefix("SIG")
    agent = ["sh", "-c", f"trap 'echo heard; trap - {name}; read line; exit 7' {name}; echo ready; read x; read y"]
    with recording(tmp_path / "trace.jsonl", agent) as relay:
        assert relay.read_line() == b"ready\n"
        relay.process.send_signal(number)
        relay.send(b"wake up\n")  # sh runs its trap when `read` returns
        assert relay.read_line() == b"heard\n"
        relay.send(b"go\n")
        assert relay.rest() == (b"", b"", 7)


def test_a_relay_that_is_killed_takes_its_agent_along_and_leaves_the_recording(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", "echo $$; exec cat"]) as relay:
        deaths = Deaths(int(relay.read_line()))
        relay.send(b"hello\n")
        relay.receive(6)
        relay.send(b"again\n")
        relay.receive(6)
        relay.process.kill()
        assert deaths.wait() == []
    said = [data for direction, data, _ in frames(relay.trace()) if direction == "c2a"]
    assert said[:1] == [b"hello"]


def test_what_an_agent_started_apart_from_itself_lives_on(tmp_path: Path) -> None:
    agent = python(
        "import os, subprocess\n"
        "child = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL, start_new_session=True)\n"
        "os.write(1, b'%d\\n' % child.pid); os.read(0, 1); child.returncode = 0"
    )
    with recording(tmp_path / "trace.jsonl", agent) as relay:
        daemon = int(relay.read_line())
        relay.close_stdin()
        # It still holds the agent's stdout, and even so the editor sees the end.
        assert relay.rest() == (b"", b"", 0)
    os.kill(daemon, signal.SIGTERM)  # fails if it is gone


def test_an_editor_that_reads_no_more_is_felt_by_the_agent(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["yes"]) as relay:
        assert relay.receive(2) == b"y\n"
        relay.stdout.close()
        assert relay.process.wait(SECONDS) == 128 + signal.SIGPIPE


def test_an_agent_that_listens_no_more_is_felt_by_the_editor_and_not_killed_for_it(tmp_path: Path) -> None:
    agent = ["sh", "-c", "exec <&-; echo deaf; sleep 0.5; echo alive; exit 8"]
    with recording(tmp_path / "trace.jsonl", agent, "--grace", "0.1") as relay:
        assert relay.read_line() == b"deaf\n"

        def talk() -> None:
            while True:
                relay.send(b"hello?\n")

        with pytest.raises(BrokenPipeError):
            talk()
        assert relay.rest() == (b"alive\n", b"", 8)


def test_an_agent_that_closes_its_output_is_seen_to_at_once(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", "exec >&-; read line; exit 9"]) as relay:
        assert read_exactly(relay.stdout.fileno(), 1) == b""
        assert relay.process.poll() is None
        relay.send(b"go\n")
        assert relay.rest() == (b"", b"", 9)


def test_an_agent_that_cannot_be_started_is_exit_4_with_the_reason(tmp_path: Path) -> None:
    done = run("-o", str(tmp_path / "trace.jsonl"), "--", "/no/such/agent")
    assert done.returncode == exits.AGENT_DIED
    assert "'/no/such/agent'" in done.stderr
    assert done.stdout == ""


def test_a_recording_that_cannot_be_opened_is_reported_before_the_agent_starts(tmp_path: Path) -> None:
    done = run("-o", str(tmp_path / "missing" / "trace.jsonl"), "--", "touch", str(tmp_path / "started"))
    assert done.returncode == exits.USAGE
    assert "No such file or directory" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "words",
    [[], ["--"], ["-o", "/dev/stdout", "--", "cat"], ["--grace", "-1", "--", "cat"], ["--grace", "soon", "--", "cat"]],
)
def test_wrong_words_are_refused(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == exits.USAGE
    assert "hint: " in done.stderr


def test_without_a_file_a_new_one_is_made_in_the_state_folder(tmp_path: Path) -> None:
    for _ in range(2):
        done = run("--", "true", environment={"XDG_STATE_HOME": str(tmp_path)})
        assert done.returncode == 0
    found = sorted((tmp_path / "dragoman" / "traces").iterdir())
    assert len(found) == 2
    assert all(path.name.endswith(".jsonl") and "-true-" in path.name for path in found)
    assert str(found[-1]) in done.stderr


def test_a_folder_gets_a_new_file_for_each_run(tmp_path: Path) -> None:
    for _ in range(2):
        run("-o", f"{tmp_path}/new/", "--", *ECHO)
    assert len(list((tmp_path / "new").iterdir())) == 2
    run("-o", str(tmp_path / "new"), "--", *ECHO)
    assert len(list((tmp_path / "new").iterdir())) == 3


def run(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DRAGOMAN, "record", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, **(environment or {})},
    )
