"""A small page that was built, for tests of the way in: the files and the table as a build makes them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

FILES = {
    "/": ("index.html", "text/html; charset=utf-8", "no-store", b"<!doctype html><title>Dragoman</title>" + b" " * 500),
    "/assets/main.0a1b2c.js": ("assets/main.0a1b2c.js", "text/javascript; charset=utf-8", "immutable", b"void 0;" * 90),
    "/manifest.webmanifest": ("manifest.webmanifest", "application/manifest+json", "no-cache", b"{}"),
    "/sw.js": ("sw.js", "text/javascript; charset=utf-8", "no-cache", b"/* worker */"),
    "/icon-192.png": ("icon-192.png", "image/png", "no-cache", b"\x89PNG"),
}


def build_page(folder: Path) -> Path:
    """Write the files and their table; gives the folder."""
    table = {}
    for path, (name, kind, cache, body) in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        table[path] = {"file": name, "type": kind, "sha256": hashlib.sha256(body).hexdigest(), "cache": cache}
    (folder / "table.json").write_text(json.dumps({"version": "1", "files": table}))
    (folder / "secret.txt").write_text("not in the table")
    return folder
