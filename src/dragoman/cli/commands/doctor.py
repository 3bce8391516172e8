"""`dragoman doctor`: what works on this machine and what is missing, of the built-in agent and of every agent here."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.cli import exits
from dragoman.cli.command import JSON, CliCall, CliCommand, CliOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.registry.agents import AgentEntry, Agents
    from dragoman.registry.doctor import DoctorFinding

_SECONDS: Final = "30"  # for all agents together; they are asked at once


class Examined(NamedTuple):
    """One agent, what was found, and whether it can work."""

    name: str
    findings: Sequence[DoctorFinding]
    is_ready: bool


def run(call: CliCall) -> int:
    from dragoman.cli.agents.context import load_agents_here
    from dragoman.cli.agents.display import write_notes
    from dragoman.cli.agents.doctor import timeout_seconds
    from dragoman.cli.console import write_json

    seconds = timeout_seconds(call.given.timeout or _SECONDS, "doctor")
    agents = load_agents_here()
    found = [_built_in(), *asyncio.run(_others(agents, seconds))]
    is_ready = any(examined.is_ready for examined in found)
    if call.given.json:
        rows: list[dict[str, Any]] = [
            {"name": examined.name, "ready": examined.is_ready, "findings": examined.findings} for examined in found
        ]
        write_json({"ready": is_ready, "agents": rows})
    else:
        _write(found, is_ready)
    write_notes(agents)
    return exits.OK if is_ready else exits.USAGE


def _built_in() -> Examined:
    from dragoman.builtin.doctor import examine_agent, has_real_model
    from dragoman.cli.command import parse
    from dragoman.cli.commands import agent
    from dragoman.registry.agents import BUILT_IN

    settings = agent.agent_settings(parse("agent", agent.COMMAND, ["doctor"]).given)
    findings = examine_agent(settings, Path.cwd(), os.environ)
    is_ready = all(finding.state != "missing" for finding in findings) and has_real_model(findings)
    return Examined(BUILT_IN, findings, is_ready)


async def _others(agents: Agents, seconds: float) -> list[Examined]:
    """Examine the agents that are on this machine, all at once; one that has to be downloaded first is not."""
    from dragoman.registry.agents import RESERVED

    here = [entry for entry in agents.entries() if entry.name not in RESERVED and not entry.problem]
    return list(await asyncio.gather(*(_examined(entry, seconds) for entry in here)))


async def _examined(entry: AgentEntry, seconds: float) -> Examined:
    from dragoman.cli.agents.doctor import ask_agent
    from dragoman.cli.masked_streams import mask_keys
    from dragoman.registry.doctor import DoctorFinding, examine
    from dragoman.text.terminal import duration

    mask_keys(entry.env)
    findings = await asyncio.to_thread(examine, entry)
    if any(finding.state == "missing" for finding in findings):
        return Examined(entry.name, findings, is_ready=False)
    answer, error = await ask_agent(entry, seconds)
    if answer is None:
        fix = f"dragoman agents doctor {entry.name} shows more"
        failed = DoctorFinding("initialize", "missing", str(error), fix)
        return Examined(entry.name, [*findings, failed], is_ready=False)
    words = " ".join(filter(None, (answer.title or answer.name, answer.version)))
    answered = DoctorFinding("initialize", "ok", f"{words or 'it answered'}, {duration(answer.seconds)}")
    return Examined(entry.name, [*findings, answered], is_ready=True)


def _write(found: Sequence[Examined], is_ready: bool) -> None:
    from dragoman.cli.agents.doctor import write_findings
    from dragoman.cli.console import paint
    from dragoman.text.colour import BOLD
    from dragoman.text.terminal import one_line

    for examined in found:
        state = "can work here" if examined.is_ready else "cannot work here yet"
        sys.stdout.write(f"{paint(one_line(examined.name), BOLD, sys.stdout)}: {state}\n")
        write_findings(examined.findings, indent="  ")
    if not is_ready:
        sys.stdout.write("no agent can work here yet: dragoman agents shows what can be installed\n")


COMMAND = CliCommand(
    run=run,
    description=(
        "Examines the built-in agent (as dragoman agent doctor does) and every agent on this machine (as dragoman\n"
        "agents doctor NAME does), and prints one list with what is missing and how to get it. The agents are started\n"
        "for one request, and no model is called. The exit code is 0 if one of them can work here, otherwise 2."
    ),
    options=(
        CliOption("--timeout", f"how long to wait for the agents' answers (default: {_SECONDS})", value="SECONDS"),
        JSON,
    ),
    examples=("dragoman doctor", "dragoman doctor --json"),
)
