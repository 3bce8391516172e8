"""What the agent has imported when its first request to a model leaves: the user waits for all of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.builtin.providers.server import VARIABLES, Answer, Asked, ProviderServer, text_answer

# Each module takes about half a millisecond. A new one is welcome here if the first request needs it.
MOST_MODULES = 203
# The tools, what decides about their calls, and what reads pages: no model has asked for it yet. And what others import
# without need.
LATER = {
    "difflib",
    "dragoman.builtin.tools.bash",
    "dragoman.builtin.tools.edit_match",
    "dragoman.builtin.tools.read",
    "dragoman.builtin.tools.search",
    "dragoman.builtin.web.fetch",
    "dragoman.builtin.web.html_tree",
    "dragoman.policy.decide",
    "dragoman.policy.rule",
    "dragoman.policy.shell",
    "dragoman.policy.verdict",
    "dragoman.workspace.hard_links",
    "dragoman.workspace.safety",
    "importlib.metadata",
    "zipfile",
}


def imported_before_first_request(folder: Path) -> set[str]:
    """The modules that a real agent process has imported when the model's server receives the request."""
    log = folder / "imports.txt"
    seen: list[str] = []

    def play(asked: Asked) -> Answer:
        seen.append(log.read_text())
        return text_answer("done")

    with ProviderServer(play=play) as server, log.open("w") as stderr:
        env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        env |= {"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": server.url, "DRAGOMAN_HOME": str(folder / "home")}
        # Python writes a line to stderr for every module when its import has ended.
        env |= {"PYTHONPROFILEIMPORTTIME": "1", "DRAGOMAN_MODEL_LISTS": "off"}
        command = [sys.executable, "-m", "dragoman", "agent", "--model", "anthropic:claude-sonnet-4-5"]
        with subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as agent:
            try:
                exchange(agent, 1, "initialize", protocolVersion=1, clientCapabilities={})
                session = exchange(agent, 2, "session/new", cwd=str(folder), mcpServers=[])["sessionId"]
                exchange(agent, 3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hello"}])
            finally:
                agent.kill()
    return {line.rpartition("|")[2].strip() for line in seen[0].splitlines() if line.startswith("import time:")}


def exchange(agent: "subprocess.Popen[str]", id: int, method: str, **params: object) -> dict[str, str]:
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n")
    agent.stdin.flush()
    for line in agent.stdout:
        message = json.loads(line)
        if message.get("id") == id and "method" not in message:
            result: dict[str, str] = message["result"]
            return result
    raise AssertionError(f"the agent ended without an answer to {method}")


def test_what_no_model_has_asked_for_is_not_imported_before_the_first_request(tmp_path: Path) -> None:
    imported = imported_before_first_request(tmp_path)
    ours = {name for name in imported if name.partition(".")[0] == "dragoman"}
    assert "dragoman.builtin.models.http" in ours, "the list is that of an agent with a provider's model"
    assert sorted(LATER & imported) == []
    assert len(ours) <= MOST_MODULES, sorted(ours)
