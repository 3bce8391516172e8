"""The environment of a sandboxed command: without keys, and without what leads out of the sandbox or starts a program.

Not a boundary: what a command needs can still be named by the caller afterwards. It costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SECRET: Final = re.compile(r"(^|_)(KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?)$")
_REMOVED: Final = frozenset(
    (
        # Sockets of services outside.
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"),
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DOCKER_HOST", "KUBECONFIG", "TMUX", "XDG_RUNTIME_DIR"),
        # What makes a shell, the dynamic linker, Python, Perl, Node or git run something first.
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "PYTHONSTARTUP"),
        *("PERL5OPT", "PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS"),
        *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND"),
        *("GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_WORK_TREE", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"),
        # Credentials under other names.
        *("AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS", "DATABASE_URL", "NETRC", "PGPASSWORD", "MYSQL_PWD"),
    )
)
_REMOVED_PREFIX: Final = ("GIT_CONFIG", "BASH_FUNC_")


def scrub(env: Mapping[str, str], temporary: str) -> dict[str, str]:
    """Return `env` without secrets and without variables that lead out or run something, and with a private TMPDIR."""
    kept = {
        name: value
        for name, value in env.items()
        if name not in _REMOVED and not name.startswith(_REMOVED_PREFIX) and not _SECRET.search(name.upper())
    }
    return {**kept, "TMPDIR": temporary, "TMP": temporary, "TEMP": temporary}
