"""Decides about every request by every set of rules, and compares the rows with those that were stored.

    python -m tests.permission_table.table                     shows which rows differ
    python -m tests.permission_table.table --accept "REASON"   writes them to `changed.jsonl`, with the reason
    python -m tests.permission_table.table --store             stores all rows anew; only after new requests

`expected.jsonl.gz` has one row for each request. A change that is meant goes to `changed.jsonl`, where both the old and
the new outcome can be read. A change of how all rows are worded is a function here: see `reworded`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dragoman.builtin.permission import ToolPermissions
from dragoman.builtin.refusals import UserAnswer
from dragoman.client.permission import ClientPermissions, Guarding, Question
from dragoman.errors import RequestError
from dragoman.policy import Command, Request, Rule
from dragoman.policy.decide import Decision, offer_options
from dragoman.policy.modes import MODES
from dragoman.policy.project_code import AnsweredCode
from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold
from tests.permission_table.rule_sets import SETS, RuleSet

HERE = Path(__file__).parent
ALL = slice(None)
REQUESTS, EXPECTED, CHANGED = HERE / "requests.jsonl", HERE / "expected.jsonl.gz", HERE / "changed.jsonl"
# What a system has is not the same everywhere; these programs are taken for its own.
PROGRAMS = frozenset(
    {
        *("awk", "cat", "cut", "date", "diff", "du", "echo", "find", "git", "grep", "head", "ls", "pwd", "rg", "sed"),
        *("sort", "stat", "tail", "tr", "true", "uniq", "wc"),
    }
)

Outcome = list[Any]


class Place:
    """A project with links, a home and further folders. Their paths are equally long each time: texts are cut."""

    def __init__(self, base: Path) -> None:
        self.names = {name: str(base / name) for name in ("project", "home", "outside", "added", "link")}
        for name in (
            "project/.git/hooks",
            "project/src",
            "project/secret",
            "project/sub",
            "home/.ssh",
            "outside",
            "added",
        ):
            (base / name).mkdir(parents=True)
        for name in ("src/a.py", "secret/key.txt", "a.txt", "b.txt", "note.txt", ".git/config", "AGENTS.md"):
            (base / "project" / name).write_text("alpha\n")
        for name in ("home/.ssh/id", "home/.bashrc", "outside/x.txt", "added/c.txt"):
            (base / name).write_text("alpha\n")
        (base / "project/link.txt").symlink_to("secret/key.txt")
        (base / "project/hard.txt").hardlink_to(base / "project/secret/key.txt")
        (base / "project/out").symlink_to("../outside")
        (base / "link").symlink_to("project")

    def fill(self, text: str) -> str:
        """The text with these folders in the place of their names."""
        for name, path in self.names.items():
            text = text.replace(f"{{{name}}}", path)
        return text

    def empty(self, text: str) -> str:
        """The inverse of `fill`."""
        for name, path in self.names.items():
            text = text.replace(path, f"{{{name}}}")
        return text


class SeenSession:
    """A session as permission decisions see it."""

    def __init__(self, cwd: str, added: str, state: SessionState) -> None:
        self.id = "s"
        self.cwd = cwd
        self.additional_directories = [added]
        self.state = state
        self.is_cancelled = False

    def announced(self, tool_call_id: str) -> Any:
        return self.state.tool_calls.get(tool_call_id)

    def on_cancel(self, callback: object) -> Any:
        return nullcontext()


class Asked:
    """A user who never chooses; keeps what was shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    async def ask(self, question: Question, session: object) -> str | None:
        is_own = question.sent is None
        options = [
            [option.option_id, _scope(option.name) if is_own else option.name, option.kind]
            for option in question.permission.options
        ]
        about = [[each.kind, _command(each), *each.paths] for each in (question.request, *question.also)]
        changed = [diff.path for diff in question.diffs]
        self.shown = [question.why, options, list(question.proposals), about, changed, question.cwd]
        return None

    async def ask_about(self, options: Any) -> UserAnswer:
        self.shown = [[option.id, _scope(option.label), option.kind, option.rule, option.scope] for option in options]
        return UserAnswer(None)


