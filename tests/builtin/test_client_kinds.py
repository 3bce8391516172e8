"""What each kind of client is sent in one rich turn, by the capabilities it announces."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.limits import TurnLimits
from tests.builtin.client_kinds import KINDS, kind_client
from tests.builtin.http_service import Service
from tests.interop.wire_check import DEFINITIONS, violations

TURN = (
    "think hm",
    "say first",
    "todo [x] look; [>] change",
    "read a.txt",
    "edit a.txt content => text",
    "write refused.txt no",
    "read missing.txt",
    "run touch made; echo from the command",
    "busy",
    "say last",
)


def kinds(updates: list[dict[str, Any]]) -> set[str]:
    return {update["sessionUpdate"] for update in updates}


def of_kind(updates: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [update for update in updates if update["sessionUpdate"] == kind]


def calls(updates: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tool calls as a client has them in the end, by title."""
    found: dict[str, dict[str, Any]] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            members = {name: value for name, value in update.items() if name != "sessionUpdate"}
            found.setdefault(update["toolCallId"], {}).update(members)
    return {call["title"]: call for call in found.values()}


def text(updates: list[dict[str, Any]], kind: str = "agent_message_chunk") -> str:
    return "".join(update["content"]["text"] for update in of_kind(updates, kind))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rich_turn_shows_each_kind_of_client_what_it_can_show(tmp_path: Path, kind: str) -> None:
    service, capabilities = Service(tmp_path), KINDS[kind]
    (service.project / "a.txt").write_text("content\n")
    async with kind_client(service, capabilities, refuses="refused.txt") as client:
        updates, answer = await client.play(await client.start(), *TURN)
    assert answer["result"]["stopReason"] == "end_turn"
    form = DEFINITIONS["session/update", "Notification"]
    assert [problem for update in updates for problem in violations(form, {"sessionId": "s", "update": update})] == []
    # Everything every client is shown.
    assert (service.project / "a.txt").read_text() == "text\n"
    assert text(updates) == "firstlast"
    assert [entry["content"] for entry in of_kind(updates, "plan")[-1]["entries"]] == ["look", "change"]
    shown = calls(updates)
    assert {title: call["status"] for title, call in shown.items()} == {
        "Read a.txt": "completed",
        "Edit a.txt": "completed",
        "Write refused.txt": "failed",
        "Read missing.txt": "failed",
        "`touch made; echo from the command`": "completed",
    }
    (diff,) = shown["Edit a.txt"]["content"]
    assert (diff["type"], diff["oldText"], diff["newText"]) == ("diff", "content\n", "text\n")
    # What depends on the client: its files, its terminal, notices.
    assert ("fs/write_text_file" in client.asked) == ("fs" in capabilities)
    has_terminal = capabilities.get("terminal") is True
    assert ("terminal/create" in client.asked) == has_terminal
    ran = shown["`touch made; echo from the command`"]
    assert (ran["content"][0]["type"] == "terminal") == has_terminal
    has_notices = "notices" in capabilities.get("session", {})
    assert ("notice" in kinds(updates)) == has_notices
    reported = str(of_kind(updates, "notice")) if has_notices else text(updates, "agent_thought_chunk")
    assert "the script makes the provider busy" in reported


@pytest.mark.parametrize("kind", KINDS)
async def test_a_question_is_a_form_where_there_are_forms_and_words_elsewhere(tmp_path: Path, kind: str) -> None:
    service, capabilities = Service(tmp_path), KINDS[kind]
    async with kind_client(service, capabilities) as client:
        updates, answer = await client.play(
            await client.start(), "question Which one? | this | that", "say I take {result}"
        )
    assert answer["result"]["stopReason"] == "end_turn"
    has_forms = "elicitation" in capabilities
    assert client.asked == (["elicitation/create"] if has_forms else [])
    if has_forms:
        assert text(updates).startswith("I take")
        assert "this" in text(updates)
    else:
        assert text(updates) == "Which one?\n\n- this\n- that"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failed_server_is_reported_to_every_kind_of_client(tmp_path: Path, kind: str) -> None:
    service, capabilities = Service(tmp_path), KINDS[kind]
    missing = {"name": "gone", "command": "/no/such/program", "args": [], "env": []}
    async with kind_client(service, capabilities) as client:
        session_id = await client.start(mcpServers=[missing])
        updates, _ = await client.play(session_id, "say hello")
    has_notices = "notices" in capabilities.get("session", {})
    wanted = of_kind(updates, "notice" if has_notices else "agent_thought_chunk")
    assert [update for update in wanted if "MCP server gone is not available" in str(update)]
    assert text(updates) == "hello"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_limit_that_is_reached_is_reported_to_every_kind_of_client(tmp_path: Path, kind: str) -> None:
    service, capabilities = Service(tmp_path, limits=TurnLimits(tokens=1)), KINDS[kind]
    (service.project / "a.txt").write_text("content\n")
    async with kind_client(service, capabilities) as client:
        updates, answer = await client.play(await client.start(), "read a.txt", "say never")
    assert answer["result"]["stopReason"] == "max_tokens"
    has_notices = "notices" in capabilities.get("session", {})
    wanted = of_kind(updates, "notice" if has_notices else "agent_thought_chunk")
    assert [update for update in wanted if "the turn's limit of 1 tokens is reached" in str(update)]
    assert text(updates) == ""


@pytest.mark.parametrize("kind", KINDS)
async def test_sessions_that_are_not_stored_are_reported_to_every_kind_of_client(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("a file where the folder should be")
    service, capabilities = Service(tmp_path, store=tmp_path / "file" / "sessions.db"), KINDS[kind]
    async with kind_client(service, capabilities) as client:
        updates, _ = await client.play(await client.start(), "say hello")
    has_notices = "notices" in capabilities.get("session", {})
    wanted = of_kind(updates, "notice" if has_notices else "agent_thought_chunk")
    assert len([update for update in wanted if "Sessions are not stored" in str(update)]) == 1
    assert text(updates) == "hello"
