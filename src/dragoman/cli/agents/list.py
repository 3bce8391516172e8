"""`dragoman agents list`: the agents of this machine, or those of the ACP registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here
from dragoman.cli.agents.display import shown_command, write_notes
from dragoman.cli.agents.show import agent_document, agent_state, listed_document
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.text.terminal import clip, one_line

if TYPE_CHECKING:
    from dragoman.cli.command import Invocation

_DESCRIPTION_COLUMNS = 60
_COMMAND_COLUMNS = 70


def list_agents(call: Invocation) -> int:
    if call.given.registry:
        return _list_registry(as_json=call.given.json)
    agents = load_agents_here()
    entries = agents.entries()
    if call.given.json:
        write_json([agent_document(entry, agents) for entry in entries])
    else:
        rows = [
            (
                entry.name,
                entry.source,
                agent_state(entry, agents),
                clip(shown_command(entry.command), _COMMAND_COLUMNS) if entry.command else "-",
            )
            for entry in entries
        ]
        write_table(("NAME", "FROM", "STATE", "COMMAND"), rows)
    write_notes(agents)
    return exits.OK


def _list_registry(*, as_json: bool) -> int:
    from dragoman.registry.catalogue import cached_catalogue
    from dragoman.settings.places import cache_dir
    from dragoman.text.terminal import duration

    catalogue = cached_catalogue(cache_dir())
    if catalogue is None:
        raise exits.CliError("the registry has not been fetched yet", hint="dragoman agents update")
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
