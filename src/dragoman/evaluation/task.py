"""A task: a folder in Harbor's form, and whether it can be run here.

Owns the meaning of the folder and of `[metadata.dragoman]`. `task.toml` has the fields of Harbor's schema
1.0 to 1.4. A task that needs something this program does not have is read all the same: `obstacles` lists what, line
by line.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BUILT_IN: Final = Path(__file__).parent / "tasks"
SOLUTIONS: Final = {"right": "solution", "wrong": "solution-wrong"}
SCRIPT: Final = "script.txt"
Solution = Literal["right", "wrong"]
# Harbor's canary lines say that a text must not be used for training; they do not belong to the request.
_CANARY_LINE: Final = re.compile(r"^\s*(?:<!--|#|//).*canary.*$", re.IGNORECASE)
_KNOWN: Final[dict[str, frozenset[str]]] = {
    "": frozenset(
        [
            "schema_version",
            "version",
            "artifacts",
            "source",
            "task",
            "metadata",
            "agent",
            "verifier",
            "environment",
            "solution",
            "steps",
            "multi_step_reward_strategy",
        ]
    ),
    "task": frozenset(["name", "version", "description", "authors", "keywords"]),
    "agent": frozenset(["timeout_sec", "user", "network_mode"]),
    "verifier": frozenset(["timeout_sec", "env", "user", "network_mode", "environment_mode", "environment"]),
    "environment": frozenset(
        [
            "docker_image",
            "build_timeout_sec",
            "cpus",
            "memory_mb",
            "storage_mb",
            "gpus",
            "gpu_types",
            "network_mode",
            "allowed_hosts",
            "allow_internet",
            "env",
            "workdir",
            "skills_dir",
            "healthcheck",
            "mcp_servers",
            "memory",
            "storage",
        ]
    ),
    "solution": frozenset({"env"}),
}
# What only a container can give. A task that is marked for the host states with its mark that it runs without.
_CONTAINER: Final[dict[str, dict[str, str]]] = {
    "environment": {
        "docker_image": "the image is a container's",
        "gpus": "graphics processors are given to a container",
        "gpu_types": "graphics processors are given to a container",
        "network_mode": "the network is restricted by a container",
        "allowed_hosts": "the network is restricted by a container",
        "allow_internet": "the network is restricted by a container",
        "workdir": "the working folder is a container's",
        "skills_dir": "the folder of skills is a container's",
        "healthcheck": "services run in a container",
        "env": "the variables are a container's",
        "memory": "the limit is a container's",
        "memory_mb": "the limit is a container's",
        "cpus": "the limit is a container's",
        "storage": "the limit is a container's",
        "storage_mb": "the limit is a container's",
    },
    "agent": {
        "user": "the user is a container's",
        "network_mode": "the network is restricted by a container",
    },
    "verifier": {
        "user": "the user is a container's",
        "network_mode": "the network is restricted by a container",
        "environment": "the judge has a container of its own",
    },
}
# On the host these cannot be honoured, whatever the mark says.
_NEVER_ON_HOST: Final = frozenset(
    {
        ("environment", "docker_image"),
        ("environment", "gpus"),
        ("environment", "gpu_types"),
        ("environment", "skills_dir"),
        ("environment", "healthcheck"),
        ("environment", "allowed_hosts"),
        ("agent", "user"),
        ("verifier", "user"),
        ("verifier", "environment"),
    }
)
_FILES: Final = (
    ("environment/Dockerfile", "the start state is built in a container"),
    ("environment/docker-compose.yaml", "the start state is several containers"),
    ("environment/docker-compose.yml", "the start state is several containers"),
)


class Commit(Struct, frozen=True, forbid_unknown_fields=True):
    """One commit of the history that a run starts with."""

    message: str
    paths: tuple[str, ...] = ()
    """Files of the start state that come in with it; the last commit takes all that are left."""


class TaskSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[metadata.dragoman]`: how a task is run without a container."""

    host: bool = False
    may_change: tuple[str, ...] = ()
    """Patterns of the files that a solution may change, create or delete."""
    may_commit: bool = False
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    allows_all: bool = False
    """Everything that no rule denies is allowed, also what no rule can cover, such as tools of MCP servers."""
    programs: tuple[str, ...] = ()
    """Programs that have to be on the PATH."""
    history: tuple[Commit, ...] = ()
    env: dict[str, str] = {}
    """Variables of the agent; `{canary}` and `{listener}` stand for what the run chooses."""
    has_remote: bool = False
    """The repository has a bare `origin` next to it."""
    needs_loopback: bool = False
    """Commands of the agent reach each other or the runner at 127.0.0.1, which a sandbox would prevent."""


