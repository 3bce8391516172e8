"""`dragoman exec`: one turn of any agent, for scripts."""

from __future__ import annotations

from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT, CA, TOKEN_ENV, URL
from dragoman.cli.suggestions import hosted_names, session_ids, worktree_names


def run(call: CliCall) -> int:
    if call.given.schema:
        return _print_schema(call.given.output)
    import gc

    gc.disable()  # collections while modules are loaded find nothing; `Run` enables it again
    from dragoman.cli.startup import load_msgspec

    load_msgspec()
    if call.given.worktree is None:
        return _run(call)
    from dragoman.cli.worktree import enter_worktree, note_worktree

    worktree = enter_worktree(call)
    try:
        return _run(call)
    finally:
        if not call.given.quiet and call.given.progress not in ("none", "json"):
            note_worktree(worktree)


def _run(call: CliCall) -> int:
    import gc

    if call.given.session is not None:
        from dragoman.cli.exec.hosted.command import execute_hosted

        gc.enable()
        return execute_hosted(call)
    if call.given.queue or call.given.no_wait:
        flag = "--queue" if call.given.queue else "--no-wait"
        raise exits.CliError(f"{flag} goes with --session", hint="dragoman exec --session NAME 'PROMPT'")
    if call.given.hold and call.given.file is None:
        raise exits.CliError("--hold reads stdin, so the prompt has to be in a file", hint="--hold --file PROMPT.md")
    from dragoman.cli.exec.run import execute

    return execute(call)


