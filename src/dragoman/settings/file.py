"""One settings file, `settings.json`: its members, and what is wrong with one that cannot be used.

The same members are known in the user's file and in a project's file. A project's file is written by other people: what
it may not decide is removed while it is read and reported as a note, so that no caller can use it by mistake.
Which of two files applies is decided in `effective.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.settings.documents import did_you_mean, read_document
from dragoman.settings.project import PROJECT_FOLDER
from dragoman.settings.servers import AgentServer, check_mcp_server, mcp_server_of_project, read_agent_server

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.policy import Action
    from dragoman.settings.documents import Document
    from dragoman.settings.hooks import EditCommand, Hook

Owner = Literal["user", "project"]

FILE_NAME: Final = "settings.json"
_KNOWN_KINDS: Final = ("reads", "changes", "sends", "project")
TOOL_SEARCH: Final = ("auto", "on", "off")
_MEMBERS: Final = (
    *("agent_servers", "default_agent", "rules", "mcp_servers", "registry"),
    *("model", "title_model", "mode", "restore_protected_files", "safe_commands", "ledger"),
    *("system_prompt", "append_system_prompt", "serve", "host", "subagents", "hooks", "after_edit", "ui"),
    *("tool_search", "known"),
)


class RuleTexts(Struct, frozen=True):
    """Permission rules as they are written; `dragoman.policy` parses them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()

    def of(self, action: Action) -> tuple[str, ...]:
        """Return the rules of one action."""
        return {"allow": self.allow, "deny": self.deny, "ask": self.ask}[action]


class HostMembers(Struct, frozen=True):
    """The member `host`: how the local host behaves."""

    idle_seconds: float = 300.0
    """`idle`: it ends after so many seconds without a client and without work."""
    keep_seconds: float = 24 * 3600.0
    """`keep`: it stays for so many seconds after the last prompt of a session that its agent cannot bring back."""
    env: tuple[str, ...] = ()
    """Names of variables that its agents get from the client of their session, besides the usual ones."""


class UiMembers(Struct, frozen=True):
    """The member `ui`: how the terminal client looks and behaves. The values are described in `ui.py`."""

    screen: str = "full"
    keys: dict[str, tuple[str, ...]] = {}
    """Keys by the name of an action; the terminal client knows which there are."""
    notifications: str = "all"
    ascii: bool | None = None
    """None: as the terminal needs it."""
    thoughts: str = "closed"
    paints: int | None = None
    """Per second; None: 20, and 8 over SSH."""
    mouse: bool = True
    theme: str = "auto"
    pictures: str = "auto"


class SubagentMember(Struct, frozen=True):
    """An entry of `subagents`: another agent that the built-in agent may run as a subagent, in the sandbox."""

    agent: str
    description: str = ""
    """When to use it; models read this."""


class SettingsFile(Struct, frozen=True):
    """The content of one settings file; empty if the file does not exist."""

    path: Path
    owner: Owner
    servers: dict[str, AgentServer] = {}
    default_agent: str = ""
    rules: RuleTexts = RuleTexts()
    """With those that `known` stands for: what programs of the user do."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    registry: str = ""
    """The address or file of the ACP registry; empty for the official one."""
    notes: tuple[str, ...] = ()
    """Sentences for the user about members that were ignored, and why."""
    model: str = ""
    """Of the built-in agent, as are the next two."""
    title_model: str = ""
    mode: str = ""
    restores_protected: bool = False
    """`restore_protected_files`: protected files that were changed without a permission are put back."""
    system_prompt: str = ""
    """Text, or the path of a file in the configuration folder; takes the place of the agent's own text."""
    append_system_prompt: str = ""
    safe_commands: bool = True
    """Whether the built-in agent runs commands that only read files of the project without asking."""
    uses_ledger: bool = True
    """`ledger`: whether `dragoman exec` writes its sessions into the ledger."""
    serve_limits: dict[str, float] = {}
    """`serve.limits`: how much one token of `dragoman serve` may use; the names are checked there."""
    serve_oidc: dict[str, Any] = {}
    """`serve.oidc`: which provider logs users of `dragoman serve` in; the members are checked there."""
    host: HostMembers = HostMembers()
    ui: UiMembers = UiMembers()
    """How the terminal client looks and behaves."""
    subagents: dict[str, SubagentMember] = {}
    tool_search: str = "auto"
    """Whether the built-in agent lists the tools of MCP servers to the model, or lets it search them."""
    hooks: tuple[Hook, ...] = ()
    """Commands of the user or the project at certain moments; those of a project are proposals."""
    edit_commands: tuple[EditCommand, ...] = ()
    """`after_edit`: formatters and checks for changed files; those of a project are proposals."""


def user_file(config_dir: Path) -> Path:
    """Return the path of the user's settings."""
    return config_dir / FILE_NAME


def project_file(project: Path) -> Path:
    """Return the path of a project's settings."""
    return project / PROJECT_FOLDER / FILE_NAME


