"""`dragoman wrap` from outside: what it recognises, what it refuses, and what editors are given."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import AdapterAgent, AdapterError, programs
from dragoman.adapters.endpoints.detect import detect
from dragoman.adapters.imported import find_object
from dragoman.adapters.wrapping import find_adapter
from dragoman.cli import exits
from dragoman.cli.main import main
from dragoman.client import spawn
from dragoman.errors import ConfigError
from tests.adapters.fixtures import Answers, ask, client_of, statuses, text_of
from tests.adapters.http_server import Prepared, PreparedServer, Received, sse
from tests.adapters.kinds import KINDS, adapters
from tests.adapters.scripted_pydantic import make_agent, served

SOURCE = """
print("printed while it is loaded")
import os, subprocess
os.write(1, b"written while it is loaded\\n")
subprocess.run(["echo", "from a child"])

def shout(text):
    return text.upper()

class Things:
    inner = shout

def make():
    return shout

number = 3
"""
COMMAND = (sys.executable, "-m", "dragoman", "wrap")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module, which is the current one; the user's files are elsewhere."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "loud_module.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path / "project"


@pytest.mark.parametrize(
    "source", ["loud_module:shout", "loud_module.py:shout", "./loud_module.py:Things.inner", "loud_module:make()"]
)
async def test_an_object_is_served_and_nothing_that_is_printed_reaches_the_client(source: str, folder: Path) -> None:
    async with spawn(*COMMAND, source, cwd=folder) as remote:
        session = await remote.new_session(folder)
        assert text_of(await ask(session, "hello")) == "HELLO"
        assert remote.noise_lines == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["loud_module:nothing"], "loud_module has no 'nothing'"),
        (["loud_module:number"], "int cannot be wrapped; pass a function"),
        (["loud_module:Things"], "Things is a class; pass an object of it"),
        (["no_module:x"], "there is no module 'no_module'"),
        (["nothing.py:x"], "there is no file"),
        (["loud_module:"], "does not name an object; write MODULE:OBJECT"),
        (["claude-of-tomorrow"], "cannot be wrapped; write MODULE:OBJECT, FILE.py:OBJECT or a URL"),
        (["claude", "--no-sessions"], "--no-sessions is not for claude, which keeps its sessions itself"),
        ([], "wrap needs a source"),
        (["loud_module:shout", "--url", "http://127.0.0.1:1"], "wrap needs one source"),
        (["loud_module:shout", "--as", "chat"], "--as is for endpoints"),
        (["loud_module:shout", "--folder", "/nowhere"], "there is no folder /nowhere"),
        (["http://127.0.0.1:1", "--as", "ui-stream", "--model", "m"], "--model is for chat endpoints"),
        (["http://127.0.0.1:1", "--as", "chat", "--header", "nope"], "--header takes 'NAME: VALUE'"),
        (["http://127.0.0.1:1", "--as", "chat", "--body", "[]"], "--body is not a JSON object"),
        (["http://127.0.0.1:1/x"], "http://127.0.0.1:1/x cannot be reached"),
    ],
)
def test_wrong_words_say_what_to_do(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wrap", *words]) == exits.USAGE
    assert message in capsys.readouterr().err


def test_code_that_fails_while_it_is_loaded_is_reported_with_its_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken_module.py").write_text("raise ValueError('no key')\n")
    (folder / "needy_module.py").write_text("import a_package_that_is_not_there\n")
    assert main(["wrap", "broken_module:x"]) == exits.USAGE
    assert "broken_module failed while it was loaded: ValueError: no key" in capsys.readouterr().err
    assert main(["wrap", "needy_module:x"]) == exits.USAGE
    assert "ModuleNotFoundError: No module named 'a_package_that_is_not_there'" in capsys.readouterr().err


def test_a_wrong_name_is_answered_with_those_that_can_be_wrapped(folder: Path) -> None:
    (folder / "agents_module.py").write_text("from examples.wrapped_pydantic_ai import assistant\nother = 1\n")
    with pytest.raises(ConfigError, match="agents_module has no 'agent'; it has assistant"):
        find_object("agents_module:agent", folder)


# Which adapter an object gets


class FromLangGraph:
    __module__ = "langgraph.graph.state"


class FromOpenAI:
    __module__ = "agents.agent"
    handoffs = tools = ()


def test_the_framework_of_an_object_is_recognised_and_a_missing_one_says_what_to_install() -> None:
    from examples import wrapped_pydantic_ai

    assert type(find_adapter(wrapped_pydantic_ai.assistant)).__name__ == "PydanticAIAdapter"
    with pytest.raises(ConfigError, match="FromLangGraph is not a compiled graph of LangGraph"):
        find_adapter(FromLangGraph())

    class Compiled(FromLangGraph):
        astream = aget_state = None

    with pytest.raises(ConfigError, match=r"langgraph is not installed; .*pip install .*\[langgraph\]'"):
        find_adapter(Compiled())
    with pytest.raises(ConfigError, match=r"agents is not installed; .*pip install .*\[openai-agents\]'"):
        find_adapter(FromOpenAI())


def test_programs_are_added_by_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made = programs.command_adapter(["ls"])
    monkeypatch.setitem(programs.PROGRAMS, "mine", lambda: made)
    assert programs.program_adapter("mine") is made
    with pytest.raises(ConfigError, match=r"'other' cannot be wrapped; .* or one of claude, codex, mine"):
        programs.program_adapter("other")


# Which kind an endpoint is


@pytest.mark.parametrize("kind", ["ui_stream", "ag_ui", "openai_chat"])
async def test_the_kind_of_an_endpoint_is_found_out(kind: str) -> None:
    from tests.adapters import kinds

    answer: Callable[[Received], Prepared] = {
        "ui_stream": _refuses_ui,
        "ag_ui": _refuses_ag_ui,
        "openai_chat": kinds._chat,
    }[kind]
    with PreparedServer(answer) as server:
        found = await detect(f"{server.url}/run")
    assert found == {"ui_stream": "ui-stream", "ag_ui": "ag-ui", "openai_chat": "chat"}[kind]


def _refuses_ui(request: Received) -> Prepared:
    if request.method == "GET":
        return Prepared(b"", 405)
    return Prepared(b'{"detail": [{"loc": ["messages"], "msg": "Field required"}]}', 422, "application/json")


def _refuses_ag_ui(request: Received) -> Prepared:
    if request.method == "GET":
        return Prepared(b"", 404)
    return Prepared(b'{"detail": [{"loc": ["threadId"], "msg": "Field required"}]}', 422, "application/json")


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (Prepared(sse({"type": "RUN_ERROR", "message": "no"}, done=False)), "ag-ui"),
        (Prepared(sse({"type": "start"})), "ui-stream"),
        (Prepared(b"Internal Server Error", 500, "text/plain"), "ui-stream"),
    ],
)
async def test_the_kind_follows_from_the_form_of_an_answer(response: Prepared, kind: str) -> None:
    with PreparedServer(lambda request: Prepared(b"", 404) if request.method == "GET" else response) as server:
        assert await detect(server.url) == kind


@pytest.mark.parametrize(("kind", "found"), [("ag_ui", "ag-ui"), ("ui_stream", "ui-stream")])
async def test_the_kind_of_a_real_server_is_found_out(kind: Any, found: str) -> None:
    async with served(make_agent([]), kind) as url:
        assert await detect(url) == found


async def test_an_endpoint_that_says_nothing_has_to_be_named() -> None:
    with (
        PreparedServer(Prepared(b"nothing here", 404, "text/plain")) as server,
        pytest.raises(AdapterError, match="name it with --as: ui-stream, ag-ui, chat"),
    ):
        await detect(server.url)


async def test_an_endpoint_is_served_with_its_headers_and_body(folder: Path) -> None:
    text = {"type": "text-delta", "id": "t", "delta": "over http"}
    stream = sse({"type": "start"}, {"type": "text-start", "id": "t"}, text, {"type": "finish"})
    with PreparedServer(Prepared(stream)) as server:
        words = ("--url", server.url, "--as", "ui-stream", "--header", "X-Key: a: b", "--body", '{"extra": 1}')
        async with spawn(*COMMAND, *words, cwd=folder) as remote:
            session = await remote.new_session(folder)
            assert text_of(await ask(session, "hello")) == "over http"
    assert server.requests[0].headers["x-key"] == "a: b"
    assert server.bodies()[0]["extra"] == 1


# Editors, and agents by name


@pytest.mark.parametrize("editor", ["zed", "jetbrains", "codecompanion", "agent-shell", "acpx", "toad"])
def test_settings_for_editors_start_it_from_any_folder(
    editor: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["loud_module:shout", "--title", 'My "agent"', "--print-settings", editor]
    assert main(["wrap", *words]) == exits.OK
    printed = capsys.readouterr().out
    assert "loud_module:shout" in printed
    assert str(folder) in printed
    if editor in ("zed", "jetbrains"):
        (entry,) = json.loads(printed)["agent_servers"].values()
        assert (entry["command"], entry["args"][:5]) == (
            sys.executable,
            ["-P", "-m", "dragoman", "wrap", "loud_module:shout"],
        )


async def test_an_agent_is_added_by_name_and_runs_from_another_folder(folder: Path, tmp_path: Path) -> None:
    assert await asyncio.to_thread(main, ["agents", "add", "mine", "--wrap", "loud_module:shout"]) == exits.OK
    entry = json.loads((tmp_path / "home" / "config" / "settings.json").read_text())["agent_servers"]["mine"]
    async with spawn(entry["command"], *entry["args"], cwd=tmp_path) as remote:
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "hello")) == "HELLO"


def test_options_of_wrap_follow_two_dashes_when_an_agent_is_added(folder: Path, tmp_path: Path) -> None:
    words = ["--wrap", "http://127.0.0.1:8080/v1", "--", "--model", "qwen3", "--header", "x: y"]
    assert main(["agents", "add", "chat", *words]) == exits.OK
    entry = json.loads((tmp_path / "home" / "config" / "settings.json").read_text())["agent_servers"]["chat"]
    assert entry["args"] == [
        *("-P", "-m", "dragoman", "wrap", "http://127.0.0.1:8080/v1", "--header", "x: y", "--model", "qwen3")
    ]


def test_a_command_line_tool_is_added_by_name(folder: Path, tmp_path: Path) -> None:
    (folder / "tool.sh").write_text("")
    assert main(["agents", "add", "tool", "--wrap", "--", "./tool.sh", "--message={prompt}"]) == exits.OK
    assert main(["agents", "add", "other", "--wrap", "--", "llm"]) == exits.OK
    found = json.loads((tmp_path / "home" / "config" / "settings.json").read_text())["agent_servers"]
    assert found["tool"]["args"] == [
        "-P",
        "-m",
        "dragoman",
        "wrap",
        "--",
        str(folder / "tool.sh"),
        "--message={prompt}",
    ]
    assert found["other"]["args"] == ["-P", "-m", "dragoman", "wrap", "--", "llm"]
    assert main(["agents", "add", "none", "--wrap"]) == exits.USAGE


@pytest.mark.parametrize("kind", ["function", "pydantic_ai"])
async def test_the_examples_ask_before_they_delete(kind: str, folder: Path) -> None:
    with adapters(kind) as make:
        agent = AdapterAgent(make(), store=False)
    async with client_of(agent, permission=Answers("allow", "reject")) as remote:
        session = await remote.new_session(folder)
        assert text_of(await ask(session, "hello")) == "You wrote: hello"
        assert statuses(await ask(session, "delete notes.txt"))[-1] == "completed"
        assert statuses(await ask(session, "delete notes.txt"))[-1] == "failed"


def test_every_kind_has_an_adapter_here() -> None:
    for kind in KINDS:
        with adapters(kind) as make:
            assert make().name
