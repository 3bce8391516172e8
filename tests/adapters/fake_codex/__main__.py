"""The fake as a program: its requests."""

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.adapters.fake_codex import turns as _turns  # noqa: F401  fills the table of what turns do
from tests.adapters.fake_codex.threads import HOME, QUESTIONS, Refused, Thread, Turn, report, send

EFFORTS = [{"reasoningEffort": name, "description": ""} for name in ("low", "high")]
MODELS = [
    {"model": "fake-1", "displayName": "Fake 1", "description": "The usual one.", "hidden": False},
    {"model": "fake-2", "displayName": "Fake 2", "description": "Another.", "hidden": False},
    {"model": "fake-0", "displayName": "Old", "description": "", "hidden": True},
]


THREADS: dict[str, Thread] = {}


def find(params: dict[str, Any]) -> Thread:
    own = params.get("threadId", "")
    if own in THREADS:
        return THREADS[own]
    try:
        uuid.UUID(own)
    except ValueError as error:
        raise Refused(f"invalid thread id: {error}") from None
    file = HOME / f"{own}.json"
    if not file.exists():
        raise Refused(f"no rollout found for thread id {own}")
    THREADS[own] = Thread("", json.loads(file.read_text()))
    return THREADS[own]


def stored() -> list[Thread]:
    for file in HOME.glob("*-*.json"):
        find({"threadId": file.stem})
    return sorted((each for each in THREADS.values() if each.turns), key=lambda each: -each.updated)


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    return {"userAgent": "fake/1", "codexHome": str(HOME), "capabilities": params["capabilities"]}


def account(params: dict[str, Any]) -> dict[str, Any]:
    return {"account": None, "requiresOpenaiAuth": "FAKE_CODEX_LOGGED_OUT" in os.environ}


def models(params: dict[str, Any]) -> dict[str, Any]:
    more = {"supportedReasoningEfforts": EFFORTS, "defaultReasoningEffort": "low"}
    return {"data": [{"id": each["model"], **each, **more} for each in MODELS], "nextCursor": None}


def start(params: dict[str, Any]) -> dict[str, Any]:
    thread = Thread(params["cwd"])
    THREADS[thread.id] = thread
    for name in params.get("config", {}).get("mcp_servers", {}):
        failed = {"name": name, "status": "failed", "error": "it does not start"}
        report("mcpServer/startupStatus/updated", threadId=thread.id, **failed)
    if params.get("config", {}).get("approval_policy"):
        thread.settings["approvalPolicy"] = params["config"]["approval_policy"]
    return thread.opened()


def resume(params: dict[str, Any]) -> dict[str, Any]:
    return find(params).opened()


def fork(params: dict[str, Any]) -> dict[str, Any]:
    source = find(params)
    copy = Thread(params["cwd"], {"turns": list(source.turns), "fork_of": source.id})
    THREADS[copy.id] = copy
    copy.save()
    return copy.opened()


def listed(params: dict[str, Any]) -> dict[str, Any]:
    found = [each for each in stored() if params.get("cwd") in (None, each.cwd) and not each.archived]
    if params.get("cursor") is not None:
        try:
            found = [each for each in found if each.updated < float(params["cursor"])]
        except ValueError:
            raise Refused(f"invalid cursor: {params['cursor']}") from None
    page = found[: params.get("limit") or 50]
    more = repr(page[-1].updated) if len(page) < len(found) else None
    return {"data": [each.shown() for each in page], "nextCursor": more}


def turns(params: dict[str, Any]) -> dict[str, Any]:
    found = find(params).turns
    begin = int(params.get("cursor") or 0)
    end = begin + 2  # so that there are several pages
    return {"data": found[begin:end], "nextCursor": str(end) if end < len(found) else None}


def delete(params: dict[str, Any]) -> dict[str, Any]:
    thread = find(params)
    if any(each.fork_of == thread.id for each in stored()):
        raise Refused(f"cannot delete thread {thread.id}: forked history still references it")
    del THREADS[thread.id]
    (HOME / f"{thread.id}.json").unlink(missing_ok=True)
    return {}


