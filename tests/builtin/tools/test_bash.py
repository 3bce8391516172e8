"""`bash` runs a command, here or in the editor's terminal, and reports how it ended."""

import asyncio
import os
from pathlib import Path

import pytest

from dragoman.builtin.tools.bash import lacked
from dragoman.builtin.tools.command_text import plain
from dragoman.builtin.tools.tool import CommandResult
from dragoman.policy import Command
from dragoman.process.sandbox import Denial
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import TOOLS, FakeContext, with_editor


async def test_the_output_of_a_command_is_returned(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="echo out; echo err >&2; pwd")
    assert output.text == f"out\nerr\n{tmp_path}"
    assert (output.exit_code, output.is_error, output.terminal) == (0, False, None)


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="needs bash")
async def test_the_shell_is_bash(tmp_path: Path) -> None:
    assert await FakeContext(tmp_path).text("bash", command="a=(x y); [[ ${a[1]} == y ]] && echo ${a[@]}") == "x y"


async def test_a_file_that_a_command_changed_after_it_was_read_is_named_once(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    for name in ("a.py", "b.py", "c.py"):
        context.write(name, "one\n")
        await context.call("read", path=name)
    context.write("unread.py")
    touched = await context.text("bash", command="echo two >a.py; touch b.py unread.py; rm c.py")
    assert touched == "[no output, exit code 0]\n[changed since you read it: a.py, c.py (deleted)]"
    assert await context.text("bash", command="true") == "[no output, exit code 0]"
    await context.call("read", path="a.py")
    await context.call("write", path="a.py", text="three\n")
    assert "changed" not in await context.text("bash", command="cat a.py")


async def test_a_command_without_output_is_reported_as_such(tmp_path: Path) -> None:
    assert await FakeContext(tmp_path).text("bash", command="true") == "[no output, exit code 0]"


async def test_an_exit_code_other_than_0_is_an_error(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="echo no; exit 3")
    assert (output.text, output.exit_code, output.is_error) == ("no\n[exit code 3]", 3, True)


async def test_a_signal_is_named(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="kill -9 $$")
    assert (output.text, output.exit_code, output.is_error) == ("[ended by SIGKILL]", None, True)


async def test_a_command_that_takes_too_long_is_ended_and_reported_as_such(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="echo begun; sleep 60", timeout="0.3")
    assert output.text.startswith(
        "begun\n[timed out (timeout 0.3 s): it was ended; give a longer timeout, at most 600 s"
    )
    assert output.is_error


async def test_a_cancelled_call_ends_its_command(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    running = asyncio.ensure_future(context.call("bash", command="echo $$; exec sleep 60"))
    await context.has_shown.wait()
    pid = int(context.shown[0].text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_output_is_shown_while_the_command_runs(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    os.mkfifo(tmp_path / "go")
    running = asyncio.ensure_future(context.call("bash", command="seq 5000; read x < go; echo $x"))
    await context.has_shown.wait()
    while "5000" not in context.shown[-1].text:
        context.has_shown.clear()
        await context.has_shown.wait()
    assert len(context.shown[-1].text) <= 4096
    await asyncio.to_thread((tmp_path / "go").write_text, "went\n")
    assert (await running).text.endswith("5000\nwent")


async def test_it_runs_in_the_given_folder(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    (tmp_path / "sub").mkdir()
    assert await context.text("bash", command="pwd", cwd="sub") == str(tmp_path / "sub")
    assert "there is no folder none" in await context.refusal("bash", command="pwd", cwd="none")


@pytest.mark.parametrize("command", ["", " \n", "echo \0"])
async def test_an_empty_command_is_refused(tmp_path: Path, command: str) -> None:
    assert "the command is empty" in await FakeContext(tmp_path).refusal("bash", command=command)


async def test_of_long_output_both_ends_and_a_file_with_all_of_it_are_given(tmp_path: Path) -> None:
    context = FakeContext(tmp_path / "root", tool_call_id="../call/1")
    context.folder.mkdir()
    output = await context.call("bash", command="seq 60000")
    assert output.text.startswith("1\n2\n")
    assert output.text.endswith("\n59999\n60000")
    assert len(output.text) < 31 * 1024
    assert output.is_truncated
    assert output.output_path == f"{context.overflow_dir}/_call_1.txt"
    assert f"all of it is in {output.output_path}" in output.text
    assert (tmp_path / "root-output" / "_call_1.txt").read_text() == "".join(
        f"{number}\n" for number in range(1, 60_001)
    )
    assert os.stat(output.output_path).st_mode & 0o077 == 0
    assert os.stat(context.overflow_dir).st_mode & 0o077 == 0
    assert (await context.text("read", path=output.output_path, line=30_000, limit=1)).startswith("30000\t30000")
    assert "30000: 30000" in await context.text("grep", path=output.output_path, pattern="^30000$")


async def test_output_just_as_long_as_allowed_is_given_whole(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="head -c 30720 /dev/zero | tr '\\0' x")
    assert output.text == "x" * 30_720
    assert not output.is_truncated


async def test_one_byte_more_is_too_much(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="head -c 30721 /dev/zero | tr '\\0' x")
    assert output.is_truncated


async def test_of_many_short_lines_the_first_fifth_and_the_end_are_given(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="seq 2001")
    head, tail = output.text.split("\n[...")
    assert head.splitlines() == [str(number) for number in range(1, 401)]
    assert tail.splitlines()[1:] == [str(number) for number in range(402, 2002)]
    whole = await FakeContext(tmp_path).call("bash", command="seq 2000")
    assert not whole.is_truncated


async def test_of_long_lines_a_fifth_of_the_room_is_for_the_beginning(tmp_path: Path) -> None:
    output = await FakeContext(tmp_path).call("bash", command="seq -f 'line %06g of a long output' 5000 | head -n 1990")
    head, tail = output.text.split("\n[...")
    assert len(output.text) < 31 * 1024
    assert 5_000 < len(head) < 6_200
    assert 23_000 < len(tail) < 25_000


async def test_output_that_cannot_be_kept_is_still_shown(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.overflow_dir = context.write("file") + "/x"
    output = await context.call("bash", command="seq 60000")
    assert "could not be kept" in output.text
    assert output.output_path is None


async def test_of_endless_output_the_end_is_kept(tmp_path: Path) -> None:
    context = FakeContext(tmp_path / "root")
    context.folder.mkdir()
    output = await context.call("bash", command="seq 1000000")
    assert output.text.startswith("[the beginning is missing: only the last 4 MB were kept]\n")
    assert output.text.endswith("\n1000000")
    assert output.output_path is not None
    assert os.stat(output.output_path).st_size < (4 << 20) + 100


async def test_the_terminal_of_the_editor_is_used_and_shown(tmp_path: Path) -> None:
    async with with_editor(tmp_path, ScriptedClient()) as context:
        output = await context.call("bash", command="printf '\\033[31mred\\033[0m\\n'; exit 2")
        assert output.terminal is not None
        assert (output.text, output.exit_code, output.is_error) == ("red\n[exit code 2]", 2, True)
        assert [shown.terminal for shown in context.shown] == [output.terminal]
        late = await context.call("bash", command="sleep 60", timeout=0.2)
        assert "timed out" in late.text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m\x1b]0;title\x07 \x1b(Bx", "red x"),
        ("10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
    ],
)
def test_colours_and_lines_written_over_are_left_out(written: str, shown: str) -> None:
    assert plain(written) == shown


def test_permission_is_requested_for_the_command_and_its_folder(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    [request] = context.requests("bash", command="npm test", cwd="sub")
    assert (request.agent, request.kind) == ("dragoman", "execute")
    assert request.command == Command(line="npm test", cwd=str(tmp_path / "sub"))
    assert (request.root, request.title) == (str(tmp_path), "`npm test`")


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({}, "Run a command"),
        ({"command": None}, "Run a command"),
        ({"command": "npm te"}, "`npm te`"),
        ({"command": "echo `id`"}, "``echo `id```"),
        ({"command": "a\nb"}, "`a\nb`"),
        ({"command": "npm test", "description": "Run the\ntests."}, "Run the tests: `npm test`"),
        ({"command": "rm -rf x", "description": "`ls`"}, "'ls': `rm -rf x`"),
        ({"command": "npm start", "background": True}, "`npm start` in the background"),
        ({"command": "x" * 3000}, "`" + "x" * 1999 + "…`"),
    ],
)
def test_a_title_is_the_line(arguments: dict[str, object], title: str) -> None:
    assert TOOLS["bash"].preview(arguments, "/w").title == title


NETWORK, SOCKET = Denial("network", "pip, inet"), Denial("socket", "ls, unix")
WRITE = Denial("write", "/etc/x")


@pytest.mark.parametrize(
    ("line", "code", "text", "denials", "expected"),
    [
        ("pip install x", 1, "no matching distribution", (NETWORK,), [NETWORK]),
        ("pip install x | tail -2", 0, "ERROR: could not find a version", (NETWORK,), [NETWORK]),
        ("echo x >/etc/x || true", 0, "cannot create /etc/x: Permission denied", (WRITE,), [WRITE]),
        ("npm run build", 0, "an error was printed", (NETWORK,), []),
        ("npm run build | tail", 0, "5 passed, 0 failed", (NETWORK,), []),
        ("ls -l missing", 2, "ls: cannot access 'missing': No such file or directory", (SOCKET,), []),
        ("docker ps", 1, "permission denied while trying to connect", (SOCKET,), [SOCKET]),
        ("make", 2, "make: *** No targets", (), []),
    ],
)
def test_only_what_the_sandbox_made_fail_is_asked_about(
    line: str, code: int, text: str, denials: tuple[Denial, ...], expected: list[Denial]
) -> None:
    assert lacked(CommandResult(text, code, sandbox="thread", denials=denials), line) == expected
    assert lacked(CommandResult(text, code, timed_out=True, denials=denials), line) == []
