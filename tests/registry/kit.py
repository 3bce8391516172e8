"""What the tests of the registry share: folders of a user, a server on this machine, packages, archives."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from dragoman.registry.agents import Agents, Editor, load_agents
from dragoman.registry.catalogue import Catalogue, read_catalogue
from dragoman.registry.install import this_platform
from dragoman.settings import load_settings

# The smallest agents that answer `initialize`, in the languages of the two package managers and of a bare system.
ANSWER = '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentInfo":{"name":"lark","version":"0.4.2"}}}'
PYTHON_AGENT = f"""\
import json, sys
def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print('{ANSWER}' % json.dumps(message["id"]), flush=True)
"""
NODE_AGENT = f"""\
#!/usr/bin/env node
require("readline").createInterface({{input: process.stdin}}).on("line", (line) => {{
  const message = JSON.parse(line)
  if ("id" in message) console.log('{ANSWER}'.replace("%s", JSON.stringify(message.id)))
}})
"""
SHELL_AGENT = "#!/bin/sh\nexec python3 -c '\n" + PYTHON_AGENT.replace("'", '"""') + "main()\n'\n"


def own_names(agents: Agents) -> tuple[str, ...]:
    """The names of agents that were configured or installed; well-known agents are always among the names."""
    return tuple(entry.name for entry in agents.entries() if entry.source != "known")


class Home:
    """The directories of one user and one project."""

    def __init__(self, tmp_path: Path) -> None:
        self.config, self.data, self.cache = (tmp_path / name for name in ("config", "data", "cache"))
        self.project = tmp_path / "project"
        self.project.mkdir(parents=True)
        self.zed = tmp_path / "zed.json"
        self.jetbrains = tmp_path / "acp.json"

    def user(self, settings: object) -> Path:
        return write(self.config / "settings.json", settings)

    def repository(self, settings: object) -> Path:
        return write(self.project / ".dragoman" / "settings.json", settings)

    def load(self) -> Agents:
        editors: dict[Editor, Path] = {"zed": self.zed, "jetbrains": self.jetbrains}
        settings = load_settings(self.config, self.project)
        return load_agents(settings, self.data, self.cache, editors=editors)


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


class Site:
    """A server on this machine: path -> content, or (status, headers, content)."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.pages: dict[str, bytes | tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []


@contextmanager
def site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place.asked.append(self.path)
            page = place.pages.get(self.path, (404, {}, b"not here"))
            status, headers, content = (200, {}, page) if isinstance(page, bytes) else page
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    place = Site(f"http://127.0.0.1:{server.server_address[1]}")
    thread.start()
    try:
        yield place
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tar(*members: tuple[str, bytes] | tarfile.TarInfo, packed: str = "gz") -> bytes:
    """An archive of files (name, content) and of anything else as it is."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content = member
            header = tarfile.TarInfo(name)
            header.size, header.mode = len(content), 0o755
            archive.addfile(header, io.BytesIO(content))
    content = buffer.getvalue()
    match packed:
        case "gz":
            return gzip.compress(content)
        case "bz2":
            return bz2.compress(content)
        case "xz":
            return lzma.compress(content)
    return content


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member that is neither a file nor a folder."""
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def lark(**distribution: Any) -> dict[str, Any]:
    """An entry of the registry."""
    return {
        "id": "lark-agent",
        "name": "Lark",
        "version": "0.4.2",
        "description": "Small coding agent",
        "license": "Apache-2.0",
        "distribution": distribution,
    }


def binary(archive: str, *, cmd: str = "./lark", **more: Any) -> dict[str, Any]:
    return {this_platform(): {"archive": archive, "cmd": cmd, "args": ["acp"], **more}}


def catalogue(*entries: dict[str, Any]) -> Catalogue:
    return read_catalogue({"version": "1.0.0", "agents": list(entries)}, "test", 0.0)


def npm_package(place: Site, name: str, version: str, *, manifest: dict[str, Any] | None = None) -> None:
    """Offers a package the way npm asks for it."""
    about = {"name": name, "version": version, "bin": {"lark": "lark.js"}, **(manifest or {})}
    files = [("package/package.json", json.dumps(about).encode()), ("package/lark.js", NODE_AGENT.encode())]
    content = tar(*files)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    tarball = f"/{name}/-/package-{version}.tgz"
    dist = {"tarball": f"{place.address}{tarball}", "integrity": integrity}
    listing = {"name": name, "dist-tags": {"latest": version}, "versions": {version: {**about, "dist": dist}}}
    place.pages[f"/{name.replace('/', '%2f')}"] = json.dumps(listing).encode()
    place.pages[tarball] = content


def python_package(folder: Path, name: str, version: str, *, programs: tuple[str, ...]) -> None:
    """Writes a wheel."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    scripts = "".join(f"{program} = {module}:main\n" for program in programs)
    files = {
        f"{module}.py": PYTHON_AGENT,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}",
        f"{info}/RECORD": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = zipped(*((path, text.encode()) for path, text in files.items()))
    (folder / f"{module}-{version}-py3-none-any.whl").write_bytes(content)
