"""What the pages about remote agents and `packaging/` promise: commands that exist, files that fit them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

from dragoman.cli import table
from dragoman.cli.command import CliCall, parse
from dragoman.host.serving.limits import ServeLimits
from dragoman.transports.remote.gate import MAX_BODY_BYTES
from tests import machine
from tests.project.pages import blocks
from tests.project.sources import ROOT

PAGES = [ROOT / "docs" / name for name in ("remote.md", "hosting.md", "remote-security.md")]
PACKAGING = ROOT / "packaging"


def parsed(words: list[str]) -> CliCall:
    """A command line of ours, as the program would read it."""
    verb, *rest = words
    if " ".join(words[:2]) in table.NESTED:
        verb, rest = " ".join(words[:2]), words[2:]
    return parse(verb, table.load(verb), rest)


def shown() -> list[list[str]]:
    """Every command line of ours on the pages."""
    found = []
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.text.splitlines():
                words = shlex.split(line)
                places = [n for n, word in enumerate(words) if word.rpartition("/")[2] == "dragoman"]
                starts = [n for n in places if n + 1 < len(words) and words[n + 1] in table.COMMANDS]
                found += [words[start + 1 :] for start in starts[:1]]
    return found


def test_every_command_that_is_shown_can_be_typed() -> None:
    commands = shown()
    assert len(commands) >= 12
    assert {words[0] for words in commands} >= {"serve", "connect", "exec", "check", "record", "inspect", "login"}
    for words in commands:
        parsed(words)


def test_the_limits_on_the_page_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "remote-security.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+|none|by memory) \|", text, flags=re.MULTILINE))
    defaults = {name: getattr(ServeLimits(), name) for name in ServeLimits.__struct_fields__}
    assert {name: float(value) if value.isdigit() else None for name, value in rows.items()} == defaults
    assert defaults["body_bytes"] == MAX_BODY_BYTES


def test_the_unit_starts_a_host_and_waits_longer_than_it_drains() -> None:
    text = (PACKAGING / "systemd" / "dragoman-serve.service").read_text()
    members = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    program, *words = shlex.split(members["ExecStart"])
    assert program == "/opt/dragoman/bin/dragoman"
    call = parsed(words).given
    assert call.behind_proxy
    assert call.listen == ["127.0.0.1:8787"]
    assert float(members["TimeoutStopSec"]) > float(call.drain) + 10
    assert set(call.folder) <= set(members["ReadWritePaths"].split())
    assert members["User"] not in ("", "root")


def test_the_container_of_a_host_starts_it_as_a_user_of_its_own() -> None:
    text = (PACKAGING / "Containerfile.serve").read_text()
    joined = re.sub(r"\\\n\s*", " ", text)
    steps = [line.split(None, 1) for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    known = dict(steps)
    assert set(known) <= {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD", "ENV"}
    assert known["USER"] == "dragoman"
    entry, command = json.loads(known["ENTRYPOINT"]), json.loads(known["CMD"])
    assert entry[:3] == ["tini", "--", "dragoman"]
    call = parsed([*entry[3:], *command]).given
    assert call.behind_proxy
    assert call.folder == [known["WORKDIR"]]
    for step, words in steps:
        if step == "RUN":
            subprocess.run(["sh", "-n", "-c", words], check=True)


def test_the_proxies_pass_on_names_and_events() -> None:
    nginx = (PACKAGING / "proxy" / "nginx.conf").read_text()
    for line in (
        "proxy_set_header Host $host;",
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_buffering off;",
        "proxy_http_version 1.1;",
    ):
        assert line in nginx
    (shown_on_page,) = [block.text for block in blocks(ROOT / "docs" / "hosting.md", "text")]
    assert shown_on_page in (PACKAGING / "proxy" / "Caddyfile").read_text()


@machine.needs("nginx", "openssl")
def test_nginx_reads_its_settings(tmp_path: Path) -> None:
    settings = (PACKAGING / "proxy" / "nginx.conf").read_text()
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=agents.example"]
    subprocess.run([*made, "-keyout", key, "-out", chain], check=True, capture_output=True)
    settings = settings.replace("/etc/ssl/agents.example.pem", str(chain)).replace(
        "/etc/ssl/agents.example.key", str(key)
    )
    settings = settings.replace("listen 443 ", "listen 127.0.0.1:8443 ")
    whole = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {settings} }}"
    (tmp_path / "nginx.conf").write_text(whole)
    done = subprocess.run(
        ["nginx", "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
