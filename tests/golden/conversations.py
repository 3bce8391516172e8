"""Recorded conversations as typed cases: each message beside the type it must be read as."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from dragoman.schema import Method, v1
from dragoman.schema.methods import method_tables

HERE: Final = Path(__file__).parent
SHARED: Final = Path(__file__).parents[2].parent / "shared" / "transcripts"
CORPORA: Final = {"transcripts": SHARED, "sample": HERE / "data"}
CORPORA_V2: Final = {"v2-traffic": SHARED.parent / "v2-traffic", "sample": HERE / "data" / "v2"}


class Message(NamedTuple):
    """One part of one message: params, a result or an error object."""

    method: str
    part: Literal["params", "result", "error"]
    kind: Any
    """The type it must be read as; None for a method the table does not have."""
    value: Any
    side: str
    """The side that serves the method."""
    where: str
    """File and line."""


def messages(folder: Path, version: int = 1, pattern: str = "*.jsonl") -> Iterator[Message]:
    """Every message below `folder`, each response joined to its request; ids of the two directions are apart."""
    for path in sorted(folder.glob(pattern)):
        waiting: dict[tuple[str, str], tuple[str, Method | None]] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            record = json.loads(line)
            if isinstance(record.get("msg"), dict):
                yield from _read(record["msg"], record["dir"], waiting, f"{path.name}:{number}", version)


def _read(
    message: dict[str, Any],
    direction: str,
    waiting: dict[tuple[str, str], tuple[str, Method | None]],
    where: str,
    version: int,
) -> Iterator[Message]:
    key = json.dumps(message.get("id"))
    if "method" in message:
        tables = method_tables(version)
        side, table = ("agent", tables.agent) if direction == "c2a" else ("client", tables.client)
        name = message["method"]
        method = table.get(name) or tables.protocol.get(name)
        if "id" in message:
            waiting[direction, key] = (name, method)
        yield Message(name, "params", method and method.params, message.get("params"), side, where)
        return
    asked, side = ("c2a", "agent") if direction == "a2c" else ("a2c", "client")
    name, method = waiting.pop((asked, key), ("", None))
    if method is not None and "result" in message:
        yield Message(name, "result", method.result, message["result"], side, where)
    elif method is not None:
        yield Message(name, "error", v1.Error, message["error"], side, where)


def differences(before: Any, after: Any, path: str = "$") -> Iterator[str]:
    """Paths at which two JSON values differ; numbers compare by value, array positions are left out."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            place = f"{path}.{key}"
            if key in before and key in after:
                yield from differences(before[key], after[key], place)
            else:
                yield place
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield path