class McpServer(Struct, frozen=True):
    """A server of `[[environment.mcp_servers]]`."""

    name: str
    transport: str = "sse"
    url: str = ""
    command: str = ""
    args: tuple[str, ...] = ()


class Task(Struct, frozen=True, kw_only=True):
    """One task, as its folder describes it."""

    name: str
    folder: Path
    instruction: str
    description: str = ""
    category: str = ""
    difficulty: str = ""
    schema_version: str = ""
    agent_seconds: float = 600.0
    judge_seconds: float = 600.0
    judge_env: dict[str, str] = {}
    mcp_servers: tuple[McpServer, ...] = ()
    settings: TaskSettings = TaskSettings()
    obstacles: tuple[str, ...] = ()
    """Why it cannot be run here; empty if it can."""
    notes: tuple[str, ...] = ()
    """What `task.toml` states and this program does not use."""

    def script(self, solution: Solution) -> Path:
        """Return the file that plays a solution with the scripted model."""
        return self.folder / SOLUTIONS[solution] / SCRIPT

    @property
    def missing_programs(self) -> tuple[str, ...]:
        """The programs it needs that are not on the PATH."""
        return tuple(name for name in self.settings.programs if shutil.which(name) is None)

    def reasons_to_skip(self, *, is_sandboxed: bool = False) -> tuple[str, ...]:
        """Return why it is not run now: the obstacles, missing programs, and what a sandbox would prevent."""
        missing = tuple(f"the program {name} is not on the PATH" for name in self.missing_programs)
        closed = ("it uses 127.0.0.1, which commands in the sandbox cannot reach",)
        return self.obstacles + missing + (closed if is_sandboxed and self.settings.needs_loopback else ())


def load_tasks(folders: Iterable[Path] = (), names: Iterable[str] = ()) -> list[Task]:
    """Read tasks: those that come with this program, or those of `folders`; `names` chooses some of them.

    A folder is one task, or holds one task per sub-folder.

    Raises:
        ConfigError: a folder is not there or has no task, or a name is unknown.
    """
    places = list(folders) or [BUILT_IN]
    found = [load_task(folder) for place in places for folder in _task_folders(place)]
    wanted = list(dict.fromkeys(names))
    known = {task.name: task for task in found}
    for name in wanted:
        if name not in known:
            raise ConfigError(f"there is no task {name!r}; the tasks are {', '.join(sorted(known))}")
    return [known[name] for name in wanted] if wanted else sorted(found, key=lambda task: task.name)


def _task_folders(place: Path) -> list[Path]:
    if _is_task(place):
        return [place]
    try:
        inside = sorted(folder for folder in place.iterdir() if folder.is_dir() and _is_task(folder))
    except OSError as error:
        raise ConfigError(f"{place}: no task can be read here: {error.strerror or error}") from None
    if not inside:
        raise ConfigError(f"{place}: there is no task here; a task is a folder with a file task.toml")
    return inside


def _is_task(folder: Path) -> bool:
    return (folder / "task.toml").is_file() or (folder / "task.yaml").is_file()


