"""The fields of Harbor's `task.toml`, schema 1.0 to 1.4, and what each needs that a run without a container lacks. Pure
but for a look at which files the task has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

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
