"""Clients of the official SDKs with and without `dragoman guard` in front of the agent: they see the same."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dragoman.proxy.audit.verify import verify
from tests.interop.support import COMMON, DRAGOMAN, OUR_AGENT, Walk, agent_command

# Two walks for each comparison take too long for `make test`.
pytestmark = pytest.mark.skipif(
    os.environ.get("DRAGOMAN_REAL_AGENTS") != "1", reason="make interop compares the SDKs with and without the guard"
)
# The agent of this SDK does not do what its client expects there, guard or not.
BROKEN = {("py", "py"): ("cancel",), ("ts", "ts"): ("errors",)}
PAIRS = [*BROKEN, ("py", "ours"), ("ts", "ours")]
RULES = ("--allow", "edit", "--allow", "read", "--allow", "read:/never")


def seen(walk: Walk) -> dict[str, list[str]]:
    """What the client saw in each scenario, without what differs from run to run."""
    found: dict[str, list[str]] = {}
    for event in walk.events:
        if event.get("update", {}).get("sessionUpdate") == "available_commands_update":
            continue  # sent on its own; a client that ends may miss it
        if event["event"] == "error":
            event["message"] = ""  # the guard knows itself that a session was closed
        text = json.dumps(event, sort_keys=True)
        text = re.sub(r"/tmp/[\w.-]+", "TEMPORARY", text)
        text = re.sub(r'"t-\d+"', '"terminal"', text)
        text = re.sub(r"[0-9a-f]{8}[0-9a-f-]{4,}", "#", text)
        found.setdefault(event["scenario"], []).append(text)
    return found


def compare(client: str, agent: str, folder: Path, scenarios: Sequence[str], *options: str) -> None:
    state = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    ours = (*OUR_AGENT, "--record", str(folder / "{scenario}.jsonl"))
    command = ours if agent == "ours" else agent_command(agent)
    plain = Walk(client, folder / "plain", scenarios, command, **state)
    guarded = Walk(client, folder / "guarded", scenarios, (*DRAGOMAN, "guard", *options, "--", *command), **state)
    if failed := [event for event in plain.events if event["event"] == "failed"]:
        pytest.skip(f"the SDKs fail without the guard, too: {failed}")
    expected, found = seen(plain), seen(guarded)
    assert expected.keys() == found.keys() == set(scenarios)
    for scenario in scenarios:
        assert sorted(found[scenario]) == sorted(expected[scenario]), scenario
    log = verify(folder / "state/dragoman/audit")
    assert log.is_intact
    assert log.records > 3 * len(scenarios)


def together(client: str, agent: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Scenarios that are walked by one start of the client: few, because a walk has a time limit."""
    left = [name for name in COMMON if name not in ("terminals", *BROKEN.get((client, agent), ()))]
    for start in range(0, len(left), 3):
        yield client, agent, tuple(left[start : start + 3])


WALKS = [walk for pair in PAIRS for walk in together(*pair)]


@pytest.mark.parametrize(("client", "agent", "scenarios"), WALKS)
def test_an_sdks_client_sees_the_same_of_an_agent_behind_the_guard(
    client: str, agent: str, scenarios: tuple[str, ...], tmp_path: Path
) -> None:
    compare(client, agent, tmp_path, scenarios, *RULES)


@pytest.mark.parametrize(("client", "agent"), PAIRS)
def test_the_terminals_of_an_sdks_client_are_used(client: str, agent: str, tmp_path: Path) -> None:
    compare(client, agent, tmp_path, ("terminals",), "--allow", "*")