def read_settings_file(path: Path, owner: Owner) -> SettingsFile:
    """Read one settings file.

    Raises:
        ConfigError: it is wrong; the message starts with `file:line:column` and says what to write instead.
    """
    # Comments are for the people who write a file by hand. A project's file is also read by other programs.
    document = read_document(path, has_comments=owner == "user", may_repeat=False)
    return SettingsFile(path, owner) if document is None else _Reader(document, owner).settings()


class _Reader:
    """Checks the members of one file and collects the notes about it."""

    def __init__(self, document: Document, owner: Owner) -> None:
        self._document = document
        self._owner = owner
        self._notes: list[str] = []
        if not isinstance(document.value, dict):
            raise document.error('settings must be an object: {"agent_servers": {...}}')
        self._members: dict[str, Any] = document.value

    def settings(self) -> SettingsFile:
        for name in self._members:
            if name not in _MEMBERS:
                hint = did_you_mean(name, _MEMBERS) or f"known settings: {', '.join(_MEMBERS)}"
                self._notes.append(f"{self._document.place(name)}: {name!r} is not a setting; {hint}")
        servers = {
            name: read_agent_server(self._document, ("agent_servers", name), name, value, notes=self._notes)
            for name, value in self._object("agent_servers").items()
        }
        mcp_servers = dict(self._object("mcp_servers"))
        for name, value in self._object("mcp_servers").items():
            check_mcp_server(self._document, ("mcp_servers", name), value)
            if self._owner == "project":
                keys = ("mcp_servers", name)
                mcp_servers[name] = mcp_server_of_project(self._document, keys, value, self._notes)
        return SettingsFile(
            self._document.path,
            self._owner,
            servers,
            self._text("default_agent"),
            self._rules(),
            mcp_servers,
            self._user_text("registry", "choose the registry"),
            model=self._user_text("model", "choose the model"),
            title_model=self._user_text("title_model", "choose the model"),
            mode=self._user_text("mode", "choose the mode"),
            restores_protected=self._user_flag("restore_protected_files"),
            system_prompt=self._user_text("system_prompt", "write the system prompt"),
            append_system_prompt=self._user_text("append_system_prompt", "write the system prompt"),
            safe_commands=self._user_flag("safe_commands", True),
            uses_ledger=self._user_flag("ledger", True),
            serve_limits=self._serve_limits(),
            serve_oidc=self._serve_oidc(),
            host=self._host(),
            ui=self._ui(),
            subagents=self._subagents(),
            tool_search=self._tool_search(),
            hooks=self._hooks(),
            edit_commands=self._edit_commands(),
            notes=tuple(self._notes),
        )

    def _serve_limits(self) -> dict[str, float]:
        serve = self._object("serve")
        if serve and self._owner == "project":
            place = self._document.place("serve")
            self._notes.append(f"{place}: a project's file cannot set serve; write it in your own settings")
            return {}
        for name in serve:
            if name not in ("limits", "oidc"):
                raise self._document.error(f"{name!r} is not a setting of serve; use limits or oidc", "serve", name)
        limits = serve.get("limits", {})
        if not isinstance(limits, dict):
            raise self._document.error('limits must be an object: {"connections": 16}', "serve", "limits")
        for name, value in limits.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise self._document.error("a limit must be a number of 0 or more", "serve", "limits", name)
        return dict(limits)

    def _serve_oidc(self) -> dict[str, Any]:
        found = self._object("serve").get("oidc", {})
        if not isinstance(found, dict):
            raise self._document.error('oidc must be an object: {"issuer": "https://..."}', "serve", "oidc")
        return {} if self._owner == "project" else dict(found)

    def _host(self) -> HostMembers:
        members = self._object("host")
        if members and self._owner == "project":
            place = self._document.place("host")
            self._notes.append(f"{place}: a project's file cannot change the host; write it in your own settings")
            return HostMembers()
        for name in members:
            if name not in ("idle", "keep", "env"):
                raise self._document.error(
                    f"{name!r} is not a setting of the host; use idle, keep or env", "host", name
                )
        usual, env = HostMembers(), members.get("env", [])
        times = {"idle": usual.idle_seconds, "keep": usual.keep_seconds}
        for name, seconds in times.items():
            found = members.get(name, seconds)
            if isinstance(found, bool) or not isinstance(found, int | float) or found < 0:
                raise self._document.error(f"{name} must be a number of seconds, such as {seconds:g}", "host", name)
            times[name] = float(found)
        if not isinstance(env, list) or not all(isinstance(name, str) for name in env):
            raise self._document.error('env must be a list of names, such as ["MY_TOKEN"]', "host", "env")
        return HostMembers(times["idle"], times["keep"], tuple(env))

    def _tool_search(self) -> str:
        wanted = self._user_text("tool_search", "choose how tools are found") or "auto"
        if wanted not in TOOL_SEARCH:
            raise self._document.error(f"tool_search must be {', '.join(TOOL_SEARCH[:-1])} or off", "tool_search")
        return wanted

    def _ui(self) -> UiMembers:
        members = self._object("ui")
        if members and self._owner == "project":
            place = self._document.place("ui")
            self._notes.append(
                f"{place}: a project's file cannot change the terminal client; write it in your own settings"
            )
            return UiMembers()
        if not members:
            return UiMembers()
        from dragoman.settings.ui import read_ui  # only users who changed it pay for its checks

        return read_ui(self._document, members)

    def _subagents(self) -> dict[str, SubagentMember]:
        members = self._object("subagents")
        if members and self._owner == "project":
            place = self._document.place("subagents")
            self._notes.append(f"{place}: a project's file cannot allow subagents; write them in your own settings")
            return {}
        found: dict[str, SubagentMember] = {}
        for name, value in members.items():
            if not isinstance(value, dict) or not isinstance(value.get("agent"), str) or not value["agent"]:
                example = '{"agent": "claude", "description": "when to use it"}'
                raise self._document.error(f"a subagent must be an object: {example}", "subagents", name)
            for member, text in value.items():
                if member not in ("agent", "description"):
                    hint = did_you_mean(member, ("agent", "description")) or "use agent and description"
                    raise self._document.error(
                        f"{member!r} is not a setting of a subagent; {hint}", "subagents", name, member
                    )
                if not isinstance(text, str):
                    raise self._document.error(f"{member} must be a string", "subagents", name, member)
            found[name] = SubagentMember(value["agent"], value.get("description", ""))
        return found

    def _hooks(self) -> tuple[Hook, ...]:
        if "hooks" not in self._members:
            return ()
        from dragoman.settings.hooks import read_hooks  # most users have none

        return read_hooks(self._document, self._members["hooks"])

    def _edit_commands(self) -> tuple[EditCommand, ...]:
        if "after_edit" not in self._members:
            return ()
        from dragoman.settings.hooks import read_edit_commands

        return read_edit_commands(self._document, self._members["after_edit"])

    def _rules(self) -> RuleTexts:
        rules = self._object("rules")
        for name in rules:
            if name not in ("allow", "deny", "ask"):
                raise self._document.error(f"{name!r} is not a list of rules; use allow, deny or ask", "rules", name)
        texts = {name: self._rule_list(name, rules.get(name, [])) for name in ("allow", "deny", "ask")}
        if self._owner == "project" and texts["allow"]:
            place = self._document.place("rules", "allow")
            self._notes.append(
                f"{place}: a project's file cannot allow anything: {', '.join(texts['allow'])}; "
                "write what you want to allow in your own settings"
            )
            texts["allow"] = ()
        return RuleTexts(**{**texts, "allow": (*texts["allow"], *self._known())})

    def _known(self) -> tuple[str, ...]:
        """Return the rules that `known` stands for: a program, and what it does."""
        members = self._object("known")
        if members and self._owner == "project":
            place = self._document.place("known")
            self._notes.append(
                f"{place}: a project's file cannot state what programs do; write it in your own settings"
            )
            return ()
        for name, kind in members.items():
            if kind not in _KNOWN_KINDS:
                raise self._document.error(f"what {name} does must be {', '.join(_KNOWN_KINDS)}", "known", name)
            if not name or set(name) & set("/: \t"):
                raise self._document.error("the name of a program must not have a folder or a blank", "known", name)
        return tuple(f"known:{name}:{kind}" for name, kind in members.items())

    def _rule_list(self, name: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self._document.error(f'{name} must be a list of rules, such as ["edit:src/**"]', "rules", name)
        for index, text in enumerate(value):
            if not isinstance(text, str):
                raise self._document.error('a rule must be a string, such as "edit:src/**"', "rules", name, index)
        return tuple(value)

    def _user_text(self, name: str, what: str) -> str:
        """Read a string that counts only in the user's file."""
        value = self._text(name)
        if value and self._owner == "project":
            place = self._document.place(name)
            self._notes.append(f"{place}: a project's file cannot {what}; write it in your own settings")
            return ""
        return value

    def _user_flag(self, name: str, default: bool = False) -> bool:
        """Read a truth value that counts only in the user's file."""
        value = self._members.get(name, default)
        if not isinstance(value, bool):
            raise self._document.error(f"{name} must be true or false", name)
        if value != default and self._owner == "project":
            place = self._document.place(name)
            self._notes.append(f"{place}: a project's file cannot set {name}; write it in your own settings")
            return default
        return value

    def _text(self, name: str) -> str:
        value = self._members.get(name, "")
        if not isinstance(value, str):
            raise self._document.error(f"{name} must be a string", name)
        return value

    def _object(self, name: str) -> dict[str, Any]:
        value = self._members.get(name, {})
        if not isinstance(value, dict):
            raise self._document.error(f'{name} must be an object: {{"NAME": {{...}}}}', name)
        return value
