"""The plan of a guard, built from its options: the agent, rules, sandbox, log, additions."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from dragoman._version import __version__
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.rules import remember_rule, remembered_rules, rule_file, typed_rules
from dragoman.cli.exits import CliError
from dragoman.cli.guard.environment import repaired
from dragoman.cli.named_agent import find_agent
from dragoman.policy.paths import is_below
from dragoman.process.sandbox.confinement import Confinement
from dragoman.proxy.audit.log import AuditLog
from dragoman.proxy.guard.additions import Additions
from dragoman.proxy.guard.conduct import Conduct
from dragoman.proxy.guard.events import GuardEvents, NoAudit
from dragoman.proxy.guard.grades import grade_rules
from dragoman.proxy.guard.limits import GuardLimits
from dragoman.proxy.guard.plan import GuardPlan
from dragoman.proxy.guard.protected import SessionTripwires
from dragoman.registry.built_in import runs_built_in, with_open_files
from dragoman.runs.sandbox import confine_agent, prepare_sandboxes, sandboxed_entry
from dragoman.settings import find_project, load_settings
from dragoman.settings.file import project_file, user_file
from dragoman.settings.places import config_dir, state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dragoman.cli.guard.options import GuardOptions
    from dragoman.client.permission import Asker
    from dragoman.client.session import Session
    from dragoman.policy import Action, Rule
    from dragoman.policy.decide import RememberScope
    from dragoman.proxy.guard.grades import GradedRule
    from dragoman.proxy.guard.watch import SessionWatch
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.sandbox import RunSandboxes
    from dragoman.transports.process import ProcessTransport


class GuardSetup(NamedTuple):
    """Everything that a guard needs. `close` it."""

    options: GuardOptions
    entry: AgentEntry
    rules: ProjectRules
    graded: list[GradedRule]
    sandboxes: RunSandboxes
    conduct: Conduct
    servers: tuple[dict[str, Any], ...]
    restores: bool
    notes: list[str]

    def close(self) -> None:
        """Remove the private folders of the sandbox."""
        self.sandboxes.close()


def audit_dir() -> Path:
    """Return the folder of the audit log, if no other one is named."""
    return state_dir() / "audit"


def prepare(options: GuardOptions) -> GuardSetup:
    """Find the agent and its rules, and prepare the sandbox.

    Raises:
        CliError, ConfigError: something is wrong with the options, the settings or the agent.
    """
    _repair_environment()
    entry, agents = find_agent("guard", options.agent, options.command, options.cwd)
    entry = replace(entry, env={**entry.env, **dict(options.env)})
    if options.env_allow is not None:
        entry = replace(entry, env_allow=(*(entry.env_allow or ()), *options.env_allow))
    if not options.closes_denied:
        entry = with_open_files(entry)
    run = Options(
        cwd=options.cwd,
        directories=options.directories,
        allow=options.allow,
        deny=options.deny,
        policy_file=options.policy_file,
        sandbox=options.sandbox,
        sandboxes_agent=options.sandboxes_agent,
        closes_denied=options.closes_denied,
        writable=options.writable,
    )
    rules = ProjectRules(typed_rules(run), _mode_rules if runs_built_in(entry) else None)
    own = rules.of(options.cwd)
    servers = _servers(options, agents.settings.mcp_servers())
    sandboxes = prepare_sandboxes(run.wanted_sandboxes(entry.name, own), entry)
    if sandboxes.agent is not None:
        entry = sandboxed_entry(entry)
    conduct = Conduct(entry.name, state_dir() / "guard")
    graded = grade_rules(own, entry.facts, conduct.seen, is_agent_confined=sandboxes.agent is not None)
    # An editor with terminals runs commands itself, if there is no sandbox; it is not known yet whether it has some.
    own_words = "Commands that the guard runs itself" if options.sandbox == "off" else "Commands outside the sandbox"
    notes = [*agents.notes, *(note.replace("Commands outside the sandbox", own_words) for note in sandboxes.notes())]
    restores = agents.settings.restores_protected
    return GuardSetup(options, entry, rules, graded, sandboxes, conduct, servers, restores, notes)


def open_log(setup: GuardSetup) -> AuditLog | None:
    """Open the audit log; None without one.

    Raises:
        CliError: it cannot be written, and the guard must not run without it; or what is in the sandbox could write it.
    """
    options = setup.options
    if not options.has_audit:
        return None
    from pathlib import Path

    where = audit_dir() if options.audit_folder is None else Path(options.audit_folder)
    real = os.path.realpath(where)
    for sandbox in (setup.sandboxes.commands, setup.sandboxes.agent):
        policy = None if sandbox is None else sandbox.policy
        if policy is not None and policy.may_write(real) and not any(is_below(real, place) for place in policy.hidden):
            raise CliError(
                f"--audit {where}: what runs in the sandbox can write there",
                hint="name a folder that is not in a folder of the sandbox",
            )
    log = AuditLog(
        where, shared={"host": socket.gethostname()}, is_best_effort=options.is_best_effort, keep_days=options.keep_days
    )
    log.add("start", _start_facts(setup), is_important=True)
    if not log.flush() and not options.is_best_effort:
        problem = log.problem or "the disk is too slow"
        log.close()
        raise CliError(
            f"the audit log cannot be written: {problem}",
            hint="name another folder with --audit, or see --audit-best-effort and --no-audit",
        )
    return log


def make_plan(setup: GuardSetup, log: AuditLog | None, asker: Asker | None) -> GuardPlan:
    """Return the plan of the guard."""
    options, entry, sandboxes = setup.options, setup.entry, setup.sandboxes
    facts = entry.facts
    events = GuardEvents(
        NoAudit() if log is None else log,
        keeps_bodies=options.keeps_bodies,
        digest_key=options.digest_key,
        own_grade="observed" if sandboxes.agent is None else "confined",
    )
    return GuardPlan(
        agent=entry.name,
        found=setup.rules,
        events=events,
        limits=GuardLimits(options.limits, state_dir() / "guard"),
        conduct=setup.conduct,
        make_confinement=_confinement(setup),
        tripwires=SessionTripwires(
            state_dir() / "protected", None if sandboxes.commands is None else sandboxes.commands.policy
        ),
        asks_editor=options.ask == "editor",
        asker=asker,
        cancels_on_violation=options.cancels_on_violation,
        additions=_additions(setup),
        missing_file=entry.quirks.missing_file,
        roots=() if sandboxes.commands is None else (options.cwd, *options.directories),
        asking_mode="" if facts is None else facts.asking_mode,
        runs_in_terminals=facts is not None and facts.runs_in_terminals,
        is_built_in=runs_built_in(entry),
        needs_log=not options.is_best_effort,
    )


def starter(setup: GuardSetup) -> Callable[[Callable[[bytes], None]], Any]:
    """Return the function that starts the agent."""

    async def start(on_stderr: Callable[[bytes], None]) -> ProcessTransport:
        from dragoman.process.child import Child
        from dragoman.process.launch import launch
        from dragoman.transports.process import ProcessTransport

        entry, cwd = setup.entry, setup.options.cwd
        if setup.sandboxes.agent is None:
            from dragoman.process.sandbox.apart import keep_apart

            apart = keep_apart(entry.command, cwd, cwd=cwd, env={**os.environ, **entry.env})
            program = launch(
                apart.argv,
                cwd=cwd,
                env=entry.changed_env(os.environ),
                spare=entry.quirks.spare,
                starter=apart.starter,
            )
        else:
            inside = confine_agent(setup.sandboxes.agent, entry, cwd)
            program = launch(
                inside.argv,
                cwd=inside.cwd,
                env=inside.env,
                inherit_env=False,
                spare=entry.quirks.spare,
                starter=inside.starter,
            )
        return ProcessTransport(Child(program, on_stderr=on_stderr))

    return start


def _repair_environment() -> None:
    """Repair this program's own environment, which the agent and its commands inherit."""
    for name, value in repaired(os.environ, os.path.expanduser("~")).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _mode_rules(session: Session) -> Sequence[Rule]:
    from dragoman.runs.opening import current_mode
    from dragoman.runs.terms import mode_rules

    return mode_rules(current_mode(session), (session.cwd, *session.additional_directories))


