"""`dragoman version`: the versions a bug report needs."""

import sys

from dragoman.cli import exits
from dragoman.cli.command import JSON, CliCall, CliCommand
from dragoman.cli.console import write_json
from dragoman.trace.program_versions import versions


def run(call: CliCall) -> int:
    found = versions()
    if call.given.json:
        write_json(found)
    else:
        width = max(map(len, found))
        sys.stdout.writelines(f"{name:{width}}  {version}\n" for name, version in found.items())
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description="Shows the versions of dragoman, of Python and msgspec, and of the protocol it supports.",
    options=(JSON,),
    examples=("dragoman version", "dragoman version --json"),
)
