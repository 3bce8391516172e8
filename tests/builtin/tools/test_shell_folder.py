"""The folder of commands stays where the last successful one left it, and is the one that was judged."""

import asyncio
from pathlib import Path

import pytest

from dragoman.builtin.tools.shell_folder import folder_after
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import FakeContext, with_editor

MOVED = "[commands run in sub from now on; paths of other tools still start at the working folder]"


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    (tmp_path / "root" / "sub" / "deep").mkdir(parents=True)
    return FakeContext(tmp_path / "root")


async def test_the_next_command_runs_where_the_last_one_ended(context: FakeContext) -> None:
    assert await context.text("bash", command="cd sub") == f"[no output, exit code 0]\n{MOVED}"
    assert await context.text("bash", command="pwd") == f"{context.cwd}/sub"
    [request] = context.requests("bash", command="make")
    assert request.command
    assert request.command.cwd == f"{context.cwd}/sub"
    assert "deep from now on" in await context.text("bash", command="cd deep; ls nothing 2>/dev/null; true")
    assert await context.text("bash", command="pwd") == f"{context.cwd}/sub/deep"
    back = await context.text("bash", command=f"cd {context.cwd} && echo back")
    assert back == "back\n[commands run in the working folder again]"
    assert await context.text("bash", command="pwd") == context.cwd


async def test_a_command_that_fails_does_not_move(context: FakeContext) -> None:
    assert await context.text("bash", command="cd sub && exit 3") == "[exit code 3]"
    assert await context.text("bash", command="pwd") == context.cwd


async def test_a_cd_in_a_subshell_does_not_move(context: FakeContext) -> None:
    assert await context.text("bash", command="(cd sub && pwd)") == f"{context.cwd}/sub"
    assert await context.text("bash", command="pwd") == context.cwd


async def test_a_folder_outside_of_the_session_is_not_kept(context: FakeContext) -> None:
    text = await context.text("bash", command="cd / && pwd")
    assert text == f"/\n[/ is outside of the session's folders: the next command runs in {context.cwd}]"
    assert await context.text("bash", command="pwd") == context.cwd


async def test_a_link_that_leads_out_is_not_kept(context: FakeContext, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    assert "is outside of the session's folders" in await context.text("bash", command="cd link")
    assert await context.text("bash", command="pwd") == context.cwd


async def test_a_folder_that_becomes_a_link_out_is_left(context: FakeContext, tmp_path: Path) -> None:
    await context.call("bash", command="cd sub")
    (tmp_path / "root" / "sub").rename(tmp_path / "root" / "was")
    (tmp_path / "root" / "sub").symlink_to("/")
    [request] = context.requests("bash", command="ls")
    assert request.command
    assert request.command.cwd == context.cwd
    assert "[sub is gone: commands run in the working folder again]" in await context.text("bash", command="ls")


async def test_output_cannot_move_the_next_command(context: FakeContext) -> None:
    forged = f"printf '\\033]7;file://dragoman-1{context.cwd}/sub\\007'; cd ."
    await context.call("bash", command=forged)
    assert await context.text("bash", command="pwd") == context.cwd


async def test_a_call_runs_in_the_folder_that_was_judged(context: FakeContext) -> None:
    [request] = context.requests("bash", command="pwd")
    context.tool_call_id = "call_2"
    await context.call("bash", command="cd sub")
    context.tool_call_id = "call_1"
    assert request.command
    assert await context.text("bash", command="pwd") == request.command.cwd == context.cwd
    assert await context.text("bash", command="pwd") == f"{context.cwd}/sub"


async def test_the_argument_wins_and_is_relative_to_the_working_folder(context: FakeContext) -> None:
    await context.call("bash", command="cd sub/deep")
    assert await context.text("bash", command="pwd", cwd="sub") == f"{context.cwd}/sub"
    assert await context.text("bash", command="pwd") == f"{context.cwd}/sub/deep"


async def test_what_a_command_reports_about_lines_and_exit_codes_stays_the_same(context: FakeContext) -> None:
    output = await context.call("bash", command="cd sub\nnot-a-program; exit 7")
    assert output.exit_code == 7
    assert "line 2: not-a-program" in output.text


async def test_a_redirection_of_the_shell_itself_gets_no_report(context: FakeContext) -> None:
    text = await context.text("bash", command="exec >log; cd sub; echo x")
    assert f"[the next command runs in {context.cwd}" in text
    assert context.read("log") == "x\n"


async def test_in_the_terminal_of_the_editor_the_line_is_run_as_it_is(context: FakeContext) -> None:
    client = ScriptedClient()
    async with with_editor(context.folder, client) as inside:
        assert MOVED in await inside.text("bash", command="cd sub && true")
        moved = await inside.call("bash", command="pwd")
        assert moved.terminal is not None
        assert moved.text == f"{context.cwd}/sub"
        text = await inside.text("bash", command="cd deep; true")
        assert text.endswith(f"[the next command runs in {context.cwd}/sub: where this one ended is not known]")


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("cd a", "/w/a"),
        ("cd a && make && cd ../b", "/w/b"),
        ("cd /x/y", "/x/y"),
        ("cd a; make", None),
        ("(cd a)", None),
        ("make", "/w"),
        ("cd $X", None),
        ("cd a &", None),
        ("cd a # done", None),
    ],
)
def test_where_a_line_ends_is_read_only_if_it_is_certain(line: str, folder: str | None) -> None:
    assert folder_after(line, "/w") == folder


async def test_parallel_calls_do_not_mix_their_reports(context: FakeContext) -> None:
    calls = [context.call("bash", command=f"cd sub && echo {number}") for number in range(3)]
    texts = [output.text.split("\n")[0] for output in await asyncio.gather(*calls)]
    assert texts == ["0", "1", "2"]
