"""Logging in: by the agent, in a terminal, in the forms real agents send; and what follows a refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from dragoman import CapabilityError, RemoteAgent, RequestError, spawn
from dragoman.client import AuthRequired, LoginFailed, LoginMethod, Session, login_methods, terminal_login, with_login
from dragoman.client.login import passed_key, usable_methods
from dragoman.schema import Unknown, decode, v1
from dragoman.trace.passed_keys import MASK, passed_keys
from tests.client.fixtures import EVERYTHING, client_and_agent, open_session
from tests.faults.kit import rough_agent
from tests.process.screen import screen

# What copilot, kimi-cli, kimi-code and codex-acp answered to initialize.
COPILOT = {
    "id": "copilot-login",
    "name": "Log in with Copilot CLI",
    "description": "Run `copilot login` in the terminal",
    "_meta": {"terminal-auth": {"command": "/opt/copilot", "args": ["login"], "label": "Copilot Login"}},
}
KIMI = {
    "_meta": {
        "terminal-auth": {
            "command": "/opt/kimi",
            "args": ["login"],
            "label": "Kimi Code Login",
            "env": {"KIMI": "1"},
            "type": "terminal",
        }
    },
    "id": "login",
    "name": "Login with Kimi account",
}
KIMI_CODE = {
    "id": "login",
    "type": "terminal",
    "name": "Login with Kimi account",
    "args": ["--login"],
    "env": {},
    "_meta": {"terminal-auth": {"type": "terminal", "label": "x", "command": "/opt/main.mjs", "args": ["login"]}},
}
CODEX = {
    "type": "env_var",
    "id": "openai-api-key",
    "name": "Use OPENAI_API_KEY",
    "vars": [{"name": "OPENAI_API_KEY"}],
}
GEMINI = {"id": "gemini-api-key", "name": "Gemini API key", "_meta": {"api-key": {"provider": "google"}}}
NAMED = {"id": "k", "name": "K"}
GATEWAY = {"id": "gateway", "name": "AI API Gateway", "_meta": {"gateway": {"protocol": "google"}}}
PLAIN = {"id": "oauth", "name": "Sign in", "description": "In a browser"}
FUTURE = {"type": "carrier-pigeon", "id": "coo", "name": "Pigeon"}
BAD_LEGACY = {"id": "b", "name": "B", "_meta": {"terminal-auth": {"command": ["rm"], "args": "x"}}}


def read(*methods: Mapping[str, Any]) -> Sequence[v1.AuthMethod]:
    result = {"protocolVersion": 1, "authMethods": methods}
    return decode(v1.InitializeResponse, json.dumps(result).encode()).auth_methods or ()


@pytest.mark.rule(65, 71, 74)
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (PLAIN, LoginMethod("oauth", "Sign in", "agent", "In a browser")),
        ({**PLAIN, "type": "agent"}, LoginMethod("oauth", "Sign in", "agent", "In a browser")),
        (
            {"id": "t", "name": "T", "type": "terminal", "args": ["--login", "x"], "env": {"A": "1"}},
            LoginMethod("t", "T", "terminal", argv=("agent", "--acp", "--login", "x"), env={"A": "1"}),
        ),
        (
            COPILOT,
            LoginMethod(
                "copilot-login",
                "Log in with Copilot CLI",
                "terminal",
                "Run `copilot login` in the terminal",
                ("/opt/copilot", "login"),
            ),
        ),
        (
            KIMI,
            LoginMethod("login", "Login with Kimi account", "terminal", "", ("/opt/kimi", "login"), {"KIMI": "1"}),
        ),
        (KIMI_CODE, LoginMethod("login", "Login with Kimi account", "terminal", "", ("agent", "--acp", "--login"))),
        (
            CODEX,
            LoginMethod("openai-api-key", "Use OPENAI_API_KEY", "environment", variables=("OPENAI_API_KEY",)),
        ),
        (FUTURE, LoginMethod("coo", "Pigeon", "unknown")),
        (GEMINI, LoginMethod("gemini-api-key", "Gemini API key", "agent", takes_key=True, provider="google")),
        (
            {"id": "k", "name": "K", "_meta": {"api-key": {"provider": 7}}},
            LoginMethod("k", "K", "agent", takes_key=True),
        ),
        ({**NAMED, "_meta": {"api-key": "odd"}}, LoginMethod("k", "K", "agent")),
        (GATEWAY, LoginMethod("gateway", "AI API Gateway", "unknown")),
        (BAD_LEGACY, LoginMethod("b", "B", "agent")),
    ],
)
def test_every_form_of_a_login_method_is_understood(method: Mapping[str, Any], expected: LoginMethod) -> None:
    assert login_methods(read(method), ["agent", "--acp"]) == (expected,)


def test_only_methods_that_can_succeed_from_here_are_usable() -> None:
    two_variables = {**CODEX, "id": "two", "vars": [{"name": "A"}, {"name": "B"}]}
    offered = login_methods(read(PLAIN, KIMI_CODE, CODEX, two_variables, FUTURE, GEMINI, GATEWAY), ["agent"])
    ids = [method.id for method in usable_methods(offered, has_terminal=True)]
    assert ids == ["oauth", "login", "openai-api-key", "gemini-api-key"]
    assert [method.id for method in usable_methods(offered, has_terminal=False)] == ["oauth"]
    elsewhere = login_methods(read(KIMI_CODE))  # an agent that was not started here has no program to run
    assert usable_methods(elsewhere, has_terminal=True) == ()


@pytest.mark.parametrize(("id", "passed"), [("gemini-api-key", "k-1"), ("api-key", {"apiKey": "k-1"})])
async def test_a_typed_key_is_passed_in_the_form_that_the_method_takes(id: str, passed: object, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = (
        f"ask = read(); answer(ask, protocolVersion=1, authMethods=[{{'id': {id!r}, 'name': 'x'}}]); "
        f"ask = read(); open({str(seen)!r}, 'w').write(json.dumps(ask['params'])); answer(ask)"
    )
    async with spawn(*rough_agent(code + "; until('nothing')")) as agent:
        await agent.authenticate(id, key="k-1")
    assert json.loads(seen.read_text()) == {"methodId": id, "_meta": {"api-key": passed}}


def test_an_agent_that_was_not_started_here_cannot_name_programs_to_run() -> None:
    kimi, kimi_code = login_methods(read(KIMI, KIMI_CODE))
    assert (kimi.kind, kimi.argv) == ("agent", ())
    assert (kimi_code.kind, kimi_code.argv) == ("terminal", ())


@pytest.mark.rule(70)
async def test_terminal_login_is_advertised_only_if_the_program_can_do_it() -> None:
    code = "request = read(); answer(request, protocolVersion=1, _meta=request['params'])"
    for can_do, expected in ((True, {"terminal": True}), (False, None)):
        async with spawn(*rough_agent(code + "; until('nothing')"), terminal_login=can_do) as agent:
            meta = agent.initialized.meta
            assert isinstance(meta, dict)
            assert meta["clientCapabilities"].get("auth") == expected
            assert (meta["clientCapabilities"].get("_meta") == {"terminal-auth": True}) is can_do


async def _load(agent: RemoteAgent, session: Session) -> object:
    return await agent.load_session("old", "/tmp")


@pytest.mark.rule(66, 82)
@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("session/new", lambda agent, session: agent.new_session("/tmp")),
        ("session/load", _load),
        ("session/resume", lambda agent, session: agent.resume_session("old", "/tmp")),
        ("session/list", lambda agent, session: agent.list_sessions()),
        ("session/prompt", lambda agent, session: session.prompt("hello")),
        ("session/set_mode", lambda agent, session: session.set_mode("ask")),
    ],
)
async def test_a_refusal_for_want_of_a_login_has_the_ways_to_log_in_whenever_it_comes(method: str, call: Any) -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
    async with client_and_agent(auth_methods=(PLAIN, CODEX)) as (agent, line):
        session = await open_session(agent, line, modes=modes)
        calling = asyncio.ensure_future(call(agent, session))
        await line.refuse(method, -32000, "Your token died")
        with pytest.raises(AuthRequired, match="Your token died") as caught:
            await calling
        assert isinstance(caught.value, RequestError)
        assert caught.value.code == -32000
        first, second = caught.value.methods
        assert isinstance(first, v1.AuthMethodAgent)
        assert isinstance(second, Unknown)


# Asks for a login until there is a file; the login writes it. Its log tells who called what.
GATED = """
file = sys.argv[1]
def log(text):
    with open(file + ".log", "a") as lines:
        lines.write(text + "\\n")

