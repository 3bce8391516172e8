"""Facts about well-known agents, besides their quirks: state folders, keys, modes, and how they run commands.

The table is here; an agent is recognised as for its quirks. `exec` uses it to put an agent into the mode in which it
asks, to keep the keys of other providers from it, and to run it in a sandbox. An agent that is not in the table is
started with the whole environment and in the mode it chooses.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.registry.quirks import programs
from dragoman.text.secrets import KEY_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OPENAI: Final = ("OPENAI_API_KEY",)
_GOOGLE: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_ANTHROPIC: Final = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
)
MODEL_KEYS: Final = (
    *_ANTHROPIC,
    *_OPENAI,
    *_GOOGLE,
    *("ALIBABA_API_KEY", "DASHSCOPE_API_KEY", "AZURE_OPENAI_API_KEY", "CEREBRAS_API_KEY", "CO_API_KEY"),
    *("CODEX_API_KEY", "CURSOR_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GITHUB_API_KEY", "GROQ_API_KEY"),
    *("HEROKU_INFERENCE_KEY", "META_API_KEY", "MISTRAL_API_KEY", "MOONSHOTAI_API_KEY", "NEBIUS_API_KEY"),
    *("OLLAMA_API_KEY", "OPENROUTER_API_KEY", "OVHCLOUD_API_KEY", "PAIG_API_KEY", "PYDANTIC_AI_GATEWAY_API_KEY"),
    *("SAMBANOVA_API_KEY", "TOGETHER_API_KEY", "VERCEL_AI_GATEWAY_API_KEY", "XAI_API_KEY", "ZAI_API_KEY"),
)
"""Variables with keys that are good for nothing but models. Tokens of GitHub or AWS are not listed: agents use them
for the user's work as well."""


class AgentFacts(Struct, frozen=True, kw_only=True):
    """What is known about one agent."""

    name: str
    names: frozenset[str]
    """In settings, of its program, or of its package."""
    state: tuple[str, ...] = ()
    """Folders below the home in which it keeps its state, the first one always."""
    files: tuple[str, ...] = ()
    """Files below the home that it reads besides, with its login."""
    state_variable: str = ""
    """The variable that names another folder for its state."""
    keys: tuple[str, ...] | None = None
    """The variables of `MODEL_KEYS` that it uses; None for an agent that works with any provider."""
    asking_mode: str = ""
    """The id of the session mode in which it asks before it changes or runs something; of an id that is a URL, the
    fragment."""
    asking_options: tuple[tuple[str, str | bool], ...] = ()
    """The options of its sessions, besides the mode, with the values that let it ask."""
    limited_modes: tuple[str, ...] = ()
    """The ids of the session modes in which it still asks about something, or refuses it."""
    unasking_modes: tuple[str, ...] = ()
    """The ids of the session modes in which it acts without asking the user. What a mode permits that is in neither
    list is not known."""
    unasked: str = ""
    """What it does without asking in every mode; the end of a sentence that starts with its name."""
    own_files: tuple[str, ...] = ()
    """Protected files of the project that it writes itself when the user answers "always"."""
    has_sandbox: bool = False
    """It runs commands in a bubblewrap of its own."""
    modes_without_sandbox: tuple[str, ...] = ()
    """The session modes in which it does not."""
    runs_in_terminals: bool = False
    """It runs all commands through the terminals of its client, if the client has them."""


def _names(name: str, *names: str) -> frozenset[str]:
    return frozenset((name, *names))


