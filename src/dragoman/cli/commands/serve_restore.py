"""`dragoman serve restore`: puts a backup into the data folder of a host that does not run."""

from __future__ import annotations

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption


def run(call: CliCall) -> int:
    import os
    from pathlib import Path

    from dragoman.cli.console import write_json, write_note
    from dragoman.cli.serve.copying import CopyProgress, describe, summary
    from dragoman.cli.serve.places import ServePlaces
    from dragoman.errors import ConfigError
    from dragoman.host.serving.backup import check_backup, require_room, restore_backup

    given = call.given
    source, places = Path(given.source).absolute(), ServePlaces(given.data)
    before = None
    try:
        with CopyProgress(is_quiet=given.quiet) as progress:
            if not given.check:
                require_room(places.folder, replaces=given.replace)  # before all of the backup is read
            # A folder that a host uses is refused first; none is made for a backup that is not whole.
            lock = places.lock(restores=True) if not given.check and places.folder.is_dir() else None
            try:
                manifest = check_backup(source, progress.report)
                if not given.check:
                    lock = places.lock(restores=True) if lock is None else lock
                    require_room(places.folder, replaces=given.replace)
                    before = restore_backup(source, manifest, places.folder, progress.report)
            finally:
                if lock is not None:
                    os.close(lock)
    except ConfigError as error:
        raise exits.CliError(f"nothing was restored: {error}" if not given.check else str(error)) from None
    except OSError as error:
        raise exits.CliError(f"the restore failed: {error.filename or source}: {error.strerror or error}") from None
    if given.json:
        kept = {} if before is None else {"before": str(before)}
        write_json(
            {
                "backup": str(source),
                **({} if given.check else {"data": str(places.folder)}),
                **kept,
                **describe(manifest),
            }
        )
    elif not given.quiet:
        where = f"{source} is whole" if given.check else f"restored into {places.folder}"
        write_note(f"{where}: {summary(manifest)}")
        if before is not None:
            write_note(f"what was there before is in {before}; remove it when you do not need it any more")
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Puts a backup into the data folder of a host that does not run. The backup is read and compared with its\n"
        "checksums first: one that is damaged or unfinished changes nothing. A folder that a host uses is refused,\n"
        "and one that is not empty as well, unless --replace puts aside what is in it. Nothing is run by itself:\n"
        "sessions go on with the next prompt, if their agent can load or resume them."
    ),
    arguments=(Argument("source", "the backup"),),
    options=(
        CliOption("--data", "the data folder of the host (default: ~/.local/share/dragoman/serve)", value="DIR"),
        CliOption("--replace", "put aside what is in the data folder, below before-restore-TIME in it"),
        CliOption("--check", "only compare the backup with its checksums"),
        CliOption("--quiet", "write only errors", short="-q"),
        JSON,
    ),
    examples=(
        "dragoman serve restore /backup/agents-2026-05-01",
        "dragoman serve restore /backup/agents --data /var/lib/dragoman/serve --replace",
        "dragoman serve restore --check /backup/agents",
    ),
)