def load_task(folder: Path) -> Task:
    """Read one task.

    Raises:
        ConfigError: a file of it cannot be read or is not in its form; the message names the file.
    """
    name = folder.name
    if not (folder / "task.toml").is_file():
        reason = "task.yaml: this is a task of Terminal-Bench 1, which needs its own containers and runner"
        return Task(name=name, folder=folder, instruction="", obstacles=(reason,))
    written = _toml(folder / "task.toml")
    about = _table(written, "task", folder)
    metadata = _table(written, "metadata", folder)
    settings = _host_settings(metadata, folder)
    environment = _table(written, "environment", folder)
    obstacles = find_obstacles(written, folder, is_host=settings.host)
    if settings.host and not written.get("steps"):
        obstacles += _missing_files(folder)
    return Task(
        name=name,
        folder=folder,
        instruction="" if written.get("steps") else _instruction(folder / "instruction.md"),
        description=str(about.get("description") or metadata.get("description") or ""),
        category=str(metadata.get("category") or ""),
        difficulty=str(metadata.get("difficulty") or ""),
        schema_version=str(written.get("schema_version") or written.get("version") or ""),
        agent_seconds=_seconds(written, "agent", folder),
        judge_seconds=_seconds(written, "verifier", folder),
        judge_env={
            key: str(value) for key, value in _table(_table(written, "verifier", folder), "env", folder).items()
        },
        mcp_servers=_servers(environment, folder),
        settings=settings,
        obstacles=tuple(obstacles),
        notes=tuple(unknown_fields(written)),
    )


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _table(parent: dict[str, Any], name: str, folder: Path) -> dict[str, Any]:
    found = parent.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{folder / 'task.toml'}: {name} must be a table")
    return found


def _host_settings(metadata: dict[str, Any], folder: Path) -> TaskSettings:
    try:
        return msgspec.convert(metadata.get("dragoman", {}), TaskSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{folder / 'task.toml'}: metadata.dragoman: {error}") from None


def _servers(environment: dict[str, Any], folder: Path) -> tuple[McpServer, ...]:
    try:
        return msgspec.convert(environment.get("mcp_servers", ()), tuple[McpServer, ...])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{folder / 'task.toml'}: environment.mcp_servers: {error}") from None


def _seconds(written: dict[str, Any], part: str, folder: Path) -> float:
    found = _table(written, part, folder).get("timeout_sec", 600.0)
    if not isinstance(found, int | float) or isinstance(found, bool) or found <= 0:
        raise ConfigError(f"{folder / 'task.toml'}: {part}.timeout_sec must be a number above 0")
    return float(found)


def _instruction(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    while lines and (not lines[0].strip() or _CANARY_LINE.match(lines[0])):
        lines.pop(0)
    text = "\n".join(lines).strip()
    if not text:
        raise ConfigError(f"{path}: the instruction is empty")
    return text


def _missing_files(folder: Path) -> list[str]:
    needed = ("environment/files", "tests/test.sh")
    return [f"{name} is missing" for name in needed if not (folder / name).exists()]


def find_obstacles(written: dict[str, Any], folder: Path, *, is_host: bool) -> list[str]:
    """Return what prevents a run without a container, one line for each file and field."""
    found: list[str] = []
    if not is_host:
        found += [f"{name}: {why}" for name, why in _FILES if (folder / name).exists()]
        found.append("metadata.dragoman.host is not true: the judge expects the folders of a container (/tests, /logs)")
    for part, fields in _CONTAINER.items():
        given = written.get(part)
        if not isinstance(given, dict):
            continue
        found += [
            f"{part}.{field} = {_short(given[field])}: {why}"
            for field, why in fields.items()
            if given.get(field) not in (None, 0, "", [], {}) and (not is_host or (part, field) in _NEVER_ON_HOST)
        ]
        if part == "verifier" and given.get("environment_mode") == "separate":
            found.append('verifier.environment_mode = "separate": the judge has a container of its own')
    if written.get("steps"):
        found.append(f"steps: a task of {len(written['steps'])} steps is not run; only tasks with one instruction are")
    return found


def unknown_fields(written: dict[str, Any]) -> list[str]:
    """Return the fields that no known schema has; they are read and not used."""
    found = [f"{name} is not a field of task.toml" for name in written if name not in _KNOWN[""]]
    for part, known in _KNOWN.items():
        given = written.get(part) if part else None
        if isinstance(given, dict):
            found += [f"{part}.{name} is not a field of task.toml" for name in given if name not in known]
    return found


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:59]}…"