# Modes, permission requests and terminals as in the recordings of `transcripts/`; vibe, hermes, opencode and qwen as in
# research/real-agents.md.
FACTS: Final = (
    AgentFacts(
        name="claude",
        names=_names(
            *("claude", "claude-code", "claude-acp", "claude-agent-acp", "claude-code-acp"),
            *("@agentclientprotocol/claude-agent-acp", "@zed-industries/claude-agent-acp"),
            "@zed-industries/claude-code-acp",
        ),
        state=(".claude", ".cache/claude-cli-nodejs"),
        files=(".claude.json",),
        own_files=(".claude/settings.local.json",),
        state_variable="CLAUDE_CONFIG_DIR",
        keys=_ANTHROPIC,
        asking_mode="default",
        limited_modes=("default", "acceptEdits", "plan", "dontAsk"),
        unasking_modes=("auto", "bypassPermissions"),
    ),
    AgentFacts(
        name="codex",
        names=_names("codex", "codex-acp", "@agentclientprotocol/codex-acp", "@zed-industries/codex-acp"),
        state=(".codex",),
        state_variable="CODEX_HOME",
        keys=(*_OPENAI, "CODEX_API_KEY", "AZURE_OPENAI_API_KEY"),
        asking_mode="read-only",
        limited_modes=("read-only", "workspace-write", "agent", "auto"),
        unasking_modes=("agent-full-access", "full-access"),
        has_sandbox=True,
        modes_without_sandbox=("full-access", "agent-full-access"),
    ),
    AgentFacts(
        name="gemini",
        names=_names("gemini", "gemini-cli", "@google/gemini-cli"),
        state=(".gemini",),
        keys=_GOOGLE,
        asking_mode="default",
        limited_modes=("default", "autoEdit", "plan"),
        unasking_modes=("yolo",),
    ),
    AgentFacts(
        name="qwen",
        names=_names("qwen", "qwen-code", "@qwen-code/qwen-code"),
        state=(".qwen",),
        keys=(*_OPENAI, *_GOOGLE, *_ANTHROPIC, "DASHSCOPE_API_KEY", "ALIBABA_API_KEY"),
        asking_mode="default",
        limited_modes=("default", "auto-edit", "plan"),
        unasking_modes=("auto", "yolo"),
        unasked="may edit files of its folder without asking",
    ),
    AgentFacts(
        name="copilot",
        names=_names("copilot", "github-copilot", "@github/copilot"),
        state=(".copilot", ".config/github-copilot", ".cache/copilot"),
        keys=(),
        asking_mode="agent",
        asking_options=(("allow_all", "off"),),
        limited_modes=("agent", "plan"),
        unasking_modes=("autopilot",),
    ),
    AgentFacts(
        name="opencode",
        names=_names("opencode", "opencode-ai"),
        state=(".local/share/opencode", ".local/state/opencode", ".cache/opencode", ".config/opencode", ".opencode"),
        limited_modes=("build", "plan"),
        unasked='asks only about what "permission" in its own opencode.json marks with "ask"',
    ),
    AgentFacts(
        name="cline",
        names=_names("cline"),
        state=(".cline",),
        asking_options=(("auto_approve", False),),
        limited_modes=("act", "plan"),
    ),
    AgentFacts(
        name="kimi",
        names=_names("kimi", "kimi-cli"),
        state=(".kimi",),
        keys=("MOONSHOTAI_API_KEY",),
        asking_mode="default",
        limited_modes=("default",),
        runs_in_terminals=True,
    ),
    AgentFacts(
        name="kimi-code",
        names=_names("kimi-code", "@moonshot-ai/kimi-code"),
        state=(".kimi-code",),
        asking_mode="default",
        limited_modes=("default", "plan"),
        unasking_modes=("auto", "yolo"),
        runs_in_terminals=True,
    ),
    AgentFacts(
        name="vibe",
        names=_names("vibe", "vibe-acp", "mistral-vibe"),
        state=(".vibe",),
        state_variable="VIBE_HOME",
        keys=("MISTRAL_API_KEY",),
        asking_mode="ask",
        limited_modes=("ask", "accept-edits", "plan"),
        unasking_modes=("auto-approve",),
    ),
    AgentFacts(
        name="fast-agent",
        names=_names("fast-agent", "fast-agent-acp", "fast-agent-mcp"),
        state=(".fast-agent",),
        limited_modes=("agent",),
        runs_in_terminals=True,
    ),
    AgentFacts(
        name="hermes",
        names=_names("hermes", "hermes-acp", "hermes-agent"),
        state=(".hermes",),
        state_variable="HERMES_HOME",
        asking_mode="default",
        limited_modes=("default", "accept_edits"),
        unasking_modes=("dont_ask",),
        unasked="runs commands without asking",
    ),
    AgentFacts(
        name="openhands",
        names=_names("openhands", "openhands-cli"),
        state=(".openhands",),
        asking_mode="always-ask",
        limited_modes=("always-ask",),
        unasking_modes=("always-approve", "llm-approve"),
    ),
    AgentFacts(name="auggie", names=_names("auggie", "@augmentcode/auggie"), state=(".augment",), keys=()),
    AgentFacts(
        name="goose",
        names=_names("goose", "goose-acp"),
        state=(".local/share/goose", ".local/state/goose", ".config/goose"),
        asking_mode="approve",
        limited_modes=("approve", "smart_approve", "chat"),
        unasking_modes=("auto",),
    ),
    AgentFacts(
        name="cursor",
        names=_names("cursor-agent", "cursor"),
        state=(".cursor", ".config/cursor"),
        keys=("CURSOR_API_KEY",),
    ),
)