class FixedRules:
    """The rules of a session of the built-in agent."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self.code = AnsweredCode()

    def of(self, project: str) -> tuple[Rule, ...]:
        return self._rules


def permissions_of(chosen: RuleSet, rules: tuple[Rule, ...], agent: str, asked: Asked, root: str) -> ClientPermissions:
    return ClientPermissions(
        rules,
        agent=agent,
        asker=asked,
        remember=lambda *rule: None,
        root=root,
        guarding=Guarding(
            confines=lambda: chosen.confines,
            allows_all=chosen.allows_all,
            reads_reasons=lambda: chosen.reads_reasons,
        ),
    )


async def asked_by_agent(record: Any, session: Any, chosen: RuleSet, rules: tuple[Rule, ...], root: str) -> Outcome:
    asked = Asked()
    permissions = permissions_of(chosen, rules, record["agent"], asked, root)
    request: v1.RequestPermissionRequest = decode(v1.RequestPermissionRequest, json.dumps(record["request"]).encode())
    outcome = await permissions.permission(request, session)
    given = None if outcome is None else [outcome.option_id, outcome.meta or None]
    return ["permission", *described(permissions.decisions), given, asked.shown]


async def done_for_agent(record: Any, session: Any, chosen: RuleSet, rules: tuple[Rule, ...], root: str) -> Outcome:
    asked = Asked()
    permissions = permissions_of(chosen, rules, record["agent"], asked, root)
    return ["check", await error_of(permissions.check(request_of(record), session)), *kept(permissions, asked)]


async def confined(record: Any, session: Any, chosen: RuleSet, rules: tuple[Rule, ...], root: str) -> Outcome:
    asked = Asked()
    permissions = permissions_of(chosen, rules, record["agent"], asked, root)
    return [
        "confined",
        await error_of(permissions.check_confined(request_of(record), session)),
        *kept(permissions, asked),
    ]


async def by_built_in(record: Any, session: Any, chosen: RuleSet, rules: tuple[Rule, ...], root: str) -> Outcome:
    asked = Asked()
    roots = (root, *session.additional_directories)
    fixed: Any = FixedRules(rules)
    permissions = ToolPermissions(fixed, lambda: MODES[chosen.mode], roots, has_sandbox=True)
    request = request_of(record, agent="dragoman", root=root, home=os.environ["HOME"])
    decision = await permissions.decide((request,), asked.ask_about)
    where = permissions.placement
    found = described([decision])
    return ["built-in", *found, where.where, where.is_exception, list(where.permitted), asked.shown]


def request_of(record: Any, **members: str) -> Request:
    found = {**record["request"], **members}
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    argv, line, cwd = found.pop("command", None), found.pop("shell", None), found.pop("cwd", "")
    command = None if argv is None and line is None else Command(argv, line, cwd)
    return Request(**{"agent": "", **found, "command": command})


def _command(request: Request) -> Any:
    return None if request.command is None else request.command.argv or request.command.line


async def error_of(checking: Any) -> Any:
    try:
        return await checking
    except RequestError as error:
        return error.message


def kept(permissions: ClientPermissions, asked: Asked) -> list[Any]:
    return [*described(permissions.decisions), asked.shown]


def described(decisions: list[Decision]) -> list[Any]:
    return [
        [each.action, each.decided_by, each.reason, each.option_id, each.command, *each.paths] for each in decisions
    ]


WAYS = {
    "permission": (asked_by_agent,),
    "check": (done_for_agent,),
    "built-in": (by_built_in,),
    "command": (done_for_agent, confined, by_built_in),
}


async def rows(place: Place, part: slice = ALL) -> list[dict[str, Any]]:
    """For each request its outcomes, and under each number of a set the number of its outcome."""
    found = []
    sets = [(chosen, tuple(_filled(rule, place) for rule in chosen.parsed())) for chosen in SETS]
    for text in REQUESTS.read_text().splitlines()[part]:
        record = json.loads(place.fill(text))
        state = SessionState()
        state.begin_turn(())
        for update in record.get("updates", ()):
            fold(
                state, decode(v1.SessionNotification, json.dumps({"sessionId": "s", "update": update}).encode()).update
            )
        outcomes: dict[str, int] = {}
        chosen_by = []
        for chosen, rules in sets:
            session = SeenSession(place.fill(chosen.folder), place.names["added"], state)
            root = place.names["link" if chosen.folder == "{link}" else "project"]
            made = [await way(record, session, chosen, rules, root) for way in WAYS[record["way"]]]
            outcome = place.empty(json.dumps(made))
            chosen_by.append(outcomes.setdefault(outcome, len(outcomes)))
        found.append({"id": record["id"], "outcomes": list(map(json.loads, outcomes)), "by": chosen_by})
    return found


def _filled(rule: Rule, place: Place) -> Rule:
    return Rule(rule.action, place.fill(rule.text), rule.scope, rule.source)


@contextmanager
def prepared() -> Iterator[Place]:
    """The folders of the table, a home in the place of the user's, and programs that do not depend on the system."""
    base = Path(tempfile.mkdtemp(prefix="permissions-", dir="/tmp"))  # a path of one length

    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if os.path.basename(name) in PROGRAMS else None

    try:
        place = Place(base)
        with patch.dict(os.environ, {"HOME": place.names["home"]}), patch.object(shutil, "which", which):
            yield place
    finally:
        shutil.rmtree(base)


