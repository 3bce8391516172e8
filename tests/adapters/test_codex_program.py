"""The program behind the codex adapter: found, crashed, missing, logged out, and wrapped on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import AdapterAgent
from dragoman.adapters.codex.adapter import CodexAdapter
from dragoman.adapters.codex.program import find_program
from dragoman.errors import RequestError
from tests.adapters.codex_program import (
    SECONDS,
    codex_client,
    codex_session,
    collected,
    install,
    processes_of,
    work_folder,
)
from tests.adapters.fixtures import ask, client_of, text_of


async def test_a_crash_is_an_error_that_keeps_what_arrived_and_the_next_prompt_goes_on(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        await ask(session, "hello")
        updates: list[dict[str, Any]] = []
        turn = session.prompt("CRASH")
        with pytest.raises(RequestError, match=r"Codex ended with exit code 7(?s:.*)panicked at fake\.rs"):
            await collected(turn, updates)
        assert text_of(updates) == "before the crash"
        assert text_of(await ask(session, "again")) == "You said: again"
        assert len([each for each in processes_of(tmp_path) if "sleep" in each]) == 0


async def test_a_program_that_is_missing_broken_or_logged_out_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_folder(tmp_path)

    async def error_of(program: str | None) -> str:
        async with client_of(AdapterAgent(CodexAdapter(program))) as remote:
            with pytest.raises(RequestError) as raised:
                await remote.new_session(work)
            return str(raised.value)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CODEX_PATH", raising=False)
    assert "npm install -g @openai/codex" in await error_of(None)
    monkeypatch.setenv("CODEX_PATH", "/nowhere/codex")
    assert "CODEX_PATH names '/nowhere/codex'" in await error_of(None)
    (tmp_path / "old").write_text("#!/bin/sh\necho unknown subcommand >&2; exit 2\n")
    (tmp_path / "old").chmod(0o755)
    assert "exit code 2" in await error_of(str(tmp_path / "old"))
    monkeypatch.undo()
    monkeypatch.setenv("FAKE_CODEX_LOGGED_OUT", "1")
    async with codex_client(tmp_path) as (remote, _):
        with pytest.raises(RequestError, match=r"not logged in\. Run `codex login`"):
            await remote.new_session(work)


def test_the_launcher_of_npm_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "node_modules" / "@openai" / "codex"
    machine = "x86_64" if os.uname().machine in ("x86_64", "amd64") else "aarch64"
    system = "apple-darwin" if os.uname().sysname == "Darwin" else "unknown-linux-musl"
    real = tmp_path / "node_modules" / "@openai" / "codex-x" / "vendor" / f"{machine}-{system}" / "bin" / "codex"
    for file in (package / "bin" / "codex.js", real):
        file.parent.mkdir(parents=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    (tmp_path / "codex").symlink_to(package / "bin" / "codex.js")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CODEX_PATH", raising=False)
    assert find_program() == (str(real), {"CODEX_MANAGED_PACKAGE_ROOT": str(package), "CODEX_MANAGED_BY_NPM": "1"})
    real.unlink()
    assert find_program() == (str(tmp_path / "codex"), {})


# The command line


def run_dragoman(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`dragoman`, as a user runs it in the work folder."""
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        cwd=work_folder(folder),
        env={**os.environ, "DRAGOMAN_HOME": str(folder / "dragoman"), "CODEX_PATH": str(install(folder))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_codex_is_wrapped_named_and_asked_from_the_command_line(tmp_path: Path) -> None:
    added = run_dragoman(tmp_path, "agents", "add", "my-codex", "--wrap", "codex")
    assert added.returncode == 0, added.stderr
    done = run_dragoman(tmp_path, "exec", "-a", "my-codex", "--allow", "execute:touch *", "RUN touch here.txt")
    assert (done.returncode, done.stdout.strip()) == (0, "It ran."), done.stderr
    assert (work_folder(tmp_path) / "here.txt").exists()
    printed = run_dragoman(tmp_path, "wrap", "codex", "--print-settings", "zed")
    entry = json.loads(printed.stdout[printed.stdout.index("{") :])["agent_servers"]["codex"]
    assert entry["args"] == ["-P", "-m", "dragoman", "wrap", "codex"]
    crashed = run_dragoman(tmp_path, "exec", "CRASH", "-a", "my-codex")
    assert crashed.returncode != 0
    assert "panicked at fake.rs" in crashed.stderr
    assert processes_of(tmp_path) == []
