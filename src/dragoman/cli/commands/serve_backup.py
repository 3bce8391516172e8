"""`dragoman serve backup`: saves the data folder of a host, also while it runs."""

from __future__ import annotations

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption


def run(call: CliCall) -> int:
    from pathlib import Path

    from dragoman.cli.console import write_json, write_note
    from dragoman.cli.serve.copying import CopyProgress, describe, summary
    from dragoman.cli.serve.places import ServePlaces
    from dragoman.errors import ConfigError, StoreError
    from dragoman.host.serving.backup import make_backup

    given = call.given
    dest = Path(given.dest).absolute()
    with CopyProgress(is_quiet=given.quiet) as progress:
        try:
            manifest = make_backup(ServePlaces(given.data).folder, dest, progress.report)
        except (ConfigError, StoreError) as error:
            raise exits.CliError(f"no backup was made: {error}") from None
        except OSError as error:
            raise exits.CliError(f"no backup was made: {error.filename or dest}: {error.strerror or error}") from None
    if given.json:
        write_json({"backup": str(dest), **describe(manifest)})
    elif not given.quiet:
        write_note(f"{dest}: {summary(manifest)}")
    if manifest.lost and not given.quiet:
        write_note(f"{len(manifest.lost)} large bodies were lost before; sessions show a hole in their place")
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Saves what a host needs to go on elsewhere: its sessions with their large bodies and attachments, tokens and\n"
        "devices (as hashes), quotas, and the key of its notifications. The host may run and stream meanwhile; the\n"
        "backup has the state of one moment. It is made as DEST.unfinished and gets its name when it is whole on the\n"
        "disk: what was killed is never taken for a backup, and the next one for the same place removes it. Keep it\n"
        "as safe as the data folder: it has the content of all sessions. docs/hosting.md says what is not in it."
    ),
    arguments=(Argument("dest", "the backup: a new folder, outside of the data folder"),),
    options=(
        CliOption("--data", "the data folder of the host (default: ~/.local/share/dragoman/serve)", value="DIR"),
        CliOption("--quiet", "write only errors", short="-q"),
        JSON,
    ),
    examples=(
        "dragoman serve backup /backup/agents-$(date +%F)",
        "dragoman serve backup --data /var/lib/dragoman/serve /backup/agents --json",
    ),
)
