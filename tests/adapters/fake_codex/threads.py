"""Threads and turns of the fake: what is reported, asked and kept."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("CODEX_HOME", "/nowhere"))
WRITING = threading.Lock()
ASKED = itertools.count()
CALLS = itertools.count(1)
QUESTIONS: "dict[int, Turn]" = {}
WORK: "dict[str, Callable[[Turn, str], None]]" = {}
"""What the first word of a prompt does."""


class Refused(Exception):
    pass


class Interrupted(Exception):
    pass


def send(message: dict[str, Any]) -> None:
    with WRITING:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def report(method: str, **params: Any) -> None:
    send({"method": method, "params": params, "emittedAtMs": int(time.time() * 1000)})


class Thread:
    def __init__(self, cwd: str, details: dict[str, Any] | None = None) -> None:
        self.id = str(uuid.uuid4())
        self.cwd = cwd
        self.turns: list[dict[str, Any]] = []
        self.name: str | None = None
        self.settings: dict[str, Any] = {
            "model": "fake-1",
            "effort": "low",
            "approvalPolicy": "on-request",
            "plan": "default",
        }
        self.settings["sandboxPolicy"] = {"type": "readOnly", "networkAccess": False}
        self.updated = time.time()
        self.fork_of: str | None = None
        self.archived = False
        self.terminals: dict[str, subprocess.Popen[str]] = {}
        self.turn: Turn | None = None
        self.turn_to_run: Turn | None = None
        self.allowed: set[str] = set()
        self.__dict__.update(details or {})

    def save(self) -> None:
        if self.turns:
            kept = ("id", "cwd", "turns", "name", "settings", "updated", "fork_of", "archived")
            HOME.mkdir(parents=True, exist_ok=True)
            (HOME / f"{self.id}.json").write_text(json.dumps({name: self.__dict__[name] for name in kept}))

    def shown(self) -> dict[str, Any]:
        texts = [
            item["content"][0].get("text", "") for turn in self.turns for item in turn["items"] if "content" in item
        ]
        known = {"id": self.id, "cwd": self.cwd, "name": self.name, "preview": texts[0] if texts else ""}
        return {**known, "turns": [], "parentThreadId": None, "updatedAt": self.updated, "createdAt": self.updated}

    def opened(self) -> dict[str, Any]:
        made = self.settings
        mode = {"mode": made["plan"], "settings": {"model": made["model"]}}
        shown = {"thread": self.shown(), "model": made["model"], "reasoningEffort": made["effort"], "cwd": self.cwd}
        policy = {"approvalPolicy": made["approvalPolicy"], "sandbox": made["sandboxPolicy"]}
        return {**shown, **policy, "collaborationMode": mode}


class Turn:
    def __init__(self, thread: Thread, text: str | None, images: int = 0) -> None:
        self.thread, self.text, self.images = thread, text, images
        self.id = str(uuid.uuid4())
        self.items: list[dict[str, Any]] = []
        self.error: dict[str, Any] | None = None
        self.stop = threading.Event()
        self.steered: list[str] = []
        self.answers: dict[int, Any] = {}
        self.came = threading.Condition()

    def wait(self, is_done: Callable[[], Any]) -> None:
        with self.came:
            while not is_done():
                if self.stop.is_set():
                    raise Interrupted
                self.came.wait(60)

    def wake(self) -> None:
        with self.came:
            self.came.notify_all()

    def report(self, method: str, **params: Any) -> None:
        report(method, threadId=self.thread.id, turnId=self.id, **params)

    def item(self, kind: str, **members: Any) -> dict[str, Any]:
        return {"type": kind, "id": f"{kind}_{next(CALLS)}_{self.id[:6]}", **members}

    def begin(self, item: dict[str, Any]) -> dict[str, Any]:
        self.report("item/started", item=item)
        return item

    def complete(self, item: dict[str, Any], **members: Any) -> None:
        item.update(members)
        if item["type"] not in ("fileChange",) or item["status"] != "declined":
            self.items.append(item)
        self.report("item/completed", item=item)

    def say(self, *pieces: str) -> None:
        item = self.begin(self.item("agentMessage", text=""))
        for piece in pieces:
            self.report("item/agentMessage/delta", itemId=item["id"], delta=piece)
        self.complete(item, text="".join(pieces))
        last = {"totalTokens": 120 + len(self.thread.turns)}
        usage = {"total": last, "last": last, "modelContextWindow": 1000}
        self.report("thread/tokenUsage/updated", tokenUsage=usage)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        own = next(ASKED)
        QUESTIONS[own] = self
        base = {"threadId": self.thread.id, "turnId": self.id}
        send({"method": method, "id": own, "params": {**base, **params}})
        try:
            self.wait(lambda: own in self.answers)
        finally:
            report("serverRequest/resolved", threadId=self.thread.id, requestId=own)
        answer: dict[str, Any] = self.answers[own]
        return answer

    def run(self) -> None:
        report("thread/status/changed", threadId=self.thread.id, status={"type": "active"})
        report("turn/started", threadId=self.thread.id, turn={"id": self.id, "items": [], "status": "inProgress"})
        if self.text is not None:
            content = [{"type": "text", "text": self.text, "text_elements": []}]
            item = self.begin(self.item("userMessage", content=content))
            self.complete(item)
        status = "completed"
        try:
            self.work()
        except Interrupted:
            status = "interrupted"
        except Refused as error:
            status, self.error = "failed", {"message": str(error), "codexErrorInfo": "other"}
            self.report("error", error=self.error, willRetry=False)
        done = {"id": self.id, "items": self.items, "status": status, "error": self.error}
        self.thread.turns.append(done)
        self.thread.updated = time.time()
        self.thread.save()
        self.thread.turn = None
        report("turn/completed", threadId=self.thread.id, turn={**done, "items": []})

    def work(self) -> None:
        if self.text is None:
            item = self.begin(self.item("contextCompaction"))
            self.complete(item)
            return
        word, _, rest = self.text.partition(" ")
        if word in WORK:
            WORK[word](self, rest)
        else:
            self.say("You said: ", *self.text.split(" "), f" {self.images} images" if self.images else "")
