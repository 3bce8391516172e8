"""An ACP agent as a tool of a real agent of LangChain, in a program of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.frameworks.conftest import PACKAGES, PROGRAMS
from tests.project.sources import ROOT

pytestmark = [
    pytest.mark.skipif(not os.environ.get("DRAGOMAN_REAL_AGENTS"), reason="frameworks are driven by make interop"),
    pytest.mark.skipif(not PACKAGES.is_dir(), reason=f"no frameworks in {PACKAGES}; make interop installs them"),
]


def test_an_agent_is_a_tool_of_langchain(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAMS / "tool_caller.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{PACKAGES}:{ROOT / 'src'}", "DRAGOMAN_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout.splitlines()[-1])
    answer, progress = seen["tool"]
    assert answer == "success: [The agent gave no answer.]"
    assert progress == [{"tool": "coder", "message": "Reading README.md", "steps": 1}]
    assert seen["permission"][0] == "success: allowed (allow)\n\n[Files changed: notes.txt]"
    assert seen["sessions"] == 2, "a thread is a conversation"
    assert seen["crash"].startswith("error: coder failed: the agent exited with code 4")
    assert seen["after"] == "success: back"
    assert seen["cancelled"] is True
    assert seen["on"] == "success: on"
    assert seen["sync"] == "success: sync"
    assert seen["refused"].endswith("[Not permitted: Deleting a]")
