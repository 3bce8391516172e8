"""Acceptances on disk, and the fingerprint of what was accepted."""

from __future__ import annotations

import json
from pathlib import Path

from dragoman.settings.acceptances import Acceptances, fingerprint


def test_different_commands_have_different_fingerprints() -> None:
    """An argument, a variable or an address cannot be written so that it passes for another one."""
    prints = [
        fingerprint(("a", "b")),
        fingerprint(("a b",)),
        fingerprint(("ab",)),
        fingerprint(("a",), {"b": ""}),
        fingerprint(("a",), {"": "b"}),
        fingerprint((), {"a": "b"}),
        fingerprint(url="a"),
        fingerprint(headers={"a": "b"}),
        fingerprint(('a","b',)),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(("a",), {"x": "1", "y": "2"}) == fingerprint(("a",), {"y": "2", "x": "1"})


def test_acceptance_can_be_withdrawn_and_the_file_is_readable(tmp_path: Path) -> None:
    accepted, project = Acceptances(tmp_path), tmp_path / "project"
    accepted.add(project, "agent", "helper", "00")
    accepted.add(project, "agent", "helper", "11")
    accepted.add(project, "mcp", "helper", "22")
    kept = json.loads(accepted.path.read_text())["accepted"]
    assert [(entry["kind"], entry["name"], entry["sha256"]) for entry in kept] == [
        ("agent", "helper", "11"),
        ("mcp", "helper", "22"),
    ]
    assert accepted.path.stat().st_mode & 0o777 == 0o600
    assert accepted.remove(project, "agent", "helper")
    assert not accepted.remove(project, "agent", "helper")
    assert Acceptances(tmp_path).has(project, "mcp", "helper", "22")
