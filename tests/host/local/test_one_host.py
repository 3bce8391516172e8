"""One host for each user, settings folder, data folder and installation."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.local import log_file
from tests.host.local.installations import Installation, copy_package, run
from tests.host.local.kit import HostPlaceKit, scripted


def described(text: str) -> dict[str, Any]:
    """What `sessions --host --json` printed; empty if no host runs."""
    found: dict[str, Any] | None = json.loads(text)
    return found or {}


def host_of(place: HostPlaceKit, **variables: str) -> dict[str, Any]:
    """What the host that a client with these variables meets says of itself; none is started for it."""
    before = dict(place.environment)
    place.environment |= variables
    try:
        return described(place.run("--host", "--json", verb="sessions").out)
    finally:
        place.environment.clear()
        place.environment.update(before)


def test_one_folder_in_any_spelling_is_one_host_and_another_folder_is_another(place: HostPlaceKit) -> None:
    home = place.home
    del place.environment["DRAGOMAN_HOME"]
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        place.environment.pop(name, None)
    (home.parent / "link").symlink_to(home)
    (home / "elsewhere").mkdir()
    assert scripted(place).code == 0
    pid = host_of(place)["pid"]
    same: list[dict[str, str]] = [
        {"HOME": f"{home.parent}/link"},
        {"HOME": f"{home}/elsewhere/.."},
        {"HOME": f"{home}//"},
        {"XDG_CONFIG_HOME": f"{home.parent}/link/.config", "XDG_DATA_HOME": f"{home}/.local/../.local/share/"},
        {"XDG_CONFIG_HOME": "not/absolute"},
        {"XDG_STATE_HOME": f"{home}/elsewhere", "XDG_CACHE_HOME": f"{home}/elsewhere"},
    ]
    for variables in same:
        assert host_of(place, **variables).get("pid") == pid, variables
    other: list[dict[str, str]] = [
        {"HOME": f"{home}/elsewhere"},
        {"XDG_CONFIG_HOME": f"{home}/elsewhere"},
        {"XDG_DATA_HOME": f"{home}/elsewhere"},
        {"DRAGOMAN_HOME": f"{home}/elsewhere"},
    ]
    for variables in other:
        assert host_of(place, **variables).get("pid") != pid, variables
    before = dict(place.environment)
    for count, name in enumerate(("XDG_CONFIG_HOME", "XDG_DATA_HOME"), 2):
        place.environment |= {**before, name: f"{home}/elsewhere"}
        done = place.run("--session", "s", "-a", "scripted", "say other")  # the name is free there
        assert done.out.strip() == "other", done.err
        assert len(place.pids()) == count
        del place.environment[name]
    assert place.run("--session", "s", "say here").out.strip() == "here"
    assert host_of(place)["pid"] == pid


def test_another_installation_has_its_own_host_and_sessions_in_the_same_data_folder(
    place: HostPlaceKit, tmp_path: Path
) -> None:
    assert scripted(place).code == 0
    (ours,) = place.pids()
    copy = Installation(tmp_path / "copy")
    # The same environment by another name, and another environment with the same package.
    (tmp_path / "again").symlink_to(copy.folder)
    linked = Installation(tmp_path / "linked", copy.package)
    assert described(copy.run(place, "--host", "--json", verb="sessions").out).get("pid") is None
    done = copy.run(place, "--session", "s", "-a", "scripted", "say copy")
    assert done.out.strip() == "copy", done.err
    (theirs,) = {*place.pids()} - {ours}
    again = [str(tmp_path / "again" / "bin" / "python"), "-m", "dragoman"]
    found = described(run(place, [*again, "sessions", "--host", "--json"]).out)
    assert found["pid"] == theirs
    assert Path(found["package"]) == copy.package.resolve()
    assert described(linked.run(place, "--host", "--json", verb="sessions").out).get("pid") is None
    assert place.host()["pid"] == ours
    # Each lists the sessions that its own host has; both wrote into the ledger of the user.
    for done in (copy.run(place, "list", "--json", verb="sessions"), place.run("list", "--json", verb="sessions")):
        rows = json.loads(done.out)
        assert [row["name"] for row in rows if "host" in row["known_by"]] == ["s"]
        assert len([row for row in rows if "ledger" in row["known_by"]]) == 2
    data = place.home / "dragoman" / "data"
    assert len([*data.glob("hosted*.db")]) == 2
    # Neither log has a session of the other host.
    assert place.run("--session", "s", "say mine").out.strip() == "mine"
    assert sorted(place.pids()) == sorted([ours, theirs])


def test_a_clone_that_hides_an_installed_package_starts_a_host_of_its_own_code(
    place: HostPlaceKit, tmp_path: Path
) -> None:
    """The package is found by PYTHONPATH, or in the current folder; the host ignores both."""
    (tmp_path / "clone").mkdir()
    clone = copy_package(tmp_path / "clone")
    command = [sys.executable, "-m", "dragoman"]
    done = run(place, [*command, "exec", "--session", "s", "-a", "scripted", "hello"], PYTHONPATH=str(clone.parent))
    assert done.out == "hello\n", done.err
    shown = run(place, [*command, "sessions", "--host", "--json"], PYTHONPATH=str(clone.parent))
    assert Path(described(shown.out)["package"]) == clone
    assert described(run(place, [*command, "sessions", "--host", "--json"]).out).get("pid") is None


def test_the_log_of_an_installation_that_is_gone_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def use(name: str) -> str:
        package = tmp_path / name / "dragoman"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        monkeypatch.setattr(log_file, "installation", lambda: f"{tmp_path / name}\n{package}")
        return log_file.claim_log(tmp_path)

    assert use("3.12") == "hosted"
    other = use("clone")
    assert other.startswith("hosted-")
    assert log_file.own_log_name(tmp_path) == other
    assert use("3.12") == "hosted"
    assert use("clone") == other
    (tmp_path / "3.12" / "dragoman" / "__init__.py").unlink()
    assert log_file.own_log_name(tmp_path) == "hosted"
    assert use("3.13") == "hosted"
    assert use("clone") == other
    assert oct(os.stat(tmp_path / "hosted.installation").st_mode & 0o777) == "0o600"
