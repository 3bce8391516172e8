"""`dragoman demo`: a full turn of the built-in agent with the scripted model, in a temporary folder."""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman.cli.command import CliCall, CliCommand, CliOption
from dragoman.process.own_program import own_command

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


WELCOME = r"""
say This model is scripted: it does what your prompt says, and calls no service. Try these, one line each:
say - edit greeting.txt Hello. => Hello, world!
say - run ls
say - say anything
say Questions are answered with Tab and a number. F1 shows the keys, Ctrl+D leaves.
"""


def run(call: CliCall) -> int:
    return _talk() if call.given.talk else _show(call)


def _talk() -> int:
    """Open the terminal client with the scripted model, in a folder, a home and a host of its own."""
    import os
    from tempfile import TemporaryDirectory

    from dragoman.cli.command import parse
    from dragoman.cli.commands.attach import COMMAND as ATTACH

    with TemporaryDirectory(prefix="dragoman-demo-") as folder, TemporaryDirectory(prefix="dragoman-demo-") as home:
        Path(folder, "greeting.txt").write_text("Hello.\n")
        os.environ |= {"DRAGOMAN_HOME": home, "XDG_RUNTIME_DIR": home}
        words = ["--cwd", folder, "-a", "dragoman", "--model", "scripted", "--prompt", WELCOME.strip()]
        try:
            return ATTACH.run(parse("attach", ATTACH, words))
        finally:
            _end_host()


def _end_host() -> None:
    """End the host of the demo: its home is removed."""
    import os
    import signal
    from contextlib import suppress

    from dragoman.host.local.place import find_places
    from dragoman.host.local.start import find_host
    from dragoman.host.local.thin import HostLost, HostRefused

    client = find_host(find_places())
    if client is None:
        return
    with suppress(HostLost, HostRefused, OSError):
        pid = client.call("_dragoman/host").get("pid")
        if isinstance(pid, int):
            os.kill(pid, signal.SIGTERM)
            while client.read():  # until the host is gone
                pass
    client.close()


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
        return execute(
            parse("exec", EXEC, ["--cwd", folder, *allowed, "--no-snapshots", "--verbose", PROMPT, "--", *agent])
        )


def _introduce(folder: str, rules: tuple[str, ...]) -> None:
    how = "".join(f"\n  --allow '{rule}'" for rule in rules) if rules else "\n  no rule: you are asked"
    sys.stderr.write(
        "This is `dragoman exec` with the built-in agent. Its model is scripted and calls no service.\n"
        f"It works in {folder}, which is removed afterwards. What it may do there:{how}\n"
        f"The prompt: {PROMPT}\n\n"
    )
    sys.stderr.flush()


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows one turn of the built-in agent, from the prompt to the answer: text, a plan, tool calls, a change that\n"
        "needs permission, a command. The model is scripted, and the agent works in a temporary folder; your files\n"
        "are not touched."
    ),
    options=(
        CliOption("--ask", "decide yourself what the agent may do, instead of using two rules"),
        CliOption("--talk", "open the terminal client with the scripted model instead, to try it"),
    ),
    examples=("dragoman demo", "dragoman demo --ask", "dragoman demo --talk"),
)
