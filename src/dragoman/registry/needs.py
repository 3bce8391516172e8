"""What well-known agents need to run: where their program comes from, and what they want to know from the environment.

Owns the table; `doctor.py` holds a machine against it. An agent that is not here is examined all the same, with less
advice. The variables are advice too: an agent may know more of them, or be logged in.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class AgentNeeds(NamedTuple):
    """One agent: how its program is got, and variables of which one is enough (a login is, too)."""

    get: str
    variables: tuple[str, ...] = ()


def _npm(package: str, *variables: str) -> AgentNeeds:
    return AgentNeeds(f"npm install -g {package}", variables)


def _pip(package: str, *variables: str) -> AgentNeeds:
    return AgentNeeds(f"pip install '{package}'", variables)


# By the name of the program, and of the package it comes in.
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

_NODE: Final = "install Node.js 22 or newer, which brings it (your system's packages, or the installer of the project)"
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
    """By every name a command's program goes by."""
    for program in sorted(programs):
        needs = AGENTS.get(PACKAGES.get(program, program))
        if needs is not None:
            return needs
    return None
