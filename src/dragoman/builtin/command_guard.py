"""The guard of a session's commands: the environment of safe commands, the sandbox, and the comparison around them.

Owns which sandbox is in force in the folders of one client, and the private folders it needs. The order of the steps
around a command is that of `process/sandbox/confinement.py`. Does not decide where a command runs (`permission.py`),
and starts nothing (`access.py`).
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from dragoman.builtin.placement import Placement
    from dragoman.builtin.settings import AgentSettings
    from dragoman.policy import Rule
    from dragoman.process.sandbox import Available, ProtectedChange, Sandbox, Tripwire
    from dragoman.process.sandbox.confinement import Confinement
    from dragoman.process.sandbox.denied import DeniedPaths, DeniedSearch

_log = logging.getLogger("dragoman.builtin")
_AGENT: Final = "dragoman"  # as rules name it

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
    """Return the environment of a safe command.

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
    """Return what no sandboxed command may read: the agent's settings, rules, logs and sessions."""
    from dragoman.settings.places import data_dir, state_dir

    store = str(settings.store)
    return (str(settings.config_dir), str(data_dir()), str(state_dir()), store, f"{store}-wal", f"{store}-shm")


class CommandGuard:
    """The sandbox and the tripwire of one client's folders.

    Args:
        roots: the folders that the client opened the session with. A folder that a model names is never one of them.
        rules: gives the rules of the user; files that they deny to read or edit are closed, as far as they exist when
            a command begins.
    """

    def __init__(
        self, roots: Sequence[str], settings: AgentSettings, rules: Callable[[], Sequence[Rule]] = tuple
    ) -> None:
        self.sandbox: Sandbox | None = None
        """None until `prepare`, and where there is none."""
        self.outside: Sandbox | None = None
        """Closes what rules deny to commands outside the sandbox; None if they deny no files."""
        self.why_not = "it was not looked for"
        """Why there is no sandbox."""
        self._roots = tuple(roots)
        self._settings = settings
        self._rules = rules
        self._confinement: Confinement | None = None
        self._making = asyncio.Lock()
        self._search: DeniedSearch | None = None
        self._denied: DeniedPaths | None = None

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

    def _close_denied(self) -> None:
        """Close what rules deny, before a command: reading rules is left out of the way to the first answer."""
        from dragoman.process.sandbox import Sandbox
        from dragoman.process.sandbox.denied import DeniedSearch, denied_paths
        from dragoman.process.sandbox.policy import wide_policy

        if self._search is None:
            home = os.path.expanduser("~")
            self._search = DeniedSearch(
                lambda: denied_paths(self._rules(), _AGENT, self._roots, home, for_commands=True)
            )
        denied = self._search.look()
        if denied == self._denied:
            return
        self._denied = denied
        if denied and "bubblewrap" in find_sandboxes(self._roots).backends:
            self.outside = Sandbox(denied.close(wide_policy(self._roots)), "bubblewrap")
        if self.sandbox is not None:
            self.sandbox = Sandbox(denied.close(self.sandbox.policy), self.sandbox.backend)

    @asynccontextmanager
    async def watch(self, placement: Placement) -> AsyncIterator[list[ProtectedChange]]:
        """Compare protected files around a command; the list is filled when the block ends."""
        found: list[ProtectedChange] = []
        if self._settings.closes_denied:
            async with self._making:  # two commands may begin at once
                await asyncio.to_thread(self._close_denied)
        try:
            confinement = await self._begin()
        except (OSError, ValueError) as error:
            _log.warning("protected files are not compared: %s", error)
            yield found
            return
        try:
            yield found
        finally:
            # Also for a command that was cancelled, and then to the end: it may have changed something.
            found += await asyncio.shield(_compare(confinement, placement))

    async def _begin(self) -> Confinement:
        """Raises: OSError, ValueError if the protected files cannot be looked at."""
        async with self._making:  # two commands that begin at once need one comparison
            if self._confinement is None:
                from dragoman.process.sandbox.confinement import Confinement

                self._confinement = Confinement(
                    sandbox=self.sandbox,
                    tripwire=await asyncio.to_thread(self._make_tripwire),
                    restores=self._settings.restores_protected,
                    rearms=True,
                )
        await self._confinement.begin()
        return self._confinement

    async def note_written(self, path: str) -> None:
        """Take note of a change that a tool made with permission, so that it does not count as one of a command."""
        if self._confinement is not None:
            await self._confinement.accept(path)

    def _make_tripwire(self) -> Tripwire:
        from dragoman.process.sandbox import Tripwire
        from dragoman.process.sandbox.policy import unconfined_policy

        kept = os.path.join(os.path.dirname(self._settings.store), "kept")
        if self.sandbox is not None:
            return Tripwire(self.sandbox.policy, kept)
        # Without a sandbox the folders need not be a boundary: the home itself is compared, too.
        return Tripwire(unconfined_policy(self._roots), kept, is_confined=False)


async def _compare(confinement: Confinement, placement: Placement) -> Sequence[ProtectedChange]:
    try:
        changes = await confinement.end(was_inside=placement.where == "sandbox", permitted=placement.permitted)
    except OSError as error:
        _log.warning("protected files were not compared: %s", error)
        return ()
    for change in changes:
        _log.warning("%s", describe_change(change))
    return changes