def _servers(options: GuardOptions, configured: dict[str, dict[str, object]]) -> tuple[dict[str, Any], ...]:
    if not configured and options.mcp_file is None:
        return ()
    import msgspec

    from dragoman.cli.exec.mcp import configured_servers, read_servers
    from dragoman.schema import encode

    found = configured_servers(configured)
    if options.mcp_file is not None:
        found += read_servers(options.mcp_file)
    return tuple(msgspec.json.decode(encode(server)) for server in found)


def _additions(setup: GuardSetup) -> Additions:
    from dragoman.registry.known import recognise

    options, entry = setup.options, setup.entry
    known = recognise(entry.name, entry.command)
    form = None if known is None else known.options.get("append_system_prompt")
    return Additions(
        servers=setup.servers,
        instructions=options.instructions,
        meta_path=() if form is None else form.meta,
        withheld=entry.quirks.withhold,
        offers_terminals=options.offers_terminals,
        offers_files=options.offers_files,
    )


def _confinement(setup: GuardSetup) -> Callable[[SessionWatch, SessionTripwires], Confinement]:
    sandboxes = setup.sandboxes

    def make(watch: SessionWatch, tripwires: SessionTripwires) -> Confinement:
        return Confinement(
            sandbox=sandboxes.commands,
            outside=sandboxes.outside,
            renew=None if sandboxes.search is None else sandboxes.renewed,
            tripwire=tripwires,
            is_required=sandboxes.mode == "require",
            restores=setup.restores or (sandboxes.agent is not None and sandboxes.agent.must_restore),
            is_expected=watch.is_expected,
            on_finished=watch.finished,
            on_changes=watch.changed_protected,
        )

    return make


