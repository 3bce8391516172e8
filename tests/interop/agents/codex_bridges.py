"""Two bridges around the same installed codex: our adapter, and `codex-acp`, the official one.

Owns how both are started offline, and what a start costs: time, CPU of the whole process tree, memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.agents.recipes import INSTALLED

PACKAGE: Final = "codex-acp"
OURS: Final = "dragoman wrap codex"
THEIRS: Final = "codex-acp"
_MODULES: Final = INSTALLED / PACKAGE / "node_modules"
_TICKS: Final = os.sysconf("SC_CLK_TCK")

# The model's name decides which tools there are: this one edits files. Commands are not sandboxed, since that needs
# more of the kernel than every machine allows; rules say which of them are asked about.
_CONFIG: Final = """\
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
_RULES: Final = "".join(
    f'prefix_rule(pattern = ["{program}"], decision = "prompt")\n' for program in ("touch", "./wait.sh")
)


class Bridge(NamedTuple):
    """How one of them is started."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str]


def bridges(folder: Path, url: str) -> dict[str, Bridge]:
    """Both, with one home below the folder, which the second finds as the first left it."""
    home, temporary = folder / "home", folder / "temporary"
    (home / ".codex" / "rules").mkdir(parents=True, exist_ok=True)
    temporary.mkdir(exist_ok=True)  # not above the home: codex does without its helpers then
    (home / ".codex" / "config.toml").write_text(_CONFIG.replace("{url}", url))
    (home / ".codex" / "rules" / "ask.rules").write_text(_RULES)
    env = {"HOME": str(home), "CODEX_HOME": str(home / ".codex"), "TMPDIR": str(temporary), "NO_COLOR": "1"}
    ours = (sys.executable, "-m", "dragoman", "wrap", "codex")
    theirs = ("node", str(_MODULES / "@agentclientprotocol" / "codex-acp" / "dist" / "index.js"))
    return {
        OURS: Bridge(OURS, ours, {**env, "CODEX_PATH": str(_MODULES / ".bin" / "codex")}),
        THEIRS: Bridge(THEIRS, theirs, env),
    }


class Cost(NamedTuple):
    """What a start cost, until `session/new` was answered."""

    initialize_seconds: float
    ready_seconds: float
    cpu_seconds: float
    own_mb: float
    tree_mb: float
    after_prompt_mb: float
    """Memory of the whole tree after one prompt."""


def measure(bridge: Bridge, work: Path) -> Cost:
    """Start it, open a session, send one prompt, and end it."""
    begun = time.monotonic()
    with subprocess.Popen(
        bridge.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **bridge.env},
        cwd=work,
    ) as process:
        try:
            _call(process, 0, "initialize", protocolVersion=1, clientCapabilities={})
            initialized = time.monotonic() - begun
            session = _call(process, 1, "session/new", cwd=str(work), mcpServers=[])["sessionId"]
            ready = time.monotonic() - begun
            tree = _tree(process.pid)
            cpu, own, whole = sum(map(_cpu, tree)), _memory(process.pid), sum(map(_memory, tree))
            _call(process, 2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hello"}])
            after = sum(map(_memory, _tree(process.pid)))
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
    return Cost(initialized, ready, cpu, own, whole, after)


def _call(process: subprocess.Popen[bytes], own_id: int, method: str, **params: Any) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    message = {"jsonrpc": "2.0", "id": own_id, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        found = json.loads(line)
        if found.get("id") == own_id and "method" not in found:
            assert "result" in found, found
            result: dict[str, Any] = found["result"]
            return result
    raise AssertionError(f"it ended before it answered {method}")


def _tree(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(place.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(place.name))
    found, left = [], [pid]
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def _stat(pid: int) -> list[str]:
    """The fields after the name; none if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu(pid: int) -> float:
    """CPU of a process and of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def _memory(pid: int) -> float:
    fields = _stat(pid)
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20) if fields else 0.0
