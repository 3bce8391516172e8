"""What `dragoman check` judges of an agent that runs elsewhere: its messages, and how it answers requests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import find_agent

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.conformance.case import Case, CaseResult
    from dragoman.conformance.runner import Progress


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
    """The agent that the command line names: after `--`, by `-a`, or by `--url`.

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
    """The cases about requests that apply, and fit the patterns."""
    if not judged.has_requests:
        return []
    from dragoman.conformance.case import choose_cases
    from dragoman.conformance.remote.cases import remote_cases

    patterns = [pattern.strip() for pattern in (only or "").split(",") if pattern.strip()]
    return choose_cases(remote_cases().values(), "agent", patterns)


def message_cases(judged: Judged, cases: list[Case]) -> list[Case]:
    """Those of the cases about messages that apply to how the agent is reached."""
    return [case for case in cases if not (judged.has_requests and case.id.startswith(NOT_SERVED))]


async def judge_served(
    judged: Judged, cases: list[Case], seconds: float, on_result: Progress | None
) -> list[CaseResult]:
    """How the agent is served."""
    from dragoman.cli.connect import read_headers, read_token
    from dragoman.conformance.remote.probe import RemoteProbe
    from dragoman.conformance.remote.run import judge_requests
    from dragoman.registry.elsewhere import HEADERS_VARIABLE

    if HEADERS_VARIABLE in judged.env:
        os.environ[HEADERS_VARIABLE] = judged.env[HEADERS_VARIABLE]
    headers: dict[str, Any] = dict(read_headers([]))
    token = read_token(judged.token_env or None, None)
    probe = RemoteProbe(judged.url, token=token, headers=headers, tls=None, seconds=seconds)
    return await judge_requests(probe, cases, on_result)
