"""Variables in the user's MCP servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.settings import load_settings
from dragoman.settings.variables import filled_server, missing_variables


def test_variables_and_defaults_are_filled_in() -> None:
    server = {
        "command": "${TOOL:-tool}",
        "args": ["--root", "${ROOT}/x"],
        "env": {"A": "${A}", "B": "$B"},
        "oauth": {"clientId": "${A}"},
    }
    assert filled_server(server, {"ROOT": "/r", "A": "1"}) == {
        "command": "tool",
        "args": ["--root", "/r/x"],
        "env": {"A": "1", "B": "$B"},
        "oauth": {"clientId": "${A}"},
    }


def test_what_is_not_set_stays_written_and_is_reported() -> None:
    server = {"url": "https://x/${GONE}", "headers": {"X": "${EMPTY:-}", "Y": "${SET}"}}
    assert filled_server(server, {"SET": "1"})["url"] == "https://x/${GONE}"
    assert filled_server(server, {"SET": "1"})["headers"] == {"X": "", "Y": "1"}
    assert missing_variables(server, {"SET": "1"}) == ["GONE"]


def test_only_the_users_servers_have_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.delenv("GONE", raising=False)
    config, project = tmp_path / "config", tmp_path / "project"
    headers = {"X": "${MY_TOKEN}"}
    config.mkdir()
    (project / ".dragoman").mkdir(parents=True)
    own = {"mcp_servers": {"mine": {"url": "https://x", "headers": headers}, "other": {"command": "${GONE}"}}}
    (config / "settings.json").write_text(json.dumps(own))
    theirs = {"mcp_servers": {"theirs": {"url": "https://y", "headers": headers}}}
    (project / ".dragoman" / "settings.json").write_text(json.dumps(theirs))
    settings = load_settings(config, project)
    assert settings.mcp_servers()["mine"]["headers"] == {"X": "secret"}
    assert settings.proposed_mcp_servers()["theirs"]["headers"] == headers
    from dragoman.settings.acceptances import mcp_fingerprint

    settings.accept("mcp", "theirs", mcp_fingerprint(settings.proposed_mcp_servers()["theirs"]))
    assert settings.mcp_servers()["theirs"]["headers"] == headers
    assert [note for note in settings.notes if "GONE" in note]
    assert not [note for note in settings.notes if "MY_TOKEN" in note]
