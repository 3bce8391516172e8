"""Fixtures: skills as files, of a user with a home of their own and of a project."""

from pathlib import Path

import pytest

from dragoman.schema import v1
from tests.builtin.http_service import Service


def write_skill(place: Path, name: str, description: str = "does it", body: str = "Do it.", more: str = "") -> Path:
    """Write a skill and return its folder."""
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n")
    return folder


def service_at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """An agent whose user has a home folder without anything in it, and a project that ends at its own folder."""
    home = folder / "person"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    service = Service(folder)
    (service.project / ".git").mkdir()
    return service


def answer_of(updates: list[v1.SessionUpdate]) -> str:
    chunks = [each for each in updates if isinstance(each, v1.AgentMessageChunk)]
    return "".join(each.content.text for each in chunks if isinstance(each.content, v1.TextContent))


def outputs_of(updates: list[v1.SessionUpdate]) -> list[str]:
    """The texts of ended tool calls."""
    ended = [each for each in updates if isinstance(each, v1.ToolCallUpdate) and each.status in ("completed", "failed")]
    return [
        content.content.text
        for each in ended
        for content in each.content or ()
        if isinstance(content, v1.Content) and isinstance(content.content, v1.TextContent)
    ]
