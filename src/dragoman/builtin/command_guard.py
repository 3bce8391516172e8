"""The guard of a session's commands: the environment of safe commands, the sandbox, and the tripwire.

Owns which sandbox is in force in the folders of one client, the private folders it needs, and the comparison of
protected files around every command, in the sandbox or not. Does not decide where a command runs (`permission.py`), and
starts nothing (`access.py`).

What can race: commands run in parallel. The tripwire is armed when the first of them starts and compared when each of
them ends, so a change is reported with the first command that ends after it, and never missed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import weakref
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dragoman.builtin.placement import describe_change
from dragoman.errors import ConfigError
from dragoman.policy.paths import is_below

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dragoman.builtin.placement import Placement
    from dragoman.builtin.settings import AgentSettings
    from dragoman.process.sandbox import Available, ProtectedChange, Sandbox, Tripwire

_log = logging.getLogger("dragoman.builtin")

# A safe command only reads. These keep git from writing its index, from waiting for a password or a key, and from
# running the file system monitor that a repository names.
_SAFE_VARIABLES: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
}


def safe_environment() -> dict[str, str]:
    """The environment of a safe command.

    `child_environment` keeps only variables of its list, so BASH_ENV, ENV, LD_*, GIT_*, RIPGREP_CONFIG_PATH,
    GREP_OPTIONS and LESSOPEN are not passed on.
    """
    from dragoman.process.command import child_environment

    return child_environment(_SAFE_VARIABLES)


@lru_cache(maxsize=8)
def find_sandboxes(roots: tuple[str, ...]) -> Available:
    """Look once which backends work here. Blocks: it starts `bwrap`."""
    from dragoman.process.sandbox import available

    return available(roots)


def hidden_places(settings: AgentSettings) -> tuple[str, ...]:
    """What no sandboxed command may read: the agent's settings, rules, logs and sessions."""
    from dragoman.settings.places import data_dir, state_dir

    store = str(settings.store)
    return (str(settings.config_dir), str(data_dir()), str(state_dir()), store, f"{store}-wal", f"{store}-shm")


class CommandGuard:
    """The sandbox and the tripwire of one client's folders.

    Args:
        roots: the folders that the client opened the session with. A folder that a model names is never one of them.
    """

    def __init__(self, roots: Sequence[str], settings: AgentSettings) -> None:
        self.sandbox: Sandbox | None = None
        """None until `prepare`, and where there is none."""
        self.why_not = "it was not looked for"
        """Why there is no sandbox."""
        self._roots = tuple(roots)
        self._settings = settings
        self._tripwire: Tripwire | None = None
        self._is_armed_for = 0
        self._turn = asyncio.Lock()

    @property
    def has_sandbox(self) -> bool:
        return self.sandbox is not None

    def prepare(self) -> None:
        """Find the sandbox. Blocks: it starts `bwrap` once in a process."""
        from dragoman.process.sandbox import Sandbox, make_policy

        found = find_sandboxes(self._roots)
        if not found.backends:
            self.why_not = found.describe()
            _log.info("mode auto is not offered: %s", self.why_not)
            return
        temporary = tempfile.mkdtemp(prefix="dragoman-commands-")
        weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
        try:
            policy = make_policy(self._roots, temporary=temporary, hidden=hidden_places(self._settings))
            self.sandbox = Sandbox(policy, found.backends[0])
        except ConfigError as error:
            self.why_not = str(error)
            _log.info("mode auto is not offered: %s", self.why_not)

    @asynccontextmanager
    async def watch(self, placement: Placement) -> AsyncIterator[list[ProtectedChange]]:
        """Compare protected files around a command; the list is filled when the block ends."""
        found: list[ProtectedChange] = []
        async with self._turn:
            if self._is_armed_for == 0:
                await asyncio.to_thread(self._arm)
            self._is_armed_for += 1
        try:
            yield found
        finally:
            # Also for a command that was cancelled, and then to the end: it may have changed something.
            found += await asyncio.shield(self._compare(placement))

    async def _compare(self, placement: Placement) -> list[ProtectedChange]:
        async with self._turn:
            changes = await asyncio.to_thread(self._check, placement)
            self._is_armed_for -= 1
        for change in changes:
            _log.warning("%s", describe_change(change))
        return changes

    async def note_written(self, path: str) -> None:
        """Take note of a change that a tool made with permission, so that it does not count as one of a command."""
        async with self._turn:  # while the files are being looked at, it is not known yet what was seen of this one
            if self._is_armed_for and self._tripwire is not None:
                await asyncio.to_thread(self._tripwire.accept, path)

    def _arm(self) -> None:
        try:
            if self._tripwire is None:
                self._tripwire = self._make_tripwire()
            self._tripwire.arm()
        except (OSError, ValueError) as error:
            _log.warning("protected files are not compared: %s", error)

    def _check(self, placement: Placement) -> list[ProtectedChange]:
        if self._tripwire is None:
            return []
        is_guard = placement.where == "sandbox" and self.sandbox is not None and self.sandbox.must_restore
        permitted = [os.path.realpath(path) for path in placement.permitted]
        try:
            return self._tripwire.check(
                restore=is_guard or self._settings.restores_protected,
                is_expected=lambda path: any(is_below(path, each) for each in permitted),
            )
        except OSError as error:
            _log.warning("protected files were not compared: %s", error)
            return []

    def _make_tripwire(self) -> Tripwire:
        from dragoman.process.sandbox import Tripwire
        from dragoman.process.sandbox.policy import unconfined_policy

        kept = os.path.join(os.path.dirname(self._settings.store), "kept")
        if self.sandbox is not None:
            return Tripwire(self.sandbox.policy, kept)
        # Without a sandbox the folders need not be a boundary: the home itself is compared, too.
        return Tripwire(unconfined_policy(self._roots), kept, is_confined=False)
