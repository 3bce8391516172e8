"""`dragoman check`: judge an agent, a client or a recording by the rules of the protocol."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import paint, write_json, write_note, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.conformance.agent.prompts import Prompts
    from dragoman.conformance.case import Binds, Case, Result
    from dragoman.conformance.report.model import Report

_SEE_HELP: Final = "see dragoman check --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.explain is not None:
        return _explain(given.explain, as_json=given.json)
    if given.what is None:
        raise exits.CliError("check whom? an agent, a client or a trace", hint="dragoman check agent -- PROGRAM")
    if given.what == "trace":
        return _finish(_check_trace(call), given)
    if given.file is not None:
        raise exits.CliError(f"check {given.what} takes no file", hint="the program to judge stands after --")
    cases = _cases(given.what, given.only)
    if given.list:
        return _list(cases, as_json=given.json)
    if not call.program:
        raise exits.CliError(
            f"check {given.what} needs the program to judge", hint=f"dragoman check {given.what} -- PROGRAM"
        )
    check = _check_agent if given.what == "agent" else _check_client
    return _finish(check(call, cases), given)


# The three that can be judged


def _check_agent(call: CliCall, cases: list[Case]) -> Report:
    from dragoman.conformance.agent.probe import Settings
    from dragoman.conformance.agent.run import JOBS, AgentRun
    from dragoman.conformance.agent.target import Program

    given = call.given
    settings = Settings(timeout_seconds=_number(given.timeout, "--timeout", 30.0), prompts=_prompts(given))
    with _Progress(len(cases)) as progress:
        judging = AgentRun(
            Program(call.program or ()),
            settings,
            jobs=int(_number(given.jobs, "--jobs", JOBS)),
            on_result=progress.show,
        )
        return _until_done(judging.run, cases)


def _check_client(call: CliCall, cases: list[Case]) -> Report:
    from dragoman.conformance.client.probe import ClientSettings
    from dragoman.conformance.client.run import JOBS, ClientRun
    from dragoman.conformance.client.target import ClientProgram

    given = call.given
    settings = ClientSettings(timeout_seconds=_number(given.timeout, "--timeout", 10.0))
    with _Progress(len(cases)) as progress:
        judging = ClientRun(
            ClientProgram(call.program or ()),
            settings,
            jobs=int(_number(given.jobs, "--jobs", JOBS)),
            on_result=progress.show,
        )
        return _until_done(judging.run, cases)


def _check_trace(call: CliCall) -> Report:
    from dragoman.conformance.passive import judge_trace
    from dragoman.trace.reader import open_trace

    given = call.given
    if given.file is None or call.program is not None:
        raise exits.CliError("check trace needs a recording", hint="dragoman check trace session.jsonl")
    trace = open_trace(sys.stdin.buffer if given.file == "-" else given.file)
    for problem in trace.problems:
        write_note(f"warning: {problem}")
    return judge_trace(given.file, trace)


def _until_done(judge: Callable[[Sequence[Case]], Any], cases: list[Case]) -> Report:
    from dragoman.errors import DragomanError

    try:
        report: Report = asyncio.run(judge(cases))
    except DragomanError as error:
        # Nobody was judged: the program is not there, ends at once, or starts no agent.
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error
    return report


# What was found


def _finish(report: Report, given: Any) -> int:
    from dragoman.conformance.report.machine import junit_xml, report_document

    if given.junit is not None:
        Path(given.junit).write_text(junit_xml(report), "utf-8")
    if given.html is not None:
        from dragoman.conformance.report.page import html_page

        Path(given.html).write_text(html_page(report), "utf-8")
    if given.json:
        write_json(report_document(report))
    elif given.badge:
        sys.stdout.write(f"{report.summary}\n")
    else:
        _write_report(report)
    return exits.CHECK_FAILED if report.has_failed else exits.OK


def _write_report(report: Report) -> None:
    from dragoman.conformance.report.terminal import write_report

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still gets the rest
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
    for line in write_report(report, lambda text, style: paint(text, style, sys.stdout), width=width):
        sys.stdout.write(f"{line}\n")


class _Progress:
    """One line on a terminal that says how far the judge is; nothing where nobody watches."""

    def __init__(self, total: int) -> None:
        self._is_shown = sys.stderr.isatty()
        self._total = total
        self._broken = 0

    def __enter__(self) -> _Progress:
        self._write(f"0/{self._total}")
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def show(self, result: Result, done: int, total: int) -> None:
        self._broken += result.status in ("fail", "error")
        broken = f", {self._broken} failed" if self._broken else ""
        self._write(f"{done}/{total}{broken}  {result.id}")

    def _write(self, text: str) -> None:
        if self._is_shown:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{text[:width]}")
            sys.stderr.flush()


# The cases themselves


def _cases(binds: Binds, only: str | None) -> list[Case]:
    from dragoman.conformance.case import load_cases

    patterns = [pattern.strip() for pattern in (only or "").split(",") if pattern.strip()]
    cases = load_cases(binds, patterns)
    if not cases:
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
    from dragoman.conformance.case import CASES, load_cases
    from dragoman.trace.checks.rules import RULES

    load_cases("agent")
    load_cases("client")
    kind, _, number = name.partition("/")
    if kind == "passive" and number.isdecimal() and int(number) in RULES:
        rules: tuple[int, ...] = (int(number),)
        document: dict[str, object] = {"id": name, "rules": list(rules), "about": "watched in all traffic"}
        lines = [name, "", "Watched in all traffic; nothing is sent to provoke it."]
    elif name in CASES:
        case = CASES[name]
        rules, document = case.rules, _case_document(case)
        lines = [f"{case.id}  ({case.level})", "", case.about, "", case.steps]
    else:
        raise exits.CliError(f"no case is called {name!r}", hint=_nearest(name, CASES))
    if as_json:
        document["texts"] = {str(rule): RULES[rule].text for rule in rules}
        write_json(document)
        return exits.OK
    lines += ["", "Rules (docs/spec/rules.md):"]
    lines += [f"  {rule}  {RULES[rule].level}, {RULES[rule].who}: {RULES[rule].text}" for rule in rules]
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
        raise exits.CliError(f"{option} is a number above 0, not {text!r}", hint=_SEE_HELP)
    return number


COMMAND = CliCommand(
    run=run,
    description=(
        "Judges a program by the rules of the protocol: `agent` and `client` start PROGRAM again and again to\n"
        "provoke it, `trace` looks at a recording. Exit code 0 only if nothing that the protocol demands is broken."
    ),
    arguments=(
        Argument("what", "whom to judge", choices=("agent", "client", "trace"), is_optional=True),
        Argument("file", "a recording (`-` for stdin), for `trace`", is_optional=True),
    ),
    options=(
        CliOption("--only", "only these cases, by shell patterns with commas between", value="GLOBS"),
        CliOption("--list", "list the cases, one a line, and judge nobody"),
        CliOption("--explain", "what a case sends and expects, and the rules it is about", value="CASE"),
        CliOption("--preset", "prompts for a known agent; by default its own name chooses", value="NAME"),
        CliOption("--prompts", "prompts that make this agent act (TOML or JSON)", value="FILE"),
        CliOption("--timeout", "patience for one answer; everything else scales with it", value="SECONDS"),
        CliOption("--jobs", "how many copies of the program run at once", value="N"),
        CliOption("--junit", "write JUnit XML to FILE", value="FILE"),
        CliOption("--html", "write one self-contained page to FILE", value="FILE"),
        CliOption("--badge", "print one line and nothing else"),
        JSON,
    ),
    examples=(
        "dragoman check agent -- gemini --acp",
        "dragoman check agent --only 'cancel,prompt/*' --html report.html -- python my_agent.py",
        "dragoman check client -- my-editor --agent {agent}",
        "dragoman check trace session.jsonl",
        "dragoman check --explain agent/cancel/streaming",
    ),
    takes_program=True,
)
