"""The options of `dragoman exec`, checked as far as possible without an agent."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import folder

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall

SEE_HELP = "see dragoman exec --help"
Form = Literal["text", "json", "events", "raw"]


class Options(Struct, frozen=True, kw_only=True):
    """One run of `exec`."""

    agent: str | None = None
    command: tuple[str, ...] | None = None
    prompt: str | None = None
    prompt_file: str | None = None
    images: tuple[str, ...] = ()
    cwd: str
    directories: tuple[str, ...] = ()
    mode: str | None = None
    model: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    mcp_file: str | None = None
    resume: str | None = None
    timeout_seconds: float | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    policy_file: str | None = None
    allows_all: bool = False
    """`--dangerously-allow-all`."""
    fails_on_deny: bool = False
    stops_on_violation: bool = False
    form: Form = "text"
    recording: str | None = None
    has_progress: bool = False
    is_verbose: bool = False

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of the session."""
        return (self.cwd, *self.directories)


def read_options(call: CliCall) -> Options:
    """Read the options of one run.

    Raises:
        CliError: the options contradict each other, or name something that does not exist.
    """
    given = call.given
    if given.quiet and given.verbose:
        raise CliError("--quiet and --verbose contradict each other", hint=SEE_HELP)
    return Options(
        agent=_agent(call),
        command=call.program,
        prompt=given.prompt,
        prompt_file=given.file,
        images=tuple(given.image),
        cwd=folder("--cwd", given.cwd or "."),
        directories=tuple(folder("--add-dir", path) for path in given.add_dir),
        mode=given.mode,
        model=given.model,
        settings=tuple(_setting(text) for text in given.set),
        mcp_file=given.mcp_config,
        resume=given.resume,
        timeout_seconds=_seconds(given.timeout),
        allow=tuple(given.allow),
        deny=tuple(given.deny),
        policy_file=given.policy,
        allows_all=given.dangerously_allow_all,
        fails_on_deny=given.fail_on_deny,
        stops_on_violation=given.stop_on_violation,
        form=given.output or "text",
        recording=given.record,
        has_progress=given.verbose or (not given.quiet and sys.stderr.isatty()),
        is_verbose=given.verbose,
    )


def _agent(call: CliCall) -> str | None:
    name: str | None = call.given.agent
    if call.program is not None:
        if name is not None:
            raise CliError("-a and a command after -- both name an agent", hint="use only one of them")
        if not call.program:
            raise CliError("no command after --", hint="dragoman exec 'What is this?' -- gemini --acp")
    if name == "":
        raise CliError("-a takes the name of an agent", hint="dragoman agents list")
    return name


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CliError(f"--set takes key=value, not {text!r}", hint="dragoman exec --set verbose=true ...")
    return key, value


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise CliError(f"--timeout takes a number of seconds above 0, not {text!r}", hint=SEE_HELP)
    return seconds
