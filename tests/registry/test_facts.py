"""The table of facts about well-known agents, and the environment that follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.models.providers import PROVIDERS, Provider
from dragoman.registry.agents import resolve_command
from dragoman.registry.facts import FACTS, MODEL_KEYS, addresses_of, facts_of, state_folders
from dragoman.registry.known import well_known_agents
from dragoman.text.secrets import KEY_VARIABLES
from tests.registry.kit import Home

TRANSCRIPTS = Path(__file__).parent.parent.parent.parent / "shared" / "transcripts"


def test_every_name_stands_for_one_agent() -> None:
    names = [name for facts in FACTS for name in facts.names]
    assert len(names) == len(set(names))


def test_every_agent_that_was_recorded_has_facts() -> None:
    recorded = [agent for agent in well_known_agents() if agent.evidence.startswith(("transcripts/", "research/"))]
    assert len(recorded) > 10
    assert [agent.program for agent in recorded if facts_of("x", (agent.program,)) is None] == []


def test_the_command_counts_more_than_the_name() -> None:
    found = facts_of("kimi", ("npx", "-y", "@moonshot-ai/kimi-code@2.1.0", "acp"))
    assert found is not None
    assert found.name == "kimi-code"


def test_every_key_of_a_model_is_masked() -> None:
    assert set(MODEL_KEYS) <= set(KEY_VARIABLES)
    assert len(MODEL_KEYS) == len(set(MODEL_KEYS))


@pytest.mark.parametrize("facts", FACTS, ids=lambda facts: facts.name)
def test_the_keys_of_an_agent_are_among_those_that_are_removed_for_others(facts: Any) -> None:
    assert set(facts.keys or ()) <= set(MODEL_KEYS)
    assert facts.state
    assert not any(folder.startswith("/") for folder in facts.state)


def _recorded_modes() -> list[tuple[str, str, set[str]]]:
    """(agent, mode it starts in, modes it offers) of each recorded session."""
    found = []
    for path in sorted(TRANSCRIPTS.glob("*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            result = (json.loads(line).get("msg") or {}).get("result")
            if isinstance(result, dict) and result.get("modes"):
                modes = result["modes"]
                found.append((path.stem, modes["currentModeId"], {mode["id"] for mode in modes["availableModes"]}))
                break
    return found


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recordings are not on this machine")
@pytest.mark.parametrize(
    ("recording", "agent"),
    [
        *(("claude22", "claude"), ("codex", "codex"), ("codex-zed", "codex"), ("gemini", "gemini")),
        *(("kimi-code", "kimi-code"), ("kimi", "kimi"), ("openhands", "openhands")),
    ],
)
def test_the_asking_mode_is_one_that_the_recorded_agent_offers(recording: str, agent: str) -> None:
    facts = facts_of(agent, ())
    assert facts is not None
    [(_, _, offered)] = [row for row in _recorded_modes() if row[0] == recording]
    assert facts.asking_mode in offered


def test_state_folders_follow_the_variable_and_the_home(tmp_path: Path) -> None:
    codex, opencode = facts_of("codex", ()), facts_of("opencode", ())
    assert codex is not None
    assert opencode is not None
    home = {"HOME": str(tmp_path)}
    assert state_folders(codex, home) == (str(tmp_path / ".codex"),)
    assert state_folders(codex, {**home, "CODEX_HOME": "/elsewhere"}) == ("/elsewhere",)
    (tmp_path / ".cache" / "opencode").mkdir(parents=True)
    folders = state_folders(opencode, home)
    assert folders == (str(tmp_path / ".local/share/opencode"), str(tmp_path / ".cache/opencode"))


def test_an_environment_is_changed_only_where_something_is_removed_or_set() -> None:
    inherited = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b", "PATH": "/bin", "GH_TOKEN": "c"}
    assert resolve_command(["codex-acp"]).changed_env(inherited) == {"ANTHROPIC_API_KEY": None}
    assert resolve_command(["npx", "@zed-industries/codex-acp"]).changed_env(inherited) == {"ANTHROPIC_API_KEY": None}
    assert resolve_command(["something-else"]).changed_env(inherited) == {}


@pytest.mark.parametrize("provider", [*PROVIDERS.values()], ids=[*PROVIDERS])
def test_a_key_of_any_provider_is_passed_on_with_its_address(provider: Provider) -> None:
    addresses = {provider.url_variable, *provider.url_variables}
    for key in {*provider.keys, *provider.optional_keys} & {*KEY_VARIABLES}:
        assert addresses_of([key], [*addresses, "DATABASE_URL", "SLACK_API_URL", "PWD"]) == addresses


@pytest.mark.parametrize(
    ("key", "addresses"),
    [
        ("ANTHROPIC_AUTH_TOKEN", {"ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL"}),
        ("CLAUDE_CODE_OAUTH_TOKEN", {"ANTHROPIC_BASE_URL"}),
        ("CODEX_API_KEY", {"OPENAI_BASE_URL"}),
        ("GEMINI_API_KEY", {"GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"}),
        ("AZURE_OPENAI_API_KEY", {"AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE", "AZURE_OPENAI_API_VERSION"}),
        ("OPENAI_API_KEY", {"OPENAI_API_BASE", "OPENAI_HOST", "OPENAI_BASE_PATH", "OPENAI_BASE_URL"}),
        ("OLLAMA_API_KEY", {"OLLAMA_HOST", "OLLAMA_API_BASE"}),
        ("GH_TOKEN", {"GH_HOST"}),
        ("MY_API_KEY", {"MY_BASE_URL", "MY_ENDPOINT"}),
        ("MY_API_KEY_2", {"MY_API_URL"}),
    ],
)
def test_addresses_are_found_by_the_name_of_the_key(key: str, addresses: set[str]) -> None:
    others = {"MY_DATABASE_URL", "DATABASE_URL", "PATH", "PGHOST", "KEY_URL", "OPENROUTER_KEY", "REDIS_HOST"}
    assert addresses_of([key, "PATH"], addresses | others) == addresses
    assert addresses_of(["PATH", "MY_SETTING"], addresses | others) == set()


def test_only_the_users_own_settings_allow_everything_or_narrow_the_environment(tmp_path: Path) -> None:
    home = Home(tmp_path)
    entry = {"command": "a", "dangerously_allow_all": True, "env_allow": ["X"]}
    home.user({"agent_servers": {"mine": entry}})
    home.repository({"agent_servers": {"theirs": entry}})
    home.zed.write_text(json.dumps({"agent_servers": {"zeds": entry}}))
    agents = home.load()
    found = {name: agents.look_up(name) for name in ("mine", "theirs", "zeds")}
    assert {name: each.allows_all for name, each in found.items() if each} == {
        "mine": True,
        "theirs": False,
        "zeds": False,
    }
    assert {name: each.env_allow for name, each in found.items() if each} == {
        "mine": ("X",),
        "theirs": None,
        "zeds": None,
    }
    notes = "\n".join(agents.notes)
    assert "dangerously_allow_all of 'theirs' is not used: only the user can set it" in notes
    assert "env_allow of 'theirs' is not used: only the user can set it" in notes
