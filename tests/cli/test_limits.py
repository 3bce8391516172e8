"""What is too large, and what there is too little of: a sentence, a hint and an exit code, never a bug."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.exec_kit import ODD_AGENT, PROGRAM, SECONDS
from tests.cli.ways import place, plain_place, shared_host

if TYPE_CHECKING:
    from tests.cli.exec_kit import Place

__all__ = ["place", "plain_place", "shared_host"]


def test_a_history_with_a_message_above_16_mib_is_read_like_any_other(plain_place: Place) -> None:
    entry = {"command": sys.executable, "args": ["-IS", str(ODD_AGENT), "replays-much-late"]}
    folder = plain_place.home / "dragoman" / "config"
    folder.mkdir(parents=True)
    late = {"late": {**entry, "quirks": {"replays_late": True}}}
    (folder / "settings.json").write_text(json.dumps({"agent_servers": late}))
    done = plain_place.run("-a", "late", "hello", "--resume", "s", "--output", "json")
    assert done.code == 0, done.err
    assert done.result["messages"] == ["hello"]


def test_an_update_above_16_mib_is_an_answer(place: Place) -> None:
    done = place.run("x", "--output", "json", odd="says-much")
    assert done.code == 0, done.err
    assert done.result["lost_characters"] + len(done.result["messages"][0]) == 20_000_000


def test_an_answer_that_is_too_long_to_be_read_is_named_as_the_reason(place: Place) -> None:
    done = place.run("x", "--output", "json", odd="says-too-much")
    assert done.code == 6
    assert "a message of this turn could not be read" in done.result["error"]["message"]
    assert "32 MiB" in done.result["error"]["hint"]


def test_an_agent_whose_request_was_too_long_gets_an_error(place: Place) -> None:
    done = place.run("x", odd="asks-too-much")
    assert done.code == 0, done.err
    assert "was dropped: one may have 33554432 bytes; send it in smaller parts" in done.out


def test_a_response_that_is_too_long_is_an_error_of_the_agent(place: Place) -> None:
    done = place.run("x", odd="answers-too-much")
    assert done.code == 1
    assert "was dropped: one may have 33554432 bytes" in done.err


def limited(plain_place: Place, limit: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `dragoman` in a shell with a limit, as a user does."""
    script = f'ulimit {limit} && exec "$@"'
    return subprocess.run(
        ["/bin/bash", "-c", script, "bash", *PROGRAM, *words],
        cwd=plain_place.project,
        env={**plain_place.environment, "DRAGOMAN_HOST": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


AGENT = ("--", sys.executable, "-IS", str(ODD_AGENT), "plain")
COMMANDS = [
    ("version",),
    ("exec", "x", *AGENT),
    ("exec", "x", "--output", "json", *AGENT),
    ("guard", *AGENT),
    ("rules", "explain", "execute", "--", "ls"),
    ("sessions", "list"),
    ("serve", "--listen", "unix:serve.sock", *AGENT),
    ("agents", "list"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_a_limit_of_eight_open_files_is_an_error_that_says_what_to_do(
    words: tuple[str, ...], plain_place: Place
) -> None:
    done = limited(plain_place, "-n 8", *words)
    assert done.returncode in (0, 2, 4), done.stderr
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
    if done.returncode:
        assert "the limit of this shell is 8" in done.stderr
        assert "hint: raise it and try again: ulimit -n" in done.stderr


# With 80 MB a server may have enough, and then it serves.
SCARCE = [(kib, words) for kib in (40_000, 80_000) for words in COMMANDS if kib == 40_000 or words[0] != "serve"]


@pytest.mark.parametrize(
    ("kib", "words"), SCARCE, ids=lambda value: "-".join(value[:2]) if type(value) is tuple else ""
)
def test_too_little_memory_is_an_error_that_says_what_to_do(
    kib: int, words: tuple[str, ...], plain_place: Place
) -> None:
    done = limited(plain_place, f"-v {kib}", *words)
    assert done.returncode in (0, 2, 4), done.stderr
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
    if done.returncode:
        assert "memory" in done.stderr
        assert "hint: " in done.stderr
