"""Judges every frame one side of a connection sent, against the stable JSON schema and the rules of the envelope.

Owns the recording and the verdict. Knows nothing of the package's types: the schema file is the oracle, so a mistake
in the generated types cannot hide itself here.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from dragoman.rpc import Observer
from dragoman.trace.reader import open_trace

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "tools" / "schema" / "acp-v1.json").read_text())
KINDS = ("Request", "Response", "Notification")


def _by_method() -> dict[tuple[str, str], str]:
    """(method, kind) -> name of its definition."""
    table = {}
    for name, definition in SCHEMA["$defs"].items():
        kind = next((kind for kind in KINDS if name.endswith(kind)), None)
        if kind and "x-method" in definition:
            table[definition["x-method"], kind] = name
    return table


DEFINITIONS = _by_method()


@cache
def _validator(name: str) -> Draft202012Validator:
    """Unknown members at the root of a type are refused too: they are reserved (rule 329)."""
    return Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{name}", "unevaluatedProperties": False})


def violations(name: str, value: Any) -> list[str]:
    """What the schema forbids in a value. To ask it again about a value of a form that was right would find nothing.

    Its validator takes longer than most of the turns whose frames it judges.
    """
    form = name, json.dumps(_form(value))
    if form in _right:
        return []
    found = [f"{name}{error.json_path[1:]}: {error.message}" for error in _validator(name).iter_errors(value)]
    if not found:
        _right.add(form)
    return found


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    for part in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from _strings(part)


WORDS = frozenset(_strings(SCHEMA))
"""Strings that the schema may ask for. About all others it asks at most whether they are empty."""
_right: set[tuple[str, str]] = set()


def _form(value: Any) -> Any:
    """A value with one string in the place of all that are the same to the schema."""
    if isinstance(value, str):
        return value if not value or value in WORDS else "any other string"
    if isinstance(value, list):
        return [_form(item) for item in value]
    return {name: _form(member) for name, member in value.items()} if isinstance(value, dict) else value


class WireCheck(Observer):
    """Records both directions of one connection; `problems()` is the verdict on what was sent."""

    def __init__(self) -> None:
        self.incoming: list[dict[str, Any]] = []
        self.outgoing: list[dict[str, Any]] = []
        self.losses: list[str] = []
        self._seen = asyncio.Event()

    def received(self, line: bytes) -> None:
        self.incoming.append(json.loads(line))
        self._seen.set()

    def sent(self, line: bytes) -> None:
        self.outgoing.append(json.loads(line))
        self._seen.set()

    def lost(self, method: str, loss: Any) -> None:
        self.losses.append(f"{method} {loss.path}: {loss.why}")

    async def until(self, is_there: Callable[["WireCheck"], bool]) -> None:
        """Returns once the frames so far satisfy `is_there`; the test's own bound ends a vain wait."""
        while not is_there(self):
            self._seen.clear()
            await self._seen.wait()

    def sent_methods(self) -> list[str]:
        return [frame["method"] for frame in self.outgoing if "method" in frame]

    def received_methods(self) -> list[str]:
        return [frame["method"] for frame in self.incoming if "method" in frame]

    def problems(self) -> list[str]:
        found = [f"the decoder lost {loss}" for loss in self.losses]
        asked = {_key(frame["id"]): frame["method"] for frame in self.incoming if _is_request(frame)}
        answers = Counter(_key(frame["id"]) for frame in self.outgoing if "method" not in frame)
        found += [
            f"request {key} ({method}) was answered {answers[key]} times"
            for key, method in asked.items()
            if answers[key] != 1
        ]
        for frame in self.outgoing:
            found += [f"{problem} in {json.dumps(frame)[:300]}" for problem in _judge(frame, asked)]
        return found


def _key(request_id: Any) -> str:
    return json.dumps(request_id)  # 1 and "1" are different ids


def _is_request(frame: dict[str, Any]) -> bool:
    return "method" in frame and "id" in frame


def _judge(frame: dict[str, Any], asked: dict[str, str]) -> Iterable[str]:
    if frame.get("jsonrpc") != "2.0":
        yield "jsonrpc is not 2.0"
    if "method" in frame:
        if not frame["method"].startswith("_"):
            yield from _judge_call(frame)
        return
    if ("result" in frame) == ("error" in frame):
        yield "not exactly one of result and error"
    elif _key(frame["id"]) not in asked:
        yield "an answer nobody asked for"
    elif "error" in frame:
        yield from violations("Error", frame["error"])
    else:
        method = asked[_key(frame["id"])]
        if not method.startswith("_"):
            yield from violations(DEFINITIONS[method, "Response"], frame["result"])


def _judge_call(frame: dict[str, Any]) -> Iterable[str]:
    name = DEFINITIONS.get((frame["method"], "Request" if "id" in frame else "Notification"))
    if name is None:
        yield f"{frame['method']} is no stable method of this kind"
        return
    yield from violations(name, frame.get("params", {}))
    if frame["method"] == "session/update":
        yield from violations("SessionUpdate", frame["params"]["update"])


def read_recording(path: Path) -> WireCheck:
    """The frames an agent process recorded: a direction mark, then the line."""
    check = WireCheck()
    for line in path.read_bytes().splitlines():  # of bytes: at \r and \n only
        (check.sent if line[:1] == b">" else check.received)(line[1:])
    return check


def read_trace(path: Path) -> WireCheck:
    """What the agent said in a recording of `dragoman record`."""
    check = WireCheck()
    for frame in open_trace(path).frames:
        (check.sent if frame.dir == "a2c" else check.received)(frame.data)
    return check
