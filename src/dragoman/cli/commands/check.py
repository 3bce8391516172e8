"""`dragoman check`: judges an agent, a client or a recording by the rules of the protocol."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import paint, write_json, write_note, write_table
from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import AGENT, TOKEN_ENV, URL, find_agent
from dragoman.process.own_program import own_command
from dragoman.text.secrets import known_keys
from dragoman.text.terminal import REDRAW, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.cli.command import CliCall
    from dragoman.conformance.agent.prompts import Prompts
    from dragoman.conformance.agent.run import AgentRun
    from dragoman.conformance.case import Binds, Case, CaseResult
    from dragoman.conformance.client.run import ClientRun
    from dragoman.conformance.report.model import ConformanceReport
    from dragoman.conformance.runner import Progress

_SEE_HELP: Final = "see dragoman check --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.explain is not None:
        return _explain(given.explain, as_json=given.json)
    if given.what is None:
        raise exits.CliError(
            "check needs what to judge: agent, client or trace", hint="dragoman check agent -- PROGRAM"
        )
    if given.what == "trace":
        return _finish(_check_trace(call), given)
    if given.file is not None:
        raise exits.CliError(f"check {given.what} takes no file", hint="the program to judge stands after --")
    judged = _in_its_version(given, read_judged(call))
    requests = request_cases(judged, given.only)
    if given.protocol == "auto":
        given.protocol = _spoken_version(judged)
    may_be_empty = bool(requests)
    cases = message_cases(
        judged, _cases(given.what, given.only, may_be_empty=may_be_empty, is_version2=given.protocol == "2")
    )
    if given.list:
        return _list([*cases, *requests], as_json=given.json)
    if not judged.program:
        raise exits.CliError(
            f"check {given.what} needs the program to judge", hint=f"dragoman check {given.what} -- PROGRAM"
        )
    signals: list[int] = []
    report = _check_program(call, judged, cases, requests, signals)
    code = _finish(report, given)
    if signals:
        return 128 + signals[0]
    # A failure is sure whatever was not run.
    return exits.TIMED_OUT if report.is_cut_off and code == exits.OK else code


# What can be judged


def _check_program(
    call: CliCall, judged: Judged, cases: list[Case], requests: list[Case], signals: list[int]
) -> ConformanceReport:
    from dragoman.conformance.runner import JOBS

    given = call.given
    jobs = int(_number(given.jobs, "--jobs", JOBS))
    prepare = _agent_run if given.what == "agent" else _client_run
    with _Progress(len(cases) + len(requests), is_quiet=given.badge) as progress:
        run = prepare(call, judged, jobs, progress.show)
        return _until_done(run, cases, signals, _served(call, judged, requests, progress.show))


def _served(
    call: CliCall, judged: Judged, requests: list[Case], on_result: Progress
) -> Callable[[], Awaitable[list[CaseResult]]] | None:
    """Return a function that judges how a remote agent answers requests; None if there is nothing to judge."""
    if not requests:
        return None
    from dragoman.conformance.agent.probe import AgentCheckSettings

    seconds = _number(call.given.timeout, "--timeout", AgentCheckSettings().timeout_seconds)
    return lambda: judge_served(judged, requests, seconds, on_result)


def _agent_run(call: CliCall, judged: Judged, jobs: int, on_result: Progress) -> AgentRun:
    from dragoman.conformance.agent.probe import AgentCheckSettings
    from dragoman.conformance.agent.program import AgentProgram
    from dragoman.conformance.agent.run import AgentRun
    from dragoman.conformance.runner import BUDGET_SECONDS

    timeout = _number(call.given.timeout, "--timeout", AgentCheckSettings().timeout_seconds)
    settings = AgentCheckSettings(timeout, _prompts(call.given))
    kind = AgentRun
    if call.given.protocol == "2":
        from dragoman.conformance.agent.version2.run import Version2Run

        kind = Version2Run
    return kind(
        AgentProgram(judged.program, env={**os.environ, **judged.env} if judged.env else None),
        settings,
        jobs=jobs,
        on_result=on_result,
        has_smoke=_has_smoke(call.given),
        budget_seconds=_number(call.given.budget, "--budget", BUDGET_SECONDS),
    )


def _client_run(call: CliCall, judged: Judged, jobs: int, on_result: Progress) -> ClientRun:
    from dragoman.conformance.client.probe import ClientCheckSettings
    from dragoman.conformance.client.program import ClientProgram
    from dragoman.conformance.client.run import ClientRun
    from dragoman.conformance.runner import BUDGET_SECONDS

    timeout = _number(call.given.timeout, "--timeout", ClientCheckSettings().timeout_seconds)
    settings = ClientCheckSettings(timeout)
    return ClientRun(
        ClientProgram(judged.program),
        settings,
        jobs=jobs,
        on_result=on_result,
        has_smoke=_has_smoke(call.given),
        budget_seconds=_number(call.given.budget, "--budget", BUDGET_SECONDS),
    )


def _has_smoke(given: Any) -> bool:
    """Whether the run ends if a plain turn fails: not if the user chose the cases."""
    return given.only is None and not given.keep_going


def _check_trace(call: CliCall) -> ConformanceReport:
    from dragoman.conformance.passive import judge_trace
    from dragoman.trace.reader import open_trace

    given = call.given
    if given.file is None or call.program is not None:
        raise exits.CliError("check trace needs a recording", hint="dragoman check trace session.jsonl")
    trace = open_trace(sys.stdin.buffer if given.file == "-" else given.file)
    for problem in trace.problems:
        write_note(f"warning: {problem}")
    side = given.side if given.side in ("agent", "client") else None
    return judge_trace(given.file, trace, side, has_notes=given.notes)


def _until_done(
    run: AgentRun | ClientRun,
    cases: list[Case],
    signals: list[int],
    served: Callable[[], Awaitable[list[CaseResult]]] | None,
) -> ConformanceReport:
    """Run the cases; Ctrl-C and SIGTERM end the run early, and what was found is reported."""
    from dragoman.errors import DragomanError

    async def judge() -> ConformanceReport:
        def stop(number: signal.Signals) -> None:
            signals.append(number)
            run.stop(f"ended by {number.name}")

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        first = [] if served is None else await served()
        report = await run.run(cases)
        report.results[:0] = first
        return report

    try:
        return asyncio.run(judge())
    except DragomanError as error:
        # Nothing was judged: the program is not there, ends at once, or starts no agent.
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error


# What was found


def _finish(report: ConformanceReport, given: Any) -> int:
    from dragoman.conformance.report.machine import junit_xml, report_document

    if given.junit is not None:
        Path(given.junit).write_text(known_keys.mask(junit_xml(report)), "utf-8")
    if given.html is not None:
        from dragoman.conformance.report.page import html_page

        Path(given.html).write_text(known_keys.mask(html_page(report)), "utf-8")
    if given.json:
        write_json(report_document(report))
    elif given.badge:
        sys.stdout.write(f"{report.summary}\n")
    else:
        _write_report(report)
    return exits.CHECK_FAILED if report.has_failed else exits.OK


def _write_report(report: ConformanceReport) -> None:
    from dragoman.conformance.report.terminal import write_report

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still gets the rest
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
    for line in write_report(report, lambda text, style: paint(text, style, sys.stdout), width=width):
        sys.stdout.write(f"{line}\n")


class _Progress:
    """How far the run is, on stderr: one line that changes on a terminal, otherwise a plain line now and then.

    A plain line is written for each failure, and each time that a tenth of the cases is done.
    """

    _PARTS: Final = 10

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_quiet = is_quiet and not self._is_terminal
        self._total = total
        self._counts = {"passed": 0, "failed": 0, "warned": 0, "other": 0}
        self._part = 0

    def __enter__(self) -> _Progress:
        self._write(f"0/{self._total}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._write("")

    def show(self, result: CaseResult, done: int, total: int) -> None:
        name = {"pass": "passed", "fail": "failed", "error": "failed", "warn": "warned"}.get(result.status, "other")
        self._counts[name] += 1
        counts = ", ".join(f"{count} {name}" for name, count in self._counts.items() if count)
        if self._is_terminal:
            self._write(f"{done}/{total}  {counts}  {result.id}")
            return
        if name == "failed":
            self._write(f"{result.status}  {result.id}: {result.message}")
        if done * self._PARTS // max(1, total) > self._part:
            self._part = done * self._PARTS // max(1, total)
            self._write(f"{done}/{total}  {counts}")

    def _write(self, text: str) -> None:
        if self._is_quiet:
            return
        text = one_line(known_keys.mask(text))
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{REDRAW}{text[:width]}")
        else:
            sys.stderr.write(f"check: {text}\n")
        sys.stderr.flush()


# The cases themselves


def _in_its_version(given: Any, judged: Judged) -> Judged:
    """Return the agent to judge; one of 2025.1 is judged by what it says in the words of version 1.

    Raises:
        CliError: A client is to be judged in another version than 1.
    """
    if given.protocol in (None, "1"):
        return judged
    if given.what != "agent":
        raise exits.CliError(
            f"check {given.what} takes no --protocol {given.protocol}",
            hint="clients are judged in version 1; a recording says itself which version it is of",
        )
    if given.protocol != "2025.1" or not judged.program:
        return judged
    translated = own_command("translate", "--client", "1", "--agent", "2025.1", "--lazy", "--")
    return judged._replace(program=(*translated, *judged.program))


def _spoken_version(judged: Judged) -> str:
    """Return the version that the agent answers when version 2 is offered.

    Raises:
        CliError: It does not start or does not answer.
    """
    from dragoman.client import spawn
    from dragoman.errors import DragomanError

    async def ask() -> str:
        async with spawn(*judged.program, env=dict(judged.env), protocol="auto") as agent:
            return str(agent.protocol_version)

    if not judged.program:
        return "1"
    try:
        return asyncio.run(ask())
    except DragomanError as error:
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error


def _cases(binds: Binds, only: str | None, *, may_be_empty: bool = False, is_version2: bool = False) -> list[Case]:
    from dragoman.conformance.case import load_cases

    patterns = [pattern.strip() for pattern in (only or "").split(",") if pattern.strip()]
    if is_version2:
        from dragoman.conformance.agent.version2.run import cases_of_version2

        cases = cases_of_version2(patterns)
    else:
        cases = load_cases(binds, patterns)
    if not cases and not may_be_empty:
        raise exits.CliError(f"no case is called {only!r}", hint=f"dragoman check {binds} --list names them all")
    return cases


def _list(cases: list[Case], *, as_json: bool) -> int:
    if as_json:
        write_json([_case_document(case) for case in cases])
    else:
        rows = [(case.id, case.level, ",".join(map(str, case.rules)), case.about) for case in cases]
        write_table(("CASE", "LEVEL", "RULES", "WHAT IT EXPECTS"), rows)
    return exits.OK


def _case_document(case: Case) -> dict[str, object]:
    return {
        "id": case.id,
        "binds": case.binds,
        "level": case.level,
        "rules": list(case.rules),
        "about": case.about,
        "steps": case.steps,
    }


def _explain(name: str, *, as_json: bool) -> int:
    from dragoman.conformance.agent.version2.run import cases_of_version2
    from dragoman.conformance.case import load_cases
    from dragoman.conformance.remote.cases import remote_cases
    from dragoman.trace.checks.rules import FIRST_OF_VERSION_2, RULES, rule_of, rules_of_version2

    all_cases = (*load_cases("agent"), *load_cases("client"), *cases_of_version2())
    known = {case.id: case for case in all_cases} | remote_cases()
    kind, _, number = name.partition("/")
    if kind == "passive" and number.isdecimal() and int(number) in RULES.keys() | rules_of_version2().keys():
        rules: tuple[int, ...] = (int(number),)
        document: dict[str, object] = {"id": name, "rules": list(rules), "about": "watched in all traffic"}
        lines = [name, "", "Watched in all traffic; nothing is sent to provoke it."]
    elif name in known:
        case = known[name]
        rules, document = case.rules, _case_document(case)
        lines = [f"{case.id}  ({case.level})", "", case.about, "", case.steps]
    else:
        raise exits.CliError(f"no case is called {name!r}", hint=_nearest(name, known))
    if as_json:
        document["texts"] = {str(rule): rule_of(rule).text for rule in rules}
        write_json(document)
        return exits.OK
    page = "rules-v2.md" if rules and rules[0] >= FIRST_OF_VERSION_2 else "rules.md"
    lines += ["", f"Rules (docs/spec/{page}):"] if rules else []
    lines += [f"  {rule}  {rule_of(rule).level}, {rule_of(rule).who}: {rule_of(rule).text}" for rule in rules]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return exits.OK


def _nearest(name: str, known: dict[str, Case]) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else "dragoman check agent --list names them all"


# Options


def _prompts(given: Any) -> Prompts | None:
    from dragoman.conformance.agent.prompts import preset, read_prompts

    chosen = None if given.preset is None else preset(given.preset)
    return chosen if given.prompts is None else read_prompts(given.prompts, chosen)


def _number(text: str | None, option: str, default: float) -> float:
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise exits.CliError(f"{option} must be a number above 0, not {text!r}", hint=_SEE_HELP)
    return number


COMMAND = CliCommand(
    run=run,
    description=(
        "Judges a program by the rules of the protocol: `agent` and `client` start PROGRAM many times and send it\n"
        "valid and invalid messages, `trace` checks a recording. The exit code is 0 only if no rule that the protocol\n"
        "demands (MUST, MUST NOT, the schema) is broken. A program that does not get through a plain turn is\n"
        "judged by that alone. Ctrl-C, SIGTERM and --budget end a run early, and what was found is reported."
    ),
    arguments=(
        Argument("what", "what to judge", choices=("agent", "client", "trace"), is_optional=True),
        Argument("file", "a recording (`-` for stdin), for `trace`", is_optional=True),
    ),
    options=(
        AGENT,
        URL,
        TOKEN_ENV,
        CliOption(
            "--protocol",
            "the version that the agent speaks (default: 1); `auto`: 2 if it does, else 1",
            value="VERSION",
            choices=("1", "2", "auto", "2025.1"),
        ),
        CliOption("--only", "run only these cases: shell patterns, separated by commas", value="GLOBS"),
        CliOption("--list", "list the cases, one per line, and run none"),
        CliOption("--explain", "print what a case sends and expects, and its rules", value="CASE"),
        CliOption(
            "--preset", "prompts for a known agent (default: chosen by the name the agent reports)", value="NAME"
        ),
        CliOption("--prompts", "prompts that lead this agent to the actions of the cases (TOML or JSON)", value="FILE"),
        CliOption("--timeout", "how long to wait for one answer; all other limits scale with it", value="SECONDS"),
        CliOption("--jobs", "how many copies of the program run at once", value="N"),
        CliOption(
            "--budget",
            "how long the whole run may take (default: 1800); then what was found is reported",
            value="SECONDS",
        ),
        CliOption("--keep-going", "run all cases even if the program does not get through a plain turn"),
        CliOption(
            "--side",
            "of a recording, judge this side (default: both)",
            value="SIDE",
            choices=("agent", "client", "both"),
        ),
        CliOption("--notes", "of a recording, show what was noted and is not proven to be wrong"),
        CliOption("--junit", "write JUnit XML to FILE", value="FILE"),
        CliOption("--html", "write one self-contained page to FILE", value="FILE"),
        CliOption("--badge", "print one line and nothing else"),
        JSON,
    ),
    examples=(
        "dragoman check agent -- gemini --acp",
        "dragoman check agent --only 'cancel,prompt/*' --html report.html -- python my_agent.py",
        "dragoman check agent --url wss://agents.example/acp --token-env AGENTS_TOKEN",
        "dragoman check agent --protocol 2 -- codex-acp",
        "dragoman check client -- my-editor --agent {agent}",
        "dragoman check trace session.jsonl",
        "dragoman check trace --side agent --notes session.jsonl",
        "dragoman check --explain agent/cancel/streaming",
    ),
    takes_program=True,
)


# What these expect of a program on stdio is answered otherwise by a server: it closes a WebSocket whose first message
# is not initialize, refuses a second one, and has messages where stdio has lines. The cases about requests judge that.
NOT_SERVED: Final = (
    "agent/transport/",
    "agent/initialize/first",
    "agent/initialize/after-",
    "agent/initialize/repeated",
)


class Judged(NamedTuple):
    """The agent to judge."""

    program: tuple[str, ...]
    env: dict[str, str]
    url: str = ""
    token_env: str = ""

    @property
    def has_requests(self) -> bool:
        """Whether it answers requests over HTTP."""
        return bool(self.url) and not self.url.startswith("unix:")


def read_judged(call: CliCall) -> Judged:
    """Return the agent that the command line names: after `--`, by `-a`, or by `--url`.

    Raises:
        CliError: it names none, or two.
    """
    from dragoman.cli.connect import check_url
    from dragoman.registry.elsewhere import connect_command

    given = call.given
    named = [bool(call.program), given.agent is not None, given.url is not None]
    if sum(named) > 1:
        raise CliError("-a, --url and a command after -- each name an agent", hint="use only one of them")
    if given.what == "client" and (given.agent or given.url):
        raise CliError("check client takes the client's command after --", hint="dragoman check client -- PROGRAM")
    if given.token_env is not None and given.url is None:
        raise CliError("--token-env goes with --url", hint="in the settings, an agent has its own token_env")
    if given.url is not None:
        url, token_env = check_url(given.url), given.token_env or ""
        return Judged((*connect_command(url, token_env), "--raw"), {}, url, token_env)
    if given.agent is None:
        return Judged(call.program or (), {})
    entry = find_agent("check", given.agent, None, os.getcwd()).entry
    if not entry.url:
        return Judged(entry.command, entry.env)
    words = entry.command
    token_env = words[words.index("--token-env") + 1] if "--token-env" in words else ""
    return Judged((*words, "--raw"), entry.env, entry.url, token_env)


def request_cases(judged: Judged, only: str | None) -> list[Case]:
    """Return the cases about requests that apply, and fit the patterns."""
    if not judged.has_requests:
        return []
    from dragoman.conformance.case import choose_cases
    from dragoman.conformance.remote.cases import remote_cases

    patterns = [pattern.strip() for pattern in (only or "").split(",") if pattern.strip()]
    return choose_cases(remote_cases().values(), "agent", patterns)


def message_cases(judged: Judged, cases: list[Case]) -> list[Case]:
    """Return those of the cases about messages that apply to how the agent is reached."""
    return [case for case in cases if not (judged.has_requests and case.id.startswith(NOT_SERVED))]


async def judge_served(
    judged: Judged, cases: list[Case], seconds: float, on_result: Progress | None
) -> list[CaseResult]:
    """Judge how the agent is served."""
    from dragoman.cli.connect import find_way_in, read_headers
    from dragoman.conformance.remote.probe import RemoteProbe
    from dragoman.conformance.remote.run import judge_requests
    from dragoman.registry.elsewhere import HEADERS_VARIABLE

    if HEADERS_VARIABLE in judged.env:
        os.environ[HEADERS_VARIABLE] = judged.env[HEADERS_VARIABLE]
    headers: dict[str, Any] = dict(read_headers([]))
    token, login = find_way_in(judged.url, judged.token_env or None, None)
    if login is not None:
        token = await login.token()
    probe = RemoteProbe(judged.url, token=token, headers=headers, tls=None, seconds=seconds)
    return await judge_requests(probe, cases, on_result)