if sys.argv[2:]:
    log("login " + " ".join(sys.argv[2:]) + " " + os.environ.get("FLAVOUR", "-") + os.environ.get("BASE", "-"))
    print("password: ", end="", flush=True)
    if sys.stdin.readline().strip() != "swordfish":
        sys.exit(5)
    open(file, "w").close()
    sys.exit(0)

methods = [{"id": "oauth", "name": "Sign in"},
           {"id": "lies", "name": "Says yes"},
           {"id": "fails", "name": "Says no"},
           {"id": "tty", "name": "In a terminal", "type": "terminal", "args": ["--login", "now"],
            "env": {"FLAVOUR": "sweet"}},
           {"type": "env_var", "id": "key", "name": "A key", "vars": [{"name": "API_KEY"}]},
           {"type": "pigeon", "id": "coo", "name": "Pigeon"}]
while True:
    message = read()
    method = message.get("method")
    log(method)
    if method == "initialize":
        answer(message, protocolVersion=1, authMethods=methods, agentCapabilities={"auth": {"logout": {}}})
    elif method == "authenticate":
        log(message["params"]["methodId"])
        if message["params"]["methodId"] == "oauth":
            open(file, "w").close()
        if message["params"]["methodId"] == "fails":
            refuse(message, -32603, "The browser was closed")
        else:
            answer(message)
    elif method == "logout":
        os.unlink(file)
        answer(message)
    elif not os.path.exists(file):
        refuse(message, -32000, "Log in first")
    elif method == "session/new":
        answer(message, sessionId="s")
    elif method == "session/prompt":
        answer(message, stopReason="end_turn")
