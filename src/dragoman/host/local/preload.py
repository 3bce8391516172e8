"""Everything a host may need later, loaded once: after an update in place a late import would mix two versions."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Final

_log = logging.getLogger("dragoman.host")

# Modules that other modules load inside functions. A test compares this with what a session loads.
LATER: Final = (
    "dragoman.host.clients.attachment",
    "dragoman.client.terminals",
    "dragoman.process.sandbox.confinement",
    "dragoman.client.files",
    "dragoman.client.login",
    "dragoman.process.child",
    "dragoman.process.daemons",
    "dragoman.process.sandbox",
    "dragoman.process.sandbox.apart",
    "dragoman.process.sandbox.denied",
    "dragoman.process.sandbox.opening",
    "dragoman.process.sandbox.policy",
    "dragoman.process.sandbox.sandbox",
    "dragoman.process.sandbox.tripwire",
    "dragoman.process.sweep",
    "dragoman.registry.agents",
    "dragoman.registry.known",
    "dragoman.registry.facts",
    "dragoman.registry.needs",
    "dragoman.settings.effective",
    "dragoman.settings.rule_file",
    "dragoman.policy.modes",
    "dragoman.policy.concern",
    "dragoman.policy.decide",
    "dragoman.runs.changes",
    "dragoman.runs.hints",
    "dragoman.runs.patch",
    "dragoman.snapshots.rewind",
    "dragoman.host.methods.changes",
    "dragoman.host.methods.devices",
    "dragoman.transports.process",
    "dragoman.workspace",
    "dragoman.schema.v1.handshake",
    "dragoman.workspace.atomic",
    "dragoman.workspace.failure",
    "dragoman.workspace.hunks",
    "dragoman.workspace.journal",
    "dragoman.workspace.limits",
    "dragoman.workspace.place",
    "dragoman.workspace.replace",
    "dragoman.workspace.resolve",
    "dragoman.workspace.text",
    "dragoman.workspace.workspace",
    "datetime",
    "fnmatch",
    "shutil",
    "sqlite3",
    "tempfile",
)


def load_everything() -> None:
    """Import what later work imports. A failure is logged: the host works until that part is needed."""
    for name in LATER:
        try:
            import_module(name)
        except Exception:
            _log.exception("%s cannot be loaded", name)
