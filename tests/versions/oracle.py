"""The JSON schemas as judges of whole frames."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

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
        for fault in _judge(self.version, definition).iter_errors(value):
            kind = value.get("update", {}).get("sessionUpdate", "") if isinstance(value, dict) else ""
            self.faults.append(f"{what} {kind}: {fault.message[:300]}")


class Watched:
    """A translator whose frames are judged on both sides, those it receives and those it sends."""

    def __init__(self, translator: Any, client_version: int, agent_version: int) -> None:
        self._translator = translator
        self.judges: dict[Side, Judge] = {"client": Judge(client_version), "agent": Judge(agent_version)}

    @property
    def losses(self) -> Any:
        return self._translator.losses

    def feed(self, side: Side, frame: Frame) -> list[tuple[Side, Frame]]:
        before = len(self.judges[side].faults)
        self.judges[side].see(side, frame)
        self.given_faults = len(self.judges[side].faults) - before
        del self.judges[side].faults[before:]  # what the peers sent is not the translator's fault
        return self._seen(self._translator.feed(side, frame), is_judged=self.given_faults == 0)

    def closed(self, side: Side) -> list[tuple[Side, Frame]]:
        return self._seen(self._translator.closed(side), is_judged=True)

    def _seen(self, sent: list[tuple[Side, Frame]], *, is_judged: bool) -> list[tuple[Side, Frame]]:
        for side, frame in sent:
            before = len(self.judges[side].faults)
            self.judges[side].see(OTHER[side], frame)
            if not is_judged:
                del self.judges[side].faults[before:]
        return sent
