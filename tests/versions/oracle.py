"""The JSON schemas as judges of whole frames."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from dragoman.versions import Lost, Translator
from dragoman.versions.frames import OTHER, Frame, Side
from tools.schema.files import HERE
from tools.schema.model import Method
from tools.schema.reader import read_schema


@cache
def _definitions(version: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"acp-v{version}-unstable.json").read_text())["$defs"]
    return found


@cache
def _methods(version: int) -> dict[tuple[str, str], Method]:
    schema = read_schema(HERE / f"acp-v{version}-unstable.json", version)
    return {(method.side, method.name): method for method in schema.methods}


@cache
def _judge(version: int, definition: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": _definitions(version)})


def definition_of(version: int, side: Side, method: str, part: str) -> str | None:
    """The definition of a method's params or result, as `side` serves it; None for one the schema does not have."""
    methods = _methods(version)
    found = methods.get((side, method)) or methods.get(("protocol", method))
    return None if found is None else (found.params if part == "params" else found.result)


class Judge:
    """Checks the frames of one connection against the schema of its version; each side's requests are remembered."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.checked = 0
        self.faults: list[str] = []
        self._asked: dict[tuple[Side, str], str] = {}

    def see(self, sender: Side, frame: Frame) -> None:
        """Take a frame that `sender` put on the connection."""
        if "method" in frame:
            method = frame["method"]
            if "id" in frame:
                self._asked[sender, json.dumps(frame["id"])] = method
            self._check(definition_of(self.version, OTHER[sender], method, "params"), frame.get("params", {}), method)
            return
        asked = self._asked.pop((OTHER[sender], json.dumps(frame.get("id"))), None)
        if "error" in frame:
            self._check("Error", frame["error"], "error")
        elif asked is not None:
            result = {} if frame["result"] is None else frame["result"]
            self._check(definition_of(self.version, sender, asked, "result"), result, f"{asked} result")

    def _check(self, definition: str | None, value: Any, what: str) -> None:
        if definition is None:
            return
        self.checked += 1
        key = (self.version, definition, _outline(value))
        if key in _VALID:
            return
        before = len(self.faults)
        for fault in _judge(self.version, definition).iter_errors(value):
            kind = value.get("update", {}).get("sessionUpdate", "") if isinstance(value, dict) else ""
            self.faults.append(f"{what} {kind}: {fault.message[:300]}")
        if len(self.faults) == before:
            _VALID.add(key)


# Values of the same outline are equally valid: names and types, and the words that the schema lists.
_VALID: set[Any] = set()
_LISTED = """
    type sessionUpdate status kind state stopReason operation outcome category priority severity mode action format
    fileType audience
"""
_WORDS = frozenset(_LISTED.split())


def _outline(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        if name == "_meta":
            return "object"
        return tuple(sorted((key, repr(_outline(each, key))) for key, each in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({repr(_outline(each, name)) for each in value}))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr((type(value).__name__, value < 0, value == 0, 0 < value <= 1))
    return repr(value) if name in _WORDS else type(value).__name__


class Watched:
    """A translator whose frames are judged, those it receives and those it sends.

    A frame that a peer sent is not the translator's fault, nor what it makes of an invalid one. A version of None is
    not judged.
    """

    def __init__(self, translator: Translator, client_version: int | None, agent_version: int | None) -> None:
        self._translator = translator
        self.wait_seconds: float | None = None
        versions: dict[Side, int | None] = {"client": client_version, "agent": agent_version}
        self.judges = {side: Judge(version) for side, version in versions.items() if version is not None}

    @property
    def losses(self) -> tuple[Lost, ...]:
        return self._translator.losses

    @property
    def faults(self) -> list[str]:
        return [fault for judge in self.judges.values() for fault in judge.faults]

    def feed(self, side: Side, frame: Frame) -> list[tuple[Side, Frame]]:
        is_valid = True
        if side in self.judges:
            before = len(self.judges[side].faults)
            self.judges[side].see(side, frame)
            is_valid = len(self.judges[side].faults) == before
            del self.judges[side].faults[before:]
        return self._seen(self._translator.feed(side, frame), is_judged=is_valid)

    def closed(self, side: Side) -> list[tuple[Side, Frame]]:
        return self._seen(self._translator.closed(side), is_judged=True)

    def elapsed(self) -> list[tuple[Side, Frame]]:
        return self._seen(self._translator.elapsed(), is_judged=True)

    def _seen(self, sent: list[tuple[Side, Frame]], *, is_judged: bool) -> list[tuple[Side, Frame]]:
        for side, frame in sent:
            if side not in self.judges:
                continue
            before = len(self.judges[side].faults)
            self.judges[side].see(OTHER[side], frame)
            if not is_judged:
                del self.judges[side].faults[before:]
        return sent
