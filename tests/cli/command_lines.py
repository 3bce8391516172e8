"""Command lines of every command, for tests of what no command may print: a peer's controls, a user's keys.

Words in capitals stand for something else: TEXT for the text under test, FILE for a recording with it, NAMED for a
file that is called so, PAGE and such for files to write. `test_command_lines.py` fails if a command or an action of one
is not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, NamedTuple

import pytest

from dragoman.cli import table
from tests.cli.exec_kit import Place
from tests.trace.test_inspect_plain import every_place, recorded

EVERYWHERE = "writes-text-everywhere"
LETTERS = "writes-letters"

Source = Literal["agent", "settings", "recording", "ledger", "argument"]
Stdout = Literal["text", "json", "data"]


class CommandLine(NamedTuple):
    """One command line, and where the text under test comes from."""

    verb: str
    words: tuple[str, ...]
    source: Source
    stdout: Stdout = "text"
    """What it writes there: text for people, JSON, or data that a pipe gets unchanged."""
    is_interactive: bool = False
    """It serves a client on stdin, so it cannot be run at a terminal."""
    habit: str = ""
    """Of the odd agent behind `--`; empty for none."""

    @property
    def id(self) -> str:
        return " ".join((self.verb, *self.words))


def _asking(verb: str, *words: str, stdout: Stdout = "text") -> CommandLine:
    return CommandLine(verb, words, "agent", "json" if "--json" in words else stdout, habit=EVERYWHERE)


def _reading(verb: str, *words: str, source: Source = "recording", habit: str = "") -> CommandLine:
    return CommandLine(verb, words, source, "json" if "--json" in words else "text", habit=habit)


def _given(verb: str, *words: str) -> CommandLine:
    return CommandLine(verb, words, "argument", "json" if "--json" in words else "text")


EXEC_FORMS: tuple[tuple[str, Stdout], ...] = (("text", "data"), ("json", "json"), ("events", "json"), ("raw", "data"))
LINES = (
    *(
        _asking("exec", "--output", form, how, "--deny", "other", "hello", stdout=stdout)
        for form, stdout in EXEC_FORMS
        for how in ("--verbose", "--quiet")
    ),
    _asking("sessions", "list"),
    _asking("sessions", "list", "--json"),
    _asking("sessions", "delete", "x"),
    _asking("login", "--list"),
    _asking("login", "--list", "--json"),
    _asking("login"),
    _asking("login", "TEXT"),
    _asking("logout"),
    _asking("agents", "doctor"),
    _asking("agents", "doctor", "--json"),
    _asking("check", "agent", "--only", "initialize/*,prompt/*", "--timeout", "3"),
    _asking("check", "agent", "--only", "initialize/*", "--timeout", "3", "--json"),
    CommandLine("record", ("-o", "NAMED"), "agent", "data", is_interactive=True, habit=EVERYWHERE),
    CommandLine("inspect", ("--live", "-o", "NAMED"), "agent", "data", is_interactive=True, habit=EVERYWHERE),
    _reading("doctor", "--timeout", "20", source="settings"),
    _reading("doctor", "--json", "--timeout", "20", source="settings"),
    _reading("agents", "list", source="settings"),
    _reading("agents", "list", "--json", source="settings"),
    _reading("agents", "show", "a", source="settings"),
    _reading("agents", "show", "a", "--json", source="settings"),
    _reading("agents", "accept", "b", "--yes", source="settings"),
    _reading("rules", "list", source="settings"),
    _reading("rules", "list", "--json", source="settings"),
    _reading("exec", "-a", "a", "hello", source="settings"),
    _reading("inspect", "FILE"),
    _reading("inspect", "--json", "FILE"),
    _reading("inspect", "--state", "FILE"),
    _reading("inspect", "--state", "--json", "FILE"),
    _reading("inspect", "--message", "4", "FILE"),
    _reading("inspect", "--findings", "FILE"),
    _reading("inspect", "--html", "PAGE", "FILE"),
    _reading("check", "trace", "FILE"),
    _reading("check", "trace", "--json", "FILE"),
    _reading("check", "trace", "--html", "PAGE", "--junit", "JUNIT", "FILE"),
    _reading("replay", "FILE", "--as", "client", "--report", "REPORT", habit=EVERYWHERE),
    _reading("replay", "FILE", "--as", "client", "--json", "--patience", "0.5", habit=EVERYWHERE),
    CommandLine("replay", ("FILE",), "recording", "data", is_interactive=True),
    *(
        _reading("sessions", *words, source="ledger")
        for words in (
            ("show", "@1"),
            ("show", "@1", "--full", "--json"),
            ("search", "harmless"),
            ("export", "@1"),
            ("export", "@1", "--format", "html"),
            ("rename", "@1", "harmless"),
        )
    ),
    CommandLine("sessions", ("export", "@1", "--format", "json"), "ledger", "json"),
    _given("inspect", "NAMED"),
    _given("check", "trace", "NAMED"),
    _given("check", "client", "--only", "TEXT"),
    _given("check", "--explain", "TEXT"),
    _given("agent", "--model", "scripted", "--max-turn-cost", "TEXT"),
    _given("agent", "doctor", "--model", "TEXT"),
    _given("agent", "import", "TEXT"),
    _given("agent", "import", "--only", "TEXT"),
    _given("agent", "login", "TEXT"),
    _given("agent", "logout", "TEXT"),
    _given("agents", "add", "TEXT"),
    _given("agents", "remove", "TEXT"),
    _given("agents", "install", "a", "--distribution", "TEXT"),
    _given("agents", "update", "NAMED"),
    _given("rules", "explain", "execute", "--", "curl", "TEXT"),
    _given("rules", "add", "TEXT", "--allow"),
    _given("rules", "remove", "TEXT", "--allow"),
    *(_given("completion", shell, "TEXT") for shell in ("bash", "zsh", "fish")),
    _given("demo", "TEXT"),
    _given("mcp", "serve", "--cwd", "TEXT"),
    _reading("mcp", "list", source="settings"),
    _reading("mcp", "list", "--json", source="settings"),
    _given("mcp", "add", "TEXT", "--url", "TEXT"),
    *(_given("mcp", action, "TEXT") for action in ("remove", "login", "logout", "test")),
    *(_given("mcp", action, "TEXT", "sampling") for action in ("allow", "deny")),
    _given("version", "--methods", "--side", "TEXT"),
    _given("version", "TEXT"),
    _given("help", "TEXT"),
    _given("wrap", "--url", "TEXT"),
    _given("exec", "-a", "TEXT", "hello"),
    _given("exec", "--cwd", "TEXT", "hello"),
    _given("sessions", "list", "--cwd", "TEXT"),
    _given("attach", "--plain", "TEXT"),
    _given("attach", "--plain", "--cwd", "TEXT"),
    *(_given("worktrees", action, "TEXT") for action in ("path", "diff", "merge", "discard")),
    _given("worktrees", "list", "--cwd", "TEXT"),
    _given("compare", "TEXT", "hello"),
    _given("eval", "list", "--tasks", "TEXT"),
    _given("eval", "show", "TEXT"),
    _given("eval", "run", "--task", "TEXT", "--solution", "right"),
    _given("eval", "check-tasks", "--task", "TEXT"),
    _given("eval", "report", "TEXT"),
    _given("eval", "compare", "TEXT", "TEXT"),
    _given("sessions", "report", "TEXT"),
    _given("exec", "--worktree", "TEXT", "hello"),
    _given("sessions", "storage", "--free", "TEXT"),
    *(
        _given("sessions", action, "TEXT")
        for action in ("cancel", "watch", "close", "diff", "review", "rewind", "redo")
    ),
    _given("translate", "--client", "TEXT"),
    _given("conduct", "--", "TEXT"),
    CommandLine("guard", ("--deny", "other"), "agent", "data", is_interactive=True, habit=EVERYWHERE),
    _given("guard", "--limit", "TEXT", "--", "x"),
    *(_given("audit", action, "TEXT") for action in ("verify", "head", "show", "export")),
    _given("connect", "TEXT"),
    _given("connect", "unix:/nothing", "--map", "TEXT"),
    _given("serve", "--listen", "TEXT"),
    _given("serve", "token", "add", "TEXT"),
    _given("serve", "token", "revoke", "TEXT"),
    _given("serve", "token", "pair", "--user", "TEXT"),
    _given("serve", "audit", "--since", "TEXT"),
    *(_given("fleet", action, "--url", "TEXT") for action in ("hosts", "sessions", "users")),
    *(_given("fleet", action, "x", "--url", "TEXT") for action in ("show", "end", "quota")),
    _given("web", "--port", "TEXT"),
    _given("web", "pair", "--right", "TEXT"),
    _given("web", "status", "--right", "TEXT"),
    _given("web", "stop", "--right", "TEXT"),
    _given("TEXT"),
)


def first_of_each(lines: Iterable[CommandLine], key: Callable[[CommandLine], Hashable]) -> list[Any]:
    """Each command line as a parameter; all but the first with the same key are for make soak."""
    seen: set[Hashable] = set()
    found = []
    for line in lines:
        found.append(pytest.param(line, marks=pytest.mark.soak if key(line) in seen else ()))
        seen.add(key(line))
    return found


def missing() -> list[str]:
    """Commands, and actions of commands, without a line."""
    wanted = []
    for verb in table.COMMANDS:
        arguments = table.load(verb).arguments
        wanted += [f"{verb} {action}" for action in (arguments[0].choices if arguments else ())] or [verb]
    return [each for each in wanted if not any(f"{line.id} ".startswith(f"{each} ") for line in LINES)]


def prepare(place: Place, line: CommandLine, text: str) -> tuple[str, list[str]]:
    """Put `text` where the command reads it; gives the verb and the words of its command line."""
    text = text.replace("\0", "")
    place.environment["ODD_TEXT"] = text
    if line.source == "settings":
        _write_settings(place, text)
    if line.source == "ledger":
        place.run("--deny", "other", "hello", odd=EVERYWHERE)
    meanings = {
        "TEXT": text,
        "PAGE": "page.html",
        "JUNIT": "report.xml",
        "REPORT": "report.json",
    }
    if "FILE" in line.words:
        meanings["FILE"] = str(recorded(every_place(text), place.home / "old.jsonl"))
    if "NAMED" in line.words:
        # As much of it as a file name may be long.
        name = text.replace("/", "|").encode()[-200:].decode(errors="ignore")
        meanings["NAMED"] = str(place.home / f"{name}.jsonl")
    return meanings.get(line.verb, line.verb), [meanings.get(word, word) for word in line.words]


def _write_settings(place: Place, text: str) -> None:
    agent = {"command": f"/bin/{text}", "args": [text], "env": {"NAME": text}}
    servers = {text: agent, f"{text} 2": {"url": f"http://127.0.0.1:9/{text}", "headers": {"X": text}}}
    own = {"agent_servers": {"a": agent}, "rules": {"deny": [f"edit:{text}"]}}
    shipped = {"agent_servers": {"b": agent}, "rules": {"deny": [f"edit:{text}"]}, "mcp_servers": servers, text: text}
    for folder, settings in ((place.home / "dragoman/config", own), (place.project / ".dragoman", shipped)):
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps(settings))
