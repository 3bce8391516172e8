"""Values that the schema lists: a misspelt one is refused before it is sent, one of the author's own has a way in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from dragoman import Agent, Turn, extension
from dragoman.agent import values
from dragoman.errors import LocalProtocolError
from dragoman.schema import ExtensionValue, v1
from tests.agent.fixtures import EVERYTHING, connected
from tests.project.sources import ROOT

HERE = Path(__file__).parent


async def sent_by(work: Callable[[Turn], Awaitable[object]]) -> tuple[list[dict[str, Any]], str]:
    """The updates of a turn in which `work` runs, and the sentence it was refused with."""
    agent = Agent("test")
    refused: list[str] = []

    @agent.prompt
    async def reply(turn: Turn) -> None:
        try:
            await work(turn)
        except LocalProtocolError as error:
            refused.append(str(error))

    async with connected(agent, capabilities=EVERYTHING) as line:
        updates, answer = await line.turn(await line.open())
    assert answer["result"] == {"stopReason": "end_turn"}
    return updates, "".join(refused)


async def use_tool(turn: Turn, kind: Any) -> None:
    async with turn.tool("t", kind=kind):
        pass


async def change_tool(turn: Turn, **changes: Any) -> None:
    async with turn.tool("t") as call:
        await call.update(**changes)


def option(kind: str) -> v1.PermissionOption:
    return v1.PermissionOption("a", "A", kind)


WRONG: dict[str, tuple[Callable[[Turn], Awaitable[object]], str]] = {
    "kind": (lambda turn: use_tool(turn, "editt"), "the kind of a tool call cannot be 'editt'; did you mean 'edit'?"),
    "plan status": (lambda turn: turn.plan([("a", "doing")]), "the status of a plan entry cannot be 'doing'"),  # type: ignore[list-item]  # the mistake
    "plan priority": (lambda turn: turn.plan([v1.PlanEntry("a", "urgent", "pending")]), "the priority of a plan entry"),
    "kind of an update": (lambda turn: change_tool(turn, kind="reed"), "did you mean 'read'?"),
    "status": (lambda turn: change_tool(turn, status="cancelled"), "the status of a tool call cannot be 'cancelled'"),
    "number": (lambda turn: use_tool(turn, 7), "cannot be 7"),
    "built by hand": (lambda turn: turn.update(v1.ToolCall("i", "t", kind="x")), "the kind of a tool call cannot be"),
    "underscore alone": (lambda turn: use_tool(turn, "_mine"), 'extension("_name")'),
    "permission option": (lambda turn: turn.ask("t", [option("allow")]), "the kind of a permission option"),
    "severity": (lambda turn: turn.notice("warn", "t"), "the severity of a notice cannot be 'warn'"),  # type: ignore[arg-type]  # the mistake
    "audience": (
        lambda turn: turn.say(v1.TextContent("t", annotations=v1.Annotations(audience=["human"]))),
        "the audience of a content block cannot be 'human'",
    ),
    "format of a field": (
        lambda turn: turn.elicit("m", v1.ElicitationSchema(properties={"f": v1.StringPropertySchema(format="mail")})),
        "the format of the field 'f' cannot be 'mail'",
    ),
}


@pytest.mark.rule(240, 241, 254)
@pytest.mark.parametrize(("work", "why"), WRONG.values(), ids=WRONG.keys())
async def test_a_value_that_the_schema_does_not_name_is_refused_and_not_sent(
    work: Callable[[Turn], Awaitable[object]], why: str
) -> None:
    updates, refused = await sent_by(work)
    assert why in refused
    for word in ("editt", "doing", "urgent", "reed", "cancelled", "warn", "human", "mail", "_mine"):
        assert word not in str(updates)


async def test_an_extension_is_sent_where_it_is_marked_as_one() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("t", kind=extension("_mine"), id="1"):
            pass
        await turn.plan([("a", extension("_paused"))])
        assert await turn.notice(extension("_gentle"), "t")

    updates, refused = await sent_by(work)
    assert refused == ""
    tool, _, _, plan, notice = updates
    assert (tool["kind"], plan["entries"][0]["status"], notice["severity"]) == ("_mine", "_paused", "_gentle")


async def test_an_update_of_another_agent_is_relayed_as_it_came() -> None:
    async def work(turn: Turn) -> None:
        await turn.update(v1.ToolCall("i", "t", kind="later"), relayed=True)
        await turn.update(v1.Plan([v1.PlanEntry("a", "urgent", "doing")]), relayed=True)

    updates, refused = await sent_by(work)
    assert refused == ""
    assert [updates[0]["kind"], updates[1]["entries"][0]["status"]] == ["later", "doing"]


async def test_a_relayed_update_keeps_the_other_checks() -> None:
    _, refused = await sent_by(
        lambda turn: turn.update(v1.ToolCall("i", "t", locations=[v1.ToolCallLocation("a.py")]), relayed=True)
    )
    assert "must be absolute" in refused


@pytest.mark.parametrize("text", ["mine", "", "_"])
def test_an_extension_begins_with_an_underscore(text: str) -> None:
    with pytest.raises(ValueError, match="begins with an underscore"):
        extension(text)


@pytest.mark.parametrize(
    ("alias", "enum"),
    [
        (values.ToolKindValue, "ToolKind"),
        (values.ToolStatusValue, "ToolCallStatus"),
        (values.PlanStatusValue, "PlanEntryStatus"),
        (values.SeverityValue, "NoticeSeverity"),
    ],
)
def test_the_types_for_authors_name_what_the_schema_names(alias: Any, enum: str) -> None:
    literal, other = get_args(alias)
    assert set(get_args(literal)) == v1.KNOWN_VALUES[enum]
    assert other is ExtensionValue


@pytest.mark.soak  # make types, a part of every make test, checks this file with all others
def test_a_type_checker_finds_misspelt_values() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", str(HERE / "typing_cases.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout
