"""Clients of the official SDKs with and without `dragoman guard` in front of the agent: they see the same."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.proxy.audit.verify import verify
from tests.interop.support import COMMON, OUR_AGENT, Walk, Walks, agent_command, guard_command

# The agent of this SDK does not do what its client expects there, guard or not.
BROKEN = {("py", "py"): ("cancel",), ("ts", "ts"): ("errors",)}
SERVED = ("terminal/", "fs/")
RULES = ("--allow", "edit", "--allow", "read", "--allow", "read:/never")
EVERYTHING = ("--allow", "*")
# `make interop` walks all scenarios. Elsewhere those with exchanges in which the guard takes part, because each start
# of three programs takes half a second; `tests/proxy/test_as_without.py` has the others, in one process.
IS_WHOLE = os.environ.get("DRAGOMAN_REAL_AGENTS") == "1"
SHORT = {
    "ours": ("permission", "files", "elicitation", "cancel", "cancel_request", "errors", "side_by_side", "leave"),
    "ts": ("cancel_request",),
    "py": (),
}


def normal(event: dict[str, Any]) -> str:
    """An event without what differs from run to run."""
    if event["event"] == "error":
        event = {**event, "message": ""}  # the guard knows itself that a session was closed
    if is_question(event):  # what it is about is stated by the guard in its own words, below
        event = {**event, "toolCall": {**event["toolCall"], **dict.fromkeys(("title", "kind", "content"))}}
    text = json.dumps(event, sort_keys=True)
    text = re.sub(r"/tmp/[\w.-]+", "TEMPORARY", text)
    text = re.sub(r'"t-\d+"', '"terminal"', text)
    return re.sub(r"[0-9a-f]{8}[0-9a-f-]{4,}", "#", text)


def is_question(event: dict[str, Any]) -> bool:
    """Whether the client was asked for permission."""
    return bool(event["event"] == "request" and event["method"] == "session/request_permission")


def seen(walk: Walk, scenario: str) -> list[dict[str, Any]]:
    """What the client saw in a scenario, without what the agent sends on its own: a client that ends may miss it."""
    events = [event for event in walk.events if event["scenario"] == scenario]
    return [event for event in events if event.get("update", {}).get("sessionUpdate") != "available_commands_update"]


class Pair:
    """A client of an SDK and an agent, with and without the guard between them."""

    def __init__(self, client: str, agent: str, folder: Path, walks: Walks) -> None:
        self._client = client
        self._folder = folder
        self._state = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
        ours = (*OUR_AGENT, "--record", str(folder / "{scenario}.jsonl"))
        self._command = ours if agent == "ours" else agent_command(agent)
        # Our agent without the guard is walked by other tests, too.
        self._plain = walks.of(client) if agent == "ours" else None

    def walk(self, scenarios: Sequence[str], *options: str) -> tuple[Walk, Walk]:
        """The walks without and with the guard."""
        plain = self._plain or Walk(self._client, self._folder / "plain", scenarios, self._command, **self._state)
        command = guard_command(*options, "--", *self._command)
        guarded = Walk(self._client, self._folder / "guarded", scenarios, command, **self._state)
        failed = [event for event in plain.events if event["event"] == "failed" and event["scenario"] in scenarios]
        if failed:
            pytest.skip(f"the SDKs fail without the guard, too: {failed}")
        log = verify(self._folder / "state/dragoman/audit")
        assert log.is_intact
        assert log.records > 3 * len(scenarios)
        return plain, guarded


@pytest.fixture
def pair(client: str, agent: str, tmp_path: Path, walks: Walks) -> Pair:
    return Pair(client, agent, tmp_path, walks)


def parts(client: str, agent: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Scenarios that are walked by one start of the client: few, because a walk has a time limit."""
    left_out = ("terminals", "bare", *BROKEN.get((client, agent), ()))
    left = [name for name in COMMON if name not in left_out]
    if not IS_WHOLE:
        left = [name for name in left if name in SHORT[agent]]
    for start in range(0, len(left), 4):
        yield client, agent, tuple(left[start : start + 4])


PAIRS = [*BROKEN, ("py", "ours"), ("ts", "ours")]
WALKS = [walk for pair in PAIRS for walk in parts(*pair)]


@pytest.mark.parametrize(("client", "agent", "scenarios"), WALKS)
def test_an_sdks_client_sees_the_same_of_an_agent_behind_the_guard(scenarios: tuple[str, ...], pair: Pair) -> None:
    plain, guarded = pair.walk(scenarios, *RULES)
    for scenario in scenarios:
        expected, found = seen(plain, scenario), seen(guarded, scenario)
        assert sorted(map(normal, found)) == sorted(map(normal, expected)), scenario
        for asked, event in zip(filter(is_question, expected), filter(is_question, found), strict=True):
            # The client shows what the guard read; what the agent calls it is there as the agent's words.
            title = asked["toolCall"].get("title")  # it may have been announced before
            assert title is None or f"calls it: {title}" in json.dumps(event["toolCall"])
            assert event["toolCall"]["title"].startswith("it could not be read what this does")


@pytest.mark.parametrize(("client", "agent"), PAIRS)
def test_services_are_the_clients_if_it_offers_them_and_else_the_guards(client: str, agent: str, pair: Pair) -> None:
    plain, guarded = pair.walk(("terminals", "bare"), *EVERYTHING)
    expected, found = seen(plain, "terminals"), seen(guarded, "terminals")
    assert sorted(map(normal, found)) == sorted(map(normal, expected))
    # In `bare` the client offers nothing. Without the guard our agent does everything itself, and those of the SDKs ask
    # the client all the same; the guard offers its own services, and the turn has the same results.
    assert [event for event in seen(guarded, "bare") if is_service(event)] == []
    assert list(map(normal, filter(is_result, seen(guarded, "bare")))) == [
        *map(normal, filter(is_result, seen(plain, "bare")))
    ]
    shown = [event["update"] for event in seen(guarded, "bare") if "toolCallId" in event.get("update", {})]
    assert "out" in json.dumps([update.get("content") for update in shown])


def is_service(event: dict[str, Any]) -> bool:
    """Whether the client was asked for a file, a command, or permission for one."""
    return event["event"] == "request" and str(event["method"]).startswith((*SERVED, "session/request_permission"))


def is_result(event: dict[str, Any]) -> bool:
    """Whether it is what a turn came to: its answer, and what the agent says it got."""
    is_said = event.get("update", {}).get("sessionUpdate") == "agent_message_chunk"
    return bool(is_said or event["event"] in ("result", "error", "exit"))
