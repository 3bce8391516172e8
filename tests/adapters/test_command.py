"""Command-line tools as agents: what goes in, what comes out, how a run ends, and which files it changed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import command, wrap
from dragoman.adapters import turn as turn_module
from dragoman.adapters.command_line import adapter as command_adapter
from dragoman.adapters.command_line import snapshot
from dragoman.adapters.command_line.adapter import OutputText, filled_in, prompt_text
from dragoman.cli import exits
from dragoman.cli.main import main
from dragoman.client import Session
from dragoman.errors import ConfigError, RequestError
from dragoman.schema import v1
from tests.adapters.fixtures import ask, client_of, on_wire, session_of, statuses, text_of

SECONDS = 60


@asynccontextmanager
async def tool(folder: Path, script: str, *arguments: str) -> AsyncIterator[Session]:
    """A session, in the folder `work`, of a Python script that is outside of it."""
    work, file = folder / "work", folder / "tool.py"
    work.mkdir(exist_ok=True)
    file.write_text(script)
    words = [sys.executable, "-S", str(file), *arguments]
    async with session_of(command(words), work, wraps={"store": folder / "sessions.db"}) as session:
        yield session


def calls_of(updates: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The calls by their titles, each with all of its members."""
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        if "toolCallId" in update:
            calls.setdefault(update["toolCallId"], {}).update(update)
    return {call["title"]: call for call in calls.values()}


def notices_of(updates: list[dict[str, Any]]) -> list[str]:
    return [update["title"] for update in updates if update["sessionUpdate"] == "notice"]


def diffs_of(call: dict[str, Any]) -> dict[str, tuple[str | None, str]]:
    return {
        Path(item["path"]).name: (item.get("oldText"), item["newText"])
        for item in call["content"]
        if item["type"] == "diff"
    }


# What goes in


async def test_the_prompt_is_the_input_of_a_command_without_a_place_for_it(tmp_path: Path) -> None:
    async with tool(tmp_path, "import os, sys; print(sys.stdin.read(), os.getcwd(), sys.argv[1:])", "{cwd}") as session:
        work = str(tmp_path / "work")
        assert text_of(await ask(session, "say {cwd}")) == f"say {{cwd}} {work} ['{work}']\n"


async def test_the_prompt_is_part_of_one_argument_and_no_shell_reads_it(tmp_path: Path) -> None:
    script = "import json, sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]))"
    async with tool(tmp_path, script, "--message={prompt}", "{other}", "{session}") as session:
        prompt = "a 'b' $(touch x); {cwd} \0\n--end"
        given = json.loads(text_of(await ask(session, prompt)))
        assert given == [["--message=a 'b' $(touch x); {cwd} \n--end", "{other}", session.id], ""]
        assert list((tmp_path / "work").iterdir()) == []


async def test_a_long_prompt_is_read_from_the_input_and_refused_as_an_argument(tmp_path: Path) -> None:
    prompt = "x" * 1_000_000
    async with tool(tmp_path, "import sys; print(len(sys.stdin.read()))") as session:
        assert text_of(await ask(session, prompt)) == "1000000\n"
    async with tool(tmp_path, "print(1)", "{prompt}") as session:
        with pytest.raises(RequestError, match=r"too long for an argument of .* without \{prompt\}"):
            await ask(session, prompt)


async def test_a_tool_that_does_not_read_its_input_is_not_an_error(tmp_path: Path) -> None:
    async with tool(tmp_path, "import os; os.close(0); print('done')") as session:
        assert text_of(await ask(session, "x" * 1_000_000)) == "done\n"


def test_files_of_the_prompt_are_paths_and_texts() -> None:
    blocks: list[v1.ContentBlock] = [
        v1.TextContent("look at "),
        v1.ResourceLink("a b.py", "file:///work/a%20b.py"),
        v1.ResourceLink("page", "https://example.com/x"),
        v1.EmbeddedResource(v1.TextResourceContents("x = 1", "file:///work/c.py")),
        v1.EmbeddedResource(v1.BlobResourceContents("AAAA", "file:///work/d.png")),
    ]
    expected = 'look at /work/a b.pyhttps://example.com/x\n<file path="/work/c.py">\nx = 1\n</file>\n/work/d.png'
    assert prompt_text(blocks) == expected
    assert filled_in(["{prompt}{cwd}"], {"prompt": "{cwd}", "cwd": "/w", "session": "s"}) == ["{cwd}/w"]


