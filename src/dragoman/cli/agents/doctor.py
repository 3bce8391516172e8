"""`dragoman agents doctor`: what is missing to run an agent, how to get it, and how the agent describes itself."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here, required_name
from dragoman.cli.agents.display import shown_command, shown_path, write_notes
from dragoman.cli.console import paint, shown_log, write_json
from dragoman.cli.masked_streams import mask_keys
from dragoman.errors import AgentExited, DragomanError
from dragoman.text.colour import BOLD, RED
from dragoman.text.terminal import duration, one_line, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import AgentEntry
    from dragoman.registry.doctor import DoctorFinding, ProbeResult

_SECONDS = 60.0  # the slowest known agent needs eleven seconds on two busy cores


def examine_agent(call: CliCall) -> int:
    from dragoman.registry import resolve_command
    from dragoman.registry.doctor import examine

    if call.program is not None and call.given.name is not None:
        raise exits.CliError(
            "agents doctor takes a name or a command, not both", hint="dragoman agents doctor -- my-agent --acp"
        )
    agents = load_agents_here()
    if call.program is not None:
        entry = resolve_command(call.program)
    else:
        name = required_name(call.given.name, "doctor", "dragoman agents doctor gemini")
        entry = agents.look_up(name) or agents.find(name)
        mask_keys(entry.env)
    findings = examine(entry)
    seconds = _SECONDS if call.given.timeout is None else timeout_seconds(call.given.timeout, "agents")
    is_complete = all(finding.state != "missing" for finding in findings)
    answer, error = asyncio.run(ask_agent(entry, seconds)) if is_complete else (None, None)
    if call.given.json:
        write_json(_document(entry, findings, answer, error))
    else:
        _write(entry, findings, answer, error)
    write_notes(agents)
    if not is_complete:
        return exits.USAGE
    return exits.OK if error is None else exits.cli_error_of(error).exit_code


async def ask_agent(entry: AgentEntry, seconds: float) -> tuple[ProbeResult | None, DragomanError | None]:
    """Start an agent, and return its answer to `initialize`, or what went wrong."""
    from dragoman.registry.doctor import probe

    try:
        with shown_log():
            return await probe(entry, Path.cwd(), seconds=seconds), None
    except DragomanError as error:
        return None, error


def timeout_seconds(given: str, verb: str) -> float:
    """Return the value of `--timeout`. Raises: CliError if it is not a number of seconds."""
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise exits.CliError(f"--timeout takes a number of seconds, not {given!r}", hint=f"see dragoman {verb} --help")
    return seconds


def _write(
    entry: AgentEntry, findings: list[DoctorFinding], answer: ProbeResult | None, error: DragomanError | None
) -> None:
    write = sys.stdout.write
    source = "" if entry.source == "command" else f" ({entry.source}: {shown_path(entry.where)})"
    write(f"{paint(one_line(entry.name), BOLD, sys.stdout)}{source}\n")
    if entry.command:
        write(f"  {shown_command(entry.command)}\n")
    write_findings(findings)
    if answer is not None:
        _write_answer(answer)
    elif error is not None:
        write(f"{paint('failed', RED, sys.stdout)}: initialize: {one_line(str(error))}\n")
        if isinstance(error, AgentExited) and error.stderr_tail.strip():
            write("  the end of its stderr:\n")
            sys.stdout.writelines(f"    {line}\n" for line in plain(error.stderr_tail).rstrip().splitlines()[-15:])
    else:
        write("not started: something is missing\n")


def write_findings(findings: Sequence[DoctorFinding], indent: str = "") -> None:
    """Write one line for each finding, and one for what to do about it."""
    write = sys.stdout.write
    for finding in findings:
        mark = {"ok": "ok", "note": "note", "missing": paint("missing", RED, sys.stdout)}[finding.state]
        write(f"{indent}{mark}: {finding.what}: {one_line(finding.detail)}\n")
        if finding.fix:
            write(f"{indent}  {'get it with' if finding.state == 'missing' else 'hint'}: {one_line(finding.fix)}\n")


def _write_answer(answer: ProbeResult) -> None:
    write = sys.stdout.write
    name = one_line(answer.title or answer.name) or "an agent without a name"
    version = f" {one_line(answer.version)}" if answer.version else ""
    write(f"ok: initialize: {name}{version}, protocol version {answer.protocol_version}, {duration(answer.seconds)}\n")
    offered = ", ".join(_offers(answer.capabilities)) or "only what every agent must"
    write(f"  it offers: {one_line(offered)}\n")
    if not answer.logins:
        write("  it lists no login\n")
    for login in answer.logins:
        missing = f"; not set: {', '.join(login.missing)}" if login.missing else ""
        write(f"  login: {one_line(login.id)} ({one_line(login.name)}, {one_line(login.type)}{one_line(missing)})\n")


def _offers(capabilities: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the paths of all capabilities that are offered: true, or an object."""
    found = []
    for name, value in capabilities.items():
        path = f"{prefix}{name}"
        if name == "_meta" or value is False or value is None:
            continue
        inner = _offers(value, f"{path}.") if isinstance(value, dict) else []
        found += inner or ([] if isinstance(value, dict) and value else [path])
    return found


def _document(
    entry: AgentEntry, findings: list[DoctorFinding], answer: ProbeResult | None, error: DragomanError | None
) -> dict[str, Any]:
    return {
        "name": entry.name,
        "source": entry.source,
        "command": list(entry.command),
        "findings": findings,
        "initialize": answer,
        "error": None if error is None else str(error),
        "stderr": error.stderr_tail if isinstance(error, AgentExited) else None,
    }
