"""The tables of the ledger, as a list of migrations; see `migrations.py`."""

from __future__ import annotations

from typing import Final

LEDGER_MIGRATIONS: Final[tuple[str, ...]] = (
    """
    -- AUTOINCREMENT: the number of a deleted entry is never used again, because users write numbers down.
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        command TEXT NOT NULL,
        session_id TEXT NOT NULL,
        folder TEXT NOT NULL,
        real_folder TEXT NOT NULL,
        directories TEXT NOT NULL,
        title TEXT,
        own_title TEXT,
        first_prompt TEXT NOT NULL,
        can_reopen INTEGER NOT NULL,
        is_scripted INTEGER NOT NULL,
        is_replaced INTEGER NOT NULL DEFAULT 0,
        turns INTEGER NOT NULL DEFAULT 0,
        files TEXT NOT NULL DEFAULT '[]',
        size_bytes INTEGER NOT NULL DEFAULT 0,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    );
    CREATE INDEX entries_by_session ON entries (session_id, agent);
    CREATE INDEX entries_by_time ON entries (updated_at);
    CREATE INDEX entries_by_folder ON entries (real_folder, updated_at);

    -- A turn without ended_at is running, or its program (the writer) has died.
    CREATE TABLE turns (
        entry INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
        position INTEGER NOT NULL,
        writer TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        exit_code INTEGER,
        stop_reason TEXT,
        error TEXT,
        record BLOB NOT NULL,
        PRIMARY KEY (entry, position)
    ) WITHOUT ROWID;
    """,
)
