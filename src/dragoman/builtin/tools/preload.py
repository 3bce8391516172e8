"""The imports that the first calls of tools need, done in the background.

Nothing of it is imported before the first request to a model leaves, because the user waits for that. When the model
answers, the agent mostly waits for the network: then it is done in a thread, so that the first call of a tool does not
stop the event loop for the time of the imports.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.built_in import BuiltInTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.builtin.tools.tool import Tool

_log = logging.getLogger("dragoman.builtin")

# The beginning of the answer is stored and shown first.
_DELAY_SECONDS: Final = 0.05
# What decides about calls, and what files and commands are reached through.
_OF_ALL_TOOLS: Final = (
    "dragoman.snapshots.tracking",
    "dragoman.policy.decide",
    "dragoman.policy.rule",
    "dragoman.policy.verdict",
    "dragoman.workspace.folders",
    "dragoman.workspace.judging",
    "dragoman.process.sandbox.git_config",
    "dragoman.process.sandbox.confinement",
    "dragoman.process.sandbox.denied",
    "dragoman.process.terminal",
)


def import_soon(tools: Iterable[Tool]) -> None:
    """Begin, a moment from now, to import what calls of these tools need. Does nothing if all of it is imported."""
    homes = [tool.module for tool in tools if isinstance(tool, BuiltInTool)]
    missing = [name for name in (*homes, *_OF_ALL_TOOLS) if name not in sys.modules]
    if missing:
        # Not a thread of an executor: the end of the program would wait for it.
        thread = threading.Thread(target=_import, args=(missing,), name="dragoman-imports", daemon=True)
        asyncio.get_running_loop().call_later(_DELAY_SECONDS, thread.start)


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        try:
            import_module(name)
        except Exception:  # the call that needs it reports what is wrong
            _log.debug("%s cannot be imported", name, exc_info=True)