def _print_schema(form: str | None) -> int:
    from dragoman.cli.console import write_json
    from dragoman.cli.exec.events import Event
    from dragoman.runs.result import RunResult, schema_of

    if form in ("text", "raw"):
        raise exits.CliError(f"--output {form} has no schema", hint="--schema with --output json or events")
    write_json(schema_of(Event if form == "events" else RunResult))
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Sends one prompt to an agent, waits for the end of the turn, and prints the answer. stdout is the answer, in\n"
        "the form you choose; stderr is everything else. Rules decide what the agent may do; what no rule decides is\n"
        "asked at the terminal, and cancelled if there is none. docs/exec.md has the details.\n\n"
        "exit code, the first that applies: 130 cancelled (143 by SIGTERM), 3 timed out, 2 wrong usage or set-up,\n"
        "10 the agent did something that a rule denies, or changed a protected file without a permission, 4 it could\n"
        "not start or died, 7 it requires a login, 1 it answered with an error, 5 a permission request was cancelled\n"
        "because no user could be asked, 9 a rule denied something (with --fail-on-deny), 6 the agent stopped before\n"
        "it was done or gave no answer at all, 0 success"
    ),
    arguments=(
        Argument(
            "prompt",
            "the prompt, quoted as one argument; - or nothing reads it from stdin; what is piped in with it is added",
            is_optional=True,
        ),
    ),
    options=(
        AGENT._replace(is_everyday=True),
        URL,
        TOKEN_ENV,
        CA,
        CliOption(
            "--yes",
            "do not ask before a well-known agent that is not installed is downloaded and run",
            is_everyday=True,
        ),
        CliOption("--cwd", "the folder to work in (default: the current one)", value="FOLDER", is_everyday=True),
        CliOption("--add-dir", "another folder the session may use", value="FOLDER", is_repeatable=True),
        CliOption(
            "--worktree",
            "work in a copy of the project (a git worktree, with your uncommitted changes), made at its first use; "
            "dragoman worktrees merges or discards it",
            value="NAME",
            suggest=worktree_names,
            is_everyday=True,
        ),
        CliOption("--file", "read the prompt from a file", value="FILE", is_everyday=True),
        CliOption("--image", "attach an image", value="FILE", is_repeatable=True, is_everyday=True),
        CliOption(
            "--protocol",
            "the version that the agent speaks (default: 1); `auto`: 2 if it does, else 1",
            value="VERSION",
            choices=("1", "2", "auto", "2025.1"),
        ),
        CliOption("--mode", "set the mode of the session first", value="MODE"),
        CliOption("--model", "use this model", value="MODEL", is_everyday=True),
        CliOption(
            "--append-system-prompt",
            "more instructions for the model, for agents that take them (claude, codex, qwen, the built-in one)",
            value="TEXT",
        ),
        CliOption(
            "--max-turns",
            "end the turn after this many calls of the model, for agents that take it (claude, qwen, the built-in one)",
            value="NUMBER",
        ),
        CliOption(
            "--allowed-tools",
            'the only tools the agent has, with commas between them ("" for none), for agents that take it (claude, '
            "copilot, qwen); it allows nothing by itself, see --allow",
            value="TOOLS",
        ),
        CliOption("--no-fs", "offer the agent no access to files; most agents then use the disk themselves"),
        CliOption("--no-terminal", "offer the agent no terminals; most agents then run commands themselves"),
        CliOption("--set", "set an option of the agent first", value="KEY=VALUE", is_repeatable=True),
        CliOption("--mcp-config", 'MCP servers for the session: {"mcpServers": {...}}', value="FILE"),
        CliOption(
            "--session",
            "a named session in this folder that stays open between runs; opened at its first use",
            value="NAME",
            suggest=hosted_names,
            is_everyday=True,
        ),
        CliOption("--queue", "with --session: wait behind a turn that runs; without it, a busy session is an error"),
        CliOption("--no-wait", "with --session: return as soon as the prompt is queued; the turn goes on"),
        CliOption("--continue", "continue the last session of this agent in this folder", short="-c", is_everyday=True),
        CliOption(
            "--resume",
            "continue an earlier session: its id or the beginning of it, @NUMBER of dragoman sessions list, its title, "
            "or last",
            value="SESSION",
            suggest=session_ids,
            is_everyday=True,
        ),
        CliOption(
            "--keep",
            "with --url: keep the session at the host, to continue it later; without it, one that succeeded is deleted "
            "unless the output names it (json, events) or it is an earlier one",
        ),
        CliOption("--no-ledger", "do not write this session into the ledger (dragoman sessions)"),
        CliOption("--timeout", "cancel the run after this time", value="SECONDS", is_everyday=True),
        CliOption(
            "--retries",
            "try again up to N times after a failure that may pass, if nothing was changed (default: 0)",
            value="N",
        ),
        CliOption(
            "--allow", "what the agent may do without asking", value="RULE", is_repeatable=True, is_everyday=True
        ),
        CliOption("--deny", "what it may never do", value="RULE", is_repeatable=True, is_everyday=True),
        CliOption(
            "--dangerously-allow-all",
            "allow everything no rule denies, protected files included; only for a container you can throw away",
        ),
        CliOption(
            "--sandbox",
            "run the agent's commands in a sandbox, where they need no rule: always (require), unless you permitted "
            "the command (auto), never (off, the default)",
            value="WHEN",
            choices=("off", "auto", "require"),
            is_everyday=True,
        ),
        CliOption("--sandbox-agent", "run the agent itself in a sandbox too, with the network and its state folders"),
        CliOption(
            "--sandbox-write", "another folder that may be written in the sandbox", value="FOLDER", is_repeatable=True
        ),
        CliOption("--fail-on-deny", "exit with 9 if a rule denied something"),
        CliOption(
            "--stop-on-violation",
            "cancel the turn when the agent does something that a rule denies, or that cannot be judged",
        ),
        CliOption("--policy", 'more rules: {"allow": [], "deny": [], "ask": []}', value="FILE"),
        CliOption(
            "--output",
            "the form of the answer (default: text)",
            value="FORM",
            choices=("text", "json", "events", "raw"),
            is_everyday=True,
        ),
        CliOption("--no-snapshots", "do not look at the folders before and after the turn (dragoman sessions diff)"),
        CliOption("--hold", "with --file: end the agent, after its result, only when stdin ends or gets a line"),
        CliOption("--patch", "write the changes of the run as a patch for git apply", value="FILE"),
        CliOption("--record", "record the conversation, as dragoman record does", value="FILE"),
        CliOption(
            "--progress",
            "the form of the progress on stderr (default: a status line on a terminal, github in GitHub Actions, "
            "otherwise plain, or none if stdout has events or frames)",
            value="FORM",
            choices=("plain", "none", "github", "json"),
        ),
        CliOption("--quiet", "no progress on stderr, even if it is a terminal", short="-q", is_everyday=True),
        CliOption("--verbose", "all progress on stderr, and the agent's log", short="-v"),
        CliOption("--schema", "print the JSON Schema of the result (of an event with --output events)"),
    ),
    examples=(
        "dragoman exec -a gemini 'What is this project?'",
        "dragoman exec -a claude --allow 'edit:src/**' --allow 'execute:npm test' 'Make the tests pass'",
        "dragoman exec --sandbox auto 'Run the tests and explain what fails'",
        "git diff | dragoman exec -a codex 'Review this change:'",
        "dragoman exec -a gemini --output json --timeout 600 'Explain @README.md' | jq -r .text",
        "dragoman exec -a claude --continue 'Now write a test for it'",
        "dragoman exec --session review -a claude 'Look at the last commit'",
        "dragoman exec --session review --no-wait 'Now fix what you found'",
        "dragoman exec -a claude --worktree parser 'Rewrite the parser'",
        "dragoman exec 'What can you do?' -- gemini --acp",
        "dragoman exec --url wss://agents.example/acp --token-env AGENTS_TOKEN 'What is this project?'",
    ),
    takes_program=True,
)
