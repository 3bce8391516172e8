"""The page folds updates as `dragoman.state` does: the same state after recorded and after random sessions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dragoman import schema
from dragoman.schema import UNSET, Unknown, encode, v1
from dragoman.state import (
    CompactionState,
    Message,
    PlanState,
    SessionMessageState,
    SessionState,
    SubagentState,
    ToolCallState,
    fold,
)
from tests import machine
from tests.state.test_any_sequence import READ, STEPS
from tests.state.test_transcripts import FILES, messages
from tools import web_types

WEB: Final = Path(__file__).parents[2] / "web"
OWN: Final = Path(__file__).parents[1]
RECORDINGS: Final = [*FILES, OWN / "golden/data/sample.jsonl", OWN / "trace/data/small.jsonl"]
NODE: Final = machine.program("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed, so the web page cannot be built")

Step = dict[str, Any]


def in_the_page(cases: list[list[Step]]) -> list[Any]:
    """The states after each case, as the page's reducers make them."""
    assert NODE is not None
    command = [NODE, str(WEB / "tests" / "state.mjs")]
    ran = subprocess.run(command, input=json.dumps(cases).encode(), capture_output=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stderr.decode()[-4000:]
    found: list[Any] = json.loads(ran.stdout)
    return found


def in_python(steps: Iterable[Step]) -> SessionState:
    state = SessionState()
    for step in steps:
        [(name, value)] = step.items()
        match name:
            case "open":
                answer = _read(v1.NewSessionResponse, {"sessionId": "s", **value})
                state.open(answer.modes, answer.config_options)
            case "begin":
                state.begin_turn(_read(v1.PromptRequest, {"sessionId": "s", "prompt": value}).prompt)
            case "update":
                fold(state, _read(v1.SessionNotification, {"sessionId": "s", "update": value}).update)
            case "permission":
                state.note_permission(_read(v1.ToolCallPatch, value))
            case "cancel":
                state.cancel_turn()
            case "end":
                state.end_turn(value)
    return state


def _read(kind: type[Any], raw: object) -> Any:
    return schema.decode(kind, json.dumps(raw).encode())


def test_the_types_of_the_page_are_those_of_the_schema() -> None:
    assert web_types.FILE.read_text() == web_types.text(), "run `python -m tools.web_types`"


def test_recorded_sessions_become_the_same_state() -> None:
    cases = [steps for path in RECORDINGS for steps in recorded(path)]
    assert len(cases) >= 2
    assert sum("update" in step for steps in cases for step in steps) > 10
    for steps, found in zip(cases, in_the_page(cases), strict=True):
        assert found == described(in_python(steps))


def recorded(path: Path) -> Iterator[list[Step]]:
    """The steps of each session of a recording, as a client takes them."""
    sessions: dict[str, list[Step]] = {}
    prompts: dict[Any, str] = {}
    opens: dict[Any, str | None] = {}
    for message in messages(path):
        params, method = message.get("params"), message.get("method")
        if method is None:
            result = message.get("result")
            if message["dir"] == "a2c" and message.get("id") in prompts:
                reason = result.get("stopReason") if isinstance(result, dict) else None
                sessions[prompts.pop(message["id"])].append({"end": reason})
            elif message["dir"] == "a2c" and message.get("id") in opens and isinstance(result, dict):
                id = opens.pop(message["id"]) or result.get("sessionId")
                members = {name: result[name] for name in ("modes", "configOptions") if result.get(name)}
                sessions.setdefault(str(id), []).append({"open": members})
        elif method in ("session/new", "session/load", "session/resume"):
            opens[message.get("id")] = (params or {}).get("sessionId")
        elif isinstance(params, dict) and isinstance(params.get("sessionId"), str):
            steps = sessions.setdefault(params["sessionId"], [])
            match method:
                case "session/prompt" if params["sessionId"] not in prompts.values():
                    prompts[message["id"]] = params["sessionId"]
                    steps.append({"begin": params.get("prompt") or []})
                case "session/update":
                    steps.append({"update": params["update"]})
                case "session/request_permission":
                    steps.append({"permission": params["toolCall"]})
                case "session/cancel":
                    steps.append({"cancel": True})
    yield from sessions.values()


def test_a_plan_that_becomes_another_kind_of_plan_leaves_nothing_of_the_first() -> None:
    file, text = {"type": "file", "uri": "file:///p"}, {"type": "markdown", "content": "# One"}
    plans = (file, text, {"type": "items", "entries": []}, file)
    steps: list[Step] = [
        {"update": {"sessionUpdate": "plan_update", "plan": {"planId": "a", **plan}}} for plan in plans
    ]
    cases = [steps[:count] for count in range(1, len(steps) + 1)]
    for case, found in zip(cases, in_the_page(cases), strict=True):
        assert found == described(in_python(case)), case


def test_random_sessions_become_the_same_state() -> None:
    """Every kind of update, known and unknown ids, turns that end in every way; all in one run of Node."""
    cases: list[list[Step]] = []

    @settings(max_examples=settings().max_examples * 2, deadline=None, phases=[Phase.generate], database=None)
    @given(st.lists(STEPS, max_size=40))
    def collect(steps: list[Any]) -> None:
        cases.append(list(as_steps(steps)))

    collect()
    for steps, found in zip(cases, in_the_page(cases), strict=True):
        assert found == described(in_python(steps)), steps


def as_steps(steps: list[Any]) -> Iterator[Step]:
    is_running = False
    for one in steps:
        if isinstance(one, Unknown):
            yield {"update": one.raw}
        elif not isinstance(one, str):
            update = json.loads(encode(one))
            if isinstance(update.get("plan"), dict):
                update["plan"].setdefault("type", "graph")  # a plan of an unknown kind has one on the wire
            yield {"update": update}
        elif one == "begin":
            if not is_running:
                yield {"begin": [{"type": "text", "text": "prompt"}]}
            is_running = True
        elif one == "cancel":
            yield {"cancel": True}
        elif one != READ and is_running:
            yield {"end": one}
            is_running = False


# The state of the Python package in the words of the page


def described(state: SessionState) -> Any:
    modes, usage, cost = state.modes, state.usage, state.cost
    found = {
        "timeline": [_item(item) for item in state.timeline],
        "plan": [_entry(entry) for entry in state.plan],
        "usage": None if usage is None else _without_unset(used=usage.used, size=usage.size, cost=_cost(cost)),
        "title": state.title,
        "mode": state.mode,
        "modes": None
        if modes is None
        else {
            "current": modes.current_mode_id,
            "modes": [
                _without_unset(id=mode.id, name=mode.name, description=mode.description or UNSET)
                for mode in modes.available_modes
            ],
        },
        "options": [_option(one) for one in state.config_options if not isinstance(one, Unknown)],
        "commands": [
            _without_unset(name=one.name, description=one.description, hint=one.input.hint if one.input else UNSET)
            for one in state.commands
        ],
        "isRunning": state.is_running,
    }
    return json.loads(json.dumps(found))


def _without_unset(**members: Any) -> Step:
    return {name: value for name, value in members.items() if value is not UNSET}


def _known(value: Any) -> Any:
    return UNSET if value is None else value


def _cost(cost: v1.Cost | None) -> Any:
    return UNSET if cost is None else {"amount": cost.amount, "currency": cost.currency}


def _item(item: Any) -> Step:
    match item:
        case Message():
            return {"kind": "message", "role": item.role, "id": item.message_id, "parts": _parts(item.blocks)}
        case ToolCallState():
            return _without_unset(
                kind="tool",
                id=item.id,
                title=item.title,
                toolKind=item.kind,
                status=item.status,
                isCancelled=item.is_cancelled,
                content=[_content(one) for one in item.content],
                locations=[_without_unset(path=one.path, line=_known(one.line)) for one in item.locations],
                rawInput=item.raw_input,
                rawOutput=item.raw_output,
            )
        case PlanState():
            body = item.body
            return _without_unset(
                kind="plan",
                id=item.id,
                entries=[_entry(entry) for entry in item.entries],
                isRemoved=item.is_removed,
                text=body.content if isinstance(body, v1.PlanMarkdown) else UNSET,
                uri=body.uri if isinstance(body, v1.PlanFile) else UNSET,
            )
        case CompactionState():
            error = _known(item.error)
            parts = _parts(item.blocks)
            return _without_unset(kind="compaction", id=item.id, status=item.status, parts=parts, error=error)
        case SubagentState():
            state = UNSET if item.state is None else json.loads(encode(item.state))["state"]
            title, description = _known(item.title), _known(item.description)
            return _without_unset(
                kind="subagent", sessionId=item.session_id, title=title, description=description, state=state
            )
        case SessionMessageState():
            return _without_unset(
                kind="between",
                id=item.message_id,
                parts=_parts(item.blocks),
                sender=_known(item.sender_session_id),
                recipient=_known(item.recipient_session_id),
            )
        case v1.Notice():
            level = item.severity if item.severity in ("warning", "error") else "info"
            text = item.title + (f"\n{item.description}" if item.description else "")
            return {"kind": "notice", "text": text, "level": level}
        case Unknown():
            return {"kind": "unknown", "update": item.raw}
    raise TypeError(item)


def _entry(entry: v1.PlanEntry) -> Step:
    return {"content": entry.content, "status": entry.status, "priority": entry.priority}


def _parts(blocks: Iterable[Any]) -> list[Step]:
    return [_part(block) for block in blocks]


def _part(block: Any) -> Step:
    match block:
        case v1.TextContent():
            return {"kind": "text", "text": block.text}
        case v1.ImageContent():
            return _without_unset(kind="image", mimeType=block.mime_type, data=block.data, uri=_known(block.uri))
        case v1.AudioContent():
            return {"kind": "audio", "mimeType": block.mime_type, "data": block.data}
        case v1.ResourceLink():
            mime, size = _known(block.mime_type), _known(block.size)
            return _without_unset(kind="link", uri=block.uri, name=block.name, mimeType=mime, size=size)
        case v1.EmbeddedResource():
            found = json.loads(encode(block.resource))
            kept = {name: found[name] for name in ("uri", "text", "blob", "mimeType") if found.get(name) is not None}
            return {"kind": "resource", **kept}
        case Unknown():
            return {"kind": "unknown", "value": block.raw}
    raise TypeError(block)


def _content(one: Any) -> Step:
    match one:
        case v1.Diff():
            return {
                "kind": "diff",
                "path": one.path,
                "oldText": one.old_text if isinstance(one.old_text, str) else None,
                "newText": one.new_text,
            }
        case v1.Terminal():
            return {"kind": "terminal", "terminalId": one.terminal_id}
        case v1.Content():
            return {"kind": "content", "part": _part(one.content)}
        case Unknown():
            return {"kind": "content", "part": {"kind": "unknown", "value": one.raw}}
    raise TypeError(one)


def _option(option: Any) -> Step:
    common = {
        "id": option.id,
        "name": option.name,
        "category": _known(option.category),
        "description": _known(option.description),
    }
    if isinstance(option, v1.SessionConfigBoolean):
        return _without_unset(**common, kind="boolean", value=option.current_value, choices=[])
    return _without_unset(**common, kind="select", value=option.current_value, choices=list(_choices(option)))


def _choices(option: Any) -> Iterator[Step]:
    for one in option.options:
        leaves = one.options if isinstance(one, v1.SessionConfigSelectGroup) else [one]
        group = one.name if isinstance(one, v1.SessionConfigSelectGroup) else UNSET
        for leaf in leaves:
            description = _known(leaf.description)
            yield _without_unset(value=leaf.value, name=leaf.name, description=description, group=group)
