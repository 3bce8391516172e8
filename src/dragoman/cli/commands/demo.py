"""`dragoman demo`: a tour of the terminal client, or a full turn, with a scripted model in a temporary folder."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.cli.command import CliCall, CliCommand, CliOption
from dragoman.process.own_program import own_command

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = ("edit:*.txt", "execute:tee welcome.txt")
PROMPT = "Make the greeting friendlier."
SCRIPT = r"""
think This greeting is short. I can make it friendlier.
say I will make the greeting friendlier.
todo [>] Look at the greeting; Make it friendlier; See how it reads
read greeting.txt
todo [x] Look at the greeting; [>] Make it friendlier; See how it reads
edit greeting.txt Hello. => Hello, world!\nNice to meet you.
todo [x] Look at the greeting; [x] Make it friendlier; [>] See how it reads
run tee welcome.txt < greeting.txt
say The new greeting: {result}
"""


def run(call: CliCall) -> int:
    if call.given.web:
        return _web()
    return _talk() if call.given.talk else _show(call)


def _talk() -> int:
    """Open the terminal client with the scripted model, in a folder, a home and a host of its own."""
    from dragoman.builtin.models.tour import NAME
    from dragoman.cli.command import parse
    from dragoman.cli.commands.attach import COMMAND as ATTACH
    from dragoman.cli.commands.attach import open_client

    with _tour_folder() as project:
        words = ["--cwd", str(project), "-a", "dragoman", "--model", NAME]
        return open_client(parse("attach", ATTACH, words), is_temporary=True)


def _web() -> int:
    """Open the web page with the same tour: a session with the scripted model, which has shown what it offers."""
    from dragoman.builtin.models.tour import NAME
    from dragoman.cli.command import parse
    from dragoman.cli.table import load
    from dragoman.host.local.place import find_places
    from dragoman.host.local.start import reach_host
    from dragoman.host.local.thin import begin, begun
    from dragoman.settings.places import config_dir

    with _tour_folder() as project:
        config_dir().mkdir(parents=True, exist_ok=True)
        (config_dir() / "settings.json").write_text(f'{{"model": "{NAME}"}}')
        client = reach_host(find_places())
        begun(client, begin(client))
        own = {"_meta": {"dragoman": {"agent": "dragoman"}}}
        session = client.call("session/new", cwd=str(project), mcpServers=[], **own)["sessionId"]
        client.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Hello"}])
        client.close()
        sys.stderr.write(
            "A tour with a scripted model in your browser: no service is called, and everything is removed when you\n"
            f"leave with Ctrl-C. It works in {project}.\n\n"
        )
        web = load("web")
        return web.run(parse("web", web, []))


@contextmanager
def _tour_folder() -> Iterator[Path]:
    """Yield the project of a tour, with a home and a host of their own, which end and are removed with it."""
    import os
    from tempfile import mkdtemp

    from dragoman.builtin.models.tour import AGENTS_FILE, PROJECT
    from dragoman.settings.places import data_dir

    agents = _describe_agents()  # of the user: the demo has a home of its own
    folder = mkdtemp(prefix="demo-")  # short: questions show paths in it, and should need no scrolling
    with _removed_at_the_end(folder):
        project = Path(folder, "greeting")
        project.mkdir()
        for name, text in PROJECT.items():
            (project / name).write_text(text)
        os.environ |= {"DRAGOMAN_HOME": folder, "XDG_RUNTIME_DIR": folder}
        data_dir().mkdir(parents=True, exist_ok=True)
        (data_dir() / AGENTS_FILE).write_text(agents)
        yield project


@contextmanager
def _removed_at_the_end(folder: str) -> Iterator[None]:
    """End the host of the demo and all that it started, and remove the folder, in whatever way this program ends.

    A shell waits for the end of its input, whose only writer is this program, as in `process/guard.py`. It ends what
    has the home of the demo in its environment.
    """
    import subprocess

    shell = subprocess.Popen(
        ["/bin/sh", "-c", _CLEANER, "dragoman-demo", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert shell.stdin is not None
        shell.stdin.close()
        shell.wait()


# The host gets three seconds to end by itself. Signals that go to everything must not end the shell before its work.
_CLEANER: Final = """
trap '' HUP INT QUIT TERM
while read -r line; do :; done
left=80
while [ $left -gt 0 ]; do
    found=
    case $left in 80) sign=TERM ;; ?|1?) sign=KILL ;; *) sign=0 ;; esac
    for place in $(grep -l -a -F -e "DRAGOMAN_HOME=$1" /proc/[0-9]*/environ); do
        place=${place#/proc/}
        kill -$sign "${place%/environ}" && found=1
    done
    [ -n "$found" ] || break
    sleep 0.05
    left=$((left - 1))
done
rm -rf "$1"
"""


def agents_here() -> list[str]:
    """Return the agents that can be started on this machine, each with its login and the command that starts it."""
    import shutil

    from dragoman.errors import DragomanError
    from dragoman.registry.agents import load_agents
    from dragoman.registry.presence import login_here
    from dragoman.settings import load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    try:
        entries = load_agents(load_settings(config_dir()), data_dir(), cache_dir()).entries()
    except (DragomanError, OSError):  # settings that cannot be read; a demo works without them
        return []
    found = []
    for entry in entries:
        if entry.source != "built-in" and not entry.problem and entry.command and shutil.which(entry.command[0]):
            sign = login_here(entry).sign
            state = {"variable": "key found", "file": "logged in", "none": "not logged in"}.get(sign, "on this machine")
            found.append(f"{entry.name} ({state}): `{_program()} -a {entry.name}`")
    return found


def _describe_agents() -> str:
    """Return what the tour answers about real agents."""
    lines = "\n".join(f"- {line}" for line in agents_here())
    if not lines:
        return f"No other agent was found on this machine; `{_program()}` says what can be set up."
    return f"These agents are on this machine; leave with Ctrl+D, and start one in a project of yours:\n\n{lines}"


def _program() -> str:
    """Return how a shell starts this program."""
    from dragoman.process.own_program import shell_words

    return shell_words()


def _show(call: CliCall) -> int:
    from tempfile import TemporaryDirectory

    from dragoman.cli.command import parse
    from dragoman.cli.commands.exec import COMMAND as EXEC
    from dragoman.cli.exec.run import execute

    rules = () if call.given.ask else RULES
    with TemporaryDirectory(prefix="dragoman-demo-") as folder, TemporaryDirectory(prefix="dragoman-demo-") as home:
        Path(folder, "greeting.txt").write_text("Hello.\n")
        allowed = [word for rule in rules for word in ("--allow", rule)]
        # A file, not the prompt: the first prompt of a session is its title.
        script = Path(home, "script.txt")
        script.write_text(SCRIPT)
        _introduce(folder, rules)
        # The demo's session does not belong to the user's sessions; its store is removed with the rest.
        kept = ["--store", f"{home}/sessions.db", "--log", f"{home}/agent.log"]
        agent = [*own_command("agent", "--model", f"scripted:{script}"), *kept]
        # Verbose, so that progress is shown even if stderr is not a terminal. Without snapshots, because nothing can be
        # taken back in a folder that is gone.
        code = execute(
            parse("exec", EXEC, ["--cwd", folder, *allowed, "--no-snapshots", "--verbose", PROMPT, "--", *agent])
        )
    sys.stdout.flush()
    found = [f"  {line}\n" for line in agents_here()]
    real = "Real agents on this machine, and what starts them:\n" if found else ""
    sys.stderr.write(
        f"\nThat was a script. `{_program()} demo --talk` is a tour of the terminal client.\n"
        f"`{_program()} demo --web` opens the same tour in a browser.\n{real}{''.join(found)}"
    )
    return code


def _introduce(folder: str, rules: tuple[str, ...]) -> None:
    how = "".join(f"\n  --allow '{rule}'" for rule in rules) if rules else "\n  no rule: you are asked"
    sys.stderr.write(
        "A scripted turn of `dragoman exec` with the built-in agent: the prompt, what the model says and what it does\n"
        "come from a script, and no service is called. Only the tools, the rules and the files are real.\n"
        f"It works in {folder}, which is removed afterwards. What it may do there:{how}\n"
        f"The scripted prompt: {PROMPT}\n\n"
    )
    sys.stderr.flush()


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows one turn of the built-in agent, from the prompt to the answer: text, a plan, tool calls, a change that\n"
        "needs permission, a command. With --talk it opens the terminal client for a tour of six steps, which takes\n"
        "your own sentences; with --web, the page of dragoman web with the same tour. The model is scripted, and the\n"
        "agent works in a temporary folder; your files are not touched."
    ),
    options=(
        CliOption("--ask", "decide yourself what the agent may do, instead of using two rules"),
        CliOption("--talk", "open the terminal client instead: a tour of six steps, with a scripted model"),
        CliOption("--web", "open the same tour in a browser"),
    ),
    examples=("dragoman demo", "dragoman demo --ask", "dragoman demo --talk", "dragoman demo --web"),
)
