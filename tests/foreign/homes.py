"""Folders of a user who has set up all four programs, with what real files hold and what goes wrong in them."""

from __future__ import annotations

from pathlib import Path

KEYS = (
    "sk-ant-api03-" + "abcdefghij0123456789",
    "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2",
    "hunter2-is-a-password",
    "xoxb-" + "123456789012-abcdefabcdef",
    "lin_api_" + "Zz9Yy8Xx7Ww6",
    "oauth-client-secret-1",
    "s3cr3t",
)
"""What no output and no written file may hold."""
ANTHROPIC, GITHUB, PASSWORD = KEYS[:3]


PLACES = dict(zip(("ANTHROPIC", "GITHUB", "PASSWORD", "SLACK", "LINEAR", "CLIENT", "URL_PASSWORD"), KEYS, strict=True))


def write(root: Path, files: dict[str, str]) -> None:
    """Write files; `<GITHUB>` in a text is that key."""
    for name, text in files.items():
        for place, key in PLACES.items():
            text = text.replace(f"<{place}>", key)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


CLAUDE = {
    ".claude/CLAUDE.md": "# How I work\n\n- Answer briefly.\n- See @~/notes/style.md and `@not/this.md`.\n",
    ".claude/rules/python.md": "---\npaths:\n  - '**/*.py'\n---\nUse type hints.\n",
    ".claude/commands/fix-issue.md": (
        "---\ndescription: Fix an issue: carefully\nargument-hint: NUMBER\n"
        "allowed-tools: Bash(gh:*)\nmodel: opus\n---\n"
        "Status: !`git status`\nFix issue $1. Rules: @docs/rules.md $ARGUMENTS\n"
    ),
    ".claude/commands/git/squash.md": "Squash the last commits.\n",
    ".claude/commands/review.md": "My own review of $ARGUMENTS\n",
    ".claude/agents/reviewer.md": (
        "---\nname: reviewer\ndescription: Reviews code: use it after edits # always\n"
        "tools: Read, Grep, Bash(git diff:*), Frobnicate\nmodel: sonnet\npermissionMode: bypassPermissions\n"
        "maxTurns: 500\ncolor: red\nmemory: user\n---\nYou review code.\n"
    ),
    ".claude/agents/planner.md": (
        "---\nname: planner\ndescription: Plans\ndisallowedTools: Write, Bash(rm:*)\npermissionMode: plan\n"
        "model: claude-opus-5-5\n---\nYou plan.\n"
    ),
    ".claude/agents/empty.md": "---\nname: empty\n---\nNo description.\n",
    ".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: PDFs\n---\nRead PDFs.\n",
    ".claude/settings.json": """{
  // a comment
  "model": "opus",
  "permissions": {
    "defaultMode": "bypassPermissions",
    "additionalDirectories": ["../other"],
    "deny": ["Read(./.env)", "Read(secrets/**)", "Bash(rm:*)", "WebFetch(domain:evil.example)", "Bash(git * main)"],
    "ask": ["Bash(git push:*)", "mcp__github__create_issue", "Edit(package.json)"],
    "allow": ["Bash(npm test)", "Bash(npm run:*)", "Bash", "Edit(src/**)", "WebFetch", "Agent(x)", "mcp__github"],
  },
  "hooks": {
    "PreToolUse": [{"matcher": "Bash|mcp__github__.*",
      "hooks": [{"type": "command", "command": "~/bin/check", "timeout": 10}]}],
    "PostToolUse": [{"matcher": "Edit|Write", "hooks": [
      {"type": "command", "command": "ruff format ."},
      {"type": "prompt", "prompt": "Is it good?"}]}],
    "Stop": [{"hooks": [{"type": "command",
      "command": "curl -H 'Authorization: Bearer <SLACK>' https://x.example", "timeout": 9000}]}],
    "PostToolUseFailure": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "~/bin/explain"}]}],
    "SubagentStart": [{"matcher": "Explore|reviewer", "hooks": [{"type": "command", "command": "~/bin/brief"}]}],
    "SubagentStop": [{"hooks": [{"type": "command", "command": "~/bin/done"}]}],
    "SessionStart": [{"hooks": [{"type": "command", "command": "echo hi"}]}],
  },
  "unknownThing": true,
}
""",
    ".claude.json": """{
  "numStartups": 12,
  "oauthAccount": {"accessToken": "<ANTHROPIC>"},
  "mcpServers": {
    "github": {"type": "http", "url": "https://api.example/mcp",
      "headers": {"Authorization": "Bearer <GITHUB>", "X-Team": "blue"}},
    "files": {"command": "mcp-files", "args": ["--root", "${HOME}/x", "--api-key", "<PASSWORD>"],
      "env": {"API_KEY": "<ANTHROPIC>", "LEVEL": "1"}},
    "linear": {"type": "sse", "url": "https://mcp.linear.example/sse",
      "oauth": {"clientId": "c1", "clientSecret": "<CLIENT>"}},
    "socket": {"type": "ws", "url": "wss://x.example"}
  },
  "projects": {"/home/me/p": {"mcpServers": {"local": {"command": "x"}}, "history": []}}
}
""",
}

