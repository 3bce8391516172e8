"""What well-known agents need: where their program comes from, and which environment variables they read.

`doctor.py` uses this table for its advice, and examines an agent that is not in it with less advice. A variable that is
not set may be no problem: the agent may read others, or the user may have logged in.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class AgentNeeds(NamedTuple):
    """How to install one agent, and the variables of which one is enough (as is a login)."""

    get: str
    variables: tuple[str, ...] = ()


def _npm(package: str, *variables: str) -> AgentNeeds:
    return AgentNeeds(f"npm install -g {package}", variables)


def _pip(package: str, *variables: str) -> AgentNeeds:
    return AgentNeeds(f"pip install '{package}'", variables)


# By the name of the program; `PACKAGES` has the names of packages.
AGENTS: Final = {
    "gemini": _npm("@google/gemini-cli", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "claude-agent-acp": _npm("@agentclientprotocol/claude-agent-acp", "ANTHROPIC_API_KEY"),
    "codex-acp": _npm("@zed-industries/codex-acp", "OPENAI_API_KEY", "CODEX_API_KEY"),
    "copilot": _npm("@github/copilot", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "COPILOT_PROVIDER_API_KEY"),
    "opencode": _npm("opencode-ai"),
    "qwen": _npm("@qwen-code/qwen-code", "OPENAI_API_KEY"),
    "cline": _npm("cline", "CLINE_API_KEY"),
    "auggie": _npm("@augmentcode/auggie"),
    "kimi-code": _npm("@moonshot-ai/kimi-code"),
    "kimi": _pip("kimi-cli"),
    "vibe-acp": _pip("mistral-vibe", "MISTRAL_API_KEY"),
    "fast-agent-acp": _pip("fast-agent-mcp"),
    "hermes-acp": _pip("hermes-agent[acp]"),
    "openhands": _pip("openhands"),
}
PACKAGES: Final = {
    "@google/gemini-cli": "gemini",
    "@agentclientprotocol/claude-agent-acp": "claude-agent-acp",
    "@agentclientprotocol/codex-acp": "codex-acp",
    "@zed-industries/codex-acp": "codex-acp",
    "@github/copilot": "copilot",
    "opencode-ai": "opencode",
    "@qwen-code/qwen-code": "qwen",
    "@augmentcode/auggie": "auggie",
    "@moonshot-ai/kimi-code": "kimi-code",
    "kimi-cli": "kimi",
    "mistral-vibe": "vibe-acp",
    "fast-agent-mcp": "fast-agent-acp",
    "hermes-agent": "hermes-acp",
}

_NODE: Final = "install Node.js 22 or newer, which includes it"
_UV: Final = "install uv (pip install uv), or install the agent with: dragoman agents install NAME"
# Programs that run others.
RUNTIMES: Final = {
    "node": _NODE,
    "npx": _NODE,
    "npm": _NODE,
    "bun": "install Bun (npm install -g bun)",
    "bunx": "install Bun (npm install -g bun)",
    "deno": "install Deno (npm install -g deno)",
    "uvx": _UV,
    "uv": _UV,
    "pipx": "install pipx (pip install pipx)",
    "python3": "install Python 3.11 or newer",
    "python": "install Python 3.11 or newer",
}


def needs_of(programs: set[str]) -> AgentNeeds | None:
    """The needs of the agent that one of these programs is; None if it is not known."""
    for program in sorted(programs):
        needs = AGENTS.get(PACKAGES.get(program, program))
        if needs is not None:
            return needs
    return None
