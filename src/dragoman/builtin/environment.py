"""The environment of the user's login shell, for an agent that a graphical editor started without it.

Owns how a missing environment is recognised, the time-boxed call of the login shell, and what is taken from its answer:
its PATH, and variables that are not set here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.builtin.models.keys import ModelEnvironment
from dragoman.settings.credentials import Credentials

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_log = logging.getLogger("dragoman.builtin")

RESOLVING: Final = "DRAGOMAN_RESOLVING_ENVIRONMENT"
"""Set to 1 for the shell, so that its start files can skip slow parts, and an agent they start does not ask again."""

# PATH of programs that no shell started. A user who installed a tool has one more folder.
_BARE_PATH: Final = frozenset(
    (
        *("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"),
        *("/usr/games", "/usr/local/games", "/snap/bin", "/Library/Apple/usr/bin", "/System/Cryptexes/App/usr/bin"),
    )
)
# These describe the shell, not this process.
_OF_THE_SHELL: Final = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "PS1", "LINES", "COLUMNS", "TERM", RESOLVING})
_OF_THE_SHELL_PREFIXES: Final = ("BASH_FUNC_", "DRAGOMAN_")
_LARGEST_BYTES: Final = 4 * 1024 * 1024  # an environment is at most 2 MiB on Linux; the rest is chatter
_PLAIN_SHELLS: Final = frozenset({"csh", "tcsh"})  # take no other option than -l

_lock: Final = threading.Lock()
# A shell is asked once, even if it gave no answer: its start files do not get faster.
_answers: Final[dict[tuple[str, str], dict[str, str] | None]] = {}


class UserEnvironment:
    """This process's environment, completed from the login shell, once, in the background, and with the stored keys.

    Args:
        config_dir: the folder with the stored keys; without one there are none.
    """

    def __init__(self, config_dir: Path | None = None) -> None:
        self.models = ModelEnvironment(None if config_dir is None else Credentials(config_dir))
        """The environment of the models: that of this process, with the stored keys."""
        self.reading: asyncio.Future[None] | None = None
        """Set while the login shell is asked, and afterwards; None if nothing is missing."""

    def begin(self) -> None:
        """Begin to ask the login shell, if our environment misses something."""
        if self.reading is None and needs_login_environment(os.environ):
            self.reading = asyncio.ensure_future(self._read())

    async def ready(self) -> None:
        """Return when the environment is complete, or as complete as it can be."""
        self.begin()
        if self.reading is not None:
            await asyncio.shield(self.reading)

    async def reread_keys(self) -> None:
        """Read the stored keys again, if their file has changed."""
        if self.models.is_outdated():
            await asyncio.to_thread(self.models.reread)

    async def _read(self) -> None:
        found = await asyncio.to_thread(login_environment)
        os.environ.update(found or {})


def needs_login_environment(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment misses the user's tools: no PATH, or a bare one that no shell set."""
    if env.get(RESOLVING):
        return False
    folders = [folder for folder in env.get("PATH", "").split(os.pathsep) if folder]
    if not folders:
        return True
    return "SHLVL" not in env and all(folder.rstrip("/") in _BARE_PATH for folder in folders)


def login_environment(
    env: Mapping[str, str] | None = None, *, shell: str | None = None, seconds: float = 3.0
) -> dict[str, str] | None:
    """Return `env` (this process's by default) completed from the login shell.

    None if nothing is missing, or if the shell gave no answer. Blocks up to `seconds`, once per process. Never raises.
    """
    own = dict(os.environ if env is None else env)
    if not needs_login_environment(own):
        return None
    program = shell or own.get("SHELL") or _shell_of_user()
    key = program, own.get("HOME", "")
    with _lock:
        if key not in _answers:
            try:
                _answers[key] = _ask(program, own, seconds)
            except (OSError, ValueError) as error:
                _log.warning("the environment of the login shell %s cannot be read: %s", program, error)
                _answers[key] = None
        answer = _answers[key]
    if answer is None:
        return None
    completed = _complete(own, answer)
    return completed if completed != own else None


def _complete(own: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Keep our variables, and put the shell's folders at the front of PATH."""
    added = {
        name: value
        for name, value in theirs.items()
        if name not in own and name not in _OF_THE_SHELL and not name.startswith(_OF_THE_SHELL_PREFIXES)
    }
    folders = [*theirs.get("PATH", "").split(os.pathsep), *own.get("PATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(filter(None, folders)))
    return {**own, **added, **({"PATH": path} if path else {})}


def _shell_of_user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:  # a container may run under a number that has no name
        return "/bin/sh"


def _ask(shell: str, own: Mapping[str, str], seconds: float) -> dict[str, str] | None:
    import subprocess

    # Start files may print anything, so the answer stands between two random marks.
    mark = os.urandom(8).hex()
    line = f"printf '%s' '{mark}'; /usr/bin/env -0; printf '%s' '{mark}'; exit 0"
    options = ["-c"] if os.path.basename(shell) in _PLAIN_SHELLS else ["-l", "-i", "-c"]
    home = own.get("HOME", "")
    process = subprocess.Popen(
        [shell, *options, line],
        cwd=home if os.path.isdir(home) else "/",
        env={**own, RESOLVING: "1"},
        stdin=subprocess.DEVNULL,  # a start file that asks something gets no answer
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            text = _read(process.stdout.fileno(), mark.encode(), time.monotonic() + seconds)
        finally:
            # The process group only: a key agent that a start file started in a group of its own is meant to stay. The
            # shell is not reaped before, so the group id still belongs to it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if text is None:
        _log.warning("the login shell %s did not print its environment within %g s", shell, seconds)
        return None
    pairs = (entry.partition("=") for entry in text.decode(errors="surrogateescape").split("\0"))
    return {name: value for name, is_pair, value in pairs if name and is_pair}


def _read(fd: int, mark: bytes, deadline: float) -> bytes | None:
    """Return what stands between the marks; None if it does not arrive in time."""
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and len(received) < _LARGEST_BYTES:
            if not selector.select(left):
                continue
            data = os.read(fd, 1 << 16)
            if not data:
                return None
            received += data
            # Do not wait for the end of the pipe: a background process of a start file may hold it open.
            pieces = received.split(mark)
            if len(pieces) > 2:
                return pieces[1]
    return None
