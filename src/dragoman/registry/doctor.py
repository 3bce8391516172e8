"""What is missing to run an agent, and how to get it; sends the agent a real `initialize` request.

`examine` looks at the command without starting it, `probe` starts it. What agents need is in `needs.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.policy.paths import is_below
from dragoman.registry.needs import RUNTIMES, needs_of
from dragoman.registry.packages import read_manifest
from dragoman.registry.quirks import programs
from dragoman.registry.versions import fits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.registry.agents import AgentEntry
    from dragoman.schema import v1

_VERSION_SECONDS: Final = 10.0
_SHEBANG_BYTES: Final = 256


class DoctorFinding(Struct, frozen=True):
    """The result of one check. With `missing` the agent cannot run; `note` is information."""

    what: str
    state: Literal["ok", "missing", "note"]
    detail: str
    fix: str = ""


class Login(Struct, frozen=True):
    """A login method that the agent offers."""

    id: str
    name: str
    type: str
    missing: tuple[str, ...] = ()
    """Environment variables that it needs and that are not set."""


class ProbeResult(Struct, frozen=True):
    """The agent's answer to `initialize`."""

    name: str
    version: str
    title: str
    protocol_version: int
    capabilities: dict[str, Any]
    logins: tuple[Login, ...]
    seconds: float


def examine(entry: AgentEntry, environment: Mapping[str, str] | None = None) -> list[DoctorFinding]:
    """Check everything that an agent's command needs, without starting it."""
    found: list[DoctorFinding] = []
    if entry.problem:
        found.append(DoctorFinding("configuration", "missing", entry.problem))
    if entry.command:
        variables = {**(os.environ if environment is None else environment), **entry.env}
        found += _Examination(entry, variables).run()
    return found


async def probe(entry: AgentEntry, cwd: Path, *, seconds: float) -> ProbeResult:
    """Start the agent, initialize it and end it.

    Args:
        entry: the agent.
        cwd: the folder to start it in.
        seconds: how long to wait for its answer.

    Raises:
        ConfigError: it cannot be started.
        ConnectionClosed: it ended (AgentExited) or did not answer in time.
        RequestError: it answered with an error.
        RemoteProtocolError: it does not follow the protocol.
    """
    from dragoman.client import spawn

    started = time.monotonic()
    async with spawn(
        *entry.command,
        cwd=cwd,
        env=entry.changed_env(os.environ),
        spare=entry.quirks.spare,
        initialize_seconds=seconds,
        terminal_login=True,  # some agents list their terminal login only for a client with this capability
    ) as agent:
        took_seconds = time.monotonic() - started
        return _probe_of(agent.initialized, took_seconds, {**os.environ, **entry.env})


def _probe_of(answer: v1.InitializeResponse, seconds: float, variables: Mapping[str, str]) -> ProbeResult:
    from dragoman.schema import encode

    info = answer.agent_info or None
    document: dict[str, Any] = json.loads(encode(answer))
    methods = [method for method in document.get("authMethods") or () if isinstance(method, dict)]
    return ProbeResult(
        name=info.name if info else "",
        version=info.version if info else "",
        title=(info.title or "") if info else "",
        protocol_version=answer.protocol_version,
        capabilities=document.get("agentCapabilities") or {},
        logins=tuple(_login(method, variables) for method in methods),
        seconds=seconds,
    )


def _login(method: dict[str, Any], variables: Mapping[str, str]) -> Login:
    wanted = [variable.get("name") for variable in method.get("vars") or () if isinstance(variable, dict)]
    missing = tuple(name for name in wanted if isinstance(name, str) and not variables.get(name))
    return Login(str(method.get("id", "")), str(method.get("name", "")), str(method.get("type", "agent")), missing)


