"""How the optional parts of this installation are installed: the one place that spells a `pip install` of the package.

An installation from a clone is extended from that clone: the package index has another version of it, or none.
"""

import sys


def install_command(extra: str) -> str:
    """Return the command line that adds an extra, such as `agent`, to this installation."""
    folder, is_editable = _source()
    package = folder or "dragoman"
    flag = "-e " if is_editable else ""
    return f"{_pip()} install {flag}'{package}[{extra}]'"


def _pip() -> str:
    """Return the pip of this Python: a plain one may belong to another."""
    return "pip" if sys.prefix == sys.base_prefix else f"{sys.executable} -m pip"


def _source() -> tuple[str, bool]:
    """Return the folder from which the package was installed, "" if none, and whether it follows that folder."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        written = distribution("dragoman").read_text("direct_url.json")
        found = json.loads(written) if written else {}
        url = urlsplit(found.get("url", ""))
        is_folder = url.scheme == "file" and "dir_info" in found
    # It may run from its sources, and the file may be damaged.
    except (PackageNotFoundError, OSError, ValueError, AttributeError):
        return "", False
    return (unquote(url.path), bool(found["dir_info"].get("editable"))) if is_folder else ("", False)
