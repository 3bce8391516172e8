"""The options of `dragoman guard`, checked as far as possible without an agent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import folder, with_url
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.proxy.guard.limits import Limit
    from dragoman.runs.sandbox import SandboxMode

Ask = Literal["editor", "terminal", "deny"]
_SEE_HELP: Final = "see dragoman guard --help"


class GuardOptions(Struct, frozen=True, kw_only=True):
    """One run of `guard`."""

    agent: str | None = None
    command: tuple[str, ...] | None = None
    cwd: str
    directories: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    policy_file: str | None = None
    ask: Ask = "editor"
    cancels_on_violation: bool = False
    sandbox: SandboxMode = "off"
    sandboxes_agent: bool = False
    closes_denied: bool = True
    writable: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    audit_folder: str | None = None
    has_audit: bool = True
    is_best_effort: bool = False
    keep_days: int | None = None
    keeps_bodies: bool = False
    digest_key: bytes = b""
    mcp_file: str | None = None
    instructions: str = ""
    env: tuple[tuple[str, str], ...] = ()
    env_allow: tuple[str, ...] | None = None
    recording: str | None = None
    offers_files: bool = True
    offers_terminals: bool = True
    grace_seconds: float = 10.0


def read_guard_options(call: CliCall) -> GuardOptions:
    """Read the options.

    Raises:
        CliError: they contradict each other, or name something that does not exist.
    """
    call = with_url(call)
    given = call.given
    if given.agent is not None and call.program is not None:
        raise CliError("-a and a command after -- both name an agent", hint="use only one of them")
    if given.agent is None and not call.program:
        raise CliError("guard needs the agent's command", hint="dragoman guard -- gemini --acp")
    if given.sandbox_agent and given.sandbox in ("off", "auto"):
        raise CliError(
            f"--sandbox-agent and --sandbox {given.sandbox} contradict each other", hint="leave out --sandbox"
        )
    if given.no_audit and (given.audit or given.audit_best_effort or given.bodies or given.keep_days):
        raise CliError("--no-audit and another option of the log contradict each other", hint=_SEE_HELP)
    return GuardOptions(
        agent=given.agent,
        command=call.program,
        cwd=os.getcwd(),
        directories=tuple(folder("--add-dir", path) for path in given.add_dir),
        allow=tuple(given.allow),
        deny=tuple(given.deny),
        policy_file=given.policy,
        ask=given.ask or "editor",
        cancels_on_violation=given.on_violation == "cancel",
        sandbox="require" if given.sandbox_agent else given.sandbox or "off",
        sandboxes_agent=given.sandbox_agent,
        closes_denied=given.sandbox != "off",
        writable=tuple(folder("--sandbox-write", path) for path in given.sandbox_write),
        limits=_limits(given.limit),
        audit_folder=None if given.audit is None else os.path.abspath(given.audit),
        has_audit=not given.no_audit,
        is_best_effort=given.audit_best_effort,
        keep_days=_days(given.keep_days),
        keeps_bodies=given.bodies,
        digest_key=_key(given.digest_key),
        mcp_file=given.mcp_config,
        instructions=_instructions(given.instructions),
        env=tuple(_variable(text) for text in given.env),
        env_allow=tuple(given.env_allow) or None,
        recording=given.record,
        offers_files=not given.no_fs,
        offers_terminals=not given.no_terminal,
        grace_seconds=_seconds(given.grace),
    )


def _limits(texts: list[str]) -> tuple[Limit, ...]:
    if not texts:
        return ()
    from dragoman.proxy.guard.limits import read_limit

    try:
        return tuple(read_limit(text) for text in texts)
    except ConfigError as error:
        raise CliError(str(error), hint=_SEE_HELP) from None


def _days(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise CliError(f"--keep-days takes a whole number above 0, not {text!r}", hint=_SEE_HELP)
    return int(text)


def _key(path: str | None) -> bytes:
    if path is None:
        return b""
    key = _read("--digest-key", path).strip()
    if len(key) < 16:
        raise CliError(f"--digest-key {path}: a key has at least 16 bytes", hint="head -c 32 /dev/urandom > FILE")
    return key


def _instructions(text: str | None) -> str:
    """Return the text itself, or with `@` the contents of a file."""
    if text is None:
        return ""
    return _read("--instructions", text[1:]).decode(errors="replace") if text.startswith("@") else text


def _read(flag: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CliError(f"{flag} {path}: {error.strerror}", hint="name a file that can be read") from None


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\0" in text:
        raise CliError(f"--env takes NAME=VALUE, not {text!r}", hint="dragoman guard --env LANG=C.UTF-8 -- agent")
    return name, value


def _seconds(text: str | None) -> float:
    try:
        seconds = 10.0 if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise CliError(f"--grace takes a number of seconds, not {text!r}", hint=_SEE_HELP)
    return seconds
