"""`dragoman translate`: an agent of one version of the protocol behind an editor of another one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json
from dragoman.cli.masked_streams import mask_stored_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERSIONS = ("1", "2", "2025.1")


def run(call: CliCall) -> int:
    given = call.given
    if not call.program:
        raise exits.CliError(
            "translate needs the agent's command", hint="dragoman translate --client 1 --agent 2 -- codex-acp"
        )
    client, agent = given.client or "1", given.agent or "1"
    if given.lazy and agent != "2025.1":
        raise exits.CliError("--lazy is for --agent 2025.1", hint="see dragoman translate --help")
    if given.print_settings:
        return _print_settings(call)
    mask_stored_keys()
    return translate(call.program, client, agent, is_lazy=given.lazy)


def translate(command: Sequence[str], client: Any, agent: Any, *, is_lazy: bool = False) -> int:
    """Run an agent's command behind this program's stdin and stdout.

    Args:
        client: The version that the editor speaks.
        agent: The version that the agent speaks.
        is_lazy: Of an agent of 2025.1: start its conversation with the first session.
    """
    import asyncio

    from dragoman.cli.dialect import DIALECT, TOKEN_VARIABLE, kept_sessions, notes_for, rules_of
    from dragoman.errors import DragomanError
    from dragoman.proxy.rules import RuleAnswers
    from dragoman.proxy.translate import run_translation
    from dragoman.versions import translator

    answers = RuleAnswers(rules_of, os.path.basename(command[0]))
    known, keep = kept_sessions(" ".join(command), _say) if client == DIALECT else ({}, None)
    made = translator(
        client,
        agent,
        folder=os.getcwd(),
        decide=answers.decide,
        token=os.environ.get(TOKEN_VARIABLE),
        is_lazy=is_lazy,
        mark=f"dragoman-{os.urandom(4).hex()}",
        known_sessions=known,
        keep_session=keep,
    )
    try:
        return asyncio.run(run_translation(command, made, notes=notes_for(client, agent)))
    except DragomanError as error:
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error


def _say(sentence: str) -> None:
    sys.stderr.write(f"dragoman: {sentence}\n")


def _print_settings(call: CliCall) -> int:
    words = ["translate"]
    for name in ("client", "agent"):
        words += [f"--{name}", getattr(call.given, name) or "1"]
    if call.given.lazy:
        words.append("--lazy")
    program = call.program or ()
    server = {"command": "dragoman", "args": [*words, "--", *program], "env": {}}
    name = os.path.basename(program[0])
    write_json({"agent_servers": {name: server}})
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Runs between an editor and an agent that speak different versions of the protocol: put it in front of the\n"
        "agent's command in the editor's settings. Versions are 1, 2 and 2025.1, in every pair. What the other one\n"
        "cannot express is reported on stderr, once for each kind; docs/versions.md lists it. The exit code is the\n"
        "agent's."
    ),
    options=(
        CliOption("--client", "the version that the editor speaks (default: 1)", value="VERSION", choices=_VERSIONS),
        CliOption(
            "--agent",
            "the version that the agent speaks; auto finds out whether that is 1 or 2 (default: 1)",
            value="VERSION",
            choices=(*_VERSIONS, "auto"),
        ),
        CliOption(
            "--lazy", "for --agent 2025.1: begin with the first session, so that it names the folder and MCP servers"
        ),
        CliOption("--print-settings", "print the settings for Zed and JetBrains, and run nothing"),
    ),
    examples=(
        "dragoman translate --client 1 --agent 2 -- codex-acp",
        "dragoman translate --client 2 --agent auto -- gemini --acp",
        "dragoman translate --client 2025.1 --agent 1 -- dragoman agent --model scripted",
        "dragoman translate --client 2 --agent 1 --print-settings -- gemini --acp",
    ),
    takes_program=True,
)
