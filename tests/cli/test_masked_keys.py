"""No command shows or stores a key of the user's environment, wherever an agent or a file puts it."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from base64 import b64decode

import pytest

from tests.cli.command_lines import EVERYWHERE, LETTERS, LINES, CommandLine, first_of_each, prepare
from tests.cli.exec_kit import ODD_AGENT, SECONDS, Place, place
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]

KEY = "sk-proj-Ab1/0123456789+abcdefghijklmnopqrstuvwxyz=" + "k" * 120  # longer than any column of a table
MASK = "[OPENAI_API_KEY]"
GIVEN = ("old.jsonl", "dragoman/config/settings.json")
# Of these nothing is shown that comes from elsewhere.
SILENT = ("logout",)
PACKED = re.compile(rb'"(H4sI[^"]+)"|>(H4sI[^<]+)<')


def assert_no_key(text: str) -> None:
    """Neither the key nor half of it: what is cut to fit on a line is cut after keys were masked."""
    half = KEY[: len(KEY) // 2]
    assert half not in text, text[max(0, text.index(half) - 300) :][:600]


def can_hold_a_key(line: CommandLine) -> bool:
    """Not in the name of a file, where it would be without its slash."""
    return not line.is_interactive and "NAMED" not in line.words


def files(place: Place) -> str:
    """The content of every file of the project and the home, with what a page has packed."""
    found = [
        path.read_bytes() for folder in (place.project, place.home) for path in folder.rglob("*") if path.is_file()
    ]
    packed = [b64decode(a or b) for data in found for a, b in PACKED.findall(data)]
    return b"\n".join([*found, *map(gzip.decompress, packed)]).decode(errors="replace")


def run(place: Place, verb: str, *words: str, odd: str | None = EVERYWHERE, text: str = KEY) -> str:
    """What the command writes to both streams and to files; the key is in none of it."""
    place.environment |= {"OPENAI_API_KEY": KEY, "ODD_TEXT": text}
    done = place.run(*words, verb=verb, odd=odd)
    seen = done.out + done.err + files(place)
    assert_no_key(seen)
    return seen


@pytest.mark.parametrize("form", ["text", "json", "events", "raw"])
@pytest.mark.parametrize("how", ["--verbose", "--quiet"])
@pytest.mark.parametrize("habit", [EVERYWHERE, LETTERS])
def test_exec(place: Place, form: str, how: str, habit: str) -> None:
    seen = run(place, "exec", "--output", form, how, "--record", "r.jsonl", f"what is {KEY}?", odd=habit)
    assert f"what is {MASK}?" in seen


@pytest.mark.parametrize("how", ["--verbose", "--no-color"])
def test_exec_shows_progress_without_a_key_that_comes_letter_by_letter(place: Place, how: str) -> None:
    """Most of the second key never comes: what was kept is shown when it cannot be a key any more."""
    place.environment |= {"OPENAI_API_KEY": KEY, "ODD_TEXT": KEY}
    if how == "--no-color":
        place.environment["NO_COLOR"] = "1"
    with at_terminal(place, "exec", *([how] if how == "--verbose" else []), "hello", odd=LETTERS) as terminal:
        terminal.wait()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text)
    assert KEY not in shown
    assert f"{MASK} {KEY[:20]}" in shown
    assert f"│ {MASK} {MASK}\n" in shown


def test_a_question_to_the_user(place: Place) -> None:
    place.environment |= {"OPENAI_API_KEY": KEY, "ODD_TEXT": KEY, "NO_COLOR": "1"}
    with at_terminal(place, "exec", "hello", odd=EVERYWHERE) as terminal:
        terminal.until("your answer")
        terminal.type("c\n")
        terminal.wait()
    assert f"yes, this time: {MASK}" in terminal.text
    assert_no_key(terminal.text)


@pytest.mark.parametrize(
    "line",
    first_of_each([line for line in LINES if can_hold_a_key(line)], lambda line: (line.verb, line.source, line.stdout)),
    ids=lambda line: line.id,
)
def test_no_command_shows_or_stores_a_key(place: Place, line: CommandLine) -> None:
    """Keys are masked where a command writes, whatever it does: one line for each place that a key can come from."""
    place.environment["OPENAI_API_KEY"] = KEY
    verb, words = prepare(place, line, KEY)
    done = place.run(*words, verb=verb, odd=line.habit or None)
    for given in GIVEN:  # these hold the key because the test has put it there
        (place.home / given).unlink(missing_ok=True)
    shutil.rmtree(place.project / ".dragoman", ignore_errors=True)
    seen = done.out + done.err + files(place)
    assert KEY not in seen, seen[max(0, seen.index(KEY) - 300) :][:600]
    # These show a message as it is; a key may be in two.
    if line.stdout != "json" and line.verb != "replay" and "--html" not in line.words:
        assert_no_key(seen)
    if line.id not in SILENT:
        assert MASK in seen, seen


@pytest.mark.parametrize("verb", ["exec", "agents", "login"])
def test_a_key_that_only_the_agent_gets(place: Place, verb: str) -> None:
    agent = {"command": sys.executable, "args": ["-IS", str(ODD_AGENT), EVERYWHERE]}
    folder = place.home / "dragoman/config"
    folder.mkdir(parents=True)
    settings = {"agent_servers": {"a": {**agent, "env": {"OPENAI_API_KEY": KEY, "ODD_TEXT": KEY}}}}
    (folder / "settings.json").write_text(json.dumps(settings))
    words = {"exec": ["-a", "a", "--output", "json", "hello"], "agents": ["doctor", "a"], "login": ["-a", "a"]}[verb]
    done = place.run(*words, verb=verb)
    assert MASK in done.out + done.err
    assert_no_key(done.out + done.err)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_check_agent(place: Place, words: tuple[str, ...]) -> None:
    report = ("--html", "page.html", "--junit", "report.xml", "--only", "initialize/*,prompt/*", "--timeout", "3")
    assert MASK in run(place, "check", "agent", *report, *words)


TALK = (
    {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientInfo": {"name": "a", "version": "1"}}},
    {
        "id": 2,
        "method": "session/new",
        "params": {
            "cwd": "/",
            "mcpServers": [
                {"name": "m", "command": "/bin/m", "args": [], "env": [{"name": "OPENAI_API_KEY", "value": KEY}]}
            ],
        },
    },
    {
        "id": 3,
        "method": "session/prompt",
        "params": {"sessionId": "s", "prompt": [{"type": "text", "text": f"is {KEY} right?"}]},
    },
)


def spoken(place: Place, words: list[str], key: str = KEY) -> subprocess.CompletedProcess[str]:
    """Both streams of a program that an editor talks to."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}).replace(KEY, key) + "\n" for each in TALK)
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        cwd=place.project,
        env=place.environment,
        input=lines,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("habit", ["echoes", LETTERS])
