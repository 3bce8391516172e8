"""`--append-system-prompt`, `--max-turns` and `--allowed-tools`, passed on to the agent in the form that it takes.

The protocol has no such options, except a draft for the system prompt. An agent takes them as arguments, in `_meta` of
the request that opens a session, or not at all. The table of well-known agents has the forms. What an agent does not
take is an error before anything runs: an ignored limit would look like one that holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.cli.exits import CliError
from dragoman.registry.built_in import runs_built_in

if TYPE_CHECKING:
    from dragoman.cli.exec.options import Options
    from dragoman.client import RemoteAgent
    from dragoman.registry.agents import AgentEntry
    from dragoman.registry.known import OptionName

_HINTS: Final[dict[OptionName, str]] = {
    "append_system_prompt": "write it into the prompt, or into instructions that the agent reads, such as AGENTS.md",
    "max_turns": "limit the time with --timeout, or set a limit in the agent's own configuration",
    "allowed_tools": "deny what it must not do with --deny, such as --deny execute",
}


class PassedOptions(NamedTuple):
    """What is left to send when the session is opened."""

    meta: Mapping[str, Any] = MappingProxyType({})
    system_prompt: str | None = None
    """For the protocol's draft, if the agent offers it; that is known after `initialize`."""


def pass_options(entry: AgentEntry, options: Options) -> tuple[AgentEntry, PassedOptions]:
    """Return the agent with the arguments for its options, and what is to be sent later.

    Raises:
        CliError: the agent does not take one of them.
    """
    given: dict[OptionName, object] = {}
    if options.append_system_prompt is not None:
        given["append_system_prompt"] = options.append_system_prompt
    if options.max_turns is not None:
        given["max_turns"] = options.max_turns
    if options.allowed_tools is not None:
        given["allowed_tools"] = list(options.allowed_tools)
    if not given:
        return entry, PassedOptions()
    return _pass(entry, given)


def _pass(entry: AgentEntry, given: dict[OptionName, object]) -> tuple[AgentEntry, PassedOptions]:
    from msgspec.structs import replace

    from dragoman.registry.known import OptionForm, put_member, recognise

    known = recognise(entry.name, entry.command)
    forms = {} if known is None else known.options
    if runs_built_in(entry):
        forms = {
            "append_system_prompt": OptionForm(args=("--append-system-prompt", "{value}")),
            "max_turns": OptionForm(args=("--max-turns", "{value}")),
        }
    words: list[str] = []
    meta: dict[str, Any] = {}
    later = None
    for name, value in given.items():
        form = forms.get(name)
        if form is not None and form.meta:
            put_member(meta, form.meta, value)
        elif form is not None:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            words += [word.replace("{value}", text) for word in form.args]
        elif name == "append_system_prompt":
            later = str(value)
        else:
            raise refused(name, entry.name)
    return replace(entry, command=(*entry.command, *words)), PassedOptions(meta, later)


def system_prompt_for(agent: RemoteAgent, entry: AgentEntry, passed: PassedOptions) -> str | None:
    """Return the text to append to the agent's system prompt when its session is opened, None for nothing.

    Raises:
        CliError: the agent does not offer that.
    """
    from dragoman.schema import is_advertised

    text = passed.system_prompt
    if text is not None and not is_advertised(agent.capabilities, "sessionCapabilities.systemPrompt"):
        raise refused("append_system_prompt", entry.name)
    return text


def refused(name: OptionName, agent: str) -> CliError:
    """Return the error about an option that an agent does not take."""
    from dragoman.registry.known import well_known_agents

    takers = [known.name for known in well_known_agents() if name in known.options]
    own = [] if name == "allowed_tools" else ["dragoman"]
    return CliError(
        f"--{name.replace('_', '-')}: {agent} does not take it; known to take it: {', '.join([*own, *takers])}",
        hint=_HINTS[name],
    )
