"""`dragoman exec --session NAME PROMPT` in its plain form, without argparse.

A warm prompt is the one case of `exec` where starting Python and parsing options would take longer than all else. This
reads the few options that such a prompt has; for everything else it gives None, and the command line is parsed as
usual.
"""

import os

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.exec.hosted.turn import TurnRequest

_FLAGS = {"--queue": "queue", "--no-wait": "no_wait", "-q": "quiet", "--quiet": "quiet"}
_VALUES = ("--session", "--cwd", "--output")


def read_words(words: "Sequence[str]") -> "dict[str, str] | None":
    """Return the options of a plain call; None if there is anything that this does not read."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if word in _FLAGS:
            key, value = _FLAGS[word], "yes"
        elif flag in _VALUES and (equals or rest):
            key, value = flag.lstrip("-"), value if equals else rest.pop(0)
        elif word.startswith("-") or not word.strip():
            return None
        else:
            key, value = "prompt", word
        if key in found or not value:
            return None
        found[key] = value
    is_plain = "session" in found and "prompt" in found and found.get("output", "text") in ("text", "json")
    if found.get("output") == "json" and ("no_wait" in found or ("quiet" not in found and os.isatty(2))):
        return None  # another document, or progress on a terminal
    # A mention of a file is read elsewhere; annotations for GitHub are another form of progress.
    return found if is_plain and "@" not in found["prompt"] and "GITHUB_ACTIONS" not in os.environ else None


def run_plain(words: "Sequence[str]") -> int | None:
    """Run a plain call; None if it is not one."""
    from dragoman.cli.main import has_silent_stdin

    given = read_words(words)
    if given is None or not has_silent_stdin():
        return None
    from dragoman.cli.exec.hosted.turn import TurnRequest

    cwd = os.path.abspath(given.get("cwd", "."))
    if not os.path.isdir(cwd):
        return None  # the usual way has the sentence for it
    request = TurnRequest(given["session"], cwd, [{"type": "text", "text": given["prompt"]}])
    request.queue = "queue" in given or "no_wait" in given
    request.waits = "no_wait" not in given
    return run_request(request, is_quiet="quiet" in given, form=given.get("output", "text"))


def run_request(request: "TurnRequest", *, is_quiet: bool, form: str = "text") -> int:
    """Run a turn whose answer is text, or one JSON document; gives the exit code."""
    if os.isatty(2) and not is_quiet and request.waits and form == "text":
        from dragoman.cli.exec.hosted.shown import run_shown

        return run_shown(request)
    if form == "json":
        from dragoman.cli.exec.hosted.document import run_document

        return run_document(request, is_quiet=is_quiet)
    from dragoman.cli.exec.hosted.text import TextView
    from dragoman.cli.exec.hosted.turn import HostedTurn

    view = TextView(is_quiet=is_quiet)
    turn = HostedTurn(request, view)
    end = turn.run()
    if not request.waits and not (end.error or end.signal):
        if not is_quiet:
            from dragoman.cli.exec.hosted.ending import note_queued

            note_queued(request)
        return 0
    if not end.report:  # a host of another version, or nothing was recorded
        end.is_empty = end.stop_reason == "end_turn" and view.is_empty
    view.write()
    if end.is_success:
        return 0
    from dragoman.cli.exec.hosted.ending import finish_text

    return finish_text(end, request, is_quiet=False)
