"""The tables of the database, as a list of migrations.

Owns the tables. A migration is never changed after its release; a change of the tables is a new one at the end.
"""

from __future__ import annotations

from typing import Final

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        cwd TEXT NOT NULL,
        directories TEXT NOT NULL,
        title TEXT,
        mode TEXT,
        model TEXT,
        effort TEXT,
        parent_id TEXT,
        parent_message_id TEXT,
        metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_by_time ON sessions (updated_at, id);
    CREATE INDEX sessions_by_folder ON sessions (cwd, updated_at, id);

    CREATE TABLE messages (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        role TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        queued_at TEXT
    ) WITHOUT ROWID;
    CREATE INDEX messages_by_session ON messages (session_id, id);

    CREATE TABLE parts (
        message_id TEXT NOT NULL REFERENCES messages ON DELETE CASCADE,
        position INTEGER NOT NULL,
        type TEXT NOT NULL,
        tool_call_id TEXT,
        tool_state TEXT,
        data BLOB NOT NULL,
        PRIMARY KEY (message_id, position)
    );

    -- A message that is still being written, the program that writes it, and its chunks so far.
    CREATE TABLE live (
        message_id TEXT PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
        session_id TEXT NOT NULL,
        writer TEXT NOT NULL
    );
    CREATE INDEX live_by_session ON live (session_id);
    CREATE TABLE live_log (
        message_id TEXT NOT NULL REFERENCES live ON DELETE CASCADE,
        position INTEGER NOT NULL,
        chunk BLOB NOT NULL,
        PRIMARY KEY (message_id, position)
    ) WITHOUT ROWID;

    CREATE TABLE usage (
        message_id TEXT NOT NULL REFERENCES messages ON DELETE CASCADE,
        session_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        model TEXT NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cost_usd REAL,
        PRIMARY KEY (message_id, position)
    );
    CREATE INDEX usage_by_session ON usage (session_id);

    CREATE TABLE rules (
        session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
        rule TEXT NOT NULL,
        action TEXT NOT NULL,
        added_at TEXT NOT NULL,
        PRIMARY KEY (session_id, rule, action)
    ) WITHOUT ROWID;
    """,
    """
    -- The session whose subagent this one is. It is not listed, and it is deleted with that session.
    ALTER TABLE sessions ADD COLUMN child_of TEXT REFERENCES sessions ON DELETE CASCADE;
    CREATE INDEX sessions_by_owner ON sessions (child_of) WHERE child_of IS NOT NULL;
    """,
)
