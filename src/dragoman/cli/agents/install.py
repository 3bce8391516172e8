"""`dragoman agents install` and `update`: what comes from the ACP registry."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.edit import make_default
from dragoman.cli.agents.paths import cache, here, needed, say, shown_path
from dragoman.cli.console import write_json
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import Agents
    from dragoman.registry.catalogue import Catalogue, Listed


def update_registry(call: CliCall) -> int:
    from dragoman.registry.catalogue import ADDRESS, refresh_catalogue

    agents = here()
    origin = _origin(call.given.name) if call.given.name else agents.user.registry or ADDRESS
    catalogue = refresh_catalogue(cache(), origin)
    installed = agents.installed.all()
    newer = {
        id_: (entry.version, catalogue.agents[id_].version)
        for id_, entry in installed.items()
        if id_ in catalogue.agents and catalogue.agents[id_].version != entry.version
    }
    if call.given.json:
        updates = {id_: {"installed": have, "registry": there} for id_, (have, there) in newer.items()}
        write_json({"origin": origin, "agents": len(catalogue.agents), "differ": updates})
    say(f"{len(catalogue.agents)} agents are in the registry of {origin}")
    for id_, (have, there) in newer.items():
        say(f"{id_} {have} is installed, {there} is there; change with: dragoman agents install {id_}")
    for reason in catalogue.skipped[:5]:
        say(f"note: an entry was not understood: {reason}")
    return exits.OK


def install_agent(call: CliCall) -> int:
    from dragoman.registry.install import install, make_plan

    wanted = needed(call.given.name, "install", "dragoman agents install gemini")
    id_, _, version = wanted.partition("@")
    agents = here()
    listed = _listed(agents, id_)
    plan = make_plan(listed, distribution=call.given.distribution, version=version)
    checked = f"sha256 {plan.sha256}" if plan.sha256 else "checked by its package manager"
    say(f"{listed.name} {plan.version}: {plan.source} ({checked if plan.is_verified else 'nothing vouches for it'})")
    entry = install(
        plan,
        agents.installed,
        accept_unverified=call.given.without_checksum,
        python=call.given.python or sys.executable,
        say=say,
    )
    if call.given.default:
        make_default(agents, id_)
    place = shown_path(str(agents.installed.root / entry.folder))
    say(f"{id_} {entry.version} is installed in {place}; try it with: dragoman agents doctor {id_}")
    if call.given.json:
        command = list(agents.installed.argv(entry))
        write_json({"name": id_, "version": entry.version, "distribution": entry.distribution, "command": command})
    return exits.OK


def _listed(agents: Agents, id_: str) -> Listed:
    catalogue = _recent(agents)
    if id_ not in catalogue.agents:
        from dragoman.registry.servers import nearest

        hint = nearest(id_, catalogue.agents) or "dragoman agents list --registry shows them"
        raise exits.CliError(f"the registry has no agent {id_!r}", hint=hint)
    return catalogue.agents[id_]


def _recent(agents: Agents) -> Catalogue:
    """The kept copy if it is recent, else a new one; an old one is better than none."""
    from dragoman.registry.catalogue import ADDRESS, cached_catalogue, refresh_catalogue

    kept = cached_catalogue(cache())
    if kept is not None and kept.is_fresh:
        return kept
    try:
        return refresh_catalogue(cache(), agents.user.registry or (kept.origin if kept else ADDRESS))
    except ConfigError as error:
        if kept is None:
            raise
        say(f"note: the kept copy of the registry is used, which is old: {error}")
        return kept


def _origin(given: str) -> str:
    """A file is kept by its full path: it is asked again from other folders."""
    return given if "://" in given else str(Path(os.path.abspath(given)))
