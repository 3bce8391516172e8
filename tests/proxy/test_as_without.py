"""Both sides see through the guard what they would see without it, apart from what the guard decides.

Each exchange is played twice: on a wire that passes every line, and through a guard whose rules allow files and
commands, so that the editor does them. What is left is compared line by line. Ids are those that the receiver saw: the
guard hands requests to the editor under ids of its own. What a permission request shows is what the guard read of it:
see `test_shown_requests.py`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.schema import AGENT_METHODS, CLIENT_METHODS
from tests.proxy.kit import ALL, OPTIONS, Guarded, guarded, selected, without_words

SECONDS = 60.0  # for each step
ALLOWED = ("read", "edit", "execute")
CALL = {"toolCallId": "c", "kind": "fetch", "title": "Fetch", "odd": [1.50]}  # no rule decides this
PERMISSION = {"toolCall": CALL, "options": OPTIONS, "_meta": {"k": [1e3]}}
ERROR = {"code": -32042, "message": "no ☃", "data": {"why": ["x", None, 1.0]}}
IDS: tuple[Any, ...] = (0, 1, -7, 2**53 + 1, "", "1", "a/b", "é")


class Step(NamedTuple):
    """What one side does: it sends a frame, or answers the request number `answers` that it received."""

    side: str
    frame: dict[str, Any]
    answers: int | None = None


def send(side: str, method: str, params: Any = None, request_id: Any = None) -> Step:
    frame = {"method": method} if params is None else {"method": method, "params": params}
    return Step(side, frame if request_id is None else {"id": request_id, **frame})


def answer(side: str, number: int, **body: Any) -> Step:
    return Step(side, body, number)


def withdraw(side: str, request_id: Any) -> Step:
    return send(side, "$/cancel_request", {"requestId": request_id})


class Side:
    """What one side received, with the number of a request in the place of its id."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.requests: list[Any] = []  # their ids
        self.open: dict[Any, int] = {}

    def receive(self, line: bytes) -> None:
        frame = json.loads(line)
        if "method" in frame and "id" in frame:
            self.open[frame["id"]] = len(self.requests)
            self.requests.append(frame["id"])
            frame["id"] = f"request {len(self.requests)}"
        elif frame.get("method") == "$/cancel_request":
            named = frame["params"]["requestId"]
            if named not in self.open:
                return  # every receiver ignores it, whatever the id
            frame["params"]["requestId"] = f"request {self.open[named] + 1}"
        self.seen.append(json.dumps(without_words(frame), sort_keys=True))

    def answer(self, number: int) -> Any:
        """The id of a request, which is answered with this."""
        self.open.pop(self.requests[number], None)
        return self.requests[number]


class Sides:
    """Both sides of one wire, and how each sends."""

    def __init__(self, send_on: dict[str, Callable[[bytes], None]]) -> None:
        self.of = {"agent": Side(), "editor": Side()}
        self.send_on = send_on

    def do(self, step: Step) -> None:
        frame = step.frame
        if step.answers is not None:
            frame = {"id": self.of[step.side].answer(step.answers), **frame}
        self.send_on[step.side](json.dumps({"jsonrpc": "2.0", **frame}).encode())

    def seen(self) -> dict[str, list[str]]:
        return {name: side.seen for name, side in self.of.items()}


def play_without(steps: Sequence[Step]) -> tuple[dict[str, list[str]], list[dict[str, int]]]:
    """What both sides see without a guard, and how much after each step."""
    sides = Sides({})
    sides.send_on = {"agent": sides.of["editor"].receive, "editor": sides.of["agent"].receive}
    counts = []
    for step in steps:
        sides.do(step)
        counts.append({name: len(side.seen) for name, side in sides.of.items()})
    return sides.seen(), counts


