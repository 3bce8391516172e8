"""`dragoman agents update`: fetches the ACP registry, and lists installed agents whose version differs.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here
from dragoman.cli.console import write_json, write_note

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall


def update_registry(call: CliCall) -> int:
    from dragoman.registry.catalogue import ADDRESS, refresh_catalogue
    from dragoman.settings.places import cache_dir

    agents = load_agents_here()
    origin = _origin(call.given.name) if call.given.name else agents.settings.registry or ADDRESS
    catalogue = refresh_catalogue(cache_dir(), origin)
    differ = {
        id_: {"installed": entry.version, "registry": catalogue.agents[id_].version}
        for id_, entry in agents.installed.all().items()
        if id_ in catalogue.agents and catalogue.agents[id_].version != entry.version
    }
    if call.given.json:
        write_json({"origin": origin, "agents": len(catalogue.agents), "differ": differ})
    write_note(f"the registry of {origin} has {len(catalogue.agents)} agents")
    for id_, version in differ.items():
        write_note(
            f"{id_}: {version['installed']} is installed, the registry has {version['registry']}; "
            f"change it with: dragoman agents install {id_}"
        )
    for reason in catalogue.skipped[:5]:
        write_note(f"note: an entry was not understood: {reason}")
    return exits.OK


def _origin(given: str) -> str:
    """Return an address, or the absolute path of a file: later commands read it from other folders."""
    return given if "://" in given else os.path.abspath(given)
