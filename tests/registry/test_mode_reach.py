"""Which session modes still ask, which do not, and of which that is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.registry.facts import FACTS
from dragoman.registry.mode_reach import permits_all, reach_of, reaches_in

TRANSCRIPTS = Path(__file__).parents[2].parent / "shared" / "transcripts"


def test_the_mode_that_an_agent_is_put_into_is_limited() -> None:
    for facts in FACTS:
        assert not facts.asking_mode or facts.asking_mode in facts.limited_modes, facts.name
        assert not set(facts.limited_modes) & set(facts.unasking_modes), facts.name


@pytest.mark.parametrize("agent", ["dragoman", "dragoman --model x", "-- dragoman agent --mode full"])
def test_the_modes_of_the_built_in_agent(agent: str) -> None:
    assert [reach_of(agent, mode) for mode in ("ask", "edit", "plan", "auto", "full")] == ["limited"] * 4 + [
        "unlimited"
    ]


@pytest.mark.parametrize(
    ("agent", "mode", "reach"),
    [
        ("claude", "acceptEdits", "limited"),
        ("claude --acp", "bypassPermissions", "unlimited"),
        ("claude", "auto", "unlimited"),
        ("claude", "new-in-the-next-version", "unknown"),
        ("-- /opt/bin/codex-acp", "agent-full-access", "unlimited"),
        ("-- npx @zed-industries/codex-acp", "read-only", "limited"),
        ("copilot", "https://agentclientprotocol.com/protocol/session-modes#agent", "limited"),
        ("copilot", "https://agentclientprotocol.com/protocol/session-modes#autopilot", "unlimited"),
        ("-- unfinished 'quote", "ask", "limited"),
    ],
)
def test_a_known_agent_is_recognised_by_its_name_or_its_command(agent: str, mode: str, reach: str) -> None:
    assert reach_of(agent, mode) == reach


def test_an_agent_with_another_name_is_recognised_by_its_command() -> None:
    assert reach_of("mine", "agent", command=("codex-acp",)) == "limited"
    assert reach_of("mine", "auto", command=("dragoman", "agent")) == "limited"


@pytest.mark.parametrize(
    ("mode", "name", "description", "reach"),
    [
        *((mode, "", "", "limited") for mode in ("ask", "plan", "read-only", "Default", "accept_edits")),
        ("plan", "Plan mode", "", "limited"),
        *((mode, "", "", "unlimited") for mode in ("yolo", "full", "full-access", "auto-approve", "dont_ask")),
        ("x1", "Always approve", "", "unlimited"),
        ("fast", "Fast", "Runs every tool without asking for permission", "unlimited"),
        ("plan", "Fast and free", "", "unknown"),
        ("default", "Default", "Runs tools without asking", "unknown"),
        *((mode, "", "", "unknown") for mode in ("code", "fast", "agent", "auto", "x")),
    ],
)
def test_of_an_unknown_agent_only_usual_names_are_limited(mode: str, name: str, description: str, reach: str) -> None:
    assert reach_of("somebodys-agent", mode, name, description) == reach


def test_an_option_can_permit_everything() -> None:
    assert permits_all("copilot", "allow_all", "on")
    assert permits_all("-- cline --acp", "auto_approve", True)
    assert not permits_all("cline", "auto_approve", False)
    assert not permits_all("claude", "auto_approve", True)
    assert permits_all("claude", "auto_approve", True, "auto_approve Auto-approve tools")
    assert not permits_all("claude", "auto_approve", False, "auto_approve Auto-approve tools")
    assert not permits_all("copilot", "allow_all", "off", "off Off Never asks")


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the recordings are not on this machine")
def test_every_mode_of_a_recorded_agent_is_known() -> None:
    found = 0
    names = {"claude22": "claude", "codex-readonly": "codex", "codex-zed": "codex", "gemini-noread": "gemini"}
    for path in sorted(TRANSCRIPTS.glob("*.jsonl")):
        agent = names.get(path.stem, path.stem)
        if "." in path.stem or not any(agent in facts.names for facts in FACTS):
            continue
        for line in path.read_text().splitlines():
            result = json.loads(line).get("msg", {})
            modes = result.get("result", {}).get("modes") if isinstance(result.get("result"), dict) else None
            for mode in (modes or {}).get("availableModes", ()):
                found += 1
                assert reach_of(agent, mode["id"]) != "unknown", (agent, mode["id"])
    assert found > 20


def test_what_clients_are_sent_has_every_mode_and_the_values_that_permit_everything() -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "yolo"}, {"id": "zen"}]}
    groups = [{"group": "g", "name": "Group", "options": [{"value": "plan", "name": "Plan"}]}]
    options = [
        {"id": "mode", "category": "mode", "type": "select", "options": [*groups, {"value": "full", "name": "All"}]},
        {"id": "model", "category": "model", "type": "select", "options": [{"value": "yolo-1", "name": "Yolo 1"}]},
        {"id": "extra", "type": "select", "options": [{"value": "a", "name": "Auto approve"}, {"value": "b"}]},
        {"id": "skip", "name": "Never ask", "type": "boolean"},
        {"id": "calm", "name": "Calm", "type": "boolean"},
        "nonsense",
    ]
    assert reaches_in("some", modes, options) == {
        "": {"ask": "limited", "yolo": "unlimited", "zen": "unknown"},
        "mode": {"plan": "limited", "full": "unlimited"},
        "extra": {"a": "unlimited"},
        "skip": {"true": "unlimited"},
    }
    assert reaches_in("some", None, {"not": "a list"}) == {}