def facts_of(name: str, command: tuple[str, ...]) -> AgentFacts | None:
    """Return the agent of the table that this command runs, else the one with this name; None if there is neither."""
    for names in (programs(command), {name.strip().lower().replace(" ", "-")}):
        found = next((facts for facts in FACTS if facts.names & names), None)
        if found is not None:
            return found
    return None


def state_folders(facts: AgentFacts, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders in which an agent keeps its state; the first one may not exist yet, the others do."""
    chosen = environment.get(facts.state_variable, "") if facts.state_variable else ""
    if chosen:
        return (os.path.abspath(os.path.expanduser(chosen)),)
    home = environment.get("HOME") or os.path.expanduser("~")
    paths = [os.path.join(home, folder) for folder in facts.state]
    return tuple(path for place, path in enumerate(paths) if place == 0 or os.path.isdir(path))


def foreign_keys(facts: AgentFacts) -> frozenset[str]:
    """Return the variables with keys of providers that this agent does not use."""
    return frozenset() if facts.keys is None else frozenset(MODEL_KEYS) - frozenset(facts.keys)


_KEY: Final = re.compile(r"(.+?)_(?:(?:API|AUTH|OAUTH|ACCESS|BEARER|SECRET|OIDC|INFERENCE)_)*(?:KEY|TOKEN)(?:_\w+)?")
_ADDRESS: Final = r"(?:(?:API|BASE|SERVER)_)?(?:URL|BASE|ENDPOINT|HOST|PORT|PATH|VERSION|REGION)"
# Keys that are sent to the addresses of another name.
_SHARED: Final = {
    "CLAUDE": ("ANTHROPIC",),
    "CODEX": ("OPENAI",),
    "GEMINI": ("GOOGLE",),
    "GOOGLE": ("GEMINI",),
    "DASHSCOPE": ("ALIBABA", "QWEN"),
    "ALIBABA": ("DASHSCOPE", "QWEN"),
    "CO": ("COHERE",),
    "GITHUB": ("GH", "COPILOT"),
    "GH": ("GITHUB", "COPILOT"),
    "AWS": ("BEDROCK", "ANTHROPIC"),
    "PAIG": ("PYDANTIC", "GATEWAY"),
    "PYDANTIC": ("PAIG", "GATEWAY"),
    "HF": ("HUGGINGFACE",),
}


def addresses_of(keys: Iterable[str], names: Iterable[str]) -> set[str]:
    """Return those of `names` that decide where these keys are sent: `OPENAI_BASE_URL` for `OPENAI_API_KEY`.

    A key without its address would be sent to another server than the one it is for. Other variables among `keys` have
    none. Of a key that is not known the address has exactly its name, so that `MY_API_KEY` does not lead to other
    services of its owner.
    """
    forms = []
    for key in keys:
        found = _KEY.fullmatch(key)
        if key in KEY_VARIABLES:
            first = key.partition("_")[0]
            forms += [rf"{name}_(?:\w+_)?{_ADDRESS}" for name in (first, *_SHARED.get(first, ()))]
        elif found is not None:
            forms.append(f"{re.escape(found[1])}_{_ADDRESS}")
    pattern = re.compile("|".join(forms) or r"(?!)")
    return {name for name in names if pattern.fullmatch(name)}