"""


class Gate:
    """An agent that requires a login, a user who chooses a method, and the result."""

    def __init__(self, folder: Path, choice: str | None) -> None:
        self.file = folder / "credentials"
        self.command = rough_agent(GATED, str(self.file))
        self.asked = 0
        self._choice = choice

    @property
    def log(self) -> list[str]:
        return self.file.with_name("credentials.log").read_text().splitlines()

    def connect(self) -> AbstractAsyncContextManager[RemoteAgent]:
        return spawn(*self.command, terminal_login=True)

    async def choose(self, methods: Sequence[LoginMethod], refused: AuthRequired) -> LoginMethod | None:
        self.asked += 1
        assert refused.message == "Log in first"
        return next((method for method in methods if method.id == self._choice), None)

    async def run(self, **options: Any) -> str:
        return await with_login(self.connect, _work, choose=self.choose, command=self.command, **options)


async def _work(agent: RemoteAgent) -> str:
    session = await agent.new_session("/tmp")
    return str((await session.prompt("hello")).stop_reason)


async def test_the_user_is_not_asked_when_no_login_is_needed(tmp_path: Path) -> None:
    gate = Gate(tmp_path, None)
    gate.file.touch()
    assert await gate.run() == "end_turn"
    assert gate.asked == 0


@pytest.mark.rule(66)
async def test_after_a_login_by_the_agent_the_same_connection_goes_on(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "oauth")
    assert await gate.run() == "end_turn"
    assert gate.log == ["initialize", "session/new", "authenticate", "oauth", "session/new", "session/prompt"]
    assert gate.asked == 1


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        (None, AuthRequired, "Log in first"),
        ("fails", LoginFailed, "The browser was closed"),
        ("lies", LoginFailed, "seemed to succeed, but the agent still requires one"),
        ("key", LoginFailed, "set API_KEY in the agent's environment"),
        ("coo", LoginFailed, "of a kind this version does not know"),
    ],
)
async def test_a_login_that_does_not_succeed_is_an_error_and_is_tried_once(
    choice: str | None, error: type[Exception], message: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path, choice)
    with pytest.raises(error, match=message):
        await gate.run()
    assert gate.asked == 1
    assert gate.log.count("session/new") == (2 if choice == "lies" else 1)


@pytest.mark.rule(68, 71, 73)
async def test_after_a_login_in_a_terminal_the_agent_is_connected_to_again(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "tty")
    ran: list[tuple[Sequence[str], Mapping[str, str], object]] = []

    async def run(argv: Sequence[str], *, cwd: object, env: Mapping[str, str]) -> int:
        ran.append((argv, env, cwd))
        gate.file.touch()
        return 0

    assert await gate.run(run=run, env={"BASE": "kept", "FLAVOUR": "bitter"}, cwd="/tmp") == "end_turn"
    assert ran == [((*gate.command, "--login", "now"), {"BASE": "kept", "FLAVOUR": "sweet"}, "/tmp")]
    assert gate.log == ["initialize", "session/new", "initialize", "session/new", "session/prompt"]


@pytest.mark.rule(72)
@pytest.mark.parametrize(("code", "how"), [(1, "exited with code 1"), (-2, "was ended by signal 2")])
async def test_only_exit_code_0_is_a_login(code: int, how: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path, "tty")

    async def run(argv: Sequence[str], **options: object) -> int:
        gate.file.touch()
        return code

    with pytest.raises(LoginFailed, match=how) as caught:
        await gate.run(run=run)
    assert caught.value.returncode == code
    assert caught.value.method_id == "tty"
    assert gate.log == ["initialize", "session/new"]


async def test_what_cannot_be_run_in_a_terminal_is_refused_with_a_reason() -> None:
    [method] = read(PLAIN)
    with pytest.raises(LoginFailed, match="'oauth' cannot be run in a terminal here"):
        await terminal_login(["agent"], method)


async def test_a_login_program_that_does_not_exist_is_a_failed_login() -> None:
    async def run(argv: Sequence[str], **options: object) -> int:
        raise CapabilityError("no terminal here")

    [method] = read({"id": "t", "name": "T", "type": "terminal", "args": ["log in"]})
    with pytest.raises(LoginFailed, match="no terminal here; run this in a terminal: agent --acp 'log in'"):
        await terminal_login(["agent", "--acp"], method, run=run)


# A program on a terminal that logs in when it has to, its own stdout being something else.
PROGRAM = """
import asyncio, json, os, sys
from dragoman import spawn
from dragoman.client import LoginFailed, with_login

