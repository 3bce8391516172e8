"""For every client case a client that fails it, by one switch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.conformance.bent_client import (
    UNSET,
    Bent,
    Frame,
    Mutant,
    also,
    answers,
    asks,
    bent,
    deaf_after,
    dies_on,
    dies_when,
    error,
    key,
    read,
    receives,
    result,
    sends,
    serves,
)

__all__ = ["MUTANTS", "PROGRAMS", "Mutant", "bent"]

PERMISSION = "session/request_permission"
YES = {"outcome": {"outcome": "selected", "optionId": "yes-1"}}


def _extra(method: str, **params: Any) -> Frame:
    return {"jsonrpc": "2.0", "id": "extra", "method": method, "params": params}


def _renamed(bent: Bent, frame: Frame, id: Any) -> list[Frame | bytes]:
    """The prompt with another id; its answer finds the client all the same."""
    if frame.get("method") == "session/prompt":
        bent.renamed[key(id)] = frame["id"]
        frame["id"] = id
    return [frame]


def _selects(frame: Frame, request: Frame) -> Frame:
    """Never cancels."""
    return result(frame, YES) if frame.get("result") == {"outcome": {"outcome": "cancelled"}} else frame


def _code(code: Any) -> Any:
    """Errors get this code."""
    return lambda frame: error(frame, code) if "error" in frame else frame


def _own_id(bent: Bent, frame: Frame) -> Frame | None:
    """Takes a request with the id of an own one for something else."""
    is_own = "method" in frame and key(frame.get("id")) in bent.mine
    return None if is_own else frame


def _answers_notes(bent: Bent, frame: Frame) -> Frame:
    if "id" not in frame and frame.get("method") == "_dragoman.check/note":
        bent.send(error({"id": None}, -32601))
    return frame


def _twice(bent: Bent, frame: Frame) -> list[Frame | bytes]:
    return [frame, frame] if frame.get("id") == "a custom request" else [frame]


def _greets(bent: Bent, frame: Frame) -> list[Frame | bytes]:
    """Sends a notification of its own, without an underscore, before its prompt."""
    hello = {"jsonrpc": "2.0", "method": "craft/hello", "params": {}}
    return [hello, frame] if frame.get("method") == "session/prompt" else [frame]


def _executes(bent: Bent, line: bytes) -> list[bytes]:
    """Takes a batch apart."""
    if not line.startswith(b"["):
        return [line]
    return [msgspec.json.encode(each) for each in msgspec.json.decode(line)]


def _fetches(bent: Bent, frame: Frame) -> Frame | None:
    """Fetches a page before it asks the user, which takes forever."""
    if frame.get("method") != "elicitation/create":
        return frame

    async def fetch() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(frame["params"]["url"]).port)
        try:
            await reader.read()
        finally:
            writer.close()

    bent.tasks.add(asyncio.get_running_loop().create_task(fetch()))
    return None


def _forgets_after_kill(bent: Bent, frame: Frame) -> list[Frame | bytes]:
    method = bent.request_of(frame).get("method")
    if method == "terminal/kill":
        bent.has_switched = True
    return [error(frame, -32002)] if bent.has_switched and method == "terminal/output" else [frame]


def _with_meta(bent: Bent, frame: Frame) -> Frame:
    """Takes members of _meta for members of the message, as some do."""
    for name in ("params", "result"):
        found = frame.get(name)
        if isinstance(found, dict) and isinstance(found.get("_meta"), dict):
            frame[name] = {**found, **found["_meta"]}
    return frame


def _zero_based(bent: Bent, frame: Frame) -> Frame:
    if frame.get("method") == "fs/read_text_file" and frame["params"].get("line"):
        frame["params"]["line"] += 1
    return frame


def _appends(bent: Bent, frame: Frame) -> Frame:
    if frame.get("method") == "fs/write_text_file":
        frame["params"]["content"] += "and more"
    return frame


def _other_version(bent: Bent, frame: Frame) -> Frame:
    if isinstance(frame.get("result"), dict) and "protocolVersion" in frame["result"]:
        frame["result"]["protocolVersion"] = 1
    return frame


def _sends_id(frame: Frame) -> Frame:
    return {**frame, "id": "extra"} if frame.get("method") == "session/cancel" else frame


def _no_allow_once(frame: Frame, request: Frame) -> Frame:
    kinds = [option["kind"] for option in request["params"]["options"]]
    return frame if "allow_once" in kinds else result(frame, YES)


def _first_server(**changes: Any) -> Any:
    return lambda servers: [{**server, **changes} for server in servers if changes.keys() & server.keys()]


MUTANTS: dict[str, Mutant] = {
    "client/auth/known-method": asks("authenticate", methodId="another-login"),
    "client/auth/untyped-method": dies_on("judge-login"),
    "client/auth/goes-on": dies_when(
        lambda bent, line: bent.mine.get(key(read(line).get("id"))) == "authenticate" and b"result" in line
    ),
    "client/auth/no-terminal-method": asks("authenticate", methodId="judge-terminal"),
    "client/auth/odd-methods": dies_on("_judge.example/magic"),
    "client/cancel/notification": sends(_sends_id),
    "client/cancel/open-permissions": answers(PERMISSION, _selects),
    "client/cancel/late-permission": answers(PERMISSION, _selects),
    "client/cancel/late-updates": deaf_after('"status":"failed"'),
    "client/cancel/request-answered": sends(lambda frame: None if frame.get("id") == "taken-back" else frame),
    "client/cancel/request-code": answers(PERMISSION, _selects),
    "client/elicitation/action": answers("elicitation/create", lambda frame, _: result(frame, {"action": "accepted"})),
    "client/elicitation/content": answers(
        "elicitation/create", lambda frame, _: result(frame, {"action": "accept", "content": {"name": 5}})
    ),
    "client/elicitation/unknown-mode": answers(
        "elicitation/create", lambda frame, _: result(frame, {"action": "accept"})
    ),
    "client/elicitation/unknown-property": answers(
        "elicitation/create", lambda frame, _: result(frame, {"action": "accept", "content": {"shade": "dark"}})
    ),
    "client/elicitation/no-prefetch": receives(_fetches),
    "client/elicitation/unknown-complete": dies_on("never-asked"),
    "client/envelope/jsonrpc": sends(lambda frame: {**frame, "jsonrpc": "1.0"}),
    "client/envelope/request-ids": Mutant(out=lambda bent, frame: _renamed(bent, frame, True)),
    "client/envelope/method-names": Mutant(out=_greets),
    "client/envelope/usable-ids": Mutant(out=lambda bent, frame: _renamed(bent, frame, 1.5)),
    "client/envelope/well-formed": asks("session/prompt", session_id="sess-dragoman-check"),
    "client/envelope/no-custom-members": asks("session/prompt", _vendor=1),
    "client/envelope/id-echo": sends(lambda frame: frame if "method" in frame else {**frame, "id": str(frame["id"])}),
    "client/envelope/id-64-bit": sends(
        lambda frame: {**frame, "id": 2.0**63} if frame.get("id") == 2**63 - 1 else frame
    ),
    "client/envelope/id-null": sends(lambda frame: None if frame.get("id", 0) is None else frame),
    "client/envelope/id-namespaces": receives(_own_id),
    "client/envelope/result-or-error": sends(lambda frame: {**frame, "result": None} if "error" in frame else frame),
    "client/envelope/error-shape": sends(_code("-32601")),
    "client/envelope/one-answer": Mutant(out=_twice),
    "client/envelope/notifications-unanswered": receives(_answers_notes),
    "client/envelope/unknown-notifications": dies_on("no_such_notification"),
    "client/envelope/stray-response": dies_on("never-asked"),
    "client/envelope/concurrent": deaf_after("Delete everything"),
    "client/errors/custom-request": receives(
        lambda bent, frame: None if frame.get("method") == "_dragoman.check/unknown" else frame
    ),
    "client/errors/method-not-found": sends(lambda frame: result(frame, None) if "error" in frame else frame),
    "client/errors/codes": sends(_code(-32050)),
    "client/errors/no-leak": answers(PERMISSION, lambda frame, request: error(frame, -32602, str(request))),
    "client/errors/short-message": sends(
        lambda frame: error(frame, -32601, "Traceback\n" * 50) if "error" in frame else frame
    ),
    "client/fs/read": answers("fs/read_text_file", lambda frame, _: result(frame, {"text": "one\ntwo\nthree\nfour\n"})),
    "client/fs/read-window": receives(_zero_based),
    "client/fs/read-missing": sends(_code(-32603)),
    "client/fs/read-meta-ignored": receives(_with_meta),
    "client/fs/write-creates": serves(
        "fs/write_text_file", lambda bent, params: UNSET if Path(params["path"]).exists() else {}
    ),
    "client/fs/write-result": answers("fs/write_text_file", lambda frame, _: result(frame, {"ok": True})),
    "client/fs/write-replaces": receives(_appends),
    "client/fs/outside-roots": answers("fs/read_text_file", lambda frame, _: result(frame, {"content": "secret\n"})),
    "client/gates/logout": also("session/prompt", _extra("logout")),
    "client/gates/load": also("session/new", _extra("session/load", sessionId="s", cwd="/", mcpServers=[])),
    "client/gates/resume": also("session/new", _extra("session/resume", sessionId="s", cwd="/")),
    "client/gates/close": also("session/prompt", _extra("session/close", sessionId="s")),
    "client/gates/list": also("session/new", _extra("session/list")),
    "client/gates/delete": also("session/new", _extra("session/delete", sessionId="s")),
    "client/gates/mcp-servers": asks(
        "session/new", mcpServers=[{"type": "http", "name": "web", "url": "http://127.0.0.1:9/", "headers": []}]
    ),
    "client/gates/additional-directories": asks("session/new", additionalDirectories=["/elsewhere"]),
    "client/gates/prompt-content": asks(
        "session/prompt", prompt=[{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]
    ),
    "client/gates/read-refused": answers(
        "fs/read_text_file", lambda frame, _: result(frame, {"content": ""}), is_bare=True
    ),
    "client/gates/write-refused": answers("fs/write_text_file", lambda frame, _: result(frame, {}), is_bare=True),
    "client/gates/terminal-refused": answers("terminal/create", lambda frame, _: result(frame, None), is_bare=True),
    "client/gates/elicitation-refused": answers(
        "elicitation/create", lambda frame, _: result(frame, {"action": "decline"}), is_bare=True
    ),
    "client/initialize/first": also("initialize", _extra("session/list")),
    "client/initialize/waits": also("initialize", _extra("session/list"), is_after=True),
    "client/initialize/version": asks("initialize", protocolVersion="1"),
    "client/initialize/other-version": receives(_other_version),
    "client/initialize/capability-types": asks("initialize", clientCapabilities={"terminal": {}}),
    "client/initialize/states-capabilities": asks("initialize", clientCapabilities=UNSET),
    "client/initialize/client-info": asks("initialize", clientInfo=UNSET),
    "client/initialize/client-info-complete": asks("initialize", clientInfo={"name": "nameless"}),
    "client/initialize/least-answer": dies_on('"result":{"protocolVersion":1}'),
    "client/initialize/null-capabilities": dies_on('"list":null'),
    "client/initialize/malformed-capabilities": dies_on('"loadSession":"yes"'),
    "client/initialize/malformed-members": dies_on('"agentInfo":"me"'),
    "client/initialize/works-with-anyone": dies_on('"agentCapabilities":{}'),
    "client/initialize/meta-ignored": receives(_with_meta),
    "client/session/new-members": asks("session/new", mcpServers=UNSET),
    "client/session/absolute-cwd": asks("session/new", cwd="."),
    "client/session/stdio-servers": asks("session/new", mcpServers=_first_server(env={"NOTES": "1"})),
    "client/session/http-servers": asks("session/new", mcpServers=_first_server(headers={"X-Key": "1"})),
    "client/session/absolute-directories": asks("session/new", additionalDirectories=["docs"]),
    "client/session/known-ids": asks("session/prompt", sessionId="sess-of-another-client"),
    "client/session/early-updates": dies_on("Welcome."),
    "client/session/idle-updates": dies_on("A title"),
    "client/session/more-members": receives(_with_meta),
    "client/session/load-members": asks("session/load", mcpServers=UNSET),
    "client/session/load-answer-null": dies_on('"result":null'),
    "client/session/load-directories": asks("session/load", additionalDirectories=UNSET),
    "client/session/resume-members": asks("session/resume", cwd=UNSET),
    "client/session/close-unknown": receives(
        lambda bent, frame: error(frame, -32603) if frame.get("error", {}).get("code") == -32002 else frame
    ),
    "client/list/params": asks("session/list", cwd="docs"),
    "client/list/opaque-cursor": asks(
        "session/list", cursor=lambda cursor: UNSET if cursor is None else cursor.lower()
    ),
    "client/list/last-page": also("session/load", _extra("session/list", cursor="second")),
    "client/list/odd-entries": dies_on('"title":"no id"'),
    "client/permission/implemented": answers(PERMISSION, lambda frame, _: error(frame, -32601)),
    "client/permission/outcome": answers(
        PERMISSION, lambda frame, _: result(frame, {"outcome": "selected", "optionId": "yes-1"})
    ),
    "client/permission/offered-option": answers(
        PERMISSION, lambda frame, _: result(frame, {"outcome": {"outcome": "selected", "optionId": "allow"}})
    ),
    "client/permission/odd-options": answers(PERMISSION, _no_allow_once),
    "client/permission/several": answers(PERMISSION, lambda frame, _: result(frame, YES)),
    "client/permission/unannounced": answers(
        PERMISSION,
        lambda frame, request: frame if "title" in request["params"]["toolCall"] else result(frame, {"outcome": None}),
    ),
    "client/permission/malformed": answers(PERMISSION, lambda frame, _: result(frame, YES)),
    "client/permission/meta-ignored": receives(_with_meta),
    "client/prompt/blocks": asks("session/prompt", prompt="Hello"),
    "client/prompt/media": asks("session/prompt", prompt=[{"type": "image", "data": "?!", "mimeType": "image/png"}]),
    "client/prompt/annotations": asks(
        "session/prompt", prompt=[{"type": "text", "text": "Hello", "annotations": {"audience": ["model"]}}]
    ),
    "client/prompt/one-at-a-time": also(
        "session/prompt", _extra("session/prompt", sessionId="sess-dragoman-check", prompt=[]), is_after=True
    ),
    "client/prompt/more-in-result": dies_on("futureMember"),
    "client/prompt/every-stop-reason": receives(
        lambda bent, frame: None if frame.get("result") == {"stopReason": "refusal"} else frame
    ),
    "client/prompt/unknown-stop-reason": receives(
        lambda bent, frame: None if "tired" in str(frame.get("result")) else frame
    ),
    "client/prompt/unknown-error": receives(lambda bent, frame: None if "out of ink" in str(frame) else frame),
    "client/prompt/malformed-error": receives(lambda bent, frame: None if frame.get("error") == "boom" else frame),
    "client/settings/known-mode": asks("session/set_mode", modeId="yolo"),
    "client/settings/modes-as-fallback": also(
        "session/set_mode", _extra("session/set_config_option", sessionId="sess", configId="mode", value="code")
    ),
    "client/settings/option-members": asks("session/set_config_option", type=UNSET),
    "client/settings/options-before-modes": also(
        "session/prompt", _extra("session/set_mode", sessionId="sess-dragoman-check", modeId="code")
    ),
    "client/settings/unknown-type": dies_on('"slider"'),
    "client/settings/categories": dies_on('"weather"'),
    "client/settings/change-in-turn": dies_on("current_mode_update"),
    "client/terminal/create-at-once": answers("terminal/create", lambda frame, _: None),
    "client/terminal/output": answers(
        "terminal/output", lambda frame, _: result(frame, {"output": frame["result"]["output"]})
    ),
    "client/terminal/exit-status": answers("terminal/wait_for_exit", lambda frame, _: result(frame, {"exitCode": "7"})),
    "client/terminal/wait": serves("terminal/wait_for_exit", lambda bent, params: {"exitCode": 0}),
    "client/terminal/character-boundary": answers(
        "terminal/output", lambda frame, _: result(frame, {**frame["result"], "output": "\ufffdé"})
    ),
    "client/terminal/keeps-the-end": answers(
        "terminal/output", lambda frame, _: result(frame, {**frame["result"], "output": "the beginn"})
    ),
    "client/terminal/kill": Mutant(out=_forgets_after_kill),
    "client/terminal/release-kills": serves("terminal/release", lambda bent, params: {}),
    "client/terminal/released-id": answers(
        "terminal/output", lambda frame, _: result(frame, {"output": "", "truncated": False})
    ),
    "client/terminal/unknown-id": sends(_code(-32603)),
    "client/transport/lines": also("initialize", b"connecting...\n"),
    "client/transport/pieces": Mutant(takes_pieces=False),
    "client/transport/blank-lines": dies_when(lambda bent, line: not line.strip()),
    "client/transport/carriage-return": dies_when(lambda bent, line: line.endswith(b"\r")),
    "client/transport/noise": dies_on("Loaded cached credentials"),
    "client/transport/noise-answered": sends(lambda frame: None if frame.get("id", 0) is None else frame),
    "client/transport/not-an-object": dies_when(lambda bent, line: line == b"42"),
    "client/transport/batch": Mutant(into=_executes),
    "client/transport/invalid-utf8": dies_on(b"\xff\xfe"),
    "client/transport/deep-nesting": dies_on(b"[" * 1000),
    "client/transport/large-frame": dies_when(lambda bent, line: len(line) > 65536),
    "client/transport/oversized-frame": deaf_after(b"x" * 33_000_000),
    "client/transport/last-line": Mutant(takes_rest=False),
    "client/updates/every-kind": dies_on("usage_update"),
    "client/updates/every-content": dies_on("audio/wav"),
    "client/updates/unknown-kind": dies_on("holiday_update"),
    "client/updates/unknown-content": dies_on("hologram"),
    "client/updates/odd-items": dies_on('"name":5'),
    "client/updates/odd-members": dies_on("bored"),
    "client/updates/absent-members": dies_on("no/uuid"),
    "client/updates/upsert": dies_on("Unannounced"),
    "client/updates/unknown-severity": dies_on("catastrophe"),
    "client/updates/other-session": dies_on("sess-of-another-client"),
    "client/updates/meta-ignored": dies_on("EVIL"),
}

PROGRAMS = {"client/transport/stderr-drained": "--leave-stderr", "client/transport/shutdown": "--kill"}
"""Cases about processes, and the option of `wrong_client.py` that fails them."""
