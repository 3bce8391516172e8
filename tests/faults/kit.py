"""Agents that misbehave: a few lines of Python each, run as real processes."""

from __future__ import annotations

import sys
from contextlib import suppress

from dragoman.process import proctable

# What every such agent starts with. `until` answers the handshake on the way to what the test is about.
PRELUDE = """
import json, os, signal, sys, time

IN, OUT = sys.stdin.buffer, sys.stdout.buffer
CAPABILITIES = {}

def raw(data):
    OUT.write(data)
    OUT.flush()

def send(**members):
    raw(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\\n")

def answer(request, **result):
    send(id=request["id"], result=result)

def refuse(request, code, message="No"):
    send(id=request["id"], error={"code": code, "message": message})

def update(kind, session="s", **members):
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **members}})

def say(text, **members):
    update("agent_message_chunk", content={"type": "text", "text": text}, **members)

def read():
    line = IN.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)

def until(method):
    while True:
        message = read()
        if message.get("method") == method:
            return message
        if message.get("method") == "initialize":
            answer(message, protocolVersion=1, agentCapabilities=CAPABILITIES)
        elif message.get("method") in ("session/new", "session/load", "session/resume"):
            answer(message, sessionId="s")

def prompt_text(message):
    return message["params"]["prompt"][0]["text"]

def sleep_for_ever():
    while True:
        time.sleep(1000)
"""


def rough_agent(code: str, *arguments: str) -> list[str]:
    """The command of an agent with this body; without `site`, it starts in a few milliseconds."""
    return [sys.executable, "-IS", "-c", PRELUDE + code, *arguments]


def still_alive(*pids: int) -> list[int]:
    """Those that run; a dead one that its new parent has not collected yet does not."""
    alive = []
    for pid in pids:
        with suppress(OSError):
            if proctable.status(pid).is_alive:
                alive.append(pid)
    return alive
