"""What the client does for the agent: files, terminals, questions to the user.

Owns the terminals there are. Whether a service was advertised is checked in `handshake.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.link import Shell, given
from dragoman.trace.checks.paths import check_path

if TYPE_CHECKING:
    from dragoman.trace.checks.link import Checks, Link
    from dragoman.trace.inspect.exchange import Reading

_SHELL: Final = re.compile(r"\S\s+(&&|\|\|?|[<>]{1,2}|2>&1)\s*\S|;\s*\S|\$\(|`")
_CREDENTIALS: Final = re.compile(r"[A-Za-z][\w+.-]*://[^/?#@]*:[^/?#@]+@")


def _ask_file(reading: Reading, link: Link) -> None:
    request = reading.value
    if request is None:
        return
    check_path(reading, link, 273, "path", request.path)
    if getattr(request, "line", None) == 0:
        link.report(274, reading, "line is 0; lines are counted from 1")


def _ask_create(reading: Reading, link: Link) -> None:
    request = reading.value
    if not isinstance(request, v1.CreateTerminalRequest):
        return
    if (cwd := given(request.cwd)) is not None:
        check_path(reading, link, 283, "cwd", cwd)
    if not given(request.args) and _SHELL.search(request.command):
        # A program may have any name, but none is called this; that it cannot start is not the schema's doing.
        link.report(284, reading, "the command is a line for a shell; it is a program, its arguments are apart", "lc")


def _answer_create(reading: Reading, link: Link) -> None:
    result, asked = reading.value, reading.request
    if isinstance(result, v1.CreateTerminalResponse) and asked is not None:
        limit = given(getattr(asked.value, "output_byte_limit", None))
        link.shells[result.terminal_id] = Shell(asked, limit)


def _ask_terminal(reading: Reading, link: Link) -> None:
    shell = link.shells.get(getattr(reading.value, "terminal_id", ""))
    if shell is not None and shell.released_by is not None:
        link.report(294, reading, f"the terminal was released by message {shell.released_by}", "NOTE")
        link.released.add(reading)
    elif shell is not None and reading.method == "terminal/release":
        shell.released_by = reading.number


def _answer_terminal(reading: Reading, link: Link) -> None:
    if reading.request in link.released:
        link.report(294, reading, f"{reading.method} of a terminal that was released is answered with success")


def _answer_output(reading: Reading, link: Link) -> None:
    _answer_terminal(reading, link)
    result, asked = reading.value, reading.request
    shell = link.shells.get(getattr(asked.value, "terminal_id", "")) if asked is not None else None
    if shell is None or shell.limit_bytes is None or not isinstance(result, v1.TerminalOutputResponse):
        return
    size_bytes = len(result.output.encode(errors="replace"))
    if size_bytes > shell.limit_bytes and not link.is_redacted:
        link.report(286, reading, f"{size_bytes} bytes of output, where the limit is {shell.limit_bytes}")


def _ask_elicitation(reading: Reading, link: Link) -> None:
    request = reading.value
    mode = "form" if isinstance(request, v1.ElicitationFormMode) else "url"
    if not isinstance(request, (v1.ElicitationFormMode, v1.ElicitationUrlMode)):
        return
    is_offered = link.client is not None and is_advertised(link.client, "elicitation")  # else that was reported
    if is_offered and not is_advertised(link.client, f"elicitation.{mode}"):
        link.report(298, reading, f"mode {mode} needs elicitation.{mode}, which was not advertised")
    if given(request.session_id) is not None and given(request.request_id) is not None:
        link.report(302, reading, "both sessionId and requestId: there is one scope")
    if isinstance(request, v1.ElicitationUrlMode):
        _check_url(reading, link, request)


def _check_url(reading: Reading, link: Link, request: v1.ElicitationUrlMode) -> None:
    if _CREDENTIALS.match(request.url):
        link.report(320, reading, "the URL carries a user name and a password")
    for other in link.exchange.open["a2c"].values():
        if other is not reading and getattr(other.value, "elicitation_id", None) == request.elicitation_id:
            link.report(316, reading, f"the elicitationId is that of message {other.number}, which is not answered")


def check_left(link: Link, *, agent_left_first: bool) -> None:
    """At the end of a recording: terminals the agent did not release."""
    for name, shell in link.shells.items():
        if shell.released_by is None:
            # One that is still wanted may be released later than the recording goes, or after the client has left.
            level = "" if agent_left_first else "NOTE"
            link.report(292, shell.created, f"the terminal {name!r} was not released", level)


CHECKS: Checks = {
    ("fs/read_text_file", "params"): _ask_file,
    ("fs/write_text_file", "params"): _ask_file,
    ("terminal/create", "params"): _ask_create,
    ("terminal/create", "result"): _answer_create,
    ("terminal/output", "params"): _ask_terminal,
    ("terminal/output", "result"): _answer_output,
    ("terminal/wait_for_exit", "params"): _ask_terminal,
    ("terminal/wait_for_exit", "result"): _answer_terminal,
    ("terminal/kill", "params"): _ask_terminal,
    ("terminal/kill", "result"): _answer_terminal,
    ("terminal/release", "params"): _ask_terminal,
    ("terminal/release", "result"): _answer_terminal,
    ("elicitation/create", "params"): _ask_elicitation,
}