command = json.loads(sys.argv[1])

async def choose(methods, refused):
    return next(method for method in methods if method.kind == "terminal")

async def work(agent):
    session = await agent.new_session("/tmp")
    return (await session.prompt("hello")).stop_reason

async def main():
    try:
        print("done:", await with_login(
            lambda: spawn(*command, terminal_login=True, env={"BASE": "kept"}), work,
            choose=choose, command=command, env={"BASE": "kept"}), flush=True)
    except LoginFailed as error:
        print("failed:", error, flush=True)
    print("foreground", os.tcgetpgrp(0) == os.getpgrp(), flush=True)
    print("got", input(), flush=True)

asyncio.run(main())
"""


@pytest.mark.rule(71, 72, 73)
@pytest.mark.parametrize(
    ("keys", "outcome"), [("swordfish\n", "done: end_turn"), ("wrong\n", "exited with code 5"), ("\x03", "signal 2")]
)
def test_a_terminal_login_on_a_real_terminal(keys: str, outcome: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path, "tty")
    with screen(PROGRAM, json.dumps(gate.command)) as terminal:
        terminal.wait_for("password: ")
        terminal.type(keys)
        terminal.wait_for(outcome)
        terminal.wait_for("foreground True")
        terminal.type("still there\n")
        terminal.wait_for("got still there")
    assert gate.log[2] == "login --login now sweetkept"
    assert gate.file.exists() is (outcome == "done: end_turn")


@pytest.mark.rule(79, 80, 82)
async def test_after_a_logout_running_sessions_may_ask_for_a_login(tmp_path: Path) -> None:
    gate = Gate(tmp_path, None)
    gate.file.touch()
    async with gate.connect() as agent:
        session = await agent.new_session("/tmp")
        await agent.logout()
        with pytest.raises(AuthRequired) as caught:
            await session.prompt("hello")
        assert [method.kind for method in login_methods(caught.value.methods)][:1] == ["agent"]
        await agent.authenticate("oauth")
        assert (await session.prompt("hello")).stop_reason == "end_turn"


@pytest.mark.rule(79)
async def test_logout_needs_the_agents_word() -> None:
    without = {key: value for key, value in EVERYTHING.items() if key != "auth"}
    async with client_and_agent(without) as (agent, _):
        with pytest.raises(CapabilityError, match=r"auth\.logout"):
            await agent.logout()


@pytest.mark.parametrize("method", ["authenticate", "_dragoman/log_in", "_dragoman\\/log_in"])
@pytest.mark.parametrize("form", ['"k-0123456789"', '{"apiKey": "k-0123456789"}'])
def test_a_passed_key_is_found_in_every_line_that_carries_one(method: str, form: str) -> None:
    line = f'{{"method": "{method}", "params": {{"method": "x", "_meta": {{"api-key": {form}}}}}}}'
    assert passed_keys(line.encode()) == {"k-0123456789": MASK}
    assert passed_key(json.loads(line)["params"]["_meta"]) == "k-0123456789"
