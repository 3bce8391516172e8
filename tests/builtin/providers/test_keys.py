"""Which model a session gets, and the error when its key is missing."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import known_model_names
from pydantic_ai.providers import infer_provider_class

from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.providers import CHOSEN, COMPATIBLE, PROVIDERS, default_model, offered_models
from dragoman.errors import AuthRequired, ConfigError, RequestError
from dragoman.schema import v1
from tests.builtin.http_service import Service, ask
from tests.builtin.providers.server import AZURE, VARIABLES, WIRES, ProviderServer, Wire, refused, text_answer

# Started from a shell, so that no login shell is asked for more.
FROM_A_SHELL = {"SHLVL": "1"}


@pytest.fixture(autouse=True)
def _whole_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHLVL", "1")


def test_the_models_offered_are_models_there_are() -> None:
    known = set(known_model_names())
    keys = {name: "x" for provider in CHOSEN for name in provider.variables}
    assert set(offered_models(keys)) <= known


@pytest.mark.parametrize("id", [id for id, provider in PROVIDERS.items() if provider.form == "package"])
def test_every_provider_that_the_package_calls_is_known_to_it(id: str) -> None:
    with suppress(ImportError):  # known, but with a package of its own; ValueError would be for an unknown name
        infer_provider_class(id)


def test_the_first_key_there_is_decides() -> None:
    anthropic, openai, google = CHOSEN
    assert default_model({}) is None
    assert default_model({"OPENAI_BASE_URL": "http://localhost"}) is None
    assert default_model({"GEMINI_API_KEY": "x"}) == f"google:{google.models[0]}"
    assert default_model({"GEMINI_API_KEY": "x", "OPENAI_API_KEY": "x"}) == f"openai:{openai.models[0]}"
    assert default_model({"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}) == f"anthropic:{anthropic.models[0]}"


@pytest.mark.parametrize("name", ["anthropic", "anthropic:", "oracle:delphi", ""])
def test_a_name_that_is_none_is_refused_with_the_forms_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match="PROVIDER:MODEL"):
        find_model(name)


@pytest.mark.parametrize(
    ("model", "package", "extra"),
    [
        ("anthropic:claude-sonnet-5-5", "httpx2", "agent"),
        ("ollama:qwen3", "httpx2", "agent"),
        ("bedrock:some-model", "pydantic_ai", "providers"),
    ],
)
def test_without_its_package_the_error_names_how_to_install_it(
    model: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_model(model)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"pip install .*\[{extra}\]'"):
        find_model(model)


@pytest.mark.parametrize(
    ("id", "env", "expected"),
    [
        ("ollama", {}, "http://127.0.0.1:11434/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "http://box:11434"}, "http://box:11434/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "http://box/models/v2/"}, "http://box/models/v2"),
        ("deepseek", {"DEEPSEEK_BASE_URL": "http://box"}, "http://box"),
        ("groq", {"GROQ_BASE_URL": "https://api.groq.com"}, "https://api.groq.com/openai/v1"),
        ("heroku", {"HEROKU_INFERENCE_URL": "https://eu.inference.heroku.com"}, "https://eu.inference.heroku.com/v1"),
        ("google", {"GOOGLE_GEMINI_BASE_URL": "http://box"}, "http://box"),
        (COMPATIBLE, {"OPENAI_BASE_URL": "http://box:8000/v1"}, "http://box:8000/v1"),
        (COMPATIBLE, {}, ""),
    ],
)
def test_a_variable_sets_another_address(id: str, env: dict[str, str], expected: str) -> None:
    assert PROVIDERS[id].base_url(env) == expected


def test_every_provider_with_a_wire_form_has_an_address_and_a_way_to_get_a_key() -> None:
    for provider in PROVIDERS.values():
        if provider.form != "package" and provider.id != COMPATIBLE:
            assert provider.url.startswith(("https://", "http://127.0.0.1:")), provider.id
            assert provider.keys, provider.id


async def test_without_any_key_a_session_is_refused_with_what_to_set(tmp_path: Path) -> None:
    async with Service(tmp_path, model=None).client() as agent:
        offered = [method for method in agent.auth_methods if isinstance(method, v1.AuthMethodAgent)]
        assert [method.id for method in offered] == ["anthropic", "openai", "google"]
        assert all("set " in str(method.description) for method in offered)
        with pytest.raises(AuthRequired, match="ANTHROPIC_API_KEY, OPENAI_API_KEY or GOOGLE_API_KEY") as raised:
            await agent.new_session(tmp_path)
    assert raised.value.code == -32000
    assert raised.value.data["methods"] == ["anthropic", "openai", "google"]
    assert "GEMINI_API_KEY" in raised.value.data["variables"]


async def test_a_named_model_without_its_key_is_refused_with_that_one(tmp_path: Path) -> None:
    async with Service(tmp_path, model="openai:gpt-5").client() as agent:
        assert [method.id for method in agent.auth_methods if isinstance(method, v1.AuthMethodAgent)] == ["openai"]
        with pytest.raises(AuthRequired, match="OPENAI_API_KEY") as raised:
            await agent.new_session(tmp_path)
        stated = {"methods": ["openai"], "variables": ["OPENAI_API_KEY", "OPENAI_BASE_URL"]}
        assert raised.value.data == {**stated, "details": raised.value.message}
        with pytest.raises(RequestError, match="OPENAI_API_KEY") as refusal:
            await agent.authenticate("openai")
        assert refusal.value.code == -32000


async def test_authenticating_is_to_have_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Service(tmp_path, model=None).client() as agent:
        monkeypatch.setenv("GOOGLE_API_KEY", "x")
        await agent.authenticate("google")
        session = await agent.new_session(tmp_path)
        assert chosen(session.state.config_options) == f"google:{CHOSEN[2].models[0]}"


async def test_a_scripted_model_needs_no_key_and_offers_no_login(tmp_path: Path) -> None:
    async with Service(tmp_path).client() as agent:
        assert list(agent.auth_methods) == []


async def test_models_of_every_provider_with_a_key_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    monkeypatch.setenv("GOOGLE_API_KEY", "x")
    async with Service(tmp_path, model="ollama:qwen3").session() as session:
        assert chosen(session.state.config_options) == "ollama:qwen3"
        offered = choices(session.state.config_options)
        assert offered[0] == "ollama:qwen3"
        assert {name.partition(":")[0] for name in offered} == {"ollama", "anthropic", "google"}
        await session.set_config_option("model", offered[1])
        assert chosen(session.state.config_options) == offered[1]


async def test_a_model_chosen_in_the_session_answers_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer(text_answer("I am another")) as server:
        for name, value in WIRES["anthropic"].variables(server.url).items():
            monkeypatch.setenv(name, value)
        async with Service(tmp_path).session() as session:
            await ask(session, "say hello")
            assert server.asked == []
            await session.set_config_option("model", "anthropic:claude-haiku-5-5")
            await ask(session, "who are you?")
            assert session.state.text == "I am another"
        assert server.asked[0].question.model == "claude-haiku-5-5"
        assert b"hello" in server.asked[0].data


async def test_a_key_the_provider_refuses_ends_the_prompt_with_the_way_to_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = WIRES["anthropic"]
    with ProviderServer(refused(401, "invalid x-api-key")) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        async with Service(tmp_path, model=wire.model).session() as session:
            with pytest.raises(
                AuthRequired, match="invalid x-api-key; the key comes from ANTHROPIC_API_KEY in the"
            ) as raised:
                await session.prompt("hello")
    stated = {"methods": ["anthropic"], "variables": ["ANTHROPIC_API_KEY"]}
    assert raised.value.data == {**stated, "details": raised.value.message}


def command(*arguments: str, home: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    places = {name: str(home / name) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**env, **places, **FROM_A_SHELL, **variables},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_exec_without_a_key_exits_with_7_and_names_what_to_set(tmp_path: Path) -> None:
    agent = ("--", sys.executable, "-m", "dragoman", "agent", "--model", "anthropic:claude-sonnet-5-5")
    ended = command("-m", "dragoman", "exec", "hello", *agent, home=tmp_path)
    assert ended.returncode == 7, ended.stderr
    assert "ANTHROPIC_API_KEY" in ended.stderr


@pytest.mark.parametrize("form", ["text", "json", "events", "raw"])
def test_a_key_that_the_provider_repeats_is_nowhere_in_what_exec_writes(tmp_path: Path, form: str) -> None:
    key = "sk-ant-api03-0123456789abcdef"
    with ProviderServer(refused(401, f"Incorrect API key provided: {key}.")) as server:
        variables = WIRES["anthropic"].variables(server.url) | {"ANTHROPIC_API_KEY": key}
        exec_words = ("-m", "dragoman", "exec", "--output", form, "--verbose", "--model", WIRES["anthropic"].model)
        ended = command(*exec_words, "hello", home=tmp_path, **variables)
        assert server.asked
        assert any(key in value for value in server.asked[0].headers.values())
    assert ended.returncode == 7, ended.stderr
    assert "Incorrect API key provided: [ANTHROPIC_API_KEY]" in ended.stderr
    assert key not in ended.stderr + ended.stdout
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert written
    assert [file for file in written if key.encode() in file.read_bytes()] == []


STARTS = """
import asyncio, sys
from pathlib import Path
from dragoman.client import connect
from dragoman.builtin.agent import build_agent
from dragoman.builtin.settings import AgentSettings
from dragoman.transports.memory import memory_pair

