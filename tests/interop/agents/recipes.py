"""How each real agent is started so that it works offline: its program, environment and configuration files.

Owns what was found out about the agents' own settings. `{url}` is the model server, `{home}` the agent's home, which is
empty but for these files. Whatever a recipe says, no agent needs an account: every key is `not-a-key`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from dragoman._version import __version__
from tests.interop.model_server.server import MODEL

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = Path(__file__).parent / "packages"
INSTALLED: Final = ROOT / ".agents"
_MACHINE: Final = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
_NODE: Final = f"node-linux-{_MACHINE}/bin/node"
CLAUDE_PROGRAM: Final = INSTALLED / f"claude/node_modules/@anthropic-ai/claude-agent-sdk-linux-{_MACHINE}/claude"
"""The program itself, which comes with the package of `claude-agent-acp`."""


class Recipe(NamedTuple):
    """One agent."""

    program: tuple[str, ...]
    """Words that begin with `@` are paths below the agent's `node_modules`."""
    env: Mapping[str, str]
    files: Mapping[str, str] = MappingProxyType({})
    """Path below the home -> content."""
    package: str = ""
    """The package it is in, if that has another name."""


_GEMINI_SETTINGS: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    "model": {"name": "gemini-2.5-flash"},
}
# It asks for everything but what it knows to be harmless, such as `cat`. Its sandbox would need a program (bwrap) that
# is not everywhere. The model's name decides which tools there are: an unknown one cannot write files.
_CODEX_CONFIG: Final = """\
model = "gpt-5.3-codex"
model_provider = "scripted"
approval_policy = "untrusted"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""

# The newest one has no policy that asks for every command: rules name those of the tests.
_CODEX_RULES: Final = "".join(
    f'prefix_rule(pattern = ["{program}"], decision = "prompt")\n' for program in ("touch", "./wait.sh", "sed", "git")
)

# By itself it asks for nothing.
_OPENCODE_CONFIG: Final = {
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": "not-a-key"},
            "models": {MODEL: {}},
        }
    },
    "model": f"scripted/{MODEL}",
    "small_model": f"scripted/{MODEL}",
    "permission": {"edit": "ask", "bash": "ask"},
    "autoupdate": False,
}

RECIPES: Final[dict[str, Recipe]] = {
    "gemini": Recipe(
        ("@.bin/gemini", "--acp"),
        {
            "GEMINI_API_KEY": "not-a-key",
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        {".gemini/settings.json": json.dumps(_GEMINI_SETTINGS)},
    ),
    "claude": Recipe(
        # It refuses to work on Node.js 20, so it brings its own.
        (f"@{_NODE}", "@@agentclientprotocol/claude-agent-acp/dist/index.js"),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    # The same program, wrapped by us: every test holds for both.
    "wrapped-claude": Recipe(
        (sys.executable, "-m", "dragoman", "wrap", "claude"),
        {
            "PATH": f"{CLAUDE_PROGRAM.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        package="claude",
    ),
    "codex": Recipe(
        ("@.bin/codex-acp",),
        {"OPENAI_API_KEY": "not-a-key", "CODEX_HOME": "{home}/.codex"},
        {".codex/config.toml": _CODEX_CONFIG},
    ),
    "copilot": Recipe(
        ("@.bin/copilot", "--acp"),
        {
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "not-a-key",
            "COPILOT_MODEL": MODEL,
            "COPILOT_OFFLINE": "true",
        },
    ),
    # The newest codex, wrapped by us.
    "wrapped-codex": Recipe(
        (sys.executable, "-m", "dragoman", "wrap", "codex"),
        {
            "CODEX_PATH": str(INSTALLED / "codex-cli/node_modules/.bin/codex"),
            "OPENAI_API_KEY": "not-a-key",
            "CODEX_HOME": "{home}/.codex",
        },
        {
            ".codex/config.toml": _CODEX_CONFIG.replace("untrusted", "on-request").replace("gpt-5.3-codex", "gpt-5.5"),
            ".codex/rules/ask.rules": _CODEX_RULES,
        },
        package="codex-cli",
    ),
    "opencode": Recipe(
        (f"@opencode-linux-{_MACHINE}/bin/opencode", "acp"),
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        {".config/opencode/opencode.json": json.dumps(_OPENCODE_CONFIG)},
    ),
}

ASKING: Final = tuple(name for name in RECIPES if name != "wrapped-codex")
"""The agents that every test drives. The newest codex has no policy that asks for every command, so that it is driven
where the user has chosen the mode: in the terminal client, and by `dragoman eval --mode`."""
JUDGED: Final = tuple(name for name in ASKING if name != "opencode")
"""The agents of which each finding of `dragoman check agent` was looked at by hand."""


class Prepared(NamedTuple):
    """An agent that is ready to be started."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str]
    """What the agent needs besides the surroundings."""
    surroundings: dict[str, str]
    """A clean environment: what happens to be set where the tests run changes what an agent does."""


def package_of(name: str) -> str:
    """The package that an agent is in."""
    return RECIPES[name].package or name if name in RECIPES else name


def version_of(name: str) -> str:
    """The version that is pinned; ours for a program that we wrap."""
    if package_of(name) != name:
        return __version__
    package = json.loads((PACKAGES / package_of(name) / "package.json").read_text())
    [version] = (package.get("dependencies") or package["optionalDependencies"]).values()
    return str(version)


def why_missing(name: str) -> str:
    """Why this agent cannot be started; empty if it can."""
    package = package_of(name)
    if not (INSTALLED / package / ".ready").exists():
        return f"{name} is not installed: make agents"
    pinned = (PACKAGES / package / "package-lock.json").read_bytes()
    if (INSTALLED / package / "package-lock.json").read_bytes() != pinned:
        return f"{name} is installed in another version: make agents"
    programs = [word[1:] for word in RECIPES[name].program if word.startswith("@")] if name in RECIPES else []
    if not all((INSTALLED / package / "node_modules" / path).exists() for path in programs):
        return f"{name} has no program for this machine"
    return ""


def prepare(name: str, folder: Path, url: str) -> Prepared:
    """Writes the agent's files into a new home below `folder`; a second call finds the home as the agent left it."""
    recipe = RECIPES[name]
    home = folder / "home"
    for path, content in recipe.files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(content.replace("{url}", url))
    # Not a parent of the home: Codex refuses to put its sandbox's programs below the folder for temporary files.
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    modules = INSTALLED / package_of(name) / "node_modules"
    command = tuple(str(modules / word[1:]) if word.startswith("@") else word for word in recipe.program)
    env = {key: value.replace("{url}", url).replace("{home}", str(home)) for key, value in recipe.env.items()}
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    return Prepared(name, command, env, {**kept, "HOME": str(home), "TMPDIR": str(temporary), "NO_COLOR": "1"})
