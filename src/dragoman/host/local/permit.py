"""Whether this program may use or start the shared host, and how.

A host outlives its starter and passes on everything the starter has: limits, a sandbox, the control group of a CI job.
So it is not started from a place that is limited itself. `DRAGOMAN_HOST` decides otherwise: `on` or `off`. Pure, but
for the readers at the end.
"""

import os

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

# Parts of the path of a control group that belongs to a job which ends.
_JOBS = ("actions_job", "gitlab-runner", "buildkite", "jenkins", "circleci", "/ci-")
_ON = "set DRAGOMAN_HOST=on to start it all the same"


def is_switched_off(environment: "Mapping[str, str]") -> bool:
    """Whether the user wants no host at all, not even one that runs."""
    return environment.get("DRAGOMAN_HOST", "").lower() in ("off", "0", "no")


def why_not_start(
    environment: "Mapping[str, str]", *, status: str = "", first_status: str = "", control_group: str = ""
) -> str:
    """Return why no host is started from here, as a sentence; empty if one may be.

    Args:
        environment: Of this program.
        status: The text of `/proc/self/status`.
        first_status: The text of `/proc/1/status`: a limit that all programs of a container have is not ours.
        control_group: The text of `/proc/self/cgroup`.
    """
    if environment.get("DRAGOMAN_HOST", "").lower() in ("on", "1", "yes"):
        return ""
    if environment.get("CI", "").lower() not in ("", "0", "false"):
        return f"CI is set, and a host would outlive the job; {_ON}"
    if environment.get("DRAGOMAN_CHILD"):
        return f"this program was started by an agent, and ends with it; {_ON}"
    for member, what in (("Seccomp", "filtered system calls"), ("NoNewPrivs", "no new privileges")):
        mine, others = _member(status, member), _member(first_status, member)
        if mine not in ("", "0") and mine != others:
            return f"this program is in a sandbox ({what}), which a host would inherit; {_ON}"
    job = next((part for part in _JOBS if part in control_group), "")
    return f"this program belongs to a job of a CI service ({job}); {_ON}" if job else ""


def _member(status: str, name: str) -> str:
    return next((line.partition(":")[2].strip() for line in status.splitlines() if line.startswith(f"{name}:")), "")


def why_not_start_here() -> str:
    """Return the same for this program, as it is."""
    return why_not_start(
        os.environ,
        status=_read("/proc/self/status"),
        first_status=_read("/proc/1/status"),
        control_group=_read("/proc/self/cgroup"),
    )


def scope_command(environment: "Mapping[str, str]", *, has_program: bool, runtime: str) -> list[str]:
    """Return what to put before the host's command, so that the end of a login does not end it; empty for nothing.

    Args:
        environment: Of this program.
        has_program: Whether `systemd-run` is installed.
        runtime: The runtime folder of the user, where the user's systemd can be reached.
    """
    if not has_program or not os.path.exists(f"{runtime}/systemd/private"):
        return []
    if environment.get("DBUS_SESSION_BUS_ADDRESS", "") == "" and not os.path.exists(f"{runtime}/bus"):
        return []
    return ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--"]


def logout_warning(environment: "Mapping[str, str]", *, has_logind: bool, lingers: bool, runs: bool) -> str:
    """Return the note for a user whose turn would end with the login; empty if it would not."""
    if not (has_logind and runs and environment.get("SSH_CONNECTION")) or lingers:
        return ""
    return "this machine ends your programs at logout; `loginctl enable-linger` keeps them"


def logout_warning_here(*, runs: bool) -> str:
    """Return the same for this user and machine."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    return logout_warning(
        os.environ,
        has_logind=os.path.exists(f"/run/systemd/users/{os.geteuid()}"),
        lingers=bool(name) and os.path.exists(f"/var/lib/systemd/linger/{name}"),
        runs=runs,
    )


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
