"""`dragoman sessions`: a session of the local host is one row, with its number, also after the end of the host."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit, local_place, scripted, wait_for

BUILT_IN = ("--", sys.executable, "-m", "dragoman", "agent", "--model", "scripted")


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path, warm_python) as found:
        yield found


def rows(place: HostPlaceKit, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(place.run("list", "--offline", "--json", *words, verb="sessions").out)
    return found


def ended(place: HostPlaceKit, turns: int) -> list[dict[str, Any]]:
    """The list when so many turns are in the ledger and have ended: it is written by a thread of the host."""

    def is_written() -> bool:
        found = [row for row in rows(place) if row["number"] is not None]
        return sum(row["turns"] for row in found) == turns and all(row["stop_reason"] for row in found)

    wait_for(is_written)
    return rows(place)


def end_host(place: HostPlaceKit) -> None:
    os.kill(place.pids()[0], signal.SIGTERM)
    wait_for(lambda: not place.pids())


def test_a_session_of_the_built_in_agent_in_the_host_is_one_row(place: HostPlaceKit) -> None:
    assert place.run("--session", "talk", "say hello", *BUILT_IN).code == 0
    (row,) = ended(place, 1)
    assert row["known_by"] == ["ledger", "agent", "host"]
    assert (row["name"], row["state"], row["number"]) == ("talk", "idle", 1)
    assert (row["first_prompt"], row["turns"]) == ("say hello", 1)
    assert row["created_at"]
    assert row["agent"] == " ".join(BUILT_IN[1:])
    assert row["host_session_id"] != row["session_id"]
    end_host(place)
    (after,) = rows(place)
    same = ("number", "session_id", "host_session_id", "first_prompt", "created_at", "title", "known_by", "name")
    assert [after[name] for name in same] == [row[name] for name in same]
    for word in ("@1", "talk", row["session_id"], row["host_session_id"], row["host_session_id"][:12]):
        done = place.run("show", word, "--json", verb="sessions")
        assert done.code == 0, done.err
        assert "say hello" in done.out
    (found,) = json.loads(place.run("search", "hello", "--json", verb="sessions").out)
    assert found["number"] == 1
    assert "say hello" in place.run("export", "talk", verb="sessions").out
    assert place.pids() == []


def test_two_sessions_of_one_agent_have_their_own_rows(place: HostPlaceKit) -> None:
    for name in ("one", "two"):
        assert scripted(place, name, f"title Called {name}").code == 6  # a title is not an answer
    assert place.run("--session", "one", "say more").code == 0
    found = {row["name"]: row for row in ended(place, 3)}
    assert {name: (row["title"], row["turns"], row["number"]) for name, row in found.items()} == {
        "one": ("Called one", 2, 1),
        "two": ("Called two", 1, 2),
    }
    assert all(row["known_by"] == ["ledger", "host"] and row["agent"] == "scripted" for row in found.values())
    assert found["one"]["scripted"] is True
    assert place.run("close", "@2", verb="sessions").code == 0
    assert {row["number"]: row["state"] for row in rows(place)} == {1: "idle", 2: "closed"}
    end_host(place)
    assert {row["number"]: row["state"] for row in rows(place)} == {1: "idle", 2: "closed"}
    shown = place.run("list", "--offline", verb="sessions").out
    assert "Called two (closed)" in shown
    assert "[one] Called one (idle)" in shown


def test_without_the_ledger_a_session_is_known_by_the_host(place: HostPlaceKit) -> None:
    assert scripted(place, "kept", "hello", "--no-ledger").code == 0
    assert place.run("--session", "kept", "again").code == 0
    assert place.run("--session", "built-in", "--no-ledger", "say hello", *BUILT_IN).code == 0
    known = {row["name"]: (row["known_by"], row["number"]) for row in rows(place)}
    assert known == {"kept": (["host"], None), "built-in": (["agent", "host"], None)}
    refused = place.run("show", "kept", verb="sessions")
    assert refused.code == 2
    assert "dragoman sessions watch" in refused.err
    place.settings(ledger=False)
    assert scripted(place, "by-setting").code == 0
    assert {row["number"] for row in rows(place)} == {None}
    place.settings(ledger=True)
    assert place.run("--session", "by-setting", "now it counts").code == 0
    wait_for(lambda: {row["number"] for row in rows(place)} == {None, 1})
    assert [row["name"] for row in rows(place) if row["number"] == 1] == ["by-setting"]


def test_a_deleted_session_is_gone_from_the_ledger_and_the_host(place: HostPlaceKit) -> None:
    assert scripted(place, "gone").code == 0
    assert scripted(place, "stays").code == 0
    assert place.run("--session", "built-in", "say hello", *BUILT_IN).code == 0
    ended(place, 3)
    for name in ("gone", "built-in"):
        done = place.run("delete", name, verb="sessions")
        assert done.code == 0, done.err
    assert [row["name"] for row in rows(place)] == ["stays"]
    end_host(place)
    assert place.run("delete", "stays", verb="sessions").code == 0
    assert rows(place) == []


def test_what_an_agent_can_do_is_kept_by_its_command_and_version(place: HostPlaceKit) -> None:
    from dragoman import __version__

    assert scripted(place).code == 0
    (file,) = (place.home / "dragoman").rglob("agent-capabilities.json")
    (key,) = map(json.loads, json.loads(file.read_text()))
    assert key[0] == "scripted"
    assert len(key) > 2, "the command is in it"
    assert key[-1] == __version__