CODEX = {
    ".codex/AGENTS.md": "Use tabs.\n",
    ".codex/AGENTS.override.md": "Use spaces.\n",
    ".codex/prompts/draft.md": "Draft a message about $1.\n",
    ".codex/skills/notes/SKILL.md": (
        "---\nname: notes\ndescription: Takes notes: short ones\nallowed-tools: Bash\n---\nWrite.\n"
    ),
    ".codex/skills/notes/scripts/run.sh": "echo notes\n",
    ".codex/config.toml": """
model = "gpt-5.1-codex"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[mcp_servers.docs]
url = "https://docs.example/mcp"
bearer_token_env_var = "DOCS_TOKEN"
scopes = ["read"]
tool_timeout_sec = 5
disabled_tools = ["drop_all"]
[mcp_servers.docs.oauth]
client_id = "codex"
callback_port = 4444

[mcp_servers.off]
command = "never"
enabled = false

[mcp_servers.files]
command = "other-files"
env_vars = ["HOME_TOKEN"]

[agents.tester]
description = "Runs tests"
config_file = "agents/tester-role.toml"

[agents.ghost]
description = "Has no instructions"

[[hooks.PreToolUse]]
matcher = "shell"
[[hooks.PreToolUse.hooks]]
type = "command"
command = "check-it"
timeout = 5
""",
    ".codex/agents/tester-role.toml": (
        'model = "gpt-5.1"\nsandbox_mode = "read-only"\ndescription = "Runs tests"\n'
        'developer_instructions = "You run tests."\nmodel_reasoning_effort = "high"\n'
    ),
    ".codex/rules/default.rules": (
        'prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")\n'
        'prefix_rule(\n    pattern=["rm", "-rf"],\n    decision="forbidden",\n)\n'
        'prefix_rule(pattern=["cargo", "build"], decision="allow")\n'
        "host_rule(x=1)\n"
        'prefix_rule(pattern=["a b"], decision="allow")\n'
    ),
    ".codex/rules/broken.rules": "prefix_rule(pattern=[\n",
}

OPENCODE = {
    ".config/opencode/AGENTS.md": "Use tabs.\n",
    ".config/opencode/opencode.jsonc": """{
  "$schema": "https://opencode.ai/config.json",
  "model": "anthropic/claude-sonnet-5-5",
  "instructions": ["docs/*.md"],
  "permission": {
    "*": "ask",
    "bash": {"rm *": "deny", "*": "allow", "git push *": "ask", "git push --force *": "deny", "git *main": "deny"},
    "edit": {"*": "deny", "src/*": "allow"},
    "read": {"*.env": "deny", "secrets/*": "deny"},
    "webfetch": "deny",
    "doom_loop": "ask",
    "tickets_*": "deny", // a server
  },
  "mcp": {
    "tickets": {"type": "local", "command": ["tickets-mcp", "--stdio"], "environment": {"TICKETS_TOKEN": "{env:TT}"}},
    "remote": {"type": "remote", "url": "https://user:<URL_PASSWORD>@r.example/mcp?api_key=<LINEAR>", "oauth": false},
    "off": {"type": "local", "command": ["x"], "enabled": false},
    "filed": {"type": "remote", "url": "https://f.example", "headers": {"Authorization": "{file:~/token}"}},
  },
  "command": {"ship": {"template": "Ship $ARGUMENTS", "description": "Ship it", "agent": "build", "subtask": true}},
  "agent": {
    "docs": {"description": "Writes docs", "mode": "subagent", "model": "anthropic/claude-haiku-5",
             "prompt": "You write docs.",
             "permission": {"bash": "deny", "webfetch": "ask"}, "tools": {"write": false}},
    "gone": {"disable": true, "description": "x", "prompt": "y"},
  },
}
""",
    ".config/opencode/command/test.md": "---\ndescription: Test\nagent: build\n---\nRun the tests for $1\n",
    ".config/opencode/agent/sec/audit.md": (
        "---\ndescription: Audits: for security\nmode: primary\ntools:\n  write: false\n  edit: false\nsteps: 20\n"
        "reasoningEffort: high\n---\nYou audit.\n"
    ),
}

