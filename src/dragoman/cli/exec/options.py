"""The options of `dragoman exec`, checked as far as possible without an agent."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import folder, with_url

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from dragoman.cli.command import CliCall
    from dragoman.policy import Rule
    from dragoman.runs.sandbox import SandboxMode, WantedSandboxes

SEE_HELP = "see dragoman exec --help"
Form = Literal["text", "json", "events", "raw"]
_MOST_RETRIES: Final = 100
ProgressForm = Literal["terminal", "plain", "none", "github", "json"]
Protocol = Literal["1", "2", "auto", "2025.1"]


class Options(Struct, frozen=True, kw_only=True):
    """One run of `exec`."""

    agent: str | None = None
    command: tuple[str, ...] | None = None
    prompt: str | None = None
    prompt_file: str | None = None
    images: tuple[str, ...] = ()
    cwd: str
    directories: tuple[str, ...] = ()
    protocol: Protocol = "1"
    """The version of the protocol that the agent speaks."""
    mode: str | None = None
    model: str | None = None
    append_system_prompt: str | None = None
    max_turns: int | None = None
    allowed_tools: tuple[str, ...] | None = None
    """The only tools that the agent has; None for all of them."""
    offers_files: bool = True
    offers_terminals: bool = True
    settings: tuple[tuple[str, str], ...] = ()
    mcp_file: str | None = None
    resume: str | None = None
    """The session to continue, as the user names it; `last` is the newest of this agent in this folder."""
    resume_flag: str = "--resume"
    keeps_session: bool = False
    """`--keep`: a session at a host stays there after the run."""
    no_ledger: bool = False
    timeout_seconds: float | None = None
    retries: int = 0
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    policy_file: str | None = None
    allows_all: bool = False
    """`--dangerously-allow-all`."""
    sandbox: SandboxMode = "off"
    sandboxes_agent: bool = False
    closes_denied: bool = True
    """Whether files that rules deny are closed to commands outside a sandbox too; not with `--sandbox off`."""
    writable: tuple[str, ...] = ()
    """Further folders that may be written in the sandbox."""
    fails_on_deny: bool = False
    stops_on_violation: bool = False
    holds_agent: bool = False
    """After the result the agent runs until stdin ends."""
    is_sure: bool = False
    """`--yes`: a well-known agent may be downloaded without a question."""
    form: Form = "text"
    recording: str | None = None
    follows_changes: bool = True
    """Whether the folders are looked at before and after the turn; False with `--no-snapshots`."""
    patch: str | None = None
    """The file for the changes of the run."""
    progress: ProgressForm = "none"
    is_verbose: bool = False

    @property
    def chooses_no_mode(self) -> bool:
        """Whether the mode of the session is left to the agent, and to what is known about it."""
        return self.mode is None and all(key != "mode" for key, _ in self.settings)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of the session."""
        return (self.cwd, *self.directories)

    def wanted_sandboxes(self, agent: str, rules: Sequence[Rule]) -> WantedSandboxes:
        """Return what is to be enclosed of an agent; the rules about files are enforced there."""
        from dragoman.runs.sandbox import WantedSandboxes

        return WantedSandboxes(
            mode=self.sandbox,
            cwd=self.cwd,
            roots=self.roots,
            writable=self.writable,
            encloses_agent=self.sandboxes_agent,
            agent_mode=self.mode,
            agent=agent,
            rules=rules,
            closes_denied=self.closes_denied,
        )