@pytest.mark.parametrize("verb", ["record", "inspect"])
def test_a_recording_is_masked_in_both_directions_and_can_be_replayed(place: Place, verb: str, habit: str) -> None:
    place.environment |= {"OPENAI_API_KEY": KEY, "ODD_TEXT": KEY if habit == LETTERS else ""}
    program = [sys.executable, "-IS", str(ODD_AGENT), habit]
    done = spoken(place, [verb, *(["--live"] if verb == "inspect" else []), "-o", "r.jsonl", "--", *program])
    assert done.returncode == 0, done.stderr
    assert KEY in done.stdout, "the conversation itself is passed on unchanged"
    assert_no_key(done.stderr)
    recording = (place.project / "r.jsonl").read_text()
    assert_no_key(recording)
    assert recording.count(MASK) >= 2
    for key in (KEY, "sk-proj-another"):
        again = spoken(place, ["replay", "r.jsonl"], key)
        assert again.returncode == 0, again.stderr
        changed = spoken(place, ["replay", "r.jsonl"], "")
        assert changed.returncode == 8, "a prompt without any key is another prompt"


def test_the_log_of_the_built_in_agent(place: Place) -> None:
    place.environment |= {"OPENAI_API_KEY": KEY}
    log = place.project / "agent.log"
    code = (
        "import logging, pathlib, os; from dragoman.cli.commands.agent import _log_to\n"
        f"_log_to(pathlib.Path({str(log)!r}), 'warning')\n"
        "try: raise ValueError(os.environ['OPENAI_API_KEY'])\n"
        "except ValueError as error: logging.getLogger('dragoman').exception('failed: %s', error)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=place.environment, check=True, timeout=SECONDS)
    assert log.read_text().count(MASK) == 2
    assert_no_key(log.read_text())
