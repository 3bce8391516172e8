"""Subagents with providers' models: two runs in parallel, and requests that a provider's cache can use."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import spawn
from tests.builtin.providers.server import VARIABLES, WIRES, Answer, Asked, ProviderServer, Wire, text_answer, use
from tests.builtin.subagents.test_runs import calls, output_of


def play(asked: Asked) -> Answer:
    """The main agent starts two; each reads a file of its own and answers with what it read."""
    question = asked.question
    if b"You are the subagent explore" in asked.data:
        if not question.results:
            return Answer((use("read", path="one.txt" if "first" in question.prompt else "two.txt"),))
        return text_answer("one.txt says eins" if "eins" in question.results[-1] else "two.txt says zwei")
    if not question.results:
        tasks = (use("task", description=f"{word} file", agent="explore", prompt=word) for word in ("first", "second"))
        return Answer(tuple(tasks))
    return text_answer("Both: ", " and ".join(result.partition("\n")[0] for result in question.results))


def kept(body: dict[str, Any]) -> str:
    """The parts of a request that must not change between the steps of a conversation."""
    names = ("tools", "system", "instructions", "systemInstruction")
    return json.dumps([body.get(name) for name in names])


@pytest.mark.parametrize("wire", [WIRES["anthropic"], WIRES["openai-responses"]], ids=["anthropic", "openai"])
async def test_two_subagents_of_a_providers_model_answer_their_parent(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("eins\n")
    (tmp_path / "two.txt").write_text("zwei\n")
    with ProviderServer(play=play) as server:
        env = {**dict.fromkeys(VARIABLES, ""), **wire.variables(server.url), "DRAGOMAN_HOME": str(tmp_path / "home")}
        async with spawn(sys.executable, "-m", "dragoman", "agent", "--model", wire.model, env=env) as agent:
            session = await agent.new_session(tmp_path)
            response = await session.prompt("Read both files.")
        assert server.failures == []
    assert "one.txt says eins" in session.state.text
    assert "two.txt says zwei" in session.state.text
    assert [output_of(call).partition("\n")[0] for call in calls(session)] == ["one.txt says eins", "two.txt says zwei"]
    of_parent = [asked for asked in server.asked if b"You are the subagent explore" not in asked.data]
    of_children = [asked for asked in server.asked if asked not in of_parent]
    assert (len(of_parent), len(of_children)) == (2, 4)
    assert len({kept(asked.body) for asked in of_parent}) == 1
    assert len({kept(asked.body) for asked in of_children}) == 1
    assert "- explore: Searches and reads" in kept(of_parent[0].body)
    assert {tool.name for tool in of_children[0].question.tools} >= {"read", "grep", "glob"}
    assert not {"edit", "write", "apply_patch", "task", "question"} & {t.name for t in of_children[0].question.tools}
    assert response.meta
    assert response.meta["dragoman"]["usage"]["outputTokens"] > 0