async def main():
    home = Path(sys.argv[1])
    ours, theirs = memory_pair()
    agent = build_agent(AgentSettings(sys.argv[2], store=home / "s.db", rules_file=home / "r.json"))
    serving = asyncio.create_task(agent.serve(theirs))
    async with connect(ours) as remote:
        heavy = ("pydantic", "pydantic_ai", "anthropic", "sqlite3", "httpx2")
        print(*[name for name in heavy if name in sys.modules])
        await remote.new_session(home)
        print("answered", "pydantic_ai.direct" in sys.modules)
    await serving

asyncio.run(main())
"""


@pytest.mark.parametrize("wire", [WIRES["anthropic"], AZURE], ids=["wire form", "package"])
def test_initialize_is_answered_before_anything_heavy_is_loaded(wire: Wire, tmp_path: Path) -> None:
    variables = wire.variables("http://127.0.0.1:9")
    ended = command("-c", STARTS, str(tmp_path), wire.model, home=tmp_path, **variables)
    assert ended.returncode == 0, ended.stderr
    at_start, answered = ended.stdout.splitlines()
    assert at_start == ""
    assert answered == "answered False", "a session is answered while its provider is still being loaded"


async def test_a_session_that_ends_while_its_provider_is_loaded_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    async with asyncio.timeout(30):
        async with Service(tmp_path, model="openai:gpt-5").session() as session:
            assert session.id


def _select(options: Any, read: Callable[[v1.SessionConfigSelect], Any]) -> Any:
    for option in options:
        if isinstance(option, v1.SessionConfigSelect) and option.id == "model":
            return read(option)
    raise AssertionError("there is no option `model`")


def chosen(options: Any) -> str:
    value: str = _select(options, lambda option: option.current_value)
    return value


def choices(options: Any) -> list[str]:
    values: list[str] = _select(options, lambda option: [str(getattr(each, "value", "")) for each in option.options])
    return values
