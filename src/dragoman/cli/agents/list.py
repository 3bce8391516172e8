"""`dragoman agents list`: the agents of this machine and those that could be installed, or the ACP registry's.

`dragoman agents` alone shows the rows of the welcome: agents, keys and model servers of this machine.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here
from dragoman.cli.agents.display import shown_command, write_notes
from dragoman.cli.agents.show import agent_document, agent_state, listed_document, shown_login
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.text.terminal import clip, one_line

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import AgentEntry, Agents

_DESCRIPTION_COLUMNS = 60
_COMMAND_COLUMNS = 70


def list_agents(call: CliCall) -> int:
    if call.given.registry:
        return _list_registry(as_json=call.given.json)
    agents = load_agents_here()
    entries = agents.entries()
    if call.given.json:
        write_json([agent_document(entry, agents) for entry in entries])
    else:
        is_absent = [entry.source == "known" and bool(entry.problem) for entry in entries]
        _write_present([entry for entry, absent in zip(entries, is_absent, strict=True) if not absent], agents)
        _write_absent([entry for entry, absent in zip(entries, is_absent, strict=True) if absent])
    write_notes(agents)
    return exits.OK


def look_here(call: CliCall) -> int:
    """Write what the welcome of the terminal client offers, and how each kind of it is used."""
    import os
    import shutil

    from dragoman.cli.console import uses_colour
    from dragoman.tui.inline.coloured import texts_of
    from dragoman.tui.start.welcome import listed_lines, look

    found = look(os.getcwd())
    if call.given.json:
        names = ("kind", "section", "name", "title", "state", "agent", "model", "problem")
        write_json([{name: getattr(row, name) for name in names} for row in found.rows if not row.key])
        return exits.OK
    width = shutil.get_terminal_size((100, 24)).columns
    lines = listed_lines(found, width, has_signs=False)
    sys.stdout.writelines(f"{line}\n" for line in texts_of(lines, has_colour=uses_colour(sys.stdout)))
    sys.stdout.write(
        "\ndragoman starts with one of them, dragoman -a NAME with that agent; dragoman agents install NAME installs\n"
        "one, dragoman agent login stores the key of a provider, and dragoman agents list shows all agents.\n"
    )
    for note in found.notes:
        write_note(f"note: {note}")
    return exits.OK


def _write_present(entries: list[AgentEntry], agents: Agents) -> None:
    from dragoman.registry.presence import version_here

    rows = [
        (
            entry.name,
            _shown_source(entry),
            agent_state(entry, agents),
            version_here(entry, agents) or "-",
            shown_login(entry),
            clip(shown_command(entry.command), _COMMAND_COLUMNS) if entry.command else "-",
        )
        for entry in entries
    ]
    write_table(("NAME", "FROM", "STATE", "VERSION", "LOGIN", "COMMAND"), rows)


def _shown_source(entry: AgentEntry) -> str:
    """Return where the agent comes from; for a well-known one, what runs it."""
    if entry.source != "known":
        return entry.source
    return entry.command[0] if entry.package else "PATH"


def _write_absent(entries: list[AgentEntry]) -> None:
    """Write the well-known agents that are not on this machine, and how to get each."""
    from dragoman.registry.known import well_known

    if not entries:
        return
    rows = []
    for entry in entries:
        agent = well_known(entry.name)
        assert agent is not None
        # `exec -a NAME` asks once, and then runs the package.
        get = f"{entry.command[0]}: {entry.package}" if entry.package else agent.how_to_install
        tested = "" if agent.is_verified else " (not tested)"
        rows.append((entry.name, f"{agent.title}{tested}", shown_login(entry), clip(get, _COMMAND_COLUMNS)))
    sys.stdout.write("\n")
    write_table(("NOT INSTALLED", "AGENT", "LOGIN", "GET IT WITH"), rows)


def _list_registry(*, as_json: bool) -> int:
    from dragoman.registry.catalogue import cached_catalogue
    from dragoman.settings.places import cache_dir
    from dragoman.text.terminal import duration

    catalogue = cached_catalogue(cache_dir())
    if catalogue is None:
        raise exits.CliError(
            "the registry has not been fetched yet",
            hint="dragoman agents update fetches it; dragoman agents list shows the agents that are known without it",
        )
    agents = sorted(catalogue.agents.values(), key=lambda listed: listed.id)
    versions = {id_: entry.version for id_, entry in load_agents_here().installed.all().items()}
    if as_json:
        listing = [{**listed_document(listed), "installed": versions.get(listed.id)} for listed in agents]
        write_json({"origin": catalogue.origin, "age_seconds": round(catalogue.age_seconds()), "agents": listing})
        return exits.OK
    rows = [
        (
            listed.id,
            listed.version,
            versions.get(listed.id, "-"),
            ",".join(listed.kinds),
            clip(one_line(listed.description), _DESCRIPTION_COLUMNS),
        )
        for listed in agents
    ]
    write_table(("NAME", "VERSION", "INSTALLED", "AS", "DESCRIPTION"), rows)
    advice = "" if catalogue.is_fresh else "; fetch it again with: dragoman agents update"
    write_note(f"this copy of the registry of {catalogue.origin} is {duration(catalogue.age_seconds())} old{advice}")
    if catalogue.skipped:
        write_note(f"note: {len(catalogue.skipped)} entries were not understood: {'; '.join(catalogue.skipped[:3])}")
    return exits.OK
