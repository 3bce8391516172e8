"""`dragoman check agent` on real agents: what it finds was checked by hand, is true, and is all there is to find.

`findings.toml` has the findings with what is behind each. A new release of an agent, or of the judge, that changes one
fails here; then it is looked at again. The agents' model is scripted, so what they find hard does not vary.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.interop.agents.installed_agent import InstalledAgent
from tests.interop.agents.recipes import JUDGED

FILE = Path(__file__).with_name("findings.toml")
SECONDS = 900.0


def findings() -> dict[str, dict[str, Any]]:
    return tomllib.loads(FILE.read_text())


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("name", JUDGED, indirect=True)
def test_findings_are_those_that_were_checked(installed: InstalledAgent) -> None:
    expected = findings()[installed.name]
    words = ("check", "agent", "--json", "--jobs", "2", "--timeout", "20")
    done = installed.run(*words, "--", *installed.agent.command, env=installed.agent.env, seconds=SECONDS)
    report = json.loads(done.out)
    messages = {result["id"]: f"{result['status']}: {result['message']}" for result in report["results"]}
    found = {id: text for id, text in messages.items() if text.startswith(("fail", "warn", "error"))}
    known = {id: level for level in ("fail", "warn") for id in expected[level]}
    unknown = {id: text for id, text in found.items() if id not in known | expected["sometimes"]}
    assert not unknown, f"look at each, and write it into {FILE.name} if it is true"
    seen = {id: messages.get(id, "nothing") for id in known}
    changed = {id: seen[id] for id, level in known.items() if not seen[id].startswith(level)}
    assert not changed, f"{FILE.name} says otherwise"
    assert report["counts"]["pass"] >= expected["passes"]


def test_every_finding_says_what_is_behind_it() -> None:
    assert findings().keys() == set(JUDGED)
    for name, agent in findings().items():
        assert agent.keys() == {"passes", "fail", "warn", "sometimes"}
        for level in ("fail", "warn", "sometimes"):
            for id, reason in agent[level].items():
                assert len(reason.split()) > 2, f"{name}, {id}: {reason!r} says nothing"
