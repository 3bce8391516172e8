"""The way from a request to run a command to arguments and an environment of this machine.

Owns the search for the program, the rule for whole shell lines, and the list of variables a command may see. Starts
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from dragoman.process.pty import SHELL

# Where things are and how to show them. What is not here may be a secret: commands are chosen by a model that reads
# text of strangers, and an environment is the first thing such a text asks for.
KEPT_VARIABLES: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
        *("TERM", "COLORTERM", "NO_COLOR"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT"),
    )
)
_KEPT_PREFIX: Final = "LC_"
# There is no keyboard: without these `git log` would wait forever for a key.
_NO_KEYBOARD: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_TERM: Final = "xterm-256color"


def is_kept(name: str) -> bool:
    """Whether every program needs this variable."""
    return name in KEPT_VARIABLES or name.startswith(_KEPT_PREFIX)


def child_environment(
    added: Mapping[str, str], *, kept: Collection[str] = (), source: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the whole environment of a command: what every program needs, what `kept` also names, and `added`.

    Taken from `source`, by default this program's own environment.
    """
    environment = {
        name: value
        for name, value in (os.environ if source is None else source).items()
        if is_kept(name) or name in kept
    }
    if environment.get("TERM", "dumb") == "dumb":  # ours may have no terminal; theirs is one
        environment["TERM"] = _TERM
    return {**environment, **_NO_KEYBOARD, **added}


def resolve_command(command: str, args: Sequence[str], env: Mapping[str, str], cwd: str) -> tuple[list[str], bool]:
    """Return the arguments to run, and whether they are a shell with a whole line.

    Some agents send a shell line as the command. That is one only if no program has this name, there is white space in
    it and there are no arguments; everything else is run, and fails, as it was sent (rule 284).
    """
    is_line = not args and len(command.split()) > 0 and any(character.isspace() for character in command)
    if is_line and find_program(command, env, cwd) is None:
        return [SHELL, "-c", command], True
    return [command, *args], False


def find_program(name: str, env: Mapping[str, str], cwd: str) -> str | None:
    """Return the file that a command of this name would run in `cwd`; None if there is none."""
    if not name or "\0" in name:
        return None
    if os.sep in name:
        return _program_at(os.path.join(cwd, name))
    for folder in os.get_exec_path(env):
        if path := _program_at(os.path.join(cwd, folder, name)):
            return path
    return None


def _program_at(path: str) -> str | None:
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