def read_options(call: CliCall) -> Options:
    """Read the options of one run.

    Raises:
        CliError: the options contradict each other, or name something that does not exist.
    """
    call = with_url(call)
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
        protocol=given.protocol or "1",
        mode=given.mode,
        model=given.model,
        append_system_prompt=given.append_system_prompt,
        max_turns=_turns(given.max_turns),
        allowed_tools=_tools(given.allowed_tools),
        offers_files=not given.no_fs,
        offers_terminals=_terminals(given),
        settings=tuple(_setting(text) for text in given.set),
        mcp_file=given.mcp_config,
        resume=_resume(given.resume, is_last=getattr(given, "continue")),
        resume_flag="--continue" if getattr(given, "continue") else "--resume",
        keeps_session=given.keep,
        no_ledger=given.no_ledger,
        timeout_seconds=_seconds(given.timeout),
        retries=_retries(given.retries),
        allow=tuple(given.allow),
        deny=tuple(given.deny),
        policy_file=given.policy,
        allows_all=given.dangerously_allow_all,
        sandbox=_sandbox(given.sandbox, given.sandbox_agent),
        sandboxes_agent=given.sandbox_agent,
        closes_denied=given.sandbox != "off",
        writable=tuple(folder("--sandbox-write", path) for path in given.sandbox_write),
        fails_on_deny=given.fail_on_deny,
        stops_on_violation=given.stop_on_violation,
        holds_agent=given.hold,
        is_sure=given.yes,
        form=given.output or "text",
        recording=given.record,
        follows_changes=not given.no_snapshots,
        patch=_patch(given.patch),
        progress=_progress(given),
        is_verbose=given.verbose,
    )


def _resume(word: str | None, *, is_last: bool) -> str | None:
    if word is not None and is_last:
        raise CliError("--continue and --resume both name a session", hint="use only one of them")
    if word is not None and not word.strip():
        raise CliError("--resume takes a session: last, its id, @NUMBER or its title", hint="dragoman sessions list")
    return "last" if is_last else word


def _progress(given: Any) -> ProgressForm:
    """Return the form of the progress; without a choice, what fits the place where stderr is read."""
    chosen: ProgressForm | None = given.progress
    if given.quiet:
        if chosen not in (None, "none"):
            raise CliError(f"--quiet and --progress {chosen} contradict each other", hint=SEE_HELP)
        return "none"
    if given.verbose and chosen == "none":
        raise CliError("--verbose and --progress none contradict each other", hint=SEE_HELP)
    if chosen is not None:
        return chosen
    if sys.stderr.isatty():
        return "terminal"
    if os.environ.get("GITHUB_ACTIONS") == "true":
        return "github"
    # Events and frames on stdout are progress already.
    return "none" if given.output in ("events", "raw") and not given.verbose else "plain"


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


def _sandbox(mode: SandboxMode | None, is_agent_inside: bool) -> SandboxMode:
    if not is_agent_inside:
        return mode or "off"
    if mode in ("off", "auto"):
        raise CliError(
            f"--sandbox-agent and --sandbox {mode} contradict each other: commands of a sandboxed agent stay inside",
            hint="leave out --sandbox, which then is require",
        )
    return "require"


def _turns(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise CliError(f"--max-turns takes a whole number above 0, not {text!r}", hint=SEE_HELP)
    return int(text)


def _tools(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list with commas; an empty text means no tools."""
    return None if text is None else tuple(name for name in (word.strip() for word in text.split(",")) if name)


def _terminals(given: Namespace) -> bool:
    if given.no_terminal and given.sandbox in ("auto", "require") and not given.sandbox_agent:
        raise CliError(
            f"--no-terminal and --sandbox {given.sandbox} contradict each other: commands that dragoman does not run "
            "are not in its sandbox",
            hint="--sandbox-agent confines the agent itself",
        )
    return not given.no_terminal


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


def _patch(path: str | None) -> str | None:
    if path is None:
        return None
    path = os.path.abspath(path)
    parent = os.path.dirname(path)
    if not os.path.isdir(parent) or os.path.isdir(path) or not os.access(parent, os.W_OK):
        raise CliError(f"--patch {path}: this file cannot be written", hint="name a file in a folder that exists")
    return path


def _retries(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or int(text) > _MOST_RETRIES:
        raise CliError(f"--retries takes a number from 0 to {_MOST_RETRIES}, not {text!r}", hint=SEE_HELP)
    return int(text)
