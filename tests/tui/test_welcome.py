"""The first run: what is on this machine in the full screen, inline and in plain lines, and what a choice begins."""

from __future__ import annotations

import http.server
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from dragoman.builtin.models.providers import PROVIDERS
from dragoman.builtin.models.refreshed import OFF
from dragoman.registry.known import well_known_agents
from dragoman.tui.start import welcome
from dragoman.tui.start.preferences import Preferences
from tests.builtin.test_local_servers import MODELS, nowhere
from tests.host.local.kit import HostPlaceKit
from tests.tui.test_terminal import Terminal

AGENT = f"#!/bin/sh\nexec {sys.executable} -m dragoman.testing.scripted_agent\n"
NPM = f"""#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --prefix ] && folder=$2; shift; done
[ -n "$folder" ] || {{ echo 10.9.0; exit; }}
mkdir -p "$folder/node_modules/@google/gemini-cli" "$folder/node_modules/.bin"
echo '{{"version": "0.61.0", "bin": {{"gemini": "x"}}}}' > "$folder/node_modules/@google/gemini-cli/package.json"
printf '#!/bin/sh\\nexec {sys.executable} -m dragoman.testing.scripted_agent\\n' > "$folder/node_modules/.bin/gemini"
chmod +x "$folder/node_modules/.bin/gemini"
"""
REFUSING = "#!/bin/sh\nexit 1\n"
RED = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:31|91|41|101|38;5;(?:1|9|160|196))(?:;[0-9;]*)?m")
KEYS = ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE", "OLLAMA")