# What comes out


async def test_output_is_shown_while_the_tool_runs(tmp_path: Path) -> None:
    script = "import sys; print('first', end=''); open(sys.argv[1]).read(); print(' second')"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with tool(tmp_path, script, str(gate)) as session, asyncio.timeout(SECONDS):
        seen = []
        async for update in session.prompt("go"):
            seen.append(update)
            if text_of(on_wire(seen)) == "first":  # the tool waits until the pipe is opened
                await asyncio.to_thread(gate.write_text, "go on")
        assert text_of(on_wire(seen)) == "first second\n"


def test_characters_and_escapes_that_are_split_are_joined() -> None:
    raw = "ü€😀 \x1b[31mred\x1b[0m \x1b]0;title\x07x\r\ny\rz\a\b \x9b1mé\x1b".encode() + b"\xff\xc3"
    expected = "ü€😀 red x\ny\nz é\ufffd\ufffd"
    for size in (1, 2, 3, 7, len(raw)):
        text = OutputText(1000)
        pieces = [text.feed(raw[start : start + size]) for start in range(0, len(raw), size)]
        assert "".join(pieces) + text.finish() == expected, size
        assert not text.is_cut


def test_a_sequence_without_an_end_does_not_hold_the_output_back() -> None:
    text = OutputText(100_000)
    shown = "".join(text.feed(b"\x1b]" + b"x" * 1000) for _ in range(20)) + text.feed(b"y" * 5000)
    assert shown.endswith("y" * 5000)
    assert "\x1b" not in shown + text.finish()


async def test_much_output_is_bounded_and_the_tool_still_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_adapter, "_ANSWER_LETTERS", 100_000)
    monkeypatch.setattr(command_adapter, "_THOUGHT_LETTERS", 10_000)
    script = "import sys\nfor _ in range(100): print('x' * 9999); print('y' * 9999, file=sys.stderr)"
    async with tool(tmp_path, script) as session:
        updates = await ask(session, "go")
        assert len(text_of(updates)) == 100_000
        assert len(text_of(updates, "agent_thought_chunk")) == 10_000
        assert notices_of(updates) == ["The output is not complete"]


async def test_stderr_is_a_thought_and_the_answer_goes_on_after_it(tmp_path: Path) -> None:
    script = "import sys; print('looking', file=sys.stderr); print('found')"
    async with tool(tmp_path, script) as session:
        updates = await ask(session, "go")
        assert text_of(updates) == "found\n"
        assert text_of(updates, "agent_thought_chunk") == "looking\n"


# How it ends


async def test_an_exit_code_is_an_error_with_the_end_of_stderr_and_the_next_prompt_works(tmp_path: Path) -> None:
    script = """
import sys
if sys.argv[1] == "work": sys.exit(print("fine"))
print("half an answer")
open("made.txt", "w").write("made")
sys.stderr.write("line\\n" * 10000 + "\\x1b[31mno key\\x1b[0m\\n")
sys.exit(3)
"""
    async with tool(tmp_path, script, "{prompt}") as session:
        turn = session.prompt("fail")
        updates: list[v1.SessionUpdate] = []

        async def read() -> None:
            async for update in turn:
                updates.append(update)  # what arrived before the error is looked at

        with pytest.raises(RequestError, match=r"failed with exit code 3:\n(line\n){19}no key \(-32603\)$") as caught:
            await read()
        assert len(str(caught.value)) < 3000
        assert text_of(on_wire(updates)) == "half an answer\n"
        assert diffs_of(calls_of(on_wire(updates))["Changed 1 file"]) == {"made.txt": (None, "made")}
        assert text_of(await ask(session, "work")) == "fine\n"


