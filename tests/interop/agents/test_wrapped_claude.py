"""Our adapter and `claude-agent-acp` around the same program: what both can do, and what each costs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.agents.bridge_cost import INITIALIZE, BareClient, BridgeCost, best, measure, table
from tests.interop.agents.recipes import prepare, why_missing
from tests.interop.model_server.server import ModelServer

pytestmark = pytest.mark.timeout(400)
PAIR = ("claude", "wrapped-claude")
ROUNDS = 4
LEFT_OUT = {"auth.logout", "providers", "sessionCapabilities.systemPrompt.mode.override"}
"""Capabilities that the official bridge has and ours has not: who is logged in, and where, is left to the program; its
system prompt is an argument of `claude_code`."""


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("real agents are driven by make interop")
    if reason := why_missing("claude"):
        pytest.skip(reason)


def test_it_costs_less_than_the_official_bridge(server: ModelServer, tmp_path: Path) -> None:
    """The best of some rounds, one bridge after the other, so that what else the machine does meets both."""
    costs: dict[str, list[BridgeCost]] = {name: [] for name in PAIR}
    for number in range(ROUNDS):
        for name in PAIR:
            folder = tmp_path / f"{name}-{number}"
            (folder / "work").mkdir(parents=True)
            agent = prepare(name, folder, server.url)
            costs[name].append(measure(agent.command, {**agent.surroundings, **agent.env}, folder / "work"))
    official, ours = (best(costs[name]) for name in PAIR)
    sys.stderr.write(f"\n{table({'claude-agent-acp': official, 'dragoman wrap claude': ours})}\n")
    assert ours.initialize <= 0.5 * official.initialize
    assert ours.cpu <= 0.65 * official.cpu
    assert ours.own_memory <= official.own_memory / 3
    assert ours.tree_memory <= 0.8 * official.tree_memory


def features(result: dict[str, Any]) -> set[str]:
    """What an agent advertises, as dotted names."""
    found: set[str] = set()

    def walk(value: Any, path: str) -> None:
        if value is True or value == {}:
            found.add(path)
        for name, member in value.items() if isinstance(value, dict) else ():
            if name != "_meta":
                walk(member, f"{path}.{name}" if path else name)

    walk(result["agentCapabilities"], "")
    return found


def test_it_offers_what_the_official_bridge_offers(server: ModelServer, tmp_path: Path) -> None:
    offered: dict[str, set[str]] = {}
    choices: dict[str, dict[str, set[str]]] = {}
    for name in PAIR:
        (tmp_path / name / "work").mkdir(parents=True)
        agent = prepare(name, tmp_path / name, server.url)
        client = BareClient(agent.command, {**agent.surroundings, **agent.env}, tmp_path / name / "work")
        try:
            offered[name] = features(client.ask("initialize", INITIALIZE))
            session = client.ask("session/new", {"cwd": str(tmp_path / name / "work"), "mcpServers": []})
        finally:
            client.close()
        choices[name] = {
            option["category"]: {value["value"] for value in option["options"]}
            for option in session["configOptions"]
            if option.get("category")
        }
    official, ours = PAIR
    assert offered[official] - offered[ours] == LEFT_OUT
    assert choices[official]["model"] <= choices[ours]["model"]
    assert choices[official]["mode"] - choices[ours]["mode"] <= {"bypassPermissions"}
    assert choices[official].keys() - choices[ours].keys() <= {"model_config"}  # its fast mode