class ModelServer:
    """A server as Ollama is one: it lists models, and answers prompts. All requests are kept."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        kept = self.requests

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *words: Any) -> None:
                pass

            def do_GET(self) -> None:
                kept.append((self.path, dict(self.headers), b""))
                self._send(json.dumps(MODELS if self.path == "/v1/models" else {"models": []}).encode())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                kept.append((self.path, dict(self.headers), body))
                model = json.loads(body).get("model", "")
                text = {"delta": {"content": f"I am {model}"}, "index": 0, "finish_reason": "stop"}
                part = json.dumps({"id": "1", "object": "chat.completion.chunk", "model": model, "choices": [text]})
                self._send(f"data: {part}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")

            def _send(self, body: bytes, kind: str = "application/json") -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    found = ModelServer()
    yield found
    found.close()


@pytest.fixture
def new_user(place: HostPlaceKit) -> HostPlaceKit:
    """A user for whom nothing is set up, on a machine with Node.js 22 and no agent."""
    for name in [name for name in place.environment if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL"))]:
        del place.environment[name]
    place.environment |= nowhere()
    place.environment["PATH"] = f"{place.home / 'bin'}:/usr/bin:/bin"
    stub(place, "#!/bin/sh\necho v22.12.0\n", "node", "npx")
    stub(place, "#!/bin/sh\necho 'npm error 404 no such package' >&2\nexit 1\n", "npm")
    return place


def stub(place: HostPlaceKit, script: str, *names: str) -> None:
    """Puts programs of these names on the PATH."""
    folder = place.home / "bin"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)


def rows(shown: str) -> list[str]:
    """The lines between the introduction and the help, without what differs from machine to machine."""
    lines = [line.rstrip() for line in shown.split("\n")]
    first = next(number for number, line in enumerate(lines) if "Welcome." in line)
    return [line for line in lines[first + 1 :] if line]


def choose(terminal: Terminal, key: str, until: str) -> str:
    """Type a key after the rows were in sight for the moment in which none is taken."""
    settled = monotonic() + 2 * welcome.SETTLED_SECONDS
    while monotonic() < settled:
        terminal.read(0.05)
    terminal.type(key)
    return terminal.until(until)


# Nothing is there


NOTHING = """\
 Start here
 ❯  k  API key      for the built-in agent    paste it; it is checked and kept
    d  demo         a scripted model          look around, no key needed
 Can be installed
    1  claude       Claude Agent              npm, 357 MB
    2  codex        Codex                     npm, 457 MB
    3  gemini       Gemini CLI                npm, 100 MB
    4  opencode     OpenCode                  npm, 354 MB
    5  copilot      GitHub Copilot CLI        npm, 189 MB
    m  18 more
 Up Down move · Enter or digit · k key · d demo · r look again · Esc leave"""


@pytest.mark.convention("first run", "full screen")
def test_without_anything_the_full_screen_welcomes_and_one_key_starts(
    new_user: HostPlaceKit, terminals: list[Terminal]
) -> None:
    terminals.append(terminal := Terminal(new_user))
    terminal.type("1\r")  # typed before there was a list: it chooses nothing, and is meant for the prompt
    terminal.until("18 more")
    terminal.until_gone("looking")
    assert rows(terminal.text) == NOTHING.splitlines()
    assert not RED.search(terminal.raw), "nothing is red before a choice"
    # An installation that fails shows the installer's own words, and the list stays.
    shown = choose(terminal, "3", "was not installed")
    assert "npm error 404" in terminal.until("404")
    assert "Gemini CLI was not installed" in shown
    choose(terminal, "d", "Enter send")  # a session of the demo, which leads back
    assert "Welcome" not in terminal.text
    terminal.until("tour")
    terminal.type("\x04")
    terminal.until("Welcome.")
    kept = Preferences(new_user.home / "dragoman" / "data" / "terminal.json")
    assert kept.chosen() is None, "the demo is not kept"
    stub(new_user, NPM, "npm")
    choose(terminal, "3", "Enter send")  # installed by one key, and begun with
    terminal.until("❯ 1\n")  # what was typed before the list
    terminal.until("gemini")
    assert kept.chosen() == ("gemini", "")


def test_without_a_choice_the_client_is_left(new_user: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(new_user))
    terminal.until("18 more")
    terminal.type("\x03")
    assert terminal.wait() == 0
    assert not RED.search(terminal.raw)


def test_a_key_that_is_typed_into_the_welcome_is_stored_and_begun_with(
    new_user: HostPlaceKit, terminals: list[Terminal]
) -> None:
    new_user.environment[OFF] = "off"  # the provider is not asked about the key
    terminals.append(terminal := Terminal(new_user))
    terminal.until("18 more")
    choose(terminal, "k", "whose key")
    terminal.until("anthropic     Anthropic")
    choose(terminal, "\r", "API key of Anthropic (it is not shown)")
    choose(terminal, "sk-ant-typed-here", "••••")
    terminal.type("\r")
    terminal.until("Enter send")
    assert b"typed-here" not in terminal.raw
    kept = Preferences(new_user.home / "dragoman" / "data" / "terminal.json")
    assert kept.chosen() == ("dragoman", f"anthropic:{PROVIDERS['anthropic'].models[0]}")


# A server of this machine


@pytest.mark.convention("agents, keys, models", "full screen")
def test_a_local_server_is_offered_and_its_model_answers(
    new_user: HostPlaceKit, terminals: list[Terminal], server: ModelServer
) -> None:
    new_user.environment |= {"OLLAMA_BASE_URL": server.url, "OLLAMA_API_KEY": "sk-never-sent-by-a-look"}
    terminals.append(terminal := Terminal(new_user))
    terminal.until("18 more")
    shown = terminal.text
    while "Ollama" not in shown:  # an answer that a busy machine brings too late is not waited for
        choose(terminal, "r", "looking again")
        shown = terminal.until("18 more")
    assert f"❯  1  Ollama       qwen3:8b                  at {server.url[7:]}, 1 more" in shown
    assert all(path == "/v1/models" for path, _, _ in server.requests)
    assert not any("never-sent" in str(request) for request in server.requests)
    assert not RED.search(terminal.raw)
    choose(terminal, "\r", "Enter send")
    terminal.type("name yourself\r")
    terminal.until("│ I am qwen3:8b")
    terminal.until("ollama:qwen3:8b")
    terminal.type("\x04")
    assert terminal.wait() == 0
    kept = Preferences(new_user.home / "dragoman" / "data" / "terminal.json")
    assert kept.chosen() == ("dragoman", "ollama:qwen3:8b")
    # Now something is set up: the next start is a prompt, and a key brings the list back.
    asked = len(server.requests)
    terminals.append(again := Terminal(new_user))
    again.until("ollama:qwen3:8b")
    assert "Welcome" not in again.text
    assert not any(
        path == "/v1/models" and "user-agent" not in str(head).lower() for path, head, _ in server.requests[asked:]
    )
    again.type("\x1bOR")  # F3
    again.until("Welcome.")
    again.until("Esc back")
    again.type("\x1b")
    again.until("Enter send")
    again.type("/agents\r")
    again.until("Welcome.")


# Lines


@pytest.mark.convention("first run", "inline", "plain")
@pytest.mark.convention("agents, keys, models", "inline", "plain")
@pytest.mark.parametrize("form", ["--plain", "--inline"])
def test_in_lines_a_number_or_enter_alone_chooses(new_user: HostPlaceKit, terminals: list[Terminal], form: str) -> None:
    stub(new_user, AGENT, "gemini")
    new_user.environment |= {"OPENAI_API_KEY": "sk-never-shown-1", "GEMINI_API_KEY": "sk-never-shown-2"}
    terminals.append(terminal := Terminal(new_user, form))
    shown = terminal.until("question: a number or a letter; Enter alone takes 1, gemini")
    assert rows(shown)[:4] == [
        " Ready",
        "   1  gemini       Gemini CLI                key in GEMINI_API_KEY",
        " Ready, with the built-in agent",
        f"   2  OpenAI       {_openai_model():<24}  key in OPENAI_API_KEY",
    ]
    assert not RED.search(terminal.raw)
    terminal.type("name this\r")
    terminal.until("choose first what to work with")
    choose(terminal, "\r", "note: session")
    assert "with gemini" in terminal.text
    terminal.type("hello\r")
    terminal.until("done")
    terminal.type("/agents\r")
    terminal.until("/cancel goes back")
    choose(terminal, "2\r", "with dragoman --model openai:")
    assert b"never-shown" not in terminal.raw
    kept = Preferences(new_user.home / "dragoman" / "data" / "terminal.json")
    assert kept.chosen() == ("dragoman", f"openai:{_openai_model()}")


def _openai_model() -> str:
    return PROVIDERS["openai"].models[0]


# Agents


def test_every_well_known_agent_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL", "_AUTH"))]:
        monkeypatch.delenv(name)
    for name, url in nowhere().items():
        monkeypatch.setenv(name, url)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    assert not [row for row in welcome.look(str(tmp_path)).rows if row.kind == "agent"]
    for agent in well_known_agents():
        (tmp_path / "bin" / agent.program).write_text(REFUSING)
        (tmp_path / "bin" / agent.program).chmod(0o755)
    found = welcome.look(str(tmp_path))
    assert {row.agent for row in found.rows if row.kind == "agent"} == {agent.name for agent in well_known_agents()}
    assert not [row for row in found.rows if row.kind == "install"]
    assert [row.agent for row in found.rows if row.kind == "agent"][:4] == ["claude", "codex", "gemini", "opencode"]
    for agent in well_known_agents():
        if not agent.login_files:
            continue
        file = tmp_path / agent.login_files[0].replace("*", "x")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        (row,) = [row for row in welcome.look(str(tmp_path)).rows if row.agent == agent.name]
        assert (row.section, row.state) == (welcome.READY, "logged in"), agent.name


def test_a_user_of_claude_code_is_offered_its_acp_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("claude", "node", "npx", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v22.12.0\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    first = welcome.look(str(tmp_path)).rows[0]
    assert (first.agent, first.kind, first.section) == ("claude", "install", welcome.READY)
    assert first.state == "installs its ACP part, 357 MB"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_row_is_wider_than_the_terminal_and_columns_are_aligned(width: int) -> None:
    from dragoman.text.terminal import cells

    made = [
        welcome.WelcomeRow("agent", welcome.READY, "a", "A", "logged in"),
        welcome.WelcomeRow("agent", welcome.READY, "an agent with a long name", "日本語のエージェント" * 3, "x" * 80),
        welcome.WelcomeRow("key", welcome.OTHER, "API key", "for the built-in agent", "paste it"),
    ]
    lines = welcome.listed_lines(welcome.Welcome(tuple(made)), width)
    assert all(sum(cells(text) for text, _ in line) <= max(width, 43) for line in lines)
    starts = {tuple(cells(text) for text, _ in line[:4]) for line in lines if len(line) > 2}
    assert len(starts) == 1
