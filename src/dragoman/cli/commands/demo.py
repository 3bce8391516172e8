"""`dragoman demo`: a full turn of the scripted agent, in a folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman.cli.command import Call, Command, Option

RULES = ("edit:greeting.txt", "execute:cat greeting.txt")


def run(call: Call) -> int:
    from tempfile import TemporaryDirectory

    from dragoman.cli.command import parse
    from dragoman.cli.commands.exec import COMMAND as EXEC
    from dragoman.cli.exec.run import execute

    rules = () if call.given.ask else RULES
    with TemporaryDirectory(prefix="dragoman-demo-") as folder:
        Path(folder, "greeting.txt").write_text("Hello.\n")
        allowed = [word for rule in rules for word in ("--allow", rule)]
        _introduce(folder, rules)
        # Verbose, so that it is seen wherever stderr goes: that is what a demo is for.
        return execute(parse("exec", EXEC, ["-a", "scripted", "--cwd", folder, *allowed, "--verbose", "tour"]))


def _introduce(folder: str, rules: tuple[str, ...]) -> None:
    how = "".join(f"\n  --allow '{rule}'" for rule in rules) if rules else "\n  no rule: you are asked"
    sys.stderr.write(
        "This is `dragoman exec` with the scripted agent: it plays a script and calls no model.\n"
        f"It works in {folder}, which is removed afterwards. What it may do there:{how}\n\n"
    )
    sys.stderr.flush()


COMMAND = Command(
    run=run,
    description=(
        "Shows one turn of an agent, from the prompt to the answer: text, a plan, tool calls, a change that is asked\n"
        "about, a command. The agent is scripted and works in a temporary folder; nothing of yours is touched."
    ),
    options=(Option("--ask", "decide yourself what the agent may do, instead of by two rules"),),
    examples=("dragoman demo", "dragoman demo --ask"),
)
