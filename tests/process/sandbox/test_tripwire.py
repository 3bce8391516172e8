"""Changes of protected files are noticed, kept aside and put back, and no link made by a command is followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.process.sandbox import Backend, ProtectedChange, Tripwire, make_policy
from dragoman.process.sandbox import policy as policy_module
from dragoman.process.sandbox import tripwire as tripwire_module
from dragoman.process.sandbox.policy import unconfined_policy
from tests.process.sandbox.kit import Place, both, git, only_thread, outside, shell


@pytest.fixture
def wire(there: Place) -> Tripwire:
    git(there.project, "init", "-q")
    hook = there.project / ".git" / "hooks" / "pre-commit"
    hook.write_text("old hook")
    hook.chmod(0o755)
    (there.project / "AGENTS.md").write_text("old")
    (there.project / "src").mkdir()
    (there.project / "src" / "CLAUDE.md").write_text("old")
    tripwire = Tripwire(make_policy([there.project], temporary=there.temporary, home=there.home), there.aside)
    tripwire.arm()
    return tripwire


def brief(changes: list[ProtectedChange], there: Place) -> set[tuple[str, str]]:
    return {(os.path.relpath(change.path, there.project), change.happened) for change in changes}


def after(line: str, there: Place) -> None:
    assert outside("sh", "-c", line, cwd=there.project)[0] == 0


def test_without_a_change_there_is_nothing_to_report(wire: Tripwire, there: Place) -> None:
    after("echo 1 >ordinary; git add ordinary; touch AGENTS.md; cp AGENTS.md x; cat x >AGENTS.md", there)
    assert wire.check(restore=True) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("echo evil >AGENTS.md", {("AGENTS.md", "changed")}),
        ("touch -r AGENTS.md t; printf new >AGENTS.md; touch -r t AGENTS.md", {("AGENTS.md", "changed")}),
        ("rm AGENTS.md", {("AGENTS.md", "deleted")}),
        ("chmod 777 AGENTS.md", {("AGENTS.md", "changed")}),
        ("echo evil >.envrc", {(".envrc", "created")}),
        ("echo evil >.git/hooks/pre-push", {(".git/hooks/pre-push", "created")}),
        ("mkdir .vscode; echo evil >.vscode/tasks.json", {(".vscode/tasks.json", "created")}),
        ("rm AGENTS.md; ln -s /etc/passwd AGENTS.md", {("AGENTS.md", "changed")}),
        ("ln -s ../x .mcp.json", {(".mcp.json", "created")}),
        ("mkfifo .envrc", {(".envrc", "created")}),
        ("head -c 3000000 /dev/zero >.envrc", {(".envrc", "created")}),
        (
            "mv src lib; mkdir src; echo evil >src/CLAUDE.md",
            {("src/CLAUDE.md", "changed"), ("lib/CLAUDE.md", "created")},
        ),
    ],
)
def test_a_change_is_found_and_reverted(line: str, found: set[tuple[str, str]], wire: Tripwire, there: Place) -> None:
    after(line, there)
    changes = wire.check(restore=True)
    assert brief(changes, there) == found
    assert all(change.is_restored and change.kept and change.problem is None for change in changes)
    assert (there.project / "AGENTS.md").read_text() == "old"
    assert not (there.project / "AGENTS.md").is_symlink()
    assert (there.project / "src" / "CLAUDE.md").read_text() == "old"
    assert not (there.project / ".envrc").exists()
    assert wire.check(restore=True) == []


def test_a_known_file_cannot_be_buried_among_others(
    wire: Tripwire, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_module, "_MOST_ENTRIES", 50)
    after('for n in $(seq 60); do : >"!$n"; done; echo evil >src/CLAUDE.md', there)
    assert brief(wire.check(restore=True), there) == {("src/CLAUDE.md", "changed")}


def test_content_and_mode_are_kept_aside_and_put_back(wire: Tripwire, there: Place) -> None:
    hook = there.project / ".git" / "hooks" / "pre-commit"
    hook.write_text("evil")
    (change,) = wire.check(restore=False)
    assert (change.happened, change.is_restored, hook.read_text()) == ("changed", False, "evil")
    assert change.kept is not None
    assert Path(change.kept).read_text() == "old hook"
    assert stat.S_IMODE(os.stat(change.kept).st_mode) == 0o600
    assert wire.check(restore=True) == []  # reported once
    hook.unlink()
    assert wire.check(restore=True)[0].is_restored
    assert (hook.read_text(), stat.S_IMODE(hook.stat().st_mode)) == ("evil", 0o755)


def test_a_link_in_place_of_a_folder_is_not_followed(wire: Tripwire, there: Place) -> None:
    """A command must not be able to have this program write or delete outside."""
    (there.outside / "CLAUDE.md").write_text("theirs")
    after(f"rm -r src; ln -s {there.outside} src", there)
    (change,) = wire.check(restore=True)
    assert (change.happened, change.is_restored) == ("deleted", False)
    assert change.problem is not None
    assert (there.outside / "CLAUDE.md").read_text() == "theirs"


def test_a_link_in_place_of_the_git_folder_is_removed_and_its_hooks_are_put_back(wire: Tripwire, there: Place) -> None:
    after(f"mv .git {there.outside}/git; ln -s {there.outside}/git .git; echo evil >.git/hooks/pre-commit", there)
    changes = wire.check(restore=True)
    assert (".git", "created") in brief(changes, there)
    assert (there.project / ".git" / "hooks" / "pre-commit").read_text() == "old hook"
    assert (there.outside / "git" / "hooks" / "pre-commit").read_text() == "evil\n"


def test_a_large_file_is_noticed_but_not_put_back(wire: Tripwire, there: Place) -> None:
    (there.project / ".envrc").write_bytes(bytes(2 << 20))
    wire.arm()
    (there.project / ".envrc").write_bytes(bytes(2 << 20) + b"x")
    (change,) = wire.check(restore=True)
    assert (change.happened, change.is_restored, change.kept) == ("changed", False, None)
    assert "too large" in str(change.problem)


def test_old_content_is_not_kept_where_commands_can_change_it(there: Place) -> None:
    policy = make_policy([there.project], temporary=there.temporary, home=there.home)
    with pytest.raises(ValueError, match="outside the folders"):
        Tripwire(policy, there.project / "aside")


@only_thread
async def test_on_the_thread_the_tripwire_reverts_what_the_sandbox_lets_pass(
    name: Backend, wire: Tripwire, there: Place
) -> None:
    ran = await shell(
        there.sandbox(name), "echo evil >.git/hooks/pre-commit; echo evil >>.git/config; echo evil >.envrc"
    )
    assert ran.code == 0
    assert brief(wire.check(restore=True), there) == {
        (".git/hooks/pre-commit", "changed"),
        (".git/config", "changed"),
        (".envrc", "created"),
    }
    assert (there.project / ".git" / "hooks" / "pre-commit").read_text() == "old hook"
    git(there.project, "status")


@both
async def test_a_protected_file_that_did_not_exist_is_removed_in_both(
    name: Backend, wire: Tripwire, there: Place
) -> None:
    await shell(there.sandbox(name), "echo evil >.envrc")
    assert brief(wire.check(restore=True), there) == {(".envrc", "created")}
    assert not (there.project / ".envrc").exists()


def test_the_new_content_of_a_file_that_is_put_back_is_kept_too(wire: Tripwire, there: Place) -> None:
    after("echo 'the user wrote this meanwhile' >AGENTS.md", there)
    (change,) = wire.check(restore=True)
    assert (there.project / "AGENTS.md").read_text() == "old"
    assert change.replaced is not None
    assert Path(change.replaced).read_text() == "the user wrote this meanwhile\n"


def test_a_change_that_the_caller_made_with_permission_is_accepted(wire: Tripwire, there: Place) -> None:
    after("echo new >AGENTS.md; echo evil >src/CLAUDE.md; echo x >.envrc", there)
    wire.accept(there.project / "AGENTS.md")
    wire.accept(there.project / ".envrc")
    assert brief(wire.check(restore=False), there) == {("src/CLAUDE.md", "changed")}
    after("echo again >AGENTS.md", there)
    assert brief(wire.check(restore=False), there) == {("AGENTS.md", "changed")}


def test_a_change_that_is_expected_is_neither_listed_nor_put_back(wire: Tripwire, there: Place) -> None:
    after("echo new >AGENTS.md; echo new >src/CLAUDE.md", there)
    expected = str(there.project / "AGENTS.md")
    assert brief(wire.check(restore=True, is_expected=lambda path: path == expected), there) == {
        ("src/CLAUDE.md", "changed")
    }
    assert (there.project / "AGENTS.md").read_text() == "new\n"
    assert wire.check(restore=True) == []


def test_the_folder_for_old_content_is_made_when_it_is_needed(there: Place) -> None:
    (there.project / "AGENTS.md").write_text("old")
    aside = there.aside / "not" / "yet"
    tripwire = Tripwire(unconfined_policy([there.project]), aside, is_confined=False)
    tripwire.arm()
    assert tripwire.check(restore=False) == []
    assert not aside.exists()
    after("rm AGENTS.md", there)
    [change] = tripwire.check(restore=False)
    assert change.kept is not None
    assert Path(change.kept).read_text() == "old"


def test_without_a_sandbox_the_old_content_may_be_kept_below_a_root(there: Place) -> None:
    Tripwire(unconfined_policy([there.project]), there.project / "aside", is_confined=False)
    with pytest.raises(ValueError, match="outside the folders"):
        Tripwire(unconfined_policy([there.project]), there.project / "aside")


def test_more_files_than_are_searched_are_not_taken_for_new_ones(there: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tripwire_module, "_MOST_FILES", 10)
    folder = there.project / ".vscode"
    folder.mkdir()
    long_ago = [folder / f"{number}.json" for number in range(40)]
    for path in long_ago:
        path.write_text("old")
    tripwire = Tripwire(unconfined_policy([there.project]), there.aside, is_confined=False)
    tripwire.arm()
    tripwire._armed_ns = 1 + max(path.stat().st_ctime_ns for path in long_ago)
    searched = sorted(tripwire._before)
    assert len(searched) == 10
    os.unlink(searched[0])  # another one takes its place in the search
    assert brief(tripwire.check(restore=False), there) == {(os.path.relpath(searched[0], there.project), "deleted")}
    new = there.project / ".envrc"  # at the top, so it is among those that are searched
    new.write_text("new")
    while new.stat().st_ctime_ns < tripwire._armed_ns:  # until the clock of the file system has moved on
        new.write_text("new")
    assert brief(tripwire.check(restore=False), there) == {(".envrc", "created")}


def test_no_name_or_size_of_a_new_file_keeps_it_from_being_removed(wire: Tripwire, there: Place) -> None:
    """A terabyte that takes no room would be read for an hour, and a long name has none to be kept under."""
    long = "é" * 120 + ".mdc"
    after(f"truncate -s 1T .envrc; mkdir .vscode; echo evil >.vscode/tasks.json; echo evil >'{long}'", there)
    changes = wire.check(restore=True)
    assert brief(changes, there) == {(name, "created") for name in (".envrc", ".vscode/tasks.json", long)}
    assert all(change.is_restored for change in changes)
    assert [change.problem for change in changes if change.problem] == ["not kept: it is too large to be kept"]
    assert not (there.project / ".envrc").exists()
    assert not (there.project / long).exists()


def test_more_new_files_than_are_searched_at_once_are_all_removed(
    wire: Tripwire, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tripwire_module, "_MOST_FILES", 30)
    after("mkdir .vscode; for i in $(seq 100); do echo evil >.vscode/$i; done", there)
    assert len(wire.check(restore=True)) == 100
    assert os.listdir(there.project / ".vscode") == []


def test_a_full_disk_for_old_content_does_not_stop_the_removal(
    wire: Tripwire, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "makedirs", full)
    after("echo evil >.envrc; echo evil >AGENTS.md", there)
    changes = wire.check(restore=True)
    assert [(change.is_restored, change.problem) for change in changes] == [
        (True, "not kept: No space left on device")
    ] * 2
    assert not (there.project / ".envrc").exists()
    assert (there.project / "AGENTS.md").read_text() == "old"
