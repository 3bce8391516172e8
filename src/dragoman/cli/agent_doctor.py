"""`dragoman agent doctor`: shows what the built-in agent lacks, and how to get it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.doctor import write_findings
from dragoman.cli.console import write_json

if TYPE_CHECKING:
    from dragoman.builtin.settings import AgentSettings


def examine(settings: AgentSettings, *, as_json: bool) -> int:
    from dragoman.builtin.doctor import examine_agent

    findings = examine_agent(settings, Path.cwd(), os.environ)
    is_ready = all(finding.state != "missing" for finding in findings)
    if as_json:
        write_json({"ready": is_ready, "findings": findings})
    else:
        write_findings(findings)
        sys.stdout.write("it can work here\n" if is_ready else "it cannot work here yet: something is missing\n")
    return exits.OK if is_ready else exits.USAGE
