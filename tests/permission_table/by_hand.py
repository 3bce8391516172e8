"""Requests that no recording has: links, protected files, addresses, MCP tools, and input that cannot be read."""

from __future__ import annotations

from typing import Any


def file(way: str, kind: str, *paths: str) -> dict[str, Any]:
    request = {"kind": kind, "title": f"{kind} {paths[0] if paths else ''}", "paths": list(paths)}
    return {"from": "by hand", "agent": "a", "way": way, "request": request}


def line(text: str, **members: Any) -> dict[str, Any]:
    request = {"kind": "execute", "title": text[:60], "shell": text, **members}
    return {"from": "by hand", "agent": "a", "way": "command", "request": request}


def other(way: str, kind: str, **members: Any) -> dict[str, Any]:
    return {"from": "by hand", "agent": "a", "way": way, "request": {"kind": kind, "title": kind, **members}}


def asked(kind: str, raw: Any, *, agent: str = "a", **members: Any) -> dict[str, Any]:
    options = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "call", "title": f"{kind} by hand", "kind": kind, "rawInput": raw, **members}
    request = {"sessionId": "s", "toolCall": call, "options": options}
    return {"from": "by hand", "agent": agent, "way": "permission", "updates": [], "request": request}


PATHS = (
    *("{project}/src/a.py", "src/b.py", "{project}/link.txt", "{project}/hard.txt", "{project}/secret/key.txt"),
    *("{project}/.git/hooks/pre-commit", "{project}/AGENTS.md", "{project}/out/x.txt", "{outside}/x.txt"),
    *("{home}/.ssh/id", "{added}/c.txt", "{project}/../outside/x.txt", "{link}/src/a.py", "~/.bashrc", "/etc/passwd"),
    *("{project}/sub/new.txt", "{project}/.env"),
)
COMMANDS = (
    *(
        "cat hard.txt",
        "cat link.txt",
        "cat out/x.txt",
        "grep -r alpha .",
        "git status",
        "git -C {added} log",
        "ls *.txt",
    ),
    *("echo x > src/new.txt", "echo x >> AGENTS.md", "cat < secret/key.txt", "cd sub && npm test", "cd .. && npm test"),
    *(
        "rm -rf build; git push",
        "cp a.txt .gi*",
        "npm test && git commit -m x",
        "tee out.log",
        "FOO=1 make",
        "CI=1 make",
    ),
    *(
        "git status && git push origin main",
        "python3 -c 'print(1)'",
        "cat ~/.ssh/id",
        "sudo rm -rf /",
        "sort a.txt | uniq",
    ),
)

BY_HAND: list[dict[str, Any]] = [
    *(file("check", "read", path) for path in PATHS),
    *(file("check", "edit", path) for path in PATHS),
    *(file("built-in", "edit", path) for path in PATHS[:10]),
    *(file("built-in", "read", path) for path in PATHS[:10]),
    *(file("check", kind, "{project}/src/a.py", "{project}/b.txt") for kind in ("delete", "move", "search")),
    file("check", "edit", "{project}/src/a\0b"),
    *map(line, COMMANDS),
    line("make", cwd="{added}"),
    line("make", cwd="{outside}"),
    line("ls", cwd="{project}/sub"),
    other("command", "execute"),
    other("command", "execute", command=["npm", "test", "--", "a b"]),
    other("built-in", "fetch", host="example.org"),
    other("built-in", "fetch", host="EXAMPLE.org.", guarded="example.org is an address of this network"),
    other("built-in", "other", mcp=["files", "read_file"]),
    other("built-in", "read", mcp=["files", "read_file"]),
    other("built-in", "think"),
    other("built-in", "edit", paths=["{project}/PLAN.md"]),
    other("built-in", "execute", shell="make", caution="the command was changed by a hook"),
    asked("fetch", {"url": "https://example.org/a"}),
    asked("fetch", {"url": "https://example.org\\@other.net/a"}),
    asked("other", {"server": "files", "tool": "write_file", "arguments": {"path": "{project}/a.txt"}}),
    asked("edit", {}),
    asked("execute", {"command": 5}),
    asked("read", {"path": "{project}/hard.txt"}),
    asked("edit", {"path": "{project}/link.txt", "content": "x"}),
    asked("edit", "*** Begin Patch\n*** Update File: src/a.py\n*** Add File: .git/hooks/x\n*** End Patch"),
    asked("other", {"files": [{"path": "a.txt"}, {"path": "b.txt"}], "command": "git status"}),
    asked("other", {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"command": "make"}}}}}}}}),
    asked("think", {}),
    asked("switch_mode", {}),
    asked("other", {"todos": []}, agent="gemini", toolCallId="write_todos_1"),
    asked("execute", None, agent="gemini", toolCallId="run_shell_command_1", title="npm test"),
]