class _Examination:
    """The checks of one command."""

    def __init__(self, entry: AgentEntry, variables: Mapping[str, str]) -> None:
        self._entry = entry
        self._variables = variables
        self._programs = programs(entry.command)
        self._needs = needs_of(self._programs | {entry.name.lower()})
        self._findings: list[DoctorFinding] = []

    def run(self) -> list[DoctorFinding]:
        program = self._find(self._entry.command[0])
        if program is None:
            self._add_missing(self._entry.command[0])
        else:
            self._add("program", "ok", program)
            self._look_at(program)
        self._look_at_variables()
        self._look_at_codex()
        self._look_at_replaced()
        quirks = self._entry.quirks
        if quirks.evidence:
            what = [f"withholds {name}" for name in sorted(quirks.withhold)]
            what += [f"spares {word!r}" for word in quirks.spare]
            what += [f"its daemon {word!r} ends with the run that started it" for word in quirks.daemons]
            what += ["a missing file reads as empty"] if quirks.missing_file == "empty" else []
            what += ["replays late"] if quirks.replays_late else []
            self._add("quirks", "note", f"{', '.join(what) or 'none'} ({quirks.evidence})")
        return self._findings

    def _add(self, what: str, state: Literal["ok", "missing", "note"], detail: str, fix: str = "") -> None:
        self._findings.append(DoctorFinding(what, state, detail, fix))

    def _find(self, program: str) -> str | None:
        return shutil.which(program, path=self._variables.get("PATH", os.defpath))

    def _add_missing(self, program: str) -> None:
        name = os.path.basename(program)
        if os.sep in program and os.path.exists(program):
            why = "a folder" if os.path.isdir(program) else "not executable"
            self._add("program", "missing", f"{program} is {why}", f"chmod +x {program}, or name another program")
        elif " " in program and self._find(program.split(maxsplit=1)[0]):
            fix = "separate its words: the program in command, the others in args"
            self._add("program", "missing", f"no program is called {program!r}", fix)
        else:
            fix = RUNTIMES.get(name) or (self._needs.get if self._needs else "install it, or give its full path")
            where = "" if os.sep in program else " on the PATH"
            self._add("program", "missing", f"{program} is not found{where}", fix)

    def _look_at(self, program: str) -> None:
        """Check the interpreter of a script and its version."""
        name = os.path.basename(program)
        interpreter = _shebang(program)
        if name in RUNTIMES or name.rstrip("0123456789.") == "python":
            self._add_version(name, program)
        elif interpreter:
            found = self._find(interpreter)
            wanted = os.path.basename(interpreter)
            if found is None:
                fix = RUNTIMES.get(wanted, "install it, or install the agent again")
                self._add(wanted, "missing", f"{interpreter} is not found; {name} is a script for it", fix)
            elif wanted in RUNTIMES or wanted.rstrip("0123456789.") == "python":
                self._add_version(wanted, found)
            else:  # a shell: most have no `--version`, and any will do
                self._add(wanted, "ok", found)
        if name in ("npx", "npm"):
            node = self._find("node")
            if node is None:
                self._add("node", "missing", "node is not found on the PATH", RUNTIMES["node"])
            else:
                self._add_version("node", node)
        elif interpreter or name == "node":
            self._look_at_engines(program)

    def _add_version(self, what: str, program: str) -> None:
        version = _version(program, self._variables)
        state: Literal["ok", "missing"] = "ok" if version else "missing"
        self._add(what, state, version or f"{program} cannot be run", "" if version else RUNTIMES.get(what, ""))

    def _look_at_engines(self, program: str) -> None:
        """Check the Node version a package asks for: npm ignores it, and the package fails later without a reason."""
        script = self._script(program)
        for folder in Path(os.path.realpath(script)).parents if script else ():
            manifest = read_manifest(folder)
            if manifest:
                break
        else:
            return
        engines = manifest.get("engines")
        wanted = engines.get("node") if isinstance(engines, dict) else None
        node = self._find("node")
        if not isinstance(wanted, str) or node is None:
            return
        have = _version(node, self._variables)
        if fits(have.removeprefix("v"), wanted) is False:
            label = f"{manifest.get('name')} {manifest.get('version')}"
            self._add("node", "missing", f"{label} needs node {wanted}, this is {have}", RUNTIMES["node"])

    def _script(self, program: str) -> str:
        if os.path.basename(program) != "node":
            return program
        return next((word for word in self._entry.command[1:] if not word.startswith("-")), "")

    def _look_at_variables(self) -> None:
        wanted = self._needs.variables if self._needs else ()
        if not wanted:
            return
        have = [name for name in wanted if self._variables.get(name)]
        detail = f"{', '.join(have)} is set" if have else f"{' or '.join(wanted)} is not set"
        fix = "" if have else "needed unless you have logged in to the agent itself"
        self._add("environment", "ok" if have else "note", detail, fix)

    def _look_at_codex(self) -> None:
        home = self._variables.get("CODEX_HOME")
        if home and "codex-acp" in self._programs:
            temporary = self._variables.get("TMPDIR") or tempfile.gettempdir()
            if is_below(os.path.realpath(home), os.path.realpath(temporary)):
                detail = f"CODEX_HOME ({home}) is in the folder for temporary files, where its sandbox refuses to run"
                self._add("environment", "note", detail, "move CODEX_HOME, or set TMPDIR to another folder")

    def _look_at_replaced(self) -> None:
        """Note a package that must not be used any more, or not in some versions."""
        from dragoman.registry.known import well_known_agents

        for agent in well_known_agents():
            for old in agent.replaced:
                if old.package in self._programs and old.package != agent.program:
                    versions = f" {old.versions}" if old.versions else ""
                    why = old.why or "it was replaced"
                    self._add("package", "note", f"{old.package}{versions}: {why}", f"use {old.use}")


def _shebang(program: str) -> str:
    """Return the interpreter that a script names; empty if the file is not a script."""
    try:
        with open(program, "rb") as file:
            first = file.read(_SHEBANG_BYTES).partition(b"\n")[0]
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode("utf-8", "replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _version(program: str, variables: Mapping[str, str]) -> str:
    """Return the first line of the output of `--version`; empty if the program cannot be run."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(variables),
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = (done.stdout or done.stderr).decode("utf-8", "replace").split("\n")
    return lines[0].strip() if done.returncode == 0 else ""
