"""What goes through `dragoman record` is what was sent, at once, whatever it is."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.trace import End, Exit, Stderr, open_trace
from tests.trace.kit import DRAGOMAN, ECHO, SECONDS, Recording, frames, python, recording, streams

PIECES = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=300),
        st.sampled_from(
            [
                b"\n",
                b"\r\n",
                b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n',
                b'{"jsonrpc":"2.0",',
                b"\xef\xbb\xbf",
                b"\x00" * 100,
                b"x" * 70_000,
            ]
        ),
    ),
    min_size=1,
    max_size=8,
)


def test_garbage_goes_through_byte_for_byte_in_both_directions(tmp_path: Path) -> None:
    sent = bytearray()
    with recording(tmp_path / "trace.jsonl", ECHO) as relay:

        @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
        @given(PIECES)
        def exchange(pieces: list[bytes]) -> None:
            for piece in pieces:
                relay.send(piece)
                assert relay.receive(len(piece)) == piece
                sent.extend(piece)

        exchange()
        relay.close_stdin()
        assert relay.rest() == (b"", b"", 0)
    assert streams(relay.trace()) == {"c2a": bytes(sent), "a2c": bytes(sent)}


def test_the_output_of_an_agent_is_recorded_byte_by_byte(tmp_path: Path) -> None:
    shout = python("import sys\nfor line in sys.stdin: sys.stdout.write(line.upper()); sys.stdout.flush()")
    with recording(tmp_path / "trace.jsonl", shout) as relay:
        relay.send(b'{"a":1}\nnoise\n')
        assert relay.receive(14) == b'{"A":1}\nNOISE\n'
        relay.send(b"last words")
        relay.close_stdin()
        assert relay.rest() == (b"LAST WORDS", b"", 0)
    assert [frame for frame in frames(relay.trace()) if frame[0] == "a2c"] == [
        ("a2c", b'{"A":1}', b"\n"),
        ("a2c", b"NOISE", b"\n"),
        ("a2c", b"LAST WORDS", b""),
    ]


def test_a_part_of_a_line_is_passed_on_before_the_rest_of_it_exists(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ECHO) as relay:
        for piece in (b"{", b'"jsonrpc"', b":", b'"2.0"}', b"\r", b"\n"):
            relay.send(piece)
            assert relay.receive(len(piece)) == piece
        assert frames(relay.trace())[0] == ("c2a", b'{"jsonrpc":"2.0"}', b"\r\n")


def test_entries_are_in_the_file_while_the_conversation_goes_on(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ECHO) as relay:
        relay.send(b"one\n")
        relay.receive(4)
        relay.send(b"two\n")  # the answer to this one comes after the answer to the first was written down
        relay.receive(4)
        assert frames(relay.trace())[:2] == [("c2a", b"one", b"\n"), ("a2c", b"one", b"\n")]


def test_a_giant_line_goes_through_and_is_recorded_in_pieces(tmp_path: Path) -> None:
    size = 40 << 20
    swallow = python(
        f"import os\nleft={size}\nwhile left: left -= len(os.read(0, 1 << 16))\n"
        "os.write(1, b'all of it\\n'); os.read(0, 1)"
    )
    with recording(tmp_path / "trace.jsonl", swallow) as relay:
        for _ in range(40):
            relay.send(b"y" * (1 << 20))
        assert relay.receive(10) == b"all of it\n"
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{relay.process.pid}/status").read_text())
        assert peak
        assert int(peak[1]) < 200 << 10  # a piece of 32 MiB, as it came and as it is written
        relay.close_stdin()
        assert relay.rest()[2] == 0
    pieces = [data for direction, data, eol in frames(relay.trace()) if direction == "c2a" and eol == b""]
    assert len(pieces) == 2
    assert b"".join(pieces) == b"y" * size


def test_stderr_is_passed_on_and_recorded_line_by_line(tmp_path: Path) -> None:
    agent = python("import os; os.write(2, b'one\\ntwo\\xff\\nthr'); os.write(2, b'ee'); os.read(0, 1)")
    with recording(tmp_path / "trace.jsonl", agent) as relay:
        relay.close_stdin()
        assert relay.rest() == (b"", b"one\ntwo\xff\nthree", 0)
    assert [entry.text for entry in relay.trace().entries if isinstance(entry, Stderr)] == ["one", "two�", "three"]


def test_a_log_without_a_reader_does_not_stop_the_conversation(tmp_path: Path) -> None:
    chatty = python("import os\nfor _ in range(80): os.write(2, b'x' * 65535 + b'\\n')\nos.write(1, os.read(0, 9))")
    with recording(tmp_path / "trace.jsonl", chatty) as relay:
        relay.send(b"question\n")
        assert relay.receive(9) == b"question\n"
        relay.close_stdin()
        out, err, code = relay.rest()
    assert (out, code) == (b"", 0)
    assert 60_000 < len(err) < 3 << 20
    assert len([entry for entry in relay.trace().entries if isinstance(entry, Stderr)]) == 80


def test_an_agent_that_does_not_read_makes_the_editor_wait(tmp_path: Path) -> None:
    deaf = python("import time; time.sleep(60)")
    with recording(tmp_path / "trace.jsonl", deaf) as relay:
        os.set_blocking(relay.stdin.fileno(), False)
        assert 0 < flood(relay) < 1 << 20


def flood(relay: Recording) -> int:
    """How much the relay takes until it takes no more for a while."""
    taken = 0
    while select.select([], [relay.stdin], [], 0.5)[1]:
        taken += os.write(relay.stdin.fileno(), b"z" * (1 << 14))
    return taken


def test_an_editor_that_does_not_read_makes_the_agent_wait(tmp_path: Path) -> None:
    talker = python(
        "import os, select\nos.set_blocking(1, False); said = 0\n"
        "while select.select([], [1], [], 0.5)[1]: said += os.write(1, b'z' * 16384)\n"
        "os.write(2, b'%d\\n' % said); os.set_blocking(1, True); os.read(0, 1)"
    )
    with recording(tmp_path / "trace.jsonl", talker) as relay:
        said = int(relay.read_line("stderr"))
        assert 0 < said < 1 << 20
        relay.close_stdin()
        out, _, code = relay.rest()
    assert (len(out), code) == (said, 0)


def test_a_full_disk_does_not_disturb_the_conversation_and_is_reported_once() -> None:
    with recording(Path("/dev/full"), ECHO) as relay:
        for _ in range(3):
            relay.send(b"hello\n")
            assert relay.receive(6) == b"hello\n"
        relay.close_stdin()
        _, err, code = relay.rest()
    assert code == 0
    assert relay.greeting == (
        "dragoman: warning: recording to /dev/full stopped: No space left on device; the conversation goes on\n"
    )
    assert err == b""


def test_a_disk_that_fills_up_during_the_recording_is_reported_once(tmp_path: Path) -> None:
    limited = ["sh", "-c", f"ulimit -f 8; exec {' '.join(DRAGOMAN)} record -o {tmp_path}/trace.jsonl -- cat"]
    with subprocess.Popen(
        limited, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        relay = Recording(process, tmp_path / "trace.jsonl")
        assert relay.read_line("stderr").startswith(b"dragoman: recording to ")
        for _ in range(4):
            relay.send(b"w" * 4000 + b"\n")
            assert len(relay.receive(4001)) == 4001
        relay.close_stdin()
        out, err, code = relay.rest()
    assert (out, code) == (b"", 0)
    assert err.decode() == (
        f"dragoman: warning: recording to {tmp_path}/trace.jsonl stopped: File too large; the conversation goes on\n"
    )
    assert len(open_trace(tmp_path / "trace.jsonl").problems) == 1


def test_streams_may_be_sockets_as_some_editors_have_them(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)
    process = subprocess.Popen(
        [*DRAGOMAN, "record", "-o", str(tmp_path / "trace.jsonl"), "--", *ECHO],
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        stderr=subprocess.DEVNULL,
    )
    try:
        with ours:
            ours.sendall(b"hello\n")
            assert ours.recv(100) == b"hello\n"
            assert os.get_blocking(theirs.fileno()) is False
            ours.shutdown(socket.SHUT_WR)
            assert process.wait(SECONDS) == 0
            assert os.get_blocking(theirs.fileno()) is True
    finally:
        theirs.close()
        process.kill()
        process.wait(SECONDS)


def test_streams_may_be_files(tmp_path: Path) -> None:
    question, answer = tmp_path / "in", tmp_path / "out"
    question.write_bytes(b"from a file\n" * 10_000)
    with question.open("rb") as stdin, answer.open("wb") as stdout:
        stdout.write(b"kept: ")
        stdout.flush()
        done = subprocess.run(
            [*DRAGOMAN, "record", "-o", str(tmp_path / "trace.jsonl"), "--", *ECHO],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
            timeout=SECONDS,
        )
    assert done.returncode == 0
    assert answer.read_bytes() == b"kept: " + question.read_bytes()


def test_a_recording_ends_with_the_order_in_which_the_sides_closed(tmp_path: Path) -> None:
    with recording(tmp_path / "trace.jsonl", ECHO) as relay:
        relay.close_stdin()
        relay.rest()
    match relay.trace().entries:
        case [End(dir="c2a"), End(dir="a2c"), Exit(code=0, signal=None)]:
            pass
        case other:
            pytest.fail(f"{other}")


def test_redaction_touches_the_file_alone(tmp_path: Path) -> None:
    prompt = (
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":'
        b'[{"type":"text","text":"the password is swordfish"}]}}\n'
    )
    with recording(tmp_path / "trace.jsonl", ["sh", "-c", "echo swordfish >&2; cat"], "--redact") as relay:
        relay.send(prompt)
        assert relay.receive(len(prompt)) == prompt
        relay.close_stdin()
        relay.rest()
    text = relay.path.read_text()
    assert "swordfish" not in text
    assert "session/prompt" in text
    assert relay.trace().header.redacted
    assert relay.trace().header.command == ()
