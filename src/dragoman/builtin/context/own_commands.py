"""The agent's own slash commands: which there are, and the function that answers each.

A command with a body is a template for the model. The others have a function, named here and imported when the command
is used: an `Action` answers from the open session, a `TurnAction` needs a turn, with its model, its permissions and the
user who can be asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from dragoman.builtin.context.command import Command, Invocation, TurnCommand
from dragoman.builtin.context.history import CLEAR
from dragoman.builtin.models.model import Model, StepEnd
from dragoman.errors import ConfigError
from dragoman.policy.modes import MODES
from dragoman.text.terminal import sentence, shorten
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from dragoman.builtin.context.window.window import ContextWindow
    from dragoman.builtin.models.model import ModelRequest, ToolSpec
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.turn import TurnContext

Action: TypeAlias = Callable[[str, "OpenSession"], Awaitable[str]]
"""Takes the words after the command and returns the text of the answer."""
TurnAction: TypeAlias = Callable[[TurnCommand, "TurnContext", "ContextWindow", "tuple[ToolSpec, ...]"], Awaitable[str]]
"""The same within a turn. Raises: ModelError."""

_SHOWN: Final = 40
"""So much of a wrong word is repeated."""
_MODEL_CHARACTERS: Final = 200
TURN_COMMANDS: Final = frozenset(("compact", "context", "redo", "remember", "rewind", "undo"))

_REVIEW: Final = """\
Review $ARGUMENTS. If nothing is named here, review what is not committed yet (git status, git diff, git diff --staged);
if everything is committed, the last commit.

Read the changed code in its surroundings. Report what is wrong or likely to break, most serious first, each with file
and line, why it is wrong, and what to do instead. Leave out what is a matter of taste. If there is nothing, say so.
Change nothing."""

_INIT: Final = """\
Write `AGENTS.md` in the root of this project: what a coding agent that has never seen it must know to work in it. If
there is one, read it first and improve it: keep what is right, correct what is wrong, add what is missing.
What I want it to state in particular (may be empty): $ARGUMENTS

Find out, by reading and not by guessing:
- the README, the contribution guide, and instructions for other agents (CLAUDE.md, GEMINI.md, .cursor/rules,
  .cursorrules, .github/copilot-instructions.md); take over what still holds;
- the files of build, tests and CI (package.json, pyproject.toml, Cargo.toml, go.mod, Makefile, workflows): the exact
  commands to install, build, lint, type-check and test, and to run one single test;
- the structure: which folder owns what, where a request or a command enters, what is generated and must not be edited;
- habits of the code that a newcomer would break: names, errors, tests, commits.

Write at most 100 lines of Markdown, commands first. Every line must be specific to this project and useful for many
tasks: leave out what is obvious from a file listing, general advice, and what you could not verify. Write no secrets.
State no command that you have not seen in a file. In the end, name what you were not sure about."""

OWN: Final = (
    Command("agents", "List the agents that can be subagents, and where each is declared"),
    Command(CLEAR, "Let the model forget the conversation; it stays stored and visible"),
    Command("compact", "Replace the older part of the conversation by a summary", "what to keep in particular"),
    Command("context", "Show what fills the context window"),
    Command("help", "Show the commands there are"),
    Command("hooks", "List the hooks, and those that the project proposes"),
    Command("init", "Write a first AGENTS.md from the project, or improve the one there is", "what matters", _INIT),
    Command("mcp", "Show the MCP servers and what they offer, or connect one again", "[NAME | reconnect NAME]"),
    Command("mode", "Show or change how much is done without asking", "|".join(MODES)),
    Command("model", "Show or change the model", "PROVIDER:NAME"),
    Command("redo", "Bring back what the last /undo or /rewind took back"),
    Command("remember", "Add a line to your instructions or the project's", "[user|project] TEXT"),
    Command("review", "Review changes that are not committed yet, or what you name", "what to review", _REVIEW),
    Command("rewind", "List the turns, or take back one and all after it, with their files", "the number of a turn"),
    Command("skills", "List the skills there are, and where each comes from"),
    Command("undo", "Take back the last turn, with its files"),
)


async def run_command(call: Invocation, session: OpenSession) -> str:
    """Run one of the agent's own commands and return the text of the answer."""
    commands = session.commands
    if call.command is None:
        names = ", ".join(f"/{name}" for name in commands)
        meant = next((name for name in commands if name.lower() == call.name.lower()), "")
        hint = f" Did you mean /{meant}?" if meant else ""
        return (
            f"There is no command /{shorten(call.name, _SHOWN)}.{hint} There are {names}. "
            "A message for the model that begins with a slash needs a space before it."
        )
    return await _action(call.name)(call.arguments, session)


