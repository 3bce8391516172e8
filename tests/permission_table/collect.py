"""Collects the requests of the table from recordings: ``python -m tests.permission_table.collect``.

Needs the folder `shared` next to the checkout. The result, `requests.jsonl`, is part of the project, so the test does
not need that folder. Run it only to replace the requests: every row of the table then changes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.permission_table.by_hand import BY_HAND

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared"
MOST = 400
# Their histories have calls that were made without asking; those of the other agents are alike.
LOADED = ("claude.load.jsonl", "copilot.load.jsonl", "kimi-code.load.jsonl")
# Spelled so that this file does not name what it leaves out.
REGISTRY = re.compile(r"py[p]i\.|python[h]osted|npm[j]s\.|yarn[p]kg\.", re.IGNORECASE)
KINDS = {"Bash": "execute", "Read": "read", "Write": "edit", "Edit": "edit", "Grep": "search", "WebFetch": "fetch"}
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

Record = dict[str, Any]


def main() -> None:
    found: dict[str, Record] = {}
    for record in (*transcripts(), *adapter_streams(), *BY_HAND):
        add(found, record)
    for record in shell_lines(MOST - len(found)):
        add(found, record)
    lines = [json.dumps({"id": number, **record}) for number, record in enumerate(found.values(), 1)]
    (HERE / "requests.jsonl").write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{len(lines)} requests\n")


def add(found: dict[str, Record], record: Record) -> None:
    text = json.dumps(record).replace("/home/user/project", "{project}").replace("/home/user", "{home}")
    key = re.sub(r'"from": "[^"]*", ', "", re.sub(r"toolu_\w+|call_\w+|exec-[\w-]+", "call", text))
    if REGISTRY.search(text) is None:
        found.setdefault(key, json.loads(text))


def messages(path: Path) -> Iterator[Record]:
    for line in path.read_text().splitlines():
        message = json.loads(line).get("msg")
        if isinstance(message, dict):
            yield message


def transcripts() -> Iterator[Record]:
    """Every permission request with what was reported of its turn, files and commands, and each call without one."""
    for path in sorted((*SHARED.glob("transcripts/*.jsonl"), *SHARED.glob("extension-traffic/*.jsonl"))):
        updates: list[Record] = []
        agent = re.split(r"[.0-9]|-(?:noread|readonly|zed|load|goal|steering|subagents)", path.name)[0]
        for message in messages(path):
            method = message.get("method")
            params: Record = message.get("params") or {}
            common = {"from": path.name, "agent": agent}
            if method == "session/prompt":
                updates = []
            elif method == "session/update" and str(params["update"].get("sessionUpdate")).startswith("tool_call"):
                updates.append(params["update"])
                if params["update"]["sessionUpdate"] == "tool_call" and path.name in LOADED:
                    call = {name: params["update"][name] for name in params["update"] if name != "sessionUpdate"}
                    asked = {"sessionId": "s", "toolCall": call, "options": OPTIONS}
                    yield {**common, "way": "permission", "updates": [], "request": asked}
            elif method == "session/request_permission":
                request = {**params, "sessionId": "s"}
                if isinstance(request.get("toolCall"), dict):
                    yield {**common, "way": "permission", "updates": list(updates), "request": request}
            elif method in ("fs/read_text_file", "fs/write_text_file"):
                kind = "read" if "read" in method else "edit"
                title = f"{kind.title()} {params['path']}"
                yield {**common, "way": "check", "request": {"kind": kind, "title": title, "paths": [params["path"]]}}
            elif method == "terminal/create":
                words = [params["command"], *(params.get("args") or ())]
                named = {"shell": words[0]} if len(words) == 1 else {"command": words}
                request = {"kind": "execute", "title": " ".join(words), **named, "cwd": params.get("cwd") or ""}
                yield {**common, "way": "command", "request": request}


def adapter_streams() -> Iterator[Record]:
    """The tools of streams that are not ours, as an adapter would pass them on."""
    for path in sorted(SHARED.glob("adapter-streams/claude/*.jsonl")):
        for message in messages(path):
            content = message.get("message", {}).get("content") if message.get("type") == "assistant" else None
            for item in content if isinstance(content, list) else ():
                if item.get("type") == "tool_use" and item["input"]:
                    yield asked_tool(path, "claude", item["name"], item["input"])
            request = message.get("request") or {}
            if request.get("subtype") == "can_use_tool":
                yield asked_tool(path, "claude", request["tool_name"], request["input"])
    for path in sorted(SHARED.glob("adapter-streams/codex/*.jsonl")):
        for message in messages(path):
            item = (message.get("params") or {}).get("item") or {}
            if message.get("method") == "item/started" and item.get("type") == "commandExecution":
                raw = {"command": item["command"], "cwd": item["cwd"]}
                yield asked_tool(path, "codex", "Bash", raw)
            elif message.get("method") == "item/started" and item.get("type") == "fileChange":
                yield asked_tool(path, "codex", "Edit", {"changes": item["changes"]})


def asked_tool(path: Path, agent: str, tool: str, raw: Record) -> Record:
    call = {"toolCallId": "call", "title": tool, "kind": KINDS.get(tool, "other"), "rawInput": raw}
    if tool.startswith("mcp__"):
        call["_meta"] = {"claudeCode": {"toolName": tool}}
    request = {"sessionId": "s", "toolCall": call, "options": OPTIONS}
    return {"from": path.name, "agent": agent, "way": "permission", "updates": [], "request": request}


def shell_lines(most: int) -> Iterator[Record]:
    """Command lines at equal distances in the list, each in one of the ways in which an agent sends it."""
    found = [json.loads(line)["line"] for line in (SHARED / "research" / "shell-lines.jsonl").read_text().splitlines()]
    found = [line for line in dict.fromkeys(found) if len(line) < 1_500 and REGISTRY.search(line) is None]
    for number in range(most):
        line = found[number * len(found) // most]
        words = ["/bin/bash", "-lc", line]
        common = {"from": "shell-lines.jsonl", "agent": "a"}
        request = {"kind": "execute", "title": line[:60]}
        match number % 4:
            case 0:
                yield asked_tool(Path("shell-lines.jsonl"), "a", "Bash", {"command": line})
            case 1 | 2:
                yield {**common, "way": "command", "request": {**request, "shell": line}}
            case _:
                yield {**common, "way": "command", "request": {**request, "command": words, "cwd": "{project}/sub"}}


if __name__ == "__main__":
    main()
