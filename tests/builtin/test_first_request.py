"""What the agent imports before its first request to a model leaves, and what while the model answers."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.builtin.providers.server import VARIABLES, Answer, Asked, ProviderServer, text_answer, use

# Each module takes about half a millisecond. A new one is welcome here if the first request needs it.
MOST_MODULES = 220
# The tools, what decides about their calls, and what reads pages: no model has asked for it yet. And what others import
# without need.
LATER = {
    "difflib",
    "dragoman.builtin.tools.shell_folder",
    "dragoman.builtin.tools.edit_match",
    "dragoman.builtin.tools.read_files",
    "dragoman.builtin.tools.search",
    "dragoman.builtin.web.fetch",
    "dragoman.builtin.web.html_tree",
    "dragoman.policy.decide",
    "dragoman.policy.rule",
    "dragoman.policy.shell",
    "dragoman.policy.verdict",
    "dragoman.workspace.judging",
    "importlib.metadata",
    "zipfile",
}
# Imported while a model answers, the last of them last. What `import_module` imports has no line itself.
IN_BACKGROUND = {
    "dragoman.builtin.tools.edit_match",
    "dragoman.builtin.tools.read_files",
    "dragoman.builtin.tools.search",
    "dragoman.builtin.tools.shell_folder",
    "dragoman.policy.rule",
    "dragoman.policy.shell",
    "dragoman.workspace.git_config",
    "dragoman.process.child",
}


def imported_before_first_request(folder: Path) -> set[str]:
    """The modules that a real agent process has imported when the model's server receives the request."""
    log = folder / "imports.txt"
    seen: list[str] = []

    def play(asked: Asked) -> Answer:
        seen.append(log.read_text())
        return text_answer("done")

    with ProviderServer(play=play) as server, log.open("w") as stderr, running(folder, server, stderr) as agent:
        prompt(agent, 3, new_session(agent, folder), "hello")
    return set(map(imported_in, seen[0].splitlines()))


def imported_in(line: str) -> str:
    """The module that a line of Python's report is about, "" if it is not such a line."""
    return line.rpartition("|")[2].strip() if line.startswith("import time:") else ""


@contextmanager
def running(folder: Path, server: ProviderServer, stderr: IO[str] | int) -> "Iterator[subprocess.Popen[str]]":
    """A real agent process. Python writes a line to stderr for every module when its import has ended."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    env |= {"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": server.url, "DRAGOMAN_HOME": str(folder / "home")}
    env |= {"PYTHONPROFILEIMPORTTIME": "1", "DRAGOMAN_MODEL_LISTS": "off"}
    command = [sys.executable, "-m", "dragoman", "agent", "--model", "anthropic:claude-sonnet-4-5"]
    with subprocess.Popen(
        command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def new_session(agent: "subprocess.Popen[str]", folder: Path) -> str:
    exchange(agent, 1, "initialize", protocolVersion=1, clientCapabilities={})
    return exchange(agent, 2, "session/new", cwd=str(folder), mcpServers=[])["sessionId"]


def prompt(agent: "subprocess.Popen[str]", id: int, session: str, text: str) -> None:
    exchange(agent, id, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


class Imports:
    """The modules that a process imports, as its stderr reports them."""

    def __init__(self, agent: "subprocess.Popen[str]") -> None:
        self.names: list[str] = []
        self._agent = agent
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._agent.stderr is not None
        for line in self._agent.stderr:
            with self._change:
                self.names.append(imported_in(line))
                self._change.notify()

    def until(self, names: set[str]) -> int:
        """Wait until these are imported. Returns how many lines there are then."""
        with self._change:
            found = self._change.wait_for(lambda: names <= set(self.names), 60)
            assert found, sorted(names - set(self.names))
            return len(self.names)

    def all(self) -> list[str]:
        self._agent.kill()
        self._thread.join(60)
        return self.names


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


def test_what_calls_of_tools_need_is_imported_while_a_model_answers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a line of text\n")
    calls = (
        use("read", path="a.txt"),
        use("grep", pattern="line"),
        use("bash", command="ls"),
        use("glob", pattern="*"),
    )
    answers = text_answer("hello"), Answer(calls), text_answer("done")
    with ProviderServer(*answers) as server, running(tmp_path, server, subprocess.PIPE) as agent:
        session, imports = new_session(agent, tmp_path), Imports(agent)
        prompt(agent, 3, session, "hello")
        count = imports.until(IN_BACKGROUND)
        prompt(agent, 4, session, "look")
        later = imports.all()[count:]
        results = json.dumps(server.asked[2].body["messages"][-1]["content"])
    assert results.count("a line of text") == 2
    assert results.count("a.txt") >= 3, "all calls were made"
    assert [name for name in later if name.startswith("dragoman.")] == []
