"""The files of `packaging/` in the programs that they are for: loaded, and where it can be done, started."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from dragoman.transports.remote.connect import connect_url
from tests import machine
from tests.host.kit import Client
from tests.host.serving.test_handover import machine as hosts
from tests.project.sources import ROOT

PACKAGING = ROOT / "packaging"
SECONDS = 60.0
NAME = "agents.example"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A chain and its key, for the name of the pages."""
    key, chain = folder / "key.pem", folder / "chain.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}"]
    names = ["-addext", f"subjectAltName=DNS:{NAME},DNS:localhost"]
    subprocess.run([*made, *names, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return chain, key


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


async def answers(port: int) -> None:
    """A program listens at the port."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


@machine.needs("nginx", "openssl")
async def test_a_session_runs_through_nginx_with_its_file(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    port = free_port()
    async with hosts(tmp_path) as place:
        host = await place.start("--behind-proxy", "--host", f"localhost:{port}", "--drain", "5")
        upstream = (await host.serving()).removeprefix("ws://").removesuffix("/acp")
        settings = (PACKAGING / "proxy" / "nginx.conf").read_text()
        for old, new in (
            ("listen 443 ", f"listen 127.0.0.1:{port} "),
            ("server_name agents.example", "server_name localhost"),
            ("/etc/ssl/agents.example.pem", str(chain)),
            ("/etc/ssl/agents.example.key", str(key)),
            ("127.0.0.1:8787", upstream),
            ("Host $host;", "Host $host:$server_port;"),  # the usual port is left out of a name, this one is not
        ):
            assert old in settings
            settings = settings.replace(old, new)
        folders = "".join(
            f"{kind}_temp_path {tmp_path}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        whole = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {folders} {settings} }}"
        (tmp_path / "nginx.conf").write_text(whole)
        words = ("nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;")
        proxy = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
        try:
            await answers(port)
            trusted = ssl.create_default_context(cafile=str(chain))
            for scheme in ("wss", "https"):
                line = Client(await connect_url(f"{scheme}://localhost:{port}/acp", token=place.token, tls=trusted))
                await line.hello()
                session = await line.open(str(place.project))
                updates, answer = await line.turn(session, "count 20")
                assert answer["result"] == {"stopReason": "end_turn"}
                assert [found["content"]["text"] for found in updates] == [f"{number} " for number in range(20)]
                line.transport.close()
        finally:
            proxy.terminate()
            await proxy.wait()


@machine.needs("caddy")
def test_caddy_reads_its_settings(tmp_path: Path) -> None:
    words = ["caddy", "validate", "--adapter", "caddyfile", "--config", str(PACKAGING / "proxy" / "Caddyfile")]
    home = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(words, env=home, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@machine.needs("systemd-analyze")
def test_systemd_reads_the_units_without_a_warning(tmp_path: Path) -> None:
    units = []
    for path in sorted((PACKAGING / "systemd").iterdir()):
        units.append(tmp_path / path.name)
        # The program that it starts has to exist.
        units[-1].write_text(
            path.read_text().replace("/opt/dragoman/bin/dragoman", shutil.which("true") or "/bin/true")
        )
    words = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@machine.needs("docker-compose")
def test_compose_reads_its_file(tmp_path: Path) -> None:
    words = ["docker-compose", "-f", str(PACKAGING / "compose.yaml"), "config", "-q"]
    environment = {**os.environ, "DRAGOMAN_SOURCES": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
