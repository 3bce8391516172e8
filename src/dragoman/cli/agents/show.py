"""`dragoman agents show`: what is known about one agent, here and in the ACP registry."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here, required_name
from dragoman.cli.agents.display import shown_command, shown_path, write_notes
from dragoman.cli.console import write_json
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import AgentEntry, Agents
    from dragoman.registry.catalogue import Listed


def show_agent(call: CliCall) -> int:
    name = required_name(call.given.name, "show", "dragoman agents show gemini")
    agents = load_agents_here()
    entry = agents.look_up(name)
    listed = _listed(name)
    if entry is None and listed is None:
        agents.find(name)  # raises an error that suggests other names
    if call.given.json:
        shown = agent_document(entry, agents) if entry is not None else {}
        write_json({**shown, "registry": None if listed is None else listed_document(listed)})
    else:
        lines = _entry_lines(entry, agents) if entry is not None else []
        lines += _listed_lines(listed) if listed is not None else []
        width = max(len(label) for label, _ in lines)
        sys.stdout.writelines(f"{label:{width}}  {text}\n" for label, text in lines)
    write_notes(agents)
    return exits.OK


def agent_state(entry: AgentEntry, agents: Agents) -> str:
    """Return in one or two words whether the agent can be started."""
    if entry.needs_confirmation:
        return "can be downloaded"
    if entry.problem:
        return "not accepted" if entry.source == "project" else "not installed"
    return "default" if agents.is_default(entry) else "ready"


def shown_login(entry: AgentEntry) -> str:
    """Return what can be seen of a login, in a few words."""
    from dragoman.registry.presence import login_here

    state = login_here(entry)
    match state.sign:
        case "variable":
            return f"${state.detail}"
        case "file":
            return f"yes ({shown_path(state.detail)})"
        case "none":
            return "none seen"
        case _:
            return "-"


def agent_document(entry: AgentEntry, agents: Agents) -> dict[str, Any]:
    """Return an agent as JSON. Variables of its environment appear without their values, which are often secrets."""
    from dragoman.registry.known import recognise
    from dragoman.registry.presence import login_here, version_here

    known = None if entry.source == "built-in" else recognise(entry.name, entry.command)
    return {
        "name": entry.name,
        "title": None if known is None else known.title,
        "aliases": list(known.aliases) if known is not None and entry.source == "known" else [],
        "source": entry.source,
        "state": agent_state(entry, agents),
        "version": version_here(entry, agents) or None,
        "login": login_here(entry)._asdict(),
        "package": entry.package or None,
        "needs_confirmation": entry.needs_confirmation,
        "is_verified": known.is_verified if known is not None and entry.source == "known" else None,
        "where": entry.where,
        "command": list(entry.command),
        "env": sorted(entry.env),
        "env_allow": None if entry.env_allow is None else list(entry.env_allow),
        "dangerously_allow_all": entry.allows_all,
        "is_default": agents.is_default(entry),
        "scripted": entry.is_scripted,
        "problem": entry.problem or None,
        "sha256": entry.sha256 or None,
        "quirks": {
            "withhold": sorted(entry.quirks.withhold),
            "spare": list(entry.quirks.spare),
            "daemons": list(entry.quirks.daemons),
            "missing_file": entry.quirks.missing_file,
            "replays_late": entry.quirks.replays_late,
            "evidence": entry.quirks.evidence or None,
        },
    }


def listed_document(listed: Listed) -> dict[str, Any]:
    """Return an entry of the registry as JSON."""
    return {
        "id": listed.id,
        "name": listed.name,
        "version": listed.version,
        "description": listed.description,
        "license": listed.license or None,
        "repository": listed.repository or None,
        "distributions": list(listed.kinds),
    }


def _listed(name: str) -> Listed | None:
    from dragoman.registry.catalogue import cached_catalogue
    from dragoman.settings.places import cache_dir

    catalogue = cached_catalogue(cache_dir())
    return None if catalogue is None else catalogue.agents.get(name)


def _entry_lines(entry: AgentEntry, agents: Agents) -> list[tuple[str, str]]:
    quirks = entry.quirks
    lines = [
        ("name", one_line(entry.name)),
        ("from", f"{entry.source} ({shown_path(entry.where)})"),
        ("state", agent_state(entry, agents)),
        ("command", shown_command(entry.command) if entry.command else "-"),
    ]
    if entry.env:
        lines.append(("environment", one_line(", ".join(sorted(entry.env)))))
    if entry.env_allow is not None:
        lines.append(("inherits", one_line(", ".join(entry.env_allow) or "only what every program needs")))
    if entry.allows_all:
        lines.append(("permission", "everything that no rule denies, without asking (dangerously_allow_all)"))
    lines += _presence_lines(entry, agents)
    lines += [("quirk", f"does not offer {name}") for name in sorted(quirks.withhold)]
    lines += [("quirk", f"leaves {one_line(repr(word))} running") for word in quirks.spare]
    lines += [
        ("quirk", f"ends its daemon {one_line(repr(word))} with the run that started it") for word in quirks.daemons
    ]
    if quirks.missing_file == "empty":
        lines.append(("quirk", "a missing file reads as empty"))
    if quirks.replays_late:
        lines.append(("quirk", "replays the history after it has answered session/load"))
    if quirks.evidence:
        lines.append(("because of", shown_path(quirks.evidence)))
    if entry.sha256:
        lines.append(("sha256", entry.sha256))
    if entry.problem:
        lines.append(("to do", one_line(entry.problem)))
    return lines


def _presence_lines(entry: AgentEntry, agents: Agents) -> list[tuple[str, str]]:
    """Return what is known about a well-known agent, besides its quirks."""
    from dragoman.registry.known import recognise
    from dragoman.registry.presence import version_here

    known = None if entry.source == "built-in" else recognise(entry.name, entry.command)
    if known is None:
        return []
    tested = known.evidence if known.is_verified else f"{known.evidence} (not tested with dragoman)"
    options = ", ".join(f"--{name.replace('_', '-')}" for name in known.options)
    lines = [
        ("agent", known.title),
        ("also called", ", ".join(known.aliases) if entry.source == "known" else ""),
        ("version", one_line(version_here(entry, agents))),
        ("login", shown_login(entry).removeprefix("-")),
        ("takes", options),
        ("known from", one_line(tested)),
    ]
    return [(label, text) for label, text in lines if text]


def _listed_lines(listed: Listed) -> list[tuple[str, str]]:
    lines = [
        ("registry", f"{one_line(listed.name)} {one_line(listed.version)} ({', '.join(listed.kinds)})"),
        ("about", one_line(listed.description)),
        ("license", one_line(listed.license)),
        ("source code", one_line(listed.repository)),
    ]
    return [(label, text) for label, text in lines if text]
