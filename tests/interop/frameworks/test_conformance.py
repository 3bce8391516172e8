"""`dragoman check agent` passes on wrapped agents of LangChain, deepagents and openai-agents, as real programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.frameworks.conftest import PACKAGES, PROGRAMS
from tests.interop.model_server.server import ModelServer
from tests.project.sources import ROOT

pytestmark = [
    pytest.mark.skipif(not os.environ.get("DRAGOMAN_REAL_AGENTS"), reason="frameworks are driven by make interop"),
    pytest.mark.skipif(not PACKAGES.is_dir(), reason=f"no frameworks in {PACKAGES}; make interop installs them"),
    pytest.mark.timeout(600),
]
# Words that make each model act, and the rest of the cases is inconclusive; how many must be shown all the same.
GRAPHS = {
    "say": "hello",
    "long": "hello",
    "slow": "SLOW",
    "tool": "DELETE a.txt",
    "ask": "DELETE a.txt",
    "plan": "TODO",
}
OPENAI = {
    "say": "hello",
    "slow": "SLOW",
    "tool": "READ {file}",
    "read": "READ {file}",
    "ask": "WRITE {file} words",
    "write": "WRITE {file} words",
}


CHECK = (sys.executable, "-m", "dragoman", "check", "agent", "--json", "--timeout", "30")


@contextmanager
def command_of(kind: str, folder: Path) -> Iterator[list[str]]:
    if kind != "openai":
        yield [str(PROGRAMS / "graphs.py"), kind, str(folder / "s.db")]
        return
    with ModelServer() as server:
        yield [str(PROGRAMS / "openai_program.py"), server.url, str(folder / "s.db")]


@pytest.mark.parametrize(("kind", "passed"), [("langchain", 120), ("deep", 120), ("openai", 110)])
def test_no_rule_is_broken(kind: str, passed: int, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps(OPENAI if kind == "openai" else GRAPHS))
    with command_of(kind, tmp_path) as command:
        ran = subprocess.run(
            [*CHECK, "--prompts", str(prompts), "--", sys.executable, *command],
            env={**os.environ, "PYTHONPATH": f"{PACKAGES}:{ROOT / 'src'}", "OPENAI_AGENTS_DISABLE_TRACING": "1"},
            capture_output=True,
            text=True,
            timeout=590,
            check=False,
            cwd=tmp_path,
        )
    assert ran.stdout, ran.stderr
    report = json.loads(ran.stdout)
    results = report["results"]
    assert [(each["id"], each["message"]) for each in results if each["status"] in ("fail", "error")] == []
    assert ran.returncode == 0
    assert sum(each["status"] == "pass" for each in results) >= passed