async def test_a_signal_is_an_error_with_its_name(tmp_path: Path) -> None:
    async with tool(tmp_path, "import os; os.kill(os.getpid(), 9)") as session:
        with pytest.raises(RequestError, match="ended by the signal SIGKILL; it wrote nothing to standard error"):
            await ask(session, "go")


TREE = """
import os, signal, subprocess, sys, time
open("begun.txt", "w").write("begun")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
pids = [os.getpid(), subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
print(*pids)
time.sleep(1000)
"""


def is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_cancel_ends_the_whole_tree_and_shows_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "CLEANUP_SECONDS", SECONDS)  # the machine may be slow
    async with tool(tmp_path, TREE) as session, asyncio.timeout(SECONDS):
        turn = session.prompt("go")
        updates = []
        async for update in turn:
            updates.append(update)
            if text_of(on_wire(updates)).endswith("\n"):
                await turn.cancel()
        assert turn.result.stop_reason == "cancelled"
        pids = [int(word) for word in text_of(on_wire(updates)).split()]
        assert len(pids) == 3
        assert [pid for pid in pids if is_alive(pid)] == []
        assert diffs_of(calls_of(on_wire(updates))["Changed 1 file"]) == {"begun.txt": (None, "begun")}


async def test_what_a_tool_leaves_running_ends_with_it(tmp_path: Path) -> None:
    script = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"], start_new_session=True).pid)