def reworded(outcome: Outcome) -> Outcome:
    """An outcome with the options as they are offered now. Which rules they write is compared as it was stored.

    The reason: every option states its scope, "for this session" is offered next to "for this project" by all questions
    of ours, and a rejection can be kept for the project. So the options of a row follow from its proposals.
    """
    return [_reworded_way(way) for way in outcome]


def _reworded_way(way: list[Any]) -> list[Any]:
    if way[0] in ("check", "confined"):
        way = [_by_new_id(part) for part in way]
        if way[-1] and way[-1][1][0][0] == "allow":
            why, _, texts, *more = way[-1]
            options = [[option.id, _scope(option.label), option.kind] for option in offer_options(texts)]
            return [*way[:-1], [why, options, texts, *more]]
    if way[0] == "built-in" and any(option[0] == "allow-always-1" for option in way[-1]):
        texts = [option[3] for option in way[-1] if option[0].startswith("allow-always")]
        outside = ", outside the sandbox" if way[-1][0][1].endswith(", outside the sandbox") else ""
        offered = []
        for each in offer_options(texts):
            label = _scope(each.label) + (outside if each.kind.startswith("allow") else "")
            offered.append([each.id, label, each.kind, each.rule, each.scope])
        return [*way[:-1], offered]
    return way


def _by_new_id(part: Any) -> Any:
    """A decision about a question of the client's own that a fixed answer made."""
    if isinstance(part, list) and len(part) > 3 and part[0] == "allow" and part[3] == "allow":
        return [*part[:3], "allow-once", *part[4:]]
    return part


def _scope(label: str) -> str:
    """The scope in a label; the rule is in the row itself, and is cut in labels."""
    return label.partition(": ")[0]


def stored() -> list[dict[str, Any]]:
    """The expected rows, with the changes that were accepted since."""
    found = [json.loads(line) for line in gzip.decompress(EXPECTED.read_bytes()).splitlines()]
    for row in found:
        row["outcomes"] = [reworded(outcome) for outcome in row["outcomes"]]
    by_id = {row["id"]: row for row in found}
    for line in CHANGED.read_text().splitlines() if CHANGED.exists() else ():
        change = json.loads(line)
        change["after"] = reworded(change["after"])
        row = by_id[change["id"]]
        if change["after"] not in row["outcomes"]:
            row["outcomes"].append(change["after"])
        for number in change["sets"]:
            row["by"][number] = row["outcomes"].index(change["after"])
    return found


def differences(part: slice = ALL) -> list[dict[str, Any]]:
    """What is decided otherwise than it was, by request; sets with the same two outcomes are put together."""
    with prepared() as place:
        now = asyncio.run(rows(place, part))
    found: dict[str, dict[str, Any]] = {}
    expected = stored()[part]
    assert [row["id"] for row in now] == [row["id"] for row in expected], "the requests are others than those stored"
    for old, new in zip(expected, now, strict=True):
        for number, (was, is_now) in enumerate(zip(old["by"], new["by"], strict=True)):
            before, after = old["outcomes"][was], new["outcomes"][is_now]
            if before != after:
                change = {"id": old["id"], "before": before, "after": after}
                found.setdefault(json.dumps(change), {**change, "sets": []})["sets"].append(number)
    return list(found.values())


def main(arguments: list[str]) -> None:
    if arguments == ["--store"]:
        with prepared() as place:
            lines = [json.dumps(row, separators=(",", ":")) for row in asyncio.run(rows(place))]
        EXPECTED.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
        CHANGED.unlink(missing_ok=True)
        return
    found = differences()
    for change in found:
        sys.stdout.write(json.dumps(change, indent=1) + "\n")
    sys.stdout.write(f"{len(found)} differences\n")
    if len(arguments) == 2 and arguments[0] == "--accept":
        with CHANGED.open("a") as file:
            file.writelines(json.dumps({**change, "reason": arguments[1]}) + "\n" for change in found)


if __name__ == "__main__":
    main(sys.argv[1:])
