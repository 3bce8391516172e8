"""Installing from the registry: exact versions, checked before they are unpacked, all or nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.registry.agents import AgentEntry
from dragoman.registry.archive import ArchiveLimits
from dragoman.registry.doctor import probe
from dragoman.registry.install import install, make_plan, this_platform
from dragoman.registry.installed import Installed, InstalledAgents
from dragoman.registry.packages import InstallFailed, InstallProgress, pinned
from tests import machine
from tests.registry.kit import (
    PYTHON_AGENT,
    Site,
    binary,
    catalogue,
    lark,
    npm_package,
    python_package,
    sha256,
    site,
    special,
    tar,
    zipped,
)

PROGRAM = f"#!{sys.executable}\n{PYTHON_AGENT}\nmain()\n".encode()


@pytest.fixture
def agents(tmp_path: Path) -> InstalledAgents:
    return InstalledAgents(tmp_path / "data")


def get(agents: InstalledAgents, entry: dict[str, Any], **how: Any) -> Installed:
    [listed] = catalogue(entry).agents.values()
    wanted = {name: how.pop(name) for name in ("distribution", "version") if name in how}
    return install(make_plan(listed, **wanted), agents, **how)


def left(agents: InstalledAgents) -> list[str]:
    """What is on disk, without the lock."""
    if not agents.root.exists():
        return []
    return sorted(str(path.relative_to(agents.root)) for path in agents.root.iterdir() if path.name != ".lock")


async def answers(agents: InstalledAgents, entry: Installed, tmp_path: Path) -> str:
    command = agents.argv(entry)
    found = await probe(AgentEntry(name="x", command=command, source="registry", where=""), tmp_path, seconds=20)
    return f"{found.name} {found.version}"


@pytest.mark.parametrize("form", ["tar.gz", "tar.xz", "zip", "raw"])
async def test_archive_is_checked_unpacked_and_runs(agents: InstalledAgents, tmp_path: Path, form: str) -> None:
    content = {
        "tar.gz": tar(("bin/lark", PROGRAM)),
        "tar.xz": tar(("bin/lark", PROGRAM), packed="xz"),
        "zip": zipped(("bin/lark", PROGRAM)),  # zips of other systems carry no executable bit
        "raw": PROGRAM,
    }[form]
    with site() as place:
        place.pages["/lark"] = content
        target = binary(f"{place.address}/lark", cmd="./bin/lark", sha256=sha256(content).upper(), env={"LARK": "1"})
        entry = get(agents, lark(binary=target))
    assert (entry.version, entry.command, entry.env) == ("0.4.2", ("bin/lark", "acp"), {"LARK": "1"})
    assert entry.sha256 == sha256(content)
    assert left(agents) == [entry.folder, "installed.json"] or left(agents) == ["installed.json", entry.folder]
    assert await answers(agents, entry, tmp_path) == "lark 0.4.2"


def test_wrong_hash_leaves_nothing_on_disk(agents: InstalledAgents, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tar(("lark", PROGRAM))
    monkeypatch.setattr("dragoman.registry.install.unpack", lambda *_, **__: pytest.fail("unpacked before the check"))
    with site() as place:
        place.pages["/lark.tgz"] = content
        target = binary(f"{place.address}/lark.tgz", sha256=sha256(content + b"x"))
        with pytest.raises(ConfigError, match=f"refused: its sha256 is {sha256(content)}, the registry lists"):
            get(agents, lark(binary=target), accept_unverified=True)
    assert left(agents) == []


def test_archive_without_a_checksum_needs_a_flag(agents: InstalledAgents) -> None:
    content = tar(("lark", PROGRAM))
    with site() as place:
        place.pages["/lark.tgz"] = content
        entry = lark(binary=binary(f"{place.address}/lark.tgz"))
        with pytest.raises(ConfigError, match="--without-checksum"):
            get(agents, entry)
        assert place.asked == []
        assert left(agents) == []
        assert get(agents, entry, accept_unverified=True).sha256 == sha256(content)


def test_archive_without_a_checksum_may_not_change_later(agents: InstalledAgents) -> None:
    with site() as place:
        place.pages["/lark.tgz"] = tar(("lark", PROGRAM))
        entry = lark(binary=binary(f"{place.address}/lark.tgz"))
        first = get(agents, entry, accept_unverified=True)
        place.pages["/lark.tgz"] = tar(("lark", b"#!/bin/sh\nevil\n"))
        with pytest.raises(ConfigError, match="the archive was replaced"):
            get(agents, entry, accept_unverified=True)
    assert agents.all() == {"lark-agent": first}
    assert (agents.root / first.folder / "lark").read_bytes() == PROGRAM


HOSTILE = {
    "slip": tar(("../evil", b"evil"), ("lark", PROGRAM)),
    "absolute": tar(("/tmp/evil-lark", b"evil")),
    "link": tar(special("lark", b"2", "/bin/sh")),
    "device": tar(("lark", PROGRAM), special("null", b"3")),
    "bomb": tar(("lark", bytes(24 << 20))),
    "damaged": tar(("lark", PROGRAM * 100))[:200],
    "not an archive": b"<html>not found</html>",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_archive_with_the_right_hash_leaves_nothing(
    agents: InstalledAgents, tmp_path: Path, content: bytes
) -> None:
    with site() as place:
        place.pages["/lark.tgz"] = content
        with pytest.raises(ConfigError, match="refused"):
            get(agents, lark(binary=binary(f"{place.address}/lark.tgz", sha256=sha256(content))))
    assert left(agents) == []
    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_failed_install_keeps_what_was_there(agents: InstalledAgents) -> None:
    good = tar(("lark", PROGRAM))
    with site() as place:
        place.pages["/1.tgz"] = good
        first = get(agents, lark(binary=binary(f"{place.address}/1.tgz", sha256=sha256(good))))
        bad = binary(f"{place.address}/1.tgz", sha256="0" * 64)
        with pytest.raises(ConfigError, match="refused"):
            get(agents, {**lark(binary=bad), "version": "0.5.0"})
    assert agents.all() == {"lark-agent": first}
    assert (agents.root / first.folder / "lark").is_file()


@pytest.mark.parametrize("cmd", ["../lark", "/bin/sh", "a/../../b", "."])
def test_program_outside_the_archive_is_refused(agents: InstalledAgents, cmd: str) -> None:
    with pytest.raises(ConfigError, match="not below the archive"):
        get(agents, lark(binary=binary("https://example.org/lark.tgz", cmd=cmd, sha256="0" * 64)))


def test_archive_without_the_program_is_an_error(agents: InstalledAgents) -> None:
    content = tar(("other", PROGRAM))
    with site() as place:
        place.pages["/lark.tgz"] = content
        with pytest.raises(ConfigError, match=r"does not contain './lark'"):
            get(agents, lark(binary=binary(f"{place.address}/lark.tgz", sha256=sha256(content))))
    assert left(agents) == []


def test_limits_hold_for_an_install(agents: InstalledAgents) -> None:
    content = tar(("a", b"1"), ("lark", PROGRAM))
    with site() as place:
        place.pages["/lark.tgz"] = content
        with pytest.raises(ConfigError, match="more than 1 files"):
            get(
                agents,
                lark(binary=binary(f"{place.address}/lark.tgz", sha256=sha256(content))),
                limits=ArchiveLimits(files=1),
            )


# Which way is chosen


def test_checked_archive_is_chosen_before_packages_and_those_before_an_unchecked_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packages = {"npx": {"package": "a@1.0.0"}, "uvx": {"package": "a"}}
    checked, unchecked = binary("https://example.org/a", sha256="0" * 64), binary("https://example.org/a")

    def chosen(**ways: Any) -> str:
        [listed] = catalogue(lark(**ways)).agents.values()
        return make_plan(listed).distribution

    assert chosen(binary=checked, **packages) == "binary"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert chosen(binary=unchecked, **packages) == "npx"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert chosen(binary=unchecked, **packages) == "uvx"
    assert chosen(binary=unchecked) == "binary"


def test_distribution_or_platform_that_is_not_offered_is_an_error() -> None:
    [listed] = catalogue(lark(binary={"plan9-mips": {"archive": "https://example.org/a", "cmd": "a"}})).agents.values()
    with pytest.raises(ConfigError, match=rf"for this machine \({this_platform()}\); available: binary"):
        make_plan(listed)
    with pytest.raises(ConfigError, match="not distributed as npx"):
        make_plan(listed, distribution="npx")


def test_archive_has_only_the_version_of_the_registry() -> None:
    [listed] = catalogue(lark(binary=binary("https://example.org/a", sha256="0" * 64))).agents.values()
    assert make_plan(listed, version="0.4.2").version == "0.4.2"
    with pytest.raises(ConfigError, match=r"0\.4\.2 as an archive, not 9\.9\.9"):
        make_plan(listed, version="9.9.9")


@pytest.mark.parametrize(
    ("manager", "package", "expected"),
    [
        ("npx", "@lark/agent", "@lark/agent@0.4.2"),
        ("npx", "@lark/agent@1.2.3-beta.1", "@lark/agent@1.2.3-beta.1"),
        ("npx", "lark", "lark@0.4.2"),
        ("uvx", "lark-agent", "lark-agent==0.4.2"),
        ("uvx", "lark-agent@1.2.3", "lark-agent==1.2.3"),
        ("uvx", "lark_agent[acp]==1.2.3rc1", "lark_agent[acp]==1.2.3rc1"),
    ],
)
def test_package_is_pinned_to_one_version(manager: Any, package: str, expected: str) -> None:
    assert str(pinned(manager, package, "0.4.2")) == expected


@pytest.mark.parametrize(
    ("manager", "package"),
    [
        ("npx", "@lark/agent@latest"),
        ("npx", "lark@^1.0.0"),
        ("npx", "lark@>=1"),
        ("npx", "lark@file:../evil"),
        ("npx", "git+ssh://git@example.org/evil.git"),
        ("npx", "https://example.org/evil.tgz"),
        ("npx", "../evil"),
        ("npx", "./evil"),
        ("npx", "--global"),
        ("npx", "lark other"),
        ("uvx", "lark>=1"),
        ("uvx", "lark @ https://example.org/evil.whl"),
        ("uvx", "git+https://example.org/evil"),
        ("uvx", "-r/etc/passwd"),
        ("uvx", "./evil"),
        ("uvx", "lark==1.*"),
        ("uvx", "--index-url=https://evil.example"),
    ],
)
def test_what_is_not_a_name_with_one_version_is_refused(manager: Any, package: str) -> None:
    with pytest.raises(ConfigError, match=r"(is not the name of a package|has no exact version)"):
        pinned(manager, package, "0.4.2")


# With the real tools, offline


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if machine.program("npm") is None:
        pytest.skip("npm is not installed")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))


def serve_npm(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", place.address)


@pytest.mark.usefixtures("npm")
async def test_npm_package_is_installed_in_its_folder_and_runs(
    agents: InstalledAgents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as place:
        serve_npm(place, monkeypatch)
        npm_package(place, "@lark/agent", "0.4.2")
        reported: list[str] = []
        [listed] = catalogue(lark(npx={"package": "@lark/agent@0.4.2", "args": ["--acp"]})).agents.values()
        plan = make_plan(listed)
        assert (plan.source, plan.is_verified) == ("@lark/agent@0.4.2", True)
        # The library runs the tool on a loop of its own, so it has to be on a thread of its own here.
        entry = await asyncio.to_thread(install, plan, agents, report=reported.append)
    assert reported == ["installing @lark/agent@0.4.2"]
    assert entry.command == ("node_modules/.bin/lark", "--acp")
    assert json.loads((agents.root / entry.folder / "package.json").read_text())["dependencies"] == {
        "@lark/agent": "0.4.2"
    }
    assert await answers(agents, entry, tmp_path) == "lark 0.4.2"


@pytest.mark.usefixtures("npm")
def test_failure_of_npm_is_an_error_with_its_output_and_leaves_nothing(
    agents: InstalledAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as place:
        serve_npm(place, monkeypatch)
        with pytest.raises(InstallFailed, match=r"@lark/none@0\.4\.2: npm failed with code 1; all of its") as raised:
            get(agents, lark(npx={"package": "@lark/none@0.4.2"}))
    assert any("404" in line for line in raised.value.output)
    assert raised.value.log is not None
    assert "404" in raised.value.log.read_text()
    assert left(agents) == []


@pytest.mark.usefixtures("npm")
def test_npm_package_with_several_programs_needs_cmd_in_the_registry(
    agents: InstalledAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site() as place:
        serve_npm(place, monkeypatch)
        npm_package(place, "lark-cli", "0.4.2", manifest={"bin": {"one": "lark.js", "two": "lark.js"}})
        with pytest.raises(ConfigError, match="not clear which of its programs is the agent; it has: one, two"):
            get(agents, lark(npx={"package": "lark-cli@0.4.2"}))
        assert left(agents) == []
        entry = get(agents, lark(npx={"package": "lark-cli@0.4.2", "cmd": "two"}))
    assert entry.command == ("node_modules/.bin/two",)


def test_missing_npm_is_an_error_with_where_to_get_it(agents: InstalledAgents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")  # nor the folder of a version manager
    with pytest.raises(ConfigError, match=r"needs Node\.js 22 or newer, with npm; none was found"):
        get(agents, lark(npx={"package": "lark@0.4.2"}))
    assert left(agents) == []


def test_python_package_is_installed_in_an_environment_and_runs(
    agents: InstalledAgents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_package(tmp_path / "wheels", "lark-agent", "0.4.2", programs=("lark-agent", "lark-tool"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    entry = get(agents, lark(uvx={"package": "lark-agent", "args": ["acp"]}))
    assert entry.source == "lark-agent==0.4.2"
    assert entry.command == ("bin/lark-agent", "acp")
    assert asyncio.run(answers(agents, entry, tmp_path)) == "lark 0.4.2"
    with pytest.raises(InstallFailed, match=r"lark-agent==9\.9\.9: python failed with code 1; all of its output is in"):
        get(agents, lark(uvx={"package": "lark-agent"}), version="9.9.9")
    assert agents.all() == {"lark-agent": entry}


@pytest.mark.usefixtures("npm")
async def test_a_node_of_a_version_manager_installs_and_runs_what_the_first_one_cannot(
    agents: InstalledAgents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Node.js on the PATH is too old; the one that fits is in the folder of nvm, and its PATH is the agent's."""
    real = {name: str(machine.program(name)) for name in ("node", "npm")}
    managed = tmp_path / "nvm" / "versions" / "node" / "v22.9.0" / "bin"
    managed.mkdir(parents=True)
    for name, program in real.items():
        (managed / name).symlink_to(program)
    stub(tmp_path / "old", "node", "echo v18.1.0")
    stub(tmp_path / "old", "npm", "exit 9")
    for name in ("sh", "dirname"):
        (tmp_path / "old" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NVM_DIR", str(tmp_path / "nvm"))
    with site() as place:
        serve_npm(place, monkeypatch)
        npm_package(place, "lark-agent", "0.4.2")
        listed = lark(npx={"package": "lark-agent@0.4.2", "runtime": ">=22"})
        entry = await asyncio.to_thread(get, agents, listed)
        assert entry.command == ("with-node",)
        assert str(managed) in (agents.root / entry.folder / "with-node").read_text()
        assert await answers(agents, entry, tmp_path) == "lark 0.4.2"
        monkeypatch.setenv("NVM_DIR", "/nowhere")
        with pytest.raises(ConfigError, match=r"needs Node\.js 22 or newer, with npm; found 18\.1\.0 at .*/old/node"):
            await asyncio.to_thread(get, agents, listed)


def test_the_python_that_an_agent_needs_is_found_by_its_name(
    agents: InstalledAgents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    python_package(tmp_path / "wheels", "lark-agent", "0.4.2", programs=("lark-agent",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    used = tmp_path / "used"
    runs = f'echo "$@" >> {used}; exec {sys.executable} "$@"'
    entry_of_registry = lark(uvx={"package": "lark-agent", "runtime": other})
    [listed] = catalogue(entry_of_registry).agents.values()
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "MISE_DATA_DIR", "ASDF_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    stub(tmp_path / "bin", "python3", "echo Python 3.9.1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(
        ConfigError, match=rf"lark-agent==0\.4\.2 needs Python {other}; found 3\.9\.1 at .*/bin/python3"
    ):
        get(agents, entry_of_registry)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    stub(tmp_path / "bin", f"python{other}", f'[ "$1" = --version ] && echo Python {other}.1 && exit; {runs}')
    seen: list[InstallProgress] = []
    sentences: list[str] = []
    entry = install(make_plan(listed), agents, report=sentences.append, progress=seen.append)
    assert "-m venv" in used.read_text()
    assert entry.command == ("bin/lark-agent",)
    assert sentences == ["installing a virtual environment", "installing lark-agent==0.4.2"]
    log = agents.root.parent / "logs" / "install-lark-agent.log"
    assert "Successfully installed lark-agent-0.4.2" in log.read_text()
    assert all(progress.done_bytes >= 0 for progress in seen)


def stub(folder: Path, name: str, line: str) -> None:
    """A program that is not the real one."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{line}\n")
    (folder / name).chmod(0o755)
