"""Recorded UI message streams of the AI SDK, and short ones written here.

The recordings are next to the project, or where DRAGOMAN_STREAMS points to; without them their tests are skipped.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.schema import encode, v1
from dragoman.uistream.chunks import Chunk, decode_chunk
from dragoman.uistream.updates import Projector
from tests.interop.wire_check import violations

NEXT_TO_PROJECT = Path(__file__).resolve().parents[3] / "shared" / "aisdk-streams"
STREAMS = Path(os.environ.get("DRAGOMAN_STREAMS", NEXT_TO_PROJECT))
FILES = sorted(STREAMS.glob("*.sse"))


def lines(path: Path) -> Iterator[str]:
    """The JSON of each event; comments and the end mark are not chunks."""
    for line in path.read_text().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield line.removeprefix("data: ")


def stream(name: str) -> list[Chunk]:
    return [decode_chunk(line) for line in lines(STREAMS / f"aisdk_{name}.sse")]


def project(chunks: list[Chunk], projector: Projector | None = None) -> list[v1.SessionUpdate]:
    projector = projector or Projector()
    return [update for chunk in chunks for update in projector.project(chunk)]


def on_wire(updates: list[v1.SessionUpdate]) -> list[dict[str, Any]]:
    """The updates as a client reads them, each checked against the schema."""
    plain = [json.loads(encode(update)) for update in updates]
    problems = [
        problem
        for update in plain
        for problem in violations("SessionNotification", {"sessionId": "s", "update": update})
    ]
    assert not problems, problems
    return plain
