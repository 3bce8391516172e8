"""The table of well-known agents: its names, pins and evidence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dragoman.registry.agents import RESERVED
from dragoman.registry.catalogue import bundled
from dragoman.registry.facts import facts_of
from dragoman.registry.known import WellKnownAgent, checked_on, recognise, well_known, well_known_agents
from dragoman.registry.packages import pinned
from dragoman.registry.versions import fits

SHARED = Path(__file__).parent.parent.parent.parent / "shared"
PINS = Path(__file__).parent.parent / "interop" / "agents" / "packages"
AGENTS = pytest.mark.parametrize("agent", well_known_agents(), ids=lambda agent: agent.name)


def test_every_name_and_alias_stands_for_one_agent() -> None:
    words = [word for agent in well_known_agents() for word in (agent.name, *agent.aliases)]
    assert len(words) == len(set(words))
    assert not set(words) & set(RESERVED)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", word) for word in words)
    names = [agent.name for agent in well_known_agents()]
    assert names == sorted(names)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", checked_on())


@pytest.mark.parametrize(
    "name",
    [
        *("gemini", "claude", "codex", "copilot", "opencode", "qwen", "cline", "kimi"),
        *("vibe", "goose", "auggie", "fast-agent", "hermes", "openhands", "cursor"),
    ],
)
def test_the_agents_that_users_ask_for_are_known(name: str) -> None:
    found = well_known(name)
    assert found is not None
    assert found.name == name


@AGENTS
def test_packages_are_pinned(agent: WellKnownAgent) -> None:
    for package in agent.npm:
        assert str(pinned("npx", str(package), "")) == str(package)
        assert not package.node or fits("99.0.0", package.node) is True
    if agent.python_package is not None:
        assert str(pinned("uvx", str(agent.python_package), "")) == str(agent.python_package)
    assert bool(agent.packages) != bool(agent.install)
    for replaced in agent.replaced:
        assert not replaced.versions or replaced.why


@AGENTS
def test_an_agent_is_recognised_by_its_commands(agent: WellKnownAgent) -> None:
    assert recognise("x", (agent.program, *agent.args)) is agent
    for package in agent.npm:
        assert recognise("x", ("npx", "-y", "--prefix", "/tmp/x", str(package), *agent.args)) is agent
    if agent.python_package is not None:
        words = ("uvx", "--python", "3.12", "--from", str(agent.python_package), agent.program)
        assert recognise("x", words) is agent
    assert recognise(agent.name.upper(), ("sh",)) is agent
    assert recognise("x", ("sh",)) is None


@AGENTS
def test_evidence_exists(agent: WellKnownAgent) -> None:
    if not SHARED.is_dir():
        pytest.skip("the recordings are not here")
    for path in re.findall(r"(?:transcripts|research)/[\w.-]+\w", agent.evidence):
        assert (SHARED / path).is_file()
    assert agent.is_verified != bool(re.search("not run|could not|fails", agent.evidence))


@pytest.mark.parametrize("name", ["gemini", "claude", "copilot"])
def test_the_pinned_version_is_the_one_that_is_driven_in_the_interop_tests(name: str) -> None:
    agent = well_known(name)
    assert agent is not None
    wanted = json.loads((PINS / name / "package.json").read_text())["dependencies"]
    assert {agent.npm[0].package: agent.npm[0].version} == wanted


def test_state_variables_fit_the_login_files() -> None:
    for agent in well_known_agents():
        facts = facts_of(agent.name, (agent.program,))
        if facts is not None and facts.state_variable and agent.login_files:
            assert agent.login_files[0].startswith(f"{facts.state[0]}/")


def test_known_facts_serve_as_an_entry_of_the_registry() -> None:
    listed = bundled("hermes-agent")
    assert listed is not None
    assert (listed.id, listed.kinds) == ("hermes", ("uvx",))
    assert listed.distribution.uvx is not None
    assert listed.distribution.uvx.cmd == "hermes-acp"
    assert bundled("goose") is None
    assert bundled("zzz") is None
