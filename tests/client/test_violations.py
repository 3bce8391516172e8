"""What an agent did although a rule denies it, judged from a completed tool call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.client.reading import Announcements, read_call
from dragoman.client.violations import Unjudged, Violation, unjudged_in, violation_in
from dragoman.policy import Rule
from dragoman.policy.decide import Decision
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.workspace.folders import SessionFolders
from tests.client.permission_kit import allow, deny

DENIED = (deny("execute:git push *"), deny("edit:secret/**"))


class Seen:
    id = "s"

    def __init__(self, **call: Any) -> None:
        self.state = SessionState()
        self.state.begin_turn(())
        fold(self.state, v1.ToolCall("c", **{"title": "Do it", "status": "completed", **call}))


def look(folder: Path, *decisions: Decision, rules: tuple[Rule, ...] = DENIED, **call: Any) -> Violation | None:
    session = Seen(**call)
    folders = SessionFolders(str(folder))
    evidence = read_call(session.state.tool_calls["c"], session, folders, agent="a")
    return violation_in(evidence, rules, decisions, folders)


def refused(**members: Any) -> Decision:
    return Decision(action="deny", decided_by="x", **members)


def test_a_command_that_a_rule_denies_is_a_violation(tmp_path: Path) -> None:
    found = look(tmp_path, kind="execute", raw_input={"command": "cd . && git push"})
    assert found is not None
    assert (found.title, found.kind, found.rule, found.tool_call_id) == ("Do it", "execute", "execute:git push *", "c")
    assert found.command == "cd . && git push"
    assert found.decided_by == "rule execute:git push * (rules.json)"


def test_a_change_that_a_call_of_any_kind_shows_is_a_violation(tmp_path: Path) -> None:
    diff = v1.Diff(str(tmp_path / "secret/key"), "new", old_text="old")
    found = look(tmp_path, kind="read", content=[diff])
    assert found is not None
    assert (found.kind, found.paths) == ("edit", (f"{tmp_path}/secret/key",))
    same = v1.Diff(str(tmp_path / "a"), "old", old_text="old")
    assert look(tmp_path, kind="read", content=[same], rules=(deny("edit:secret/**"),)) is None


def test_a_change_behind_a_link_is_a_violation(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to("secret/key")
    assert look(tmp_path, kind="edit", locations=[v1.ToolCallLocation(f"{tmp_path}/link")]) is not None


@pytest.mark.parametrize("rules", [(), (allow("edit"),)])
def test_only_a_deny_counts(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    assert look(tmp_path, rules=rules, kind="execute", raw_input={"command": "git push"}) is None


def test_what_was_refused_was_not_done(tmp_path: Path) -> None:
    call: Any = {"kind": "execute", "raw_input": {"command": "git push"}}
    assert look(tmp_path, refused(tool_call_id="c"), **call) is None
    assert look(tmp_path, refused(kind="execute", command="git push"), **call) is None
    assert look(tmp_path, refused(tool_call_id="d"), **call) is not None
    assert look(tmp_path, refused(kind="execute", command="git push --force"), **call) is not None
    path = f"{tmp_path}/secret/key"
    call = {"kind": "edit", "locations": [v1.ToolCallLocation(path)]}
    assert look(tmp_path, refused(kind="edit", paths=(path,)), **call) is None
    assert look(tmp_path, refused(kind="read", paths=(path,)), **call) is not None


# What cannot be judged


def text(words: str) -> list[v1.ToolCallContent]:
    return [v1.Content(v1.TextContent(words))]


def judged(
    folder: Path, *updates: dict[str, Any], decisions: tuple[Decision, ...] = (), rules: tuple[Rule, ...] = DENIED
) -> Violation | Unjudged | None:
    """The verdict about a call that was announced, changed by updates, and completed with the last one."""
    session, announcements = Seen(status="in_progress", **updates[0]), Announcements()
    announcements.note(v1.ToolCall("c", **{"title": "Do it", **updates[0]}))
    for members in (*updates[1:], {"status": "completed"}):
        update = v1.ToolCallUpdate("c", **members)
        announcements.note(update)
        fold(session.state, update)
    call = session.state.tool_calls["c"]
    folders = SessionFolders(str(folder))
    evidence = read_call(call, session, folders, agent="a", announced=announcements.of(call))
    refused = [decision for decision in decisions if not decision.is_allowed]
    return violation_in(evidence, rules, refused, folders) or unjudged_in(evidence, rules, decisions)


def test_what_was_decided_about_is_not_unjudged(tmp_path: Path) -> None:
    call = {"kind": "execute"}
    assert isinstance(judged(tmp_path, call), Unjudged)
    allowed = Decision(action="allow", decided_by="person", tool_call_id="c")
    assert judged(tmp_path, call, decisions=(allowed,)) is None
    assert judged(tmp_path, call, decisions=(refused(tool_call_id="c"),)) is None
    assert judged(tmp_path, call, decisions=(refused(tool_call_id="d"),)) is not None


@pytest.mark.parametrize("kind", ["read", "search", "edit", "fetch", "think"])
def test_a_call_of_another_kind_that_names_nothing_is_not_taken_for_a_command(tmp_path: Path, kind: Any) -> None:
    assert judged(tmp_path, {"kind": kind}, rules=(deny("execute:git push *"),)) is None


def test_a_search_that_names_no_file_may_have_read_a_denied_one(tmp_path: Path) -> None:
    assert isinstance(judged(tmp_path, {"kind": "search"}, rules=(deny("search:secret/**"),)), Unjudged)
    assert isinstance(judged(tmp_path, {"kind": "edit"}), Unjudged)


@pytest.mark.parametrize("kind", ["execute", "other"])
def test_a_command_that_the_output_replaces_is_kept(tmp_path: Path, kind: Any) -> None:
    output = {"content": text("$ git push")}
    assert judged(tmp_path, {"kind": kind, "content": text("$ ls")}, output) is None
    found = judged(tmp_path, {"kind": kind, "content": text("$ git push\n")}, {"content": text("done")})
    assert isinstance(found, Violation)
    assert found.command == "git push"
    described = {"kind": kind, "raw_input": {"description": "x"}, "content": text("$ git push")}
    assert isinstance(judged(tmp_path, described, {"content": text("done")}), Violation)
    assert isinstance(judged(tmp_path, {"kind": kind, "content": text("$ echo 'cut…")}), Unjudged)


def test_arguments_that_grow_are_read_whole_and_output_is_not(tmp_path: Path) -> None:
    """The form of Kimi."""
    growing = [{"content": text(part)} for part in ('{"comm', '{"command": "git', '{"command": "git push"}')]
    found = judged(tmp_path, {"kind": "other", **growing[0]}, *growing[1:], {"content": text('{"command": "ls"}')})
    assert isinstance(found, Violation)
    assert isinstance(judged(tmp_path, {"kind": "other", **growing[0]}, growing[1]), Unjudged)


def test_an_unreadable_line_is_unjudged(tmp_path: Path) -> None:
    found = judged(tmp_path, {"kind": "execute", "raw_input": {"command": 'eval "$X"'}})
    assert isinstance(found, Unjudged)
    assert found.rule == "edit:secret/**" or found.rule == "execute:git push *"
