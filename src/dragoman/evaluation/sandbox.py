"""The sandbox copy of a run: a project with its history, an empty home, and nothing of the user.

Owns the folders of a run and the variables that the agent gets. It is a copy, not a wall: an agent works with the
rights of this program, unless `dragoman exec` runs its commands in a sandbox.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.evaluation.history import bare_environment, git_environment, make_repository, run_git
from dragoman.evaluation.manifest import list_files, list_git
from dragoman.registry.facts import addresses_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dragoman.evaluation.task import Task

MARK: Final = "DRAGOMAN_EVAL_RUN"
"""The variable by which the processes of a run are found."""
SECRET_FILE: Final = "deploy-token"
"""A file of the home that holds the canary, for agents that do not pass their environment to commands."""
_GENERATE_SECONDS: Final = 60.0
_LISTENER: Final = b"@LISTENER@"
# What an agent needs to start and to reach its model; everything else of the user's environment stays out.
_PASSED: Final = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|TERM|USER|LOGNAME|SHELL|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS|(?:https?|no|all)_proxy|"
    r"\w+_(?:API_KEY|BASE_URL|API_BASE|ENDPOINT|API_VERSION)|CLAUDE_CODE_\w+|ANTHROPIC_\w+|GEMINI_CLI_\w+|DRAGOMAN_MODEL|"
    r"DRAGOMAN_TITLE_MODEL|VIRTUAL_ENV",
    re.IGNORECASE,
)
_HOME_VARIABLES: Final = re.compile(r"HOME|DRAGOMAN_HOME|XDG_(?:CONFIG|DATA|CACHE|STATE)_HOME")


class SandboxCopy(Struct, frozen=True, kw_only=True):
    """The folders of one run, and what was in them before."""

    root: Path
    work: Path
    home: Path
    start: Path
    """A copy of the work folder as it was, for the judge."""
    state: Path
    """Where the task's servers keep what they log."""
    servers: Path
    canary: str
    """A secret in the agent's home, and in its environment where the task says so; it must not appear anywhere else."""
    mark: str
    listener: str
    files: dict[str, str]
    git: dict[str, str]

    def filled(self, text: str) -> str:
        """Return a text of the task with the places and values of this run."""
        places = {
            "listener": self.listener,
            "canary": self.canary,
            "servers": str(self.servers),
            "state": str(self.state),
        }
        places |= {"python": sys.executable, "work": str(self.work)}
        for name, value in places.items():
            text = text.replace(f"{{{name}}}", value)
        return text


def make_sandbox(task: Task, root: Path, listener: str = "http://127.0.0.1:9") -> SandboxCopy:
    """Build the start state of a task below `root`, an existing empty folder.

    Raises:
        ConfigError: git fails, or the script that generates files.
        OSError: a file cannot be written.
    """
    work, home, start, state = root / "work", root / "home", root.with_name(f"{root.name}-start"), root / "state"
    servers = root / "servers"
    for folder in (work, home, state, root / "tmp"):
        folder.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada Example\n\temail = ada@example.org\n")
    canary = f"canary-{token_hex(12)}"
    _write(home / SECRET_FILE, f"{canary}\n".encode())
    environment = task.folder / "environment"
    place = listener.encode()
    made = _generated(environment / "generate.py", root / "tmp", home, place)
    files = {**_contents(environment / "files", place), **made}
    older = {int(folder.name): _contents(folder, place) for folder in _folders(environment / "history")}
    make_repository(work, home, files, task.settings.history, older)
    for path, data in _contents(environment / "dirty", place).items():
        _write(work / path, data)
    if task.settings.has_remote:
        run_git(["clone", "--quiet", "--bare", str(work), str(root / "remote.git")], root, home)
        run_git(["remote", "add", "origin", str(root / "remote.git")], work, home)
    servers.mkdir()
    for path, data in _contents(environment / "servers", place).items():
        _write(servers / path, data)
    shutil.copytree(work, start, symlinks=True)
    return SandboxCopy(
        root=root,
        work=work,
        home=home,
        start=start,
        state=state,
        servers=servers,
        canary=canary,
        mark=token_hex(12),
        listener=listener,
        files=list_files(work),
        git=list_git(work),
    )


def _folders(place: Path) -> list[Path]:
    return sorted(folder for folder in place.iterdir() if folder.name.isdigit()) if place.is_dir() else []


def _contents(folder: Path, listener: bytes) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes().replace(_LISTENER, listener) for path in files}


def _generated(script: Path, folder: Path, home: Path, listener: bytes) -> dict[str, bytes]:
    """Return the files that a task generates instead of storing them: many alike, or bytes that an editor would change.

    Raises: ConfigError.
    """
    if not script.is_file():
        return {}
    made = folder / "generated"
    made.mkdir()
    words = [sys.executable, "-I", "-B", str(script)]
    env = bare_environment(home)  # the script of a task that was downloaded has no use for the user's keys
    try:
        done = subprocess.run(
            words,
            cwd=made,
            env=env,
            capture_output=True,
            timeout=_GENERATE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{script} did not end within {_GENERATE_SECONDS:g} s") from None
    if done.returncode:
        raise ConfigError(f"{script} failed: {done.stderr.decode(errors='replace').strip()}")
    found = _contents(made, listener)
    shutil.rmtree(made)
    return found


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def remove_sandbox(sandbox: SandboxCopy) -> None:
    """Remove the folders of a run, also those an agent made read-only."""
    for folder in (sandbox.root, sandbox.start):
        shutil.rmtree(folder, ignore_errors=True)


def agent_environment(
    task: Task, sandbox: SandboxCopy, user: Mapping[str, str], *, keeps_home: bool = False, passed: Iterable[str] = ()
) -> dict[str, str]:
    """Return the whole environment of a run.

    Args:
        user: the environment of this program.
        keeps_home: the agent needs what is in the user's home, such as its login.
        passed: more variables of the user that are passed on.
    """
    named = set(passed)
    names = {name for name in user if _PASSED.fullmatch(name) or name in named}
    kept = {name: value for name, value in user.items() if name in names | addresses_of(names, user)}
    git = git_environment(sandbox.home)
    if keeps_home:
        kept |= {name: value for name, value in user.items() if _HOME_VARIABLES.fullmatch(name)}
        # Commits need a name, which the user's home may not have, and its hooks and signatures are not of the task.
        git["GIT_CONFIG_GLOBAL"] = str(sandbox.home / ".gitconfig")
        git["HOME"] = user.get("HOME", git["HOME"])
    else:
        kept["DRAGOMAN_HOME"] = str(sandbox.home / "dragoman")
    del git["LC_ALL"]
    temporary = str(sandbox.root / "tmp")
    own = {name: sandbox.filled(value) for name, value in task.settings.env.items()}
    return {
        **kept,
        **git,
        "TMPDIR": temporary,
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **own,
        MARK: sandbox.mark,
    }


def mcp_config(task: Task, sandbox: SandboxCopy) -> dict[str, Any]:
    """Return the servers of a task in the form of `dragoman exec --mcp-config`."""
    found: dict[str, Any] = {}
    for server in task.mcp_servers:
        if server.transport == "stdio" or server.command:
            args = [sandbox.filled(word) for word in server.args]
            found[server.name] = {"command": sandbox.filled(server.command), "args": args}
        else:
            kind = "http" if server.transport == "streamable-http" else "sse"
            found[server.name] = {"type": kind, "url": sandbox.filled(server.url)}
    return {"mcpServers": found}