GEMINI = {
    ".gemini/GEMINI.md": "Use tabs.\n",
    ".gemini/commands/git/commit.toml": (
        'description = "Commit"\nprompt = """Write a message for: !{git diff --staged}\n'
        'Style: @{docs/style.md}\n{{args}}"""\n'
    ),
    ".gemini/commands/broken.toml": 'prompt = "unfinished\n',
    ".gemini/agents/finder.md": (
        "---\nname: finder\ndescription: Finds things\ntools:\n  - read_file\n  - grep_search\n  - mcp_docs_search\n"
        "model: gemini-3-pro\nmax_turns: 12\ntimeout_mins: 5\n---\nYou find.\n"
    ),
    ".gemini/agents/far.md": "---\nname: far\nkind: remote\ndescription: Far\n---\nx\n",
    ".gemini/settings.json": """{
  "model": {"name": "gemini-3-pro"},
  "general": {"defaultApprovalMode": "yolo"},
  "tools": {"exclude": ["run_shell_command(rm -rf)"], "allowed": ["run_shell_command(git status)", "write_file"]},
  "mcpServers": {
    "search": {"httpUrl": "https://s.example/mcp", "headers": {"X-Api-Key": "$SEARCH_KEY"},
               "trust": true, "timeout": 5000,
               "excludeTools": ["delete"]},
    "old": {"url": "https://old.example/sse"}
  },
  "mcp": {"excluded": ["old"]},
  "hooks": {
    "BeforeTool": [{"matcher": "run_shell_command|write_file",
      "hooks": [{"type": "command", "command": "guard.sh", "timeout": 5000}]}],
    "AfterAgent": [{"hooks": [{"name": "bell", "type": "command", "command": "bell", "timeout": 90000}]}],
    "BeforeModel": [{"hooks": [{"type": "command", "command": "x"}]}]
  }
}
""",
    ".gemini/policies/mine.toml": """
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git push", "npm publish"]
decision = "ask_user"
priority = 100

[[rule]]
toolName = "run_shell_command"
commandPrefix = "git"
decision = "allow"
priority = 50

[[rule]]
toolName = "run_shell_command"
commandRegex = ".*sudo.*"
decision = "deny"
priority = 900

[[rule]]
mcpName = "search"
toolName = "*"
decision = "deny"
priority = 10

[[rule]]
toolName = "web_fetch"
decision = "deny"
priority = 5
modes = ["yolo"]
""",
}


def build_home(home: Path) -> None:
    """Write the files of all four programs, with a link that leads out, a huge file and a broken one."""
    for files in (CLAUDE, CODEX, OPENCODE, GEMINI):
        write(home, files)
    outside = home / "outside"
    write(home, {"outside/secret.md": f"outside {PASSWORD}\n", ".gemini/skills/broken/SKILL.md": "no front matter\n"})
    (home / ".claude" / "commands" / "linked.md").symlink_to(outside / "secret.md")
    (home / ".codex" / "skills" / "notes" / "leak.md").symlink_to(outside / "secret.md")
    (home / ".claude" / "commands" / "huge.md").write_text("x" * 100_000)


PROJECT = {
    "CLAUDE.md": "Project.\n",
    "CLAUDE.local.md": "Mine.\n",
    ".claude/CLAUDE.md": "More of the project.\n",
    ".claude/commands/deploy.md": "Deploy $1\n",
    ".claude/agents/helper.md": "---\nname: helper\ndescription: Helps\nmodel: claude-opus-5-5\n---\nYou help.\n",
    ".claude/settings.json": """{
  "permissions": {"deny": ["Read(/secrets/**)"], "allow": ["Bash(make:*)"]},
  "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}
}
""",
    ".claude/settings.local.json": '{"permissions": {"deny": ["Bash(make deploy:*)"], "allow": ["Bash(ls:*)"]}}\n',
    ".mcp.json": (
        '{"mcpServers": {"local": {"command": "./server.py"},'
        ' "keyed": {"command": "x", "env": {"TOKEN": "<GITHUB>"}}}}\n'
    ),
    "opencode.json": '{"permission": {"bash": {"*": "ask", "ls *": "allow"}}}\n',
}
