"""`dragoman version`: the versions a bug report needs."""

import platform
import sys

import msgspec

from dragoman import schema
from dragoman._version import __version__
from dragoman.cli import exits
from dragoman.cli.command import JSON, CliCommand, Invocation
from dragoman.cli.console import write_json


def run(call: Invocation) -> int:
    versions = {
        "dragoman": __version__,
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "protocol": schema.PROTOCOL_VERSION,
        "schema": schema.SCHEMA_VERSION,
    }
    if call.given.json:
        write_json(versions)
    else:
        width = max(map(len, versions))
        sys.stdout.writelines(f"{name:{width}}  {version}\n" for name, version in versions.items())
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description="Shows the versions of dragoman, of Python and msgspec, and of the protocol it supports.",
    options=(JSON,),
    examples=("dragoman version", "dragoman version --json"),
)
