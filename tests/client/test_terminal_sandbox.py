"""Terminals in a sandbox: where a command runs is reported, and protected files are compared around each command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.permission import ClientPermissions
from dragoman.policy import parse_rule
from dragoman.process.sandbox import Backend, ProtectedChange, Tripwire
from dragoman.process.sandbox import sandbox as sandbox_module
from dragoman.process.sandbox.confinement import Confinement, FinishedCommand
from dragoman.process.sandbox.policy import unconfined_policy
from tests.client.terminal_kit import Words, using
from tests.process.sandbox.kit import Place, both, only_thread, place


class Report:
    """What a confinement reports."""

    def __init__(self) -> None:
        self.commands: list[FinishedCommand] = []
        self.between: list[ProtectedChange] = []

    def finished(self, command: FinishedCommand) -> None:
        self.commands.append(command)

    def changed(self, changes: Sequence[ProtectedChange]) -> None:
        self.between.extend(changes)

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(Path(change.path).name, change.happened) for command in self.commands for change in command.changes]


def watched(folder: Path, aside: Path, report: Report, **options: Any) -> Confinement:
    tripwire = Tripwire(unconfined_policy([folder]), aside, is_confined=False)
    return Confinement(tripwire=tripwire, on_finished=report.finished, on_changes=report.changed, **options)


@both
async def test_a_command_runs_inside_and_its_result_states_it(name: Backend) -> None:
    with place() as there:
        report = Report()
        confinement = Confinement(sandbox=there.sandbox(name), on_finished=report.finished)
        async with using(there.project, confinement=confinement) as agent:
            terminal_id = await agent.create("sh", ["-c", f"echo x >in; echo x >{there.outside}/out"])
            assert (await agent.ask("wait_for_exit", terminal_id))["_meta"] == {"dragoman": {"sandbox": name}}
            output = await agent.ask("output", terminal_id)
            look = agent.terminals.look(terminal_id)
            assert look is not None
            assert look.sandbox == name
        assert (there.project / "in").exists()
        assert not (there.outside / "out").exists()
        [command] = report.commands
        assert [denial.kind for denial in command.denials] == ["write"]
        assert f"ran in a sandbox ({name}) and did not get: to change {there.outside}/out" in output["output"]
        assert output["_meta"] == {"dragoman": {"sandbox": name}}


async def test_without_a_confinement_no_sandbox_is_stated(tmp_path: Path) -> None:
    async with using(tmp_path) as agent:
        terminal_id = await agent.create("true")
        assert "_meta" not in await agent.ask("wait_for_exit", terminal_id)


@both
async def test_variables_of_the_agent_are_set_inside_and_those_of_the_user_are_removed(
    name: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER_TOKEN", "secret")
    with place() as there:
        confinement = Confinement(sandbox=there.sandbox(name))
        async with using(there.project, confinement=confinement, kept_variables=("USER_TOKEN",)) as agent:
            variables = [{"name": "GIT_EDITOR", "value": "true"}, {"name": "TMPDIR", "value": "/"}]
            printed = await agent.printed("sh", ["-c", "echo $GIT_EDITOR-$USER_TOKEN-$TMPDIR"], env=variables)
    assert printed.strip() == f"true--{there.temporary}"


@only_thread
@pytest.mark.parametrize("is_required", [False, True])
async def test_a_rule_that_names_the_command_runs_it_outside_unless_the_sandbox_is_required(
    name: Backend, is_required: bool, tmp_path: Path
) -> None:
    there = _folders(tmp_path)
    permissions = ClientPermissions([parse_rule("execute:touch ../outside/x", "allow", "flag")], agent="a")
    confinement = Confinement(sandbox=there.sandbox(name), is_required=is_required)
    async with using(there.project, confinement=confinement, permissions=permissions) as agent:
        await agent.printed("touch", ["../outside/x"])
    assert (there.outside / "x").exists() != is_required


@only_thread
async def test_a_folder_that_does_not_exist_is_refused_and_nothing_stays_counted(name: Backend) -> None:
    with place() as there:
        report = Report()
        tripwire = Tripwire(there.sandbox(name).policy, there.aside)
        confinement = Confinement(sandbox=there.sandbox(name), tripwire=tripwire, on_changes=report.changed)
        async with using(there.project, confinement=confinement) as agent:
            assert (await agent.refused("create", command="true", cwd=f"{there.project}/none"))["code"] == -32602
            (there.project / "AGENTS.md").write_text("by the agent")
            await agent.printed("true")
        assert [change.happened for change in report.between] == ["created"]


# The tripwire, without a sandbox


async def test_the_comparison_is_done_before_the_agent_learns_of_the_end(tmp_path: Path) -> None:
    there = _folders(tmp_path)
    report = Report()
    (there.project / "AGENTS.md").write_text("old")
    async with using(there.project, confinement=watched(there.project, there.aside, report, restores=True)) as agent:
        terminal_id = await agent.create("sh", ["-c", "echo new >AGENTS.md"])
        await agent.ask("wait_for_exit", terminal_id)
        assert (there.project / "AGENTS.md").read_text() == "old"
        assert report.changes == [("AGENTS.md", "changed")]


async def test_a_change_during_two_commands_is_found_once(tmp_path: Path) -> None:
    there = _folders(tmp_path)
    report, words = Report(), Words()
    confinement = watched(there.project, there.aside, report)
    async with using(there.project, confinement=confinement, on_output=words) as agent:
        first = await agent.create("sh", ["-c", "echo new >.envrc; echo begun; read line </dev/tty"])
        await words.saw(first, b"begun")
        await agent.printed("true")  # armed again here, the change would be lost
        await agent.ask("kill", first)
        await agent.ask("wait_for_exit", first)
    assert report.changes == [(".envrc", "created")]
    assert report.between == []


async def test_a_change_between_two_commands_is_the_agents_own(tmp_path: Path) -> None:
    there = _folders(tmp_path)
    report = Report()
    async with using(there.project, confinement=watched(there.project, there.aside, report)) as agent:
        await agent.printed("true")
        (there.project / ".envrc").write_text("x")
        await agent.printed("true")
    assert report.changes == []
    assert [Path(change.path).name for change in report.between] == [".envrc"]


async def test_a_command_that_is_released_while_it_runs_is_compared_too(tmp_path: Path) -> None:
    there = _folders(tmp_path)
    report, words = Report(), Words()
    async with using(there.project, confinement=watched(there.project, there.aside, report), on_output=words) as agent:
        terminal_id = await agent.create("sh", ["-c", "echo new >.envrc; echo begun; exec sleep 1000"])
        await words.saw(terminal_id, b"begun")
        await agent.ask("release", terminal_id)
        await asyncio.sleep(0)
        assert report.changes == [(".envrc", "created")]


def _folders(base: Path) -> Place:
    found = Place(*(base / name for name in Place._fields))
    for folder in found:
        folder.mkdir()
    return found


# What a command prints about paths: links of processes that cannot be followed, names that no file system has, floods.
HOSTILE = [
    "printf \"Permission denied: '/proc/1/root/x' '/proc/1/cwd/x' '/proc/self/fd/99/x'\\n\"",
    "printf 'cat: /\\000x: Permission denied\\n\\377\\376/x: Permission denied\\n'",
    "ln -s loop loop; echo 'cat: loop/x: Permission denied'",
    "echo 'cat: ~nobody-here/x: Permission denied'; echo \"'~root/.ssh/x': Permission denied\"",
    "head -c 70000 /dev/zero | tr '\\0' / ; echo 'x: Permission denied'",
    "head -c 20000 /dev/zero | sed 's|.|a/|g'; echo 'x: Permission denied'",
    "head -c 200000 /dev/urandom; echo; echo 'x: EACCES'",
]


@both
@pytest.mark.parametrize("line", HOSTILE)
async def test_nothing_that_a_command_prints_keeps_protected_files_from_being_put_back(
    name: Backend, line: str
) -> None:
    with place() as there:
        (there.project / "AGENTS.md").write_text("old")
        report = Report()
        sandbox = there.sandbox(name)
        confinement = Confinement(
            sandbox=sandbox, tripwire=Tripwire(sandbox.policy, there.aside), restores=True, on_finished=report.finished
        )
        async with using(there.project, confinement=confinement) as agent:
            await agent.printed("sh", ["-c", f"echo evil >AGENTS.md; echo evil >.envrc; {line}; exit 0"])
        assert (there.project / "AGENTS.md").read_text() == "old"
        assert not (there.project / ".envrc").exists()
        assert len(report.commands) == 1


@only_thread
async def test_a_report_that_fails_comes_after_the_protected_files_and_ends_nothing(
    name: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a defect in the reader of denials")

    monkeypatch.setattr(sandbox_module, "file_denials", fails)
    with place() as there:
        report = Report()
        sandbox = there.sandbox(name)
        tripwire = Tripwire(sandbox.policy, there.aside)
        confinement = Confinement(sandbox=sandbox, tripwire=tripwire, on_finished=report.finished)
        async with using(there.project, confinement=confinement) as agent:
            assert (await agent.printed("sh", ["-c", "echo evil >.envrc; echo done"])).strip() == "done"
        assert not (there.project / ".envrc").exists()
        assert report.changes == [(".envrc", "created")]
    assert "not known" in caplog.text
