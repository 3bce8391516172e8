"""The opening of a sandbox with a private temporary folder. The one who opens it removes the folder."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.process.sandbox.policy import SandboxPolicy
    from dragoman.process.sandbox.sandbox import Backend, Sandbox


class OpenedSandbox:
    """A sandbox and its private temporary folder. `close` it."""

    def __init__(self, sandbox: Sandbox, folder: str) -> None:
        self.sandbox = sandbox
        self._folder = folder

    def close(self) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def open_sandbox(
    roots: Sequence[str],
    *,
    writable: Sequence[str | os.PathLike[str]] = (),
    hidden: Sequence[str | os.PathLike[str]] = (),
    own: Sequence[str | os.PathLike[str]] = (),
    network: bool = False,
    environment: Mapping[str, str] | None = None,
    backend: Backend | None = None,
    change: Callable[[SandboxPolicy], SandboxPolicy] = lambda policy: policy,
) -> OpenedSandbox:
    """Open the best sandbox that works on this machine.

    Args:
        roots: the folders of the session.
        writable: further folders that may be written.
        hidden: folders whose content cannot be read.
        own: the places of an agent's own login, for the sandbox of that agent.
        network: whether the network can be reached.
        environment: of the client of a host, whose variables name secret places besides our own.
        backend: one that is known to work; None looks for the best.
        change: changes the policy before it is used.

    Raises:
        ConfigError: there is none, or a folder is too wide to be a boundary.
    """
    import tempfile

    from dragoman.process.sandbox.policy import make_policy
    from dragoman.process.sandbox.sandbox import Sandbox, available

    if backend is None:
        here = available(roots)
        if not here.backends:
            raise ConfigError(here.describe())
        backend = here.backends[0]
    folder = tempfile.mkdtemp(prefix="dragoman-sandbox-")
    try:
        policy = make_policy(
            roots,
            temporary=folder,
            writable=writable,
            hidden=hidden,
            own=own,
            network=network,
            environment=environment,
        )
        return OpenedSandbox(Sandbox(change(policy), backend), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
