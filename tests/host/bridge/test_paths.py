"""Paths of two machines in messages: what is turned into what, and what is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.host.bridge.paths import PathMap, read_map
from tests.host.bridge.kit import editor
from tests.host.kit import records
from tests.host.serving.kit import served
from tests.host.test_sessions import Steps

MAP = PathMap([("/home/ada/project", "/srv/project"), ("/home/ada/project/docs", "/docs")])


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        ("/home/ada/project", "/srv/project"),
        ("/home/ada/project/src/a b.py", "/srv/project/src/a b.py"),
        ("/home/ada/project/docs/x", "/docs/x"),
        ("/home/ada/project-evil/x", "/home/ada/project-evil/x"),
        ("/etc/passwd", "/etc/passwd"),
        ("relative", "relative"),
    ],
)
def test_the_longest_folder_that_fits_is_used_both_ways(local: str, remote: str) -> None:
    assert MAP.to_remote(local) == remote
    assert MAP.to_local(remote) == local


def test_requests_of_the_editor_are_turned() -> None:
    new = {"cwd": "/home/ada/project", "additionalDirectories": ["/home/ada/project/docs", "/x"], "mcpServers": []}
    for method in ("session/new", "session/load", "session/resume"):
        turned = MAP.request_to_remote(method, new)
        assert turned == {"cwd": "/srv/project", "additionalDirectories": ["/docs", "/x"], "mcpServers": []}
    blocks = [
        {"type": "text", "text": "/home/ada/project is not a path here"},
        {"type": "resource_link", "name": "a", "uri": "file:///home/ada/project/a%20b.py#L3"},
        {"type": "resource", "resource": {"uri": "file:///home/ada/project/c.py", "text": "x"}},
        {"type": "resource_link", "name": "b", "uri": "https://example.com/home/ada/project"},
    ]
    turned = MAP.request_to_remote("session/prompt", {"sessionId": "s", "prompt": blocks})["prompt"]
    assert turned[0] == blocks[0]
    assert turned[1]["uri"] == "file:///srv/project/a%20b.py#L3"
    assert turned[2]["resource"]["uri"] == "file:///srv/project/c.py"
    assert turned[3] == blocks[3]


def test_messages_of_the_host_are_turned() -> None:
    call: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": "1",
        "rawInput": {"path": "/srv/project/raw"},
        "locations": [{"path": "/srv/project/a.py", "line": 3}],
        "content": [
            {"type": "diff", "path": "/srv/project/a.py", "oldText": "/srv/project", "newText": "x"},
            {"type": "content", "content": {"type": "resource_link", "name": "a", "uri": "file:///srv/project/a.py"}},
            {"type": "terminal", "terminalId": "t"},
        ],
    }
    update = MAP.request_to_local("session/update", {"sessionId": "s", "update": call})["update"]
    assert update["locations"] == [{"path": "/home/ada/project/a.py", "line": 3}]
    assert update["content"][0]["path"] == "/home/ada/project/a.py"
    assert update["content"][0]["oldText"] == "/srv/project", "text is never changed"
    assert update["content"][1]["content"]["uri"] == "file:///home/ada/project/a.py"
    assert update["rawInput"] == call["rawInput"], "it belongs to the agent"
    asked = MAP.request_to_local("session/request_permission", {"sessionId": "s", "toolCall": call, "options": []})
    assert asked["toolCall"]["locations"] == update["locations"]
    for method in ("fs/read_text_file", "fs/write_text_file"):
        assert MAP.request_to_local(method, {"path": "/srv/project/x"}) == {"path": "/home/ada/project/x"}
    assert MAP.request_to_local("terminal/create", {"cwd": "/docs"}) == {"cwd": "/home/ada/project/docs"}
    listed = MAP.result_to_local("session/list", {"sessions": [{"sessionId": "s", "cwd": "/srv/project"}]})
    assert listed["sessions"][0]["cwd"] == "/home/ada/project"


def test_a_map_names_two_absolute_folders() -> None:
    assert read_map("/a=/b") == ("/a", "/b")
    for wrong in ("/a", "a=/b", "/a=b", ""):
        with pytest.raises(ConfigError, match="two folders"):
            read_map(wrong)


async def test_a_folder_the_host_does_not_have_is_named_as_both_machines_know_it(tmp_path: Path) -> None:
    paths = PathMap([("/home/ada/project", str(tmp_path / "gone"))])
    async with served(Steps(), tmp_path) as host, editor(host.endpoint.url, host.secret, paths=paths) as line:
        await line.hello()
        error = await line.error("session/new", cwd="/home/ada/project/x", mcpServers=[])
        assert error["code"] == -32602
        assert "/home/ada/project/x" in error["message"]
        assert str(tmp_path / "gone" / "x") in error["message"]
        assert "--map" in error["message"]


async def test_a_session_works_in_the_mapped_folder(tmp_path: Path) -> None:
    paths = PathMap([("/home/ada/project", str(tmp_path))])
    async with served(Steps(), tmp_path) as host, editor(host.endpoint.url, host.secret, paths=paths) as line:
        await line.hello()
        session = await line.open("/home/ada/project")
        assert [each.cwd for each in await records(host.log)] == [str(tmp_path)]
        listed = await line.result("session/list", cwd="/home/ada/project")
        assert [(each["sessionId"], each["cwd"]) for each in listed["sessions"]] == [(session, "/home/ada/project")]