def _start_facts(setup: GuardSetup) -> dict[str, Any]:
    entry = setup.entry
    from dragoman.process.command import find_program
    from dragoman.text.secrets import known_keys

    words = "\0".join(known_keys.mask(word) for word in entry.command)
    rules = "\n".join(sorted(f"{graded.rule.action} {graded.rule.text}" for graded in setup.graded))
    return {
        "guard": __version__,
        "python": sys.version.split()[0],
        "user": {"uid": os.getuid(), "name": _user_name()},
        "agent": {
            "name": entry.name,
            "version": entry.version or None,
            "path": find_program(entry.command[0], {**os.environ, **entry.env}, setup.options.cwd),
            "command_sha256": hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest(),
        },
        "cwd": setup.options.cwd,
        "sandbox": {"commands": setup.sandboxes.backend, "agent": setup.sandboxes.agent is not None},
        "rules_sha256": hashlib.sha256(rules.encode()).hexdigest(),
        "rules": [
            {
                "action": graded.rule.action,
                "rule": graded.rule.text,
                "source": graded.rule.source,
                "grade": graded.grade,
            }
            for graded in setup.graded
        ],
        "limits": [f"{limit.scope}.{limit.measure}={limit.most:g}" for limit in setup.options.limits],
    }


def _user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


class ProjectRules:
    """The rules for any folder.

    Args:
        typed: rules of the command line, which count everywhere.
        mode_rules: rules that follow from the mode of a session; None for an agent without such modes.
    """

    def __init__(self, typed: Sequence[Rule], mode_rules: Callable[[Session], Sequence[Rule]] | None = None) -> None:
        self._typed = tuple(typed)
        self._mode_rules = mode_rules
        self._projects: dict[str, str] = {}
        self._known: dict[str, tuple[object, list[Rule]]] = {}

    def project(self, folder: str) -> str:
        """Return the root of the project that a folder belongs to; the folder itself without one."""
        if folder not in self._projects:
            self._projects[folder] = str(find_project(Path(folder)))
        return self._projects[folder]

    def of(self, folder: str) -> list[Rule]:
        """Return the rules for a folder. Raises: ConfigError if a file is broken."""
        project = self.project(folder)
        signature = tuple(_signature(path) for path in _files(project))
        known = self._known.get(project)
        if known is None or known[0] != signature:
            found = remembered_rules(project) + load_settings(config_dir(), Path(project)).rules()
            known = self._known[project] = (signature, found)
        return [*self._typed, *known[1]]

    def rules(self, session: Session) -> list[Rule]:
        """Return the rules for a session. Raises: ConfigError if a file is broken."""
        mode = () if self._mode_rules is None else self._mode_rules(session)
        return [*self.of(session.cwd), *mode]

    @property
    def rule_file(self) -> str:
        """Where rules of answers for a project are written."""
        return rule_file()

    def remember(self, project: str, text: str, action: Action, scope: RememberScope) -> None:
        """Add the rule of an answer, if it holds for the project. Raises: ConfigError if it cannot be kept."""
        remember_rule(project, text, action, scope)


def _files(project: str) -> tuple[Path, ...]:
    return (config_dir() / "rules.json", user_file(config_dir()), project_file(Path(project)))


def _signature(path: Path) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)