def archive(params: dict[str, Any]) -> dict[str, Any]:
    thread = find(params)
    thread.archived = True
    thread.save()
    return {}


def start_turn(params: dict[str, Any]) -> dict[str, Any]:
    thread = find(params)
    texts = [each["text"] for each in params["input"] if each["type"] == "text"]
    images = sum(each["type"] == "image" for each in params["input"])
    changed: dict[str, Any] = {
        name: params[name] for name in ("model", "effort", "approvalPolicy", "sandboxPolicy") if name in params
    }
    if "collaborationMode" in params:
        changed["plan"] = params["collaborationMode"]["mode"]
    if changed:
        thread.settings |= changed
        mode = {"mode": thread.settings["plan"]}
        shown = {**thread.settings, "collaborationMode": mode}
        report("thread/settings/updated", threadId=thread.id, threadSettings=shown)
    if thread.turn is not None:
        thread.turn.steered.append("".join(texts))
        thread.turn.wake()
    else:
        thread.turn = Turn(thread, "".join(texts), images)
        thread.turn_to_run = thread.turn
    return {"turn": {"id": thread.turn.id, "items": [], "status": "inProgress"}}


def compact(params: dict[str, Any]) -> dict[str, Any]:
    thread = find(params)
    thread.turn = thread.turn_to_run = Turn(thread, None)
    return {}


def steer(params: dict[str, Any]) -> dict[str, Any]:
    turn = find(params).turn
    if turn is None or turn.id != params["expectedTurnId"]:
        raise Refused("no active turn to steer")
    turn.steered.append("".join(each["text"] for each in params["input"]))
    turn.wake()
    return {"turnId": turn.id}


def interrupt(params: dict[str, Any]) -> dict[str, Any]:
    turn = find(params).turn
    if turn is None or turn.id != params["turnId"]:
        raise Refused("no active turn to interrupt")
    turn.stop.set()
    turn.wake()
    return {}


def terminals(params: dict[str, Any]) -> dict[str, Any]:
    rows = [{"itemId": own, "processId": str(child.pid)} for own, child in find(params).terminals.items()]
    return {"data": rows, "nextCursor": None}


def kill(child: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def terminate(params: dict[str, Any]) -> dict[str, Any]:
    for child in list(find(params).terminals.values()):
        if str(child.pid) == params["processId"]:
            kill(child)
    return {"terminated": True}


def clean(params: dict[str, Any]) -> dict[str, Any]:
    for child in list(find(params).terminals.values()):
        kill(child)
    return {}


METHODS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
METHODS |= {"initialize": initialize, "account/read": account, "model/list": models, "thread/start": start}
METHODS |= {"thread/resume": resume, "thread/fork": fork, "thread/list": listed, "thread/turns/list": turns}
METHODS |= {"thread/delete": delete, "thread/archive": archive, "turn/start": start_turn, "turn/steer": steer}
METHODS |= {"thread/compact/start": compact, "turn/interrupt": interrupt, "thread/unsubscribe": lambda params: {}}
METHODS |= {"thread/backgroundTerminals/list": terminals, "thread/backgroundTerminals/terminate": terminate}
METHODS |= {"thread/backgroundTerminals/clean": clean}


def serve() -> None:
    if sys.argv[1:] != ["app-server"]:
        sys.exit("usage: codex app-server")
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            turn = QUESTIONS.get(message["id"])
            if turn is not None:
                turn.answers[message["id"]] = message.get("result", message.get("error"))
                turn.wake()
            continue
        if "id" not in message:
            continue
        try:
            if message["method"] not in METHODS:
                raise Refused(f"Invalid request: unknown variant `{message['method']}`")
            send({"id": message["id"], "result": METHODS[message["method"]](message.get("params", {}))})
        except Refused as error:
            send({"error": {"code": -32600, "message": str(error)}, "id": message["id"]})
            continue
        for thread in list(THREADS.values()):
            turn, thread.turn_to_run = thread.turn_to_run, None
            if turn is not None:
                threading.Thread(target=turn.run, daemon=True).start()


if __name__ == "__main__":
    serve()
    os._exit(0)
