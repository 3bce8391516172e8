"""What `version` prints, for people and for programs."""

from __future__ import annotations

import json
import platform
import re
from typing import Any

import msgspec
import pytest

from dragoman import __version__, schema
from dragoman.cli import exits
from dragoman.cli.main import main

Captured = pytest.CaptureFixture[str]


def document(capsys: Captured, *words: str) -> Any:
    assert main([*words, "--json"]) == exits.OK
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_version_names_everything_a_bug_report_needs(capsys: Captured) -> None:
    versions = document(capsys, "version")
    assert versions == {
        "dragoman": __version__,
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "protocol": 1,
        "schema": schema.SCHEMA_VERSION,
    }
    assert main(["version"]) == exits.OK
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown == {name: str(version) for name, version in versions.items()}


def test_methods_lists_the_whole_table(capsys: Captured) -> None:
    listed = document(capsys, "version", "--methods")
    tables = (schema.AGENT_METHODS, schema.CLIENT_METHODS, schema.PROTOCOL_METHODS)
    assert [entry["method"] for entry in listed] == [name for table in tables for name in table]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "session/load",
            {
                "side": "agent",
                "kind": "request",
                "stability": "stable",
                "gate": "loadSession",
                "params": "LoadSessionRequest",
                "result": "LoadSessionResponse",
                "session_scoped": True,
            },
        ),
        (
            "session/update",
            {
                "side": "client",
                "kind": "notification",
                "stability": "stable",
                "gate": None,
                "params": "SessionNotification",
                "result": None,
                "session_scoped": True,
            },
        ),
        ("session/fork", {"side": "agent", "stability": "unstable", "gate": "sessionCapabilities.fork"}),
        ("fs/read_text_file", {"side": "client", "gate": "fs.readTextFile"}),
        ("$/cancel_request", {"side": "protocol", "kind": "notification"}),
    ],
)
def test_method_has_its_side_kind_stability_and_gate(
    method: str, expected: dict[str, object], capsys: Captured
) -> None:
    [entry] = [entry for entry in document(capsys, "version", "--methods") if entry["method"] == method]
    assert {key: entry[key] for key in expected} == expected


@pytest.mark.parametrize("side", ["agent", "client", "protocol"])
def test_methods_of_one_side_only(side: str, capsys: Captured) -> None:
    listed = document(capsys, "version", "--methods", "--side", side)
    assert {entry["side"] for entry in listed} == {side}


def test_methods_are_a_table_for_people(capsys: Captured) -> None:
    assert main(["version", "--methods"]) == exits.OK
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split("  ")[0] == "METHOD"
    [row] = [row for row in rows if row.startswith("session/new ")]
    assert row.split() == ["session/new", "agent", "request", "stable", "-"]


def test_the_former_verb_still_lists_methods_and_is_not_offered(capsys: Captured) -> None:
    assert document(capsys, "methods", "--side", "client") == document(
        capsys, "version", "--methods", "--side", "client"
    )
    assert main(["--help"]) == exits.OK
    assert not re.search(r"^  methods\b", capsys.readouterr().out, flags=re.MULTILINE)


def test_a_side_without_methods_is_refused_with_what_to_do(capsys: Captured) -> None:
    assert main(["version", "--side", "agent"]) == exits.USAGE
    assert capsys.readouterr().err == (
        "dragoman: error: --side chooses methods\nhint: add --methods, or see dragoman version --help\n"
    )
