"""A session in a folder that does not exist is refused with the reason, by everything that works on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.exec_kit import PROGRAM, SECONDS, place

if TYPE_CHECKING:
    from tests.cli.exec_kit import Place

__all__ = ["place"]

BUILT_IN = (*PROGRAM, "agent", "--model", "scripted")
AGENTS = {
    "built-in": BUILT_IN,
    "adapter": (*PROGRAM, "wrap", "--no-sessions", "--", sys.executable, "-c", "print('hello')"),
    "guarded": (*PROGRAM, "guard", "--", *BUILT_IN),
}


def new_sessions(place: Place, command: tuple[str, ...], folders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask an agent for sessions in these folders; return its answers."""
    asked = [{"method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}]
    asked += [{"method": "session/new", "params": {"mcpServers": [], **members}} for members in folders]
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **message}) for number, message in enumerate(asked)]
    with subprocess.Popen(
        command,
        cwd=place.project,
        env=place.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers: dict[int, dict[str, Any]] = {}
        for number, line in enumerate(lines):  # one after the other: an agent may answer in any order
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            while number not in answers:
                answer = json.loads(process.stdout.readline())
                if "method" not in answer:
                    answers[answer["id"]] = answer
        process.stdin.close()
        process.wait(SECONDS)
    return [answers[number] for number in range(1, len(asked))]


@pytest.mark.parametrize("name", AGENTS)
def test_a_new_session_needs_folders_that_exist(name: str, place: Place) -> None:
    (place.project / "file").write_text("")
    here, missing, file = (str(place.project / part) for part in ("", "missing", "file"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cwd": missing}, f"{missing} does not exist"),
        ({"cwd": file}, f"{file} is not a folder"),
        ({"cwd": "relative"}, "absolute"),
        ({"cwd": here, "additionalDirectories": [missing]}, f"{missing} does not exist"),
    ]
    *refused, opened = new_sessions(place, AGENTS[name], [*(members for members, _ in wrong), {"cwd": here}])
    for answer, (_, why) in zip(refused, wrong, strict=True):
        assert answer["error"]["code"] == -32602
        assert why in answer["error"]["message"]
    assert opened["result"]["sessionId"]