"""
    async with tool(tmp_path, script) as session, asyncio.timeout(SECONDS):
        pid = int(text_of(await ask(session, "go")))
        assert not is_alive(pid)


async def test_success_without_output_is_reported(tmp_path: Path) -> None:
    async with tool(tmp_path, "") as session:
        updates = await ask(session, "go")
        assert text_of(updates) == ""
        assert notices_of(updates) == [f"{Path(sys.executable).name}-tool ended without output"]


# Files


CHANGING = r"""
import os
open("new.txt", "w").write("new\n")
open("kept.txt", "w").write("two\n")
os.remove("old.txt")
open("picture.png", "wb").write(b"\x89PNG\0\1")
open("large.txt", "w").write("x" * 2_000_000)
open("touched.txt", "a").close(); os.utime("touched.txt")
os.makedirs("node_modules/x"); open("node_modules/x/y.js", "w").write("1")
os.makedirs("inner/folder"); open("inner/folder/deep.txt", "w").write("deep")
os.symlink("kept.txt", "link.txt")
print("done")
"""


async def test_changed_files_are_tool_calls_with_diffs(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("kept.txt", "old.txt", "touched.txt", "still.txt"):
        (work / name).write_text("one\n")
    (work / "large.txt").write_text("y" * 2_000_000)
    async with tool(tmp_path, CHANGING) as session:
        updates = await ask(session, "go")
    calls = calls_of(updates)
    assert list(calls) == ["Changed 3 files", "Deleted 1 file", "2 files changed, not shown as text"]
    changed, deleted, others = calls.values()
    assert {call["status"] for call in calls.values()} == {"completed"}
    assert (changed["kind"], deleted["kind"]) == ("edit", "delete")
    assert diffs_of(changed) == {
        "new.txt": (None, "new\n"),
        "kept.txt": ("one\n", "two\n"),
        "deep.txt": (None, "deep"),
    }
    assert [place["path"] for place in deleted["locations"]] == [str(work / "old.txt")]
    assert diffs_of(deleted) == {"old.txt": ("one\n", "")}
    assert others["content"][0]["content"]["text"].splitlines() == [
        "large.txt: changed (it is too large, or cannot be read)",
        "picture.png: created (it is not text, 6 bytes)",
    ]


async def test_a_run_that_changes_nothing_shows_no_call(tmp_path: Path) -> None:
    async with tool(tmp_path, "print('hello')") as session:
        assert statuses(await ask(session, "go")) == []


async def test_a_folder_with_too_many_files_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_ENTRIES", 5)
    (tmp_path / "work").mkdir()
    for number in range(6):
        (tmp_path / "work" / f"{number}.txt").touch()
    async with tool(tmp_path, "open('0.txt', 'w').write('x'); print('done')") as session:
        shown = [await ask(session, "go") for _ in range(2)]
        assert [statuses(updates) for updates in shown] == [[], []]
        assert [notices_of(updates) for updates in shown] == [["Changed files are not shown"], []]


def test_a_change_of_the_same_size_right_after_the_snapshot_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for number in range(50):
        file.write_text(f"{number:02}")
        before = snapshot.take_snapshot(str(tmp_path))
        file.write_text(f"{number + 1:02}")
        changes = snapshot.find_changes(before)
        assert changes is not None
        assert changes.shown == [snapshot.ChangedFile(str(file), f"{number:02}", f"{number + 1:02}")]


def test_more_changes_than_can_be_shown_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_SHOWN_FILES", 1)
    before = snapshot.take_snapshot(str(tmp_path))
    for name in "ab":
        (tmp_path / name).write_text(name)
    changes = snapshot.find_changes(before)
    assert changes is not None
    assert [each.path for each in changes.shown] == [str(tmp_path / "a")]
    assert changes.unshown == [
        snapshot.UnshownFile(str(tmp_path / "b"), "created", "there are too many changes to show")
    ]


# The whole way


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-program", "{prompt}"], "the program 'no-such-program' was not found; install it"),
        (["./not-there"], "the program './not-there' was not found"),
        (["./plain.txt"], "the program './plain.txt' is not executable"),
        (["{prompt}"], "the program cannot be '{prompt}'; name one"),
    ],
)
def test_a_program_that_cannot_run_is_refused_at_once(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.txt").write_text("text")
    assert main(["wrap", "--", *words]) == exits.USAGE
    assert message in capsys.readouterr().err


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(ConfigError, match="the command is empty"):
        command([])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["sh", "{prompt}"], "sh"),
        (["sh", "-c", "echo 'a b'"], "sh"),
        (["sh", "tools/my.agent.sh"], "sh-my.agent"),
        (["env", "llm"], "env"),
    ],
)
def test_the_name_tells_scripts_apart(words: list[str], name: str) -> None:
    assert command(words).name == name


async def test_sessions_are_listed_and_loaded_with_what_was_shown(tmp_path: Path) -> None:
    script = "import sys; open('n.txt', 'w').write('x'); print('heard', sys.stdin.read())"
    async with tool(tmp_path, script) as session:
        await ask(session, "one")
    agent = wrap(command([sys.executable, "-S", str(tmp_path / "tool.py")]), store=tmp_path / "sessions.db")
    async with client_of(agent) as remote:
        assert [info.session_id for info in (await remote.list_sessions()).sessions] == [session.id]
        loaded = await remote.load_session(session.id, tmp_path / "work")
        texts = [item.text for item in loaded.state.messages]
        assert "heard one\n" in texts
        assert [call.title for call in loaded.state.tool_calls.values()] == ["Changed 1 file"]
        assert text_of(await ask(loaded, "two")) == "heard two\n"
    async with client_of(agent) as remote:
        resumed = await remote.resume_session(session.id, tmp_path / "work")
        assert text_of(await ask(resumed, "three")) == "heard three\n"
        await remote.close_session(session.id)
        await remote.delete_session(session.id)
        assert (await remote.list_sessions()).sessions == []


def test_exec_runs_a_wrapped_command_as_a_user_does(tmp_path: Path) -> None:
    script = "import sys; print(sys.stdin.read().upper()); sys.exit('one\\ntwo' if sys.argv[1:] else 0)"
    (tmp_path / "script.py").write_text(script)
    done = run_exec(tmp_path, "script.py")
    assert (done.returncode, done.stdout.strip()) == (0, "HELLO"), done.stderr
    failed = run_exec(tmp_path, "script.py", "fail")
    assert (failed.returncode, failed.stdout.strip()) == (exits.AGENT_ERROR, "HELLO"), failed.stderr
    assert failed.stderr.count("failed with exit code 1") == 1


def run_exec(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    dragoman = (sys.executable, "-m", "dragoman")
    return subprocess.run(
        [*dragoman, "exec", "hello", "--", *dragoman, "wrap", "--", sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "DRAGOMAN_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