def _action(name: str) -> Action:
    """Return the function of a command; few sessions need more than one of their modules."""
    match name:
        case "agents":
            from dragoman.builtin.subagents.command import show_agents

            return show_agents
        case "hooks":
            from dragoman.builtin.hooks.command import show_hooks

            return show_hooks
        case "mcp":
            from dragoman.builtin.mcp.command import show_servers

            return show_servers
        case "skills":
            from dragoman.builtin.skills.command import show_skills

            return show_skills
    return {CLEAR: clear, "help": show_help, "mode": set_mode, "model": set_model}[name]


def turn_action(name: str) -> TurnAction:
    """Return the function of a command of a turn."""
    match name:
        case "compact":
            from dragoman.builtin.context.window.commands import compact

            return compact
        case "context":
            from dragoman.builtin.context.window.commands import show_context

            return show_context
        case "remember":
            from dragoman.builtin.context.memory import remember

            return remember
    from dragoman.builtin import undo

    return {"redo": undo.redo, "rewind": undo.rewind, "undo": undo.undo}[name]


def refused_words(name: str) -> str:
    """Return the answer to words behind a command that takes none and cannot be taken back easily.

    The words may mean another command.
    """
    return f"Nothing was done: /{name} takes no words behind it. Send `/{name}` alone."


async def show_help(arguments: str, session: OpenSession) -> str:
    """Return the list of the commands there are: `/help`."""
    commands = session.commands.values()
    return "\n".join(
        f"- `/{' '.join(filter(None, (command.name, command.hint)))}` {command.shown}" for command in commands
    )


async def clear(arguments: str, session: OpenSession) -> str:
    """Give the model nothing of what came before: `/clear`. It is left out by `history.py`."""
    if arguments:
        return refused_words(CLEAR)
    from dragoman.builtin.tools.jobs import forget_but_jobs

    forget_but_jobs(session.memory)  # the model does not know any file now; commands in the background go on
    return "The model has forgotten the conversation. It is still stored, and shown when it is loaded again."


async def set_mode(wanted: str, session: OpenSession) -> str:
    """Show or change the mode: `/mode`."""
    if wanted in ("full", "auto"):
        # A prompt may hold text of others, piped in or pasted; that must not be able to switch permission off.
        how = f"{wanted} is chosen in the editor, or with --mode {wanted}, not by a message"
        return f"The mode stays {session.mode.id}: {how}."
    if wanted in [mode.id for mode in session.modes]:
        await session.choose(mode=wanted)
        return f"The mode is {wanted} now: {MODES[wanted].description}."
    listed = "\n".join(f"- `{mode.id}` {mode.description}" for mode in session.modes)
    missing = f"There is no mode {shorten(sentence(wanted), _SHOWN)!r}. " if wanted else ""
    return f"{missing}The mode is {session.mode.id}. There are:\n{listed}"


async def set_model(wanted: str, session: OpenSession) -> str:
    """Show or change the model: `/model`."""
    from dragoman.builtin.models.choice import check_model
    from dragoman.builtin.models.providers import missing_key

    if len(wanted) > _MODEL_CHARACTERS:
        return f"The model stays {session.model_name}: no model has a name of {len(wanted):,} characters."
    if not wanted:
        names = ", ".join(session.model_names)
        return f"The model is {session.model_name}. Offered: {names}; another can be named as /model PROVIDER:NAME."
    try:
        check_model(wanted, session.env)
    except ConfigError as error:
        return f"The model stays {session.model_name}: {error}"
    provider = missing_key(wanted, session.env)
    if provider is not None:
        advice = f"set {' or '.join(provider.variables)}, or log in with: dragoman agent login {provider.id}"
        return f"The model stays {session.model_name}: {wanted} needs a key: {advice}."
    await session.choose(model=wanted)
    return f"The model is {wanted} now."


class AnswerModel(Model):
    """A model that gives one fixed text: the agent's own answer to a command."""

    name = "dragoman"
    context_tokens = None
    is_scripted = False

    def __init__(self, text: str) -> None:
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        yield c.TextStart("words")
        yield c.TextDelta("words", self._text)
        yield c.TextEnd("words")
        yield StepEnd("stop")