async def play_guarded(
    guard: Guarded, steps: Sequence[Step], counts: Sequence[dict[str, int]], waits: Sequence[bool]
) -> dict[str, list[str]]:
    """What both sides see through the guard. After a step that `waits`, everything it led to has arrived."""
    sides = Sides({"agent": guard.exchange.from_agent, "editor": guard.exchange.from_editor})

    def collect() -> None:
        for name, lines in (("agent", guard.agent), ("editor", guard.editor)):
            while lines:
                sides.of[name].receive(lines.pop(0))

    async def arrived(is_enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            collect()
            while not is_enough():
                await guard.something_sent()
                collect()

    for step, count, is_waited_for in zip(steps, counts, waits, strict=True):
        if step.answers is not None:
            number = step.answers
            await arrived(lambda side=sides.of[step.side], number=number: len(side.requests) > number)  # type: ignore[misc]
        sides.do(step)
        if is_waited_for:
            await arrived(lambda count=count: all(len(sides.of[name].seen) >= count[name] for name in count))  # type: ignore[misc]
    await arrived(lambda: all(len(sides.of[name].seen) >= counts[-1][name] for name in counts[-1]))
    for _ in range(20):  # nothing follows
        await asyncio.sleep(0)
    collect()
    return sides.seen()


async def compare(folder: Path, steps: Sequence[Step], waits: Sequence[bool] | None = None) -> None:
    expected, counts = play_without(steps)
    async with guarded(folder, allow=ALLOWED) as guard:
        await guard.open(ALL)
        project = str(guard.folder)
        placed: list[Step] = json.loads(json.dumps(steps).replace("PROJECT", project))
        found = await play_guarded(guard, [Step(*step) for step in placed], counts, waits or [True] * len(steps))
    expected = json.loads(json.dumps(expected).replace("PROJECT", project))
    if waits is None:
        assert found == expected
    else:  # an answer may overtake what the same side sent before it
        assert {name: sorted(seen) for name, seen in found.items()} == {
            name: sorted(seen) for name, seen in expected.items()
        }


# Every method

# What the guard decides about or changes, with its reason; everything else passes.
JUDGED = {
    "initialize": "files and terminals are offered",
    "session/new": "the folder of the session is checked",
    "session/load": "the folder of the session is checked",
    "session/resume": "the folder of the session is checked",
    "session/fork": "the folder of the session is checked",
    "session/prompt": "only in an open session",
}
PARAMS: dict[str, dict[str, Any]] = {
    "session/request_permission": PERMISSION,
    "fs/read_text_file": {"path": "PROJECT/a.txt", "line": 2, "_meta": {"k": 1}},
    "fs/write_text_file": {"path": "PROJECT/a.txt", "content": "é\n", "_meta": {"k": 1}},
    "terminal/create": {"command": "echo", "args": ["a"], "_meta": {"k": 1}},
}
RESULTS: dict[str, Any] = {
    "session/request_permission": {**selected("yes"), "_meta": {"m": 1}},
    "fs/read_text_file": {"content": "x", "_meta": {"m": 1}},
    "fs/write_text_file": {"_meta": {"m": 1}},
    "terminal/create": {"terminalId": "t9", "_meta": {"m": 1}},
}
ABOUT = {name for name in CLIENT_METHODS if name.startswith("terminal/") and name != "terminal/create"}


def params_of(method: str) -> dict[str, Any]:
    if method in ABOUT:
        return {"sessionId": "s", "terminalId": "t", "_meta": {"k": 1.5}}
    return {"sessionId": "s", **PARAMS.get(method, {"odd": [1.5, None]})}


def result_of(method: str) -> Any:
    return RESULTS.get(method, {"odd": [1.5], "_meta": {}})


REQUESTS = [
    *((name, "agent") for name, kind in CLIENT_METHODS.items() if kind.result is not None),
    *(("_vendor/ask", "agent"), ("future/ask", "agent"), ("_vendor/ask", "editor"), ("future/ask", "editor")),
    *((name, "editor") for name, kind in AGENT_METHODS.items() if kind.result is not None and name not in JUDGED),
]
OTHER = {"agent": "editor", "editor": "agent"}
BARE_ERROR = {"code": 7, "message": ""}
CANCELLED = {"code": -32800, "message": "Request cancelled", "data": {"k": 1}}


class Script:
    """The steps of a long exchange. The terminal of the editor, which some requests are about, is there already."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.received = {"agent": 0, "editor": 0}
        make = {"sessionId": "s", "command": "echo", "args": ["a"]}
        self.answer(self.ask("agent", "terminal/create", make, "make"), result={"terminalId": "t"})

    def ask(self, side: str, method: str, params: Any, request_id: Any) -> tuple[str, int]:
        """Ask; return what `answer` needs."""
        self.steps.append(send(side, method, params, request_id))
        self.received[OTHER[side]] += 1
        return OTHER[side], self.received[OTHER[side]] - 1

    def answer(self, asked: tuple[str, int], **body: Any) -> None:
        self.steps.append(answer(*asked, **body))


@pytest.mark.parametrize("error", [None, ERROR, BARE_ERROR], ids=["result", "error", "bare error"])
async def test_requests_and_their_answers(error: dict[str, Any] | None, tmp_path: Path) -> None:
    script = Script()
    for method, side in REQUESTS:
        for request_id in IDS:
            asked = script.ask(side, method, params_of(method), request_id)
            script.answer(asked, **({"error": error} if error else {"result": result_of(method)}))
    await compare(tmp_path, script.steps)


async def test_notifications(tmp_path: Path) -> None:
    steps = []
    for side, methods in (("agent", CLIENT_METHODS), ("editor", AGENT_METHODS)):
        for method in (name for name, kind in methods.items() if kind.result is None):
            steps += [send(side, method, {"sessionId": "none", "odd": 1}), send(side, method)]
    assert len(steps) > 6
    await compare(tmp_path, steps)


# Withdrawals


@pytest.mark.parametrize("is_in_turn", [True, False], ids=["in turn", "at once"])
@pytest.mark.parametrize("error", [None, CANCELLED], ids=["result", "cancelled"])
async def test_a_withdrawn_request_is_answered_by_its_receiver(
    error: dict[str, Any] | None, is_in_turn: bool, tmp_path: Path
) -> None:
    script = Script()
    for number, (method, side) in enumerate(REQUESTS):
        asked = script.ask(side, method, params_of(method), 100 + number)
        script.steps += [withdraw(side, 100 + number)] * (2 if is_in_turn else 1)
        script.answer(asked, **({"error": error} if error else {"result": result_of(method)}))
        script.steps += [withdraw(side, 100 + number), withdraw(side, "never asked")]
    # At once: the withdrawal arrives while the request is judged.
    waits = [is_in_turn or step.answers is not None for step in script.steps]
    await compare(tmp_path, script.steps, None if is_in_turn else waits)


async def test_a_question_reaches_the_editor_before_what_the_agent_sent_after_it(tmp_path: Path) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    steps = [
        send("agent", "session/request_permission", {"sessionId": "s", **PERMISSION}, 5),
        send("agent", "session/update", {"sessionId": "s", "update": chunk}),
        send("agent", "fs/read_text_file", params_of("fs/read_text_file"), 6),
        withdraw("agent", 5),
        send("agent", "_vendor/note", {}),
    ]
    expected, counts = play_without(steps)
    async with guarded(tmp_path, allow=ALLOWED) as guard:
        await guard.open(ALL)
        placed = json.loads(json.dumps(steps).replace("PROJECT", str(guard.folder)))
        found = await play_guarded(guard, [Step(*step) for step in placed], counts, [False] * len(steps))
    methods = [json.loads(line)["method"] for line in found["editor"]]
    # The withdrawal may stand before or after the read; it follows its question, and the rest keeps its order.
    assert [name for name in methods if name != "$/cancel_request"] == [
        step.frame["method"] for step in steps if step != steps[3]
    ]
    assert methods.index("$/cancel_request") > 0
    assert sorted(found["editor"]) == sorted(
        json.loads(json.dumps(expected["editor"]).replace("PROJECT", str(guard.folder)))
    )


# Terminals in any order


async def test_a_terminal_of_the_editor_is_the_editors_until_the_end(tmp_path: Path) -> None:
    script = Script()
    orders = [
        ("terminal/output", "terminal/kill", "terminal/wait_for_exit", "terminal/output", "terminal/release"),
        ("terminal/release", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"),
        ("terminal/kill", "terminal/kill", "terminal/release", "terminal/release", "terminal/output"),
    ]
    for order, methods in enumerate(orders):
        made = script.ask("agent", "terminal/create", params_of("terminal/create"), f"make {order}")
        script.answer(made, result={"terminalId": f"t{order}"})
        for number, method in enumerate(methods):
            params = {"sessionId": "s", "terminalId": f"t{order}"}
            asked = script.ask("agent", method, params, f"{order} {number}")
            is_gone = "terminal/release" in methods[:number]
            script.answer(asked, **({"error": ERROR} if is_gone else {"result": {}}))
    await compare(tmp_path, script.steps)


# Any exchange


@st.composite
def exchanges(draw: st.DrawFn) -> list[Step]:
    """Requests of both sides, and their answers, withdrawals and notes between them, in any order."""
    steps: list[Step] = []
    open_requests: dict[str, list[tuple[int, str]]] = {"agent": [], "editor": []}  # what each side has to answer
    received = {"agent": 0, "editor": 0}
    ids: dict[str, list[Any]] = {"agent": [], "editor": []}
    has_terminal = False
    methods = {
        "agent": [method for method, side in REQUESTS if side == "agent"],
        "editor": ["session/set_mode", "session/list", "_vendor/ask", "session/set_config_option"],
    }
    for _ in range(draw(st.integers(1, 14))):
        side = draw(st.sampled_from(["agent", "editor"]))
        action = draw(st.sampled_from(["ask", "answer", "answer", "withdraw", "note"]))
        if action == "answer" and open_requests[side]:
            at = draw(st.integers(0, len(open_requests[side]) - 1))
            number, method = open_requests[side].pop(at)
            if method == "terminal/create":
                has_terminal = True
                steps.append(answer(side, number, result={"terminalId": "t"}))
            elif draw(st.booleans()):
                steps.append(answer(side, number, error=draw(st.sampled_from([ERROR, BARE_ERROR, CANCELLED]))))
            else:
                steps.append(answer(side, number, result=result_of(method)))
        elif action == "withdraw" and ids[side]:
            steps.append(withdraw(side, draw(st.sampled_from(ids[side]))))
        elif action == "note":
            steps.append(send(side, "_vendor/note", {"n": len(steps)}))
        elif action == "ask":
            method = draw(st.sampled_from(methods[side]))
            if method in ABOUT and not has_terminal:
                continue
            request_id = draw(st.sampled_from([100 + len(steps), str(len(steps))]))
            ids[side].append(request_id)
            steps.append(send(side, method, params_of(method), request_id))
            open_requests[OTHER[side]].append((received[OTHER[side]], method))
            received[OTHER[side]] += 1
    return steps


@settings(max_examples=50)
@given(steps=exchanges())
def test_any_exchange(steps: list[Step]) -> None:
    async def play() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await compare(Path(folder), steps)

    if steps:
        asyncio.run(play())
