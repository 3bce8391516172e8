"""The built-in agent in the process of its host."""

from __future__ import annotations

from pathlib import Path

from dragoman.builtin.agent import build_agent
from dragoman.builtin.settings import AgentSettings
from dragoman.host.in_process import InProcessAgent
from dragoman.host.services import HostServices
from dragoman.policy import parse_rule
from tests.host.kit import OURS, hosted


async def test_the_built_in_agent_works_in_the_process_of_its_host(tmp_path: Path) -> None:
    settings = AgentSettings("scripted", tmp_path / "sessions.db", tmp_path / "rules.json", mode="edit")
    source = InProcessAgent("dragoman", build_agent(settings))
    project = tmp_path / "project"
    project.mkdir()
    services = HostServices(rules=[parse_rule("edit", "allow", "flag", "--allow")])
    async with hosted(source, services=services) as host:
        line = await host.client(OURS)
        session = await line.open(str(project))
        id = line.prompt(session, "write a.txt hello\nsay done")
        seen = []
        while (message := await line.next()).get("id") != id:
            seen.append(str(message))
        assert message["result"]["stopReason"] == "end_turn"
        assert any("'text': 'done'" in each for each in seen)
        assert (project / "a.txt").read_text() == "hello"
