"""The four programs whose settings `dragoman agent import` reads, each with a home of its own and the scripted model.

Owns how they are started offline, and the files that they have no command for. What they write with their own commands
is for the tests to ask for.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.agents.recipes import INSTALLED, ROOT, why_missing
from tests.interop.model_server.server import MODEL, ModelServer

SECONDS: Final = 100.0
MCP_PROGRAM: Final = ROOT / "tests" / "adapters" / "mcp_program.py"
KEY: Final = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2"
NOWHERE: Final = "http://127.0.0.1:9"
"""Where no server listens."""
WORD: Final = "Always mention the word marmalade."
_MACHINE: Final = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"


class _Program(NamedTuple):
    package: str
    path: str
    """Below `node_modules`."""
    env: Mapping[str, str]


_PROGRAMS: Final = {
    "claude": _Program(
        "claude-code",
        f"@anthropic-ai/claude-code-linux-{_MACHINE}/claude",
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "codex": _Program("codex-cli", ".bin/codex", {"OPENAI_API_KEY": "not-a-key"}),
    "gemini": _Program(
        "gemini",
        ".bin/gemini",
        {"GEMINI_API_KEY": "not-a-key", "GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    "opencode": _Program(
        "opencode",
        f"opencode-linux-{_MACHINE}/bin/opencode",
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
    ),
}


def why_no_program(name: str) -> str:
    """Why a program cannot be started; empty if it can."""
    program = _PROGRAMS[name]
    if reason := why_missing(program.package):
        return reason
    exists = (INSTALLED / program.package / "node_modules" / program.path).exists()
    return "" if exists else f"{name} has no program for this machine"


class ForeignHome:
    """A home in which one of the programs was set up, and dragoman's own settings."""

    def __init__(self, name: str, folder: Path, server: ModelServer) -> None:
        self.name = name
        self.server = server
        self.home = folder / "home"
        self.work = folder / "work"
        self.sources = folder / "sources"
        for each in (self.home, self.work, self.sources, folder / "temporary"):
            each.mkdir()
        program = _PROGRAMS[name]
        self._program = str(INSTALLED / program.package / "node_modules" / program.path)
        self._own = {key: value.replace("{url}", server.url) for key, value in program.env.items()}
        self._env = {
            **{key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ},
            "HOME": str(self.home),
            "TMPDIR": str(folder / "temporary"),
            "NO_COLOR": "1",
        }

    @property
    def config(self) -> Path:
        """The folder of our own settings."""
        return self.home / "dragoman" / "config"

    @property
    def mcp_words(self) -> tuple[str, ...]:
        """The command of an MCP server with the tools `add` and `fail`."""
        return (sys.executable, str(MCP_PROGRAM), str(self.home / "server.pid"))

    def run(self, *words: str) -> str:
        """What the program prints."""
        return self._run([self._program, *words], self._own)

    def dragoman(self, *words: str, **env: str) -> str:
        """What dragoman prints on stdout."""
        own = {"DRAGOMAN_HOME": str(self.home / "dragoman"), "DRAGOMAN_HOST": "off", **env}
        return self._run([sys.executable, "-m", "dragoman", *words], own, merged=False)

    def _run(self, words: list[str], env: Mapping[str, str], *, merged: bool = True) -> str:
        done = subprocess.run(
            words,
            cwd=self.work,
            env={**self._env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, (words, done)
        return done.stdout

    def write(self, files: Mapping[str, str]) -> None:
        """Write files below the home."""
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def skill(self, name: str) -> Path:
        """A skill outside of the home."""
        folder = self.sources / name
        folder.mkdir()
        text = (
            f"---\nname: {name}\ndescription: About {name}, when asked\n---\nThe word of {name} is marmalade-{name}.\n"
        )
        (folder / "SKILL.md").write_text(text)
        return folder

    def asked(self, *words: str) -> str:
        """All that the program lets its model know in one turn."""
        before = len(self.server.exchanges)
        self.run(*words)
        return "\n".join(json.dumps(json.loads(each.body)) for each in self.server.exchanges[before:] if each.question)

    def imported(self, *options: str) -> dict[str, dict[str, Any]]:
        """What `dragoman agent import` proposes, by kind and name."""
        found = json.loads(self.dragoman("agent", "import", self.name, "--json", *options))
        assert found["problems"] == []
        return {f"{each['kind']} {each['name']}": each for each in found["proposals"]}

    def turn(self, script: str, *options: str) -> str:
        """What the built-in agent answers when its model plays a script."""
        return self.dragoman("exec", "-a", "dragoman", "--model", "scripted", "--quiet", *options, script).strip()

    def question(self) -> str:
        """All that the built-in agent lets its model know in one turn."""
        before = len(self.server.exchanges)
        env = {"OPENAI_BASE_URL": f"{self.server.url}/v1", "OPENAI_API_KEY": "not-a-key"}
        self.dragoman("exec", "-a", "dragoman", "--model", f"openai-compatible:{MODEL}", "--quiet", "Hello", **env)
        return "\n".join(json.dumps(json.loads(each.body)) for each in self.server.exchanges[before:] if each.question)
