"""A page that an agent asks to open: the host of its address, warnings about it, and the start of a browser.

The browser is detached and without our streams, so that it can neither write into our output nor be ended by our
Ctrl-C. The page itself is never fetched (rules 308, 322, 323).
"""

from __future__ import annotations

import os
import re
from typing import Final

_SCHEMES: Final = ("http", "https")
_ADDRESS: Final = re.compile(r"[0-9.]+|\[.*\]")
_BROWSER_SECONDS: Final = 8.0  # the standard library waits five itself for a browser that was not running


def is_web(url: str) -> bool:
    """Return whether a browser may open this: an http or https address with a host, all of it visible."""
    return _scheme(url) in _SCHEMES and bool(inspect(url)[0]) and url.isprintable() and " " not in url


def inspect(url: str) -> tuple[str, list[str]]:
    """Return the host a browser would connect to, and warnings about the address."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, has_user, port = parts.hostname or "", parts.username is not None, parts.port
    except ValueError:
        return "", ["this is not a valid address"]
    warnings = []
    if _scheme(url) == "http":
        warnings.append("not encrypted (http): others can read and change what you see")
    if has_user or "\\" in url:
        warnings.append("the address is written to look like another host; the real one is shown above")
    if not host.isascii() or any(piece.startswith("xn--") for piece in host.split(".")):
        warnings.append("the host contains letters that look like other letters")
    if _ADDRESS.fullmatch(host) or ":" in host:
        warnings.append("the host is an IP address, not a name")
    if "\\" in url:
        host = ""  # browsers and parsers disagree on what the host is: nothing is opened
    return host + (f":{port}" if port is not None and host else ""), warnings


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def open_in_browser(url: str) -> bool:
    """Open a page in the user's browser; return False if no browser can be shown here."""
    import subprocess
    import sys

    if sys.platform == "linux" and not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        return False  # only text browsers are left, which would take over the terminal
    program = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", program, url],
            stdin=quiet, stdout=quiet, stderr=quiet, timeout=_BROWSER_SECONDS, start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True  # it runs, and in the foreground
    except OSError:
        return False
    return done.returncode == 0
