"""The tables of the state database, and the version that they are of."""

from __future__ import annotations

#: A database of another one is made anew.
VERSION = 20

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, blob TEXT NOT NULL,
    title TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, pinned INTEGER NOT NULL,
    context TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    confidence REAL, source TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    tokens INTEGER NOT NULL, body_digest TEXT NOT NULL, full_text TEXT NOT NULL,
    project TEXT NOT NULL, warnings TEXT NOT NULL, sections TEXT NOT NULL,
    UNIQUE (path, blob)
);
CREATE INDEX documents_pinned ON documents (pinned) WHERE pinned = 1;
CREATE INDEX documents_written ON documents (max(updated, created))
    WHERE pinned = 0 AND path NOT LIKE 'primed/%';
CREATE INDEX documents_quarantined ON documents (state) WHERE state = 'quarantined';
CREATE INDEX documents_blob ON documents (blob);
CREATE INDEX documents_kind ON documents (kind, state);
CREATE INDEX documents_tokens ON documents (tokens);
CREATE INDEX documents_session ON documents (session) WHERE session <> '';
CREATE TABLE files (
    path TEXT PRIMARY KEY, blob TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL, inode INTEGER NOT NULL, problem TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX files_problem ON files (problem) WHERE problem <> '';
CREATE TABLE views (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, size INTEGER NOT NULL,
    used REAL NOT NULL
);
CREATE TABLE view_documents (
    view INTEGER NOT NULL, path TEXT NOT NULL, document INTEGER NOT NULL,
    changed INTEGER NOT NULL, problem TEXT NOT NULL,
    project TEXT NOT NULL COLLATE NOCASE, PRIMARY KEY (view, path)
) WITHOUT ROWID;
CREATE INDEX view_documents_document ON view_documents (document);
CREATE INDEX view_documents_problem ON view_documents (view) WHERE problem <> '';
CREATE TABLE head_files (
    path TEXT PRIMARY KEY, mode TEXT NOT NULL, blob TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE committed (
    path TEXT NOT NULL, blob TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (path, blob)
) WITHOUT ROWID;
CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, blob TEXT NOT NULL,
    agent TEXT NOT NULL, session TEXT NOT NULL, tool TEXT NOT NULL, at REAL NOT NULL, data BLOB
);
CREATE INDEX journal_path ON journal (path);
CREATE INDEX journal_blob ON journal (blob);
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, files TEXT NOT NULL DEFAULT '',
    staged TEXT NOT NULL DEFAULT '', event TEXT NOT NULL
);
CREATE TABLE candidates (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE links (
    document INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,
    subpath TEXT NOT NULL, text TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    line INTEGER NOT NULL, embed INTEGER NOT NULL, property TEXT NOT NULL, hidden INTEGER NOT NULL,
    PRIMARY KEY (document, number)
) WITHOUT ROWID;
CREATE INDEX links_property ON links (property);
CREATE TABLE body_links (document INTEGER PRIMARY KEY, links TEXT NOT NULL);
CREATE TABLE aliases (
    document INTEGER NOT NULL, alias TEXT NOT NULL, PRIMARY KEY (document, alias)
) WITHOUT ROWID;
CREATE TRIGGER links_go AFTER DELETE ON documents BEGIN
    DELETE FROM links WHERE document = OLD.id;
    DELETE FROM body_links WHERE document = OLD.id;
    DELETE FROM aliases WHERE document = OLD.id;
END;
CREATE TABLE calls (
    id TEXT PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, query TEXT NOT NULL,
    agent TEXT NOT NULL, session TEXT NOT NULL, sent INTEGER NOT NULL, flat INTEGER NOT NULL,
    found INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE signals (
    call TEXT NOT NULL, number INTEGER NOT NULL, path TEXT NOT NULL, heading TEXT NOT NULL,
    score REAL NOT NULL, PRIMARY KEY (call, number)
) WITHOUT ROWID;
CREATE INDEX signals_path ON signals (path);
CREATE TABLE accounts (
    agent TEXT NOT NULL, session TEXT NOT NULL, kind TEXT NOT NULL, calls INTEGER NOT NULL,
    sent INTEGER NOT NULL, flat INTEGER NOT NULL, empty INTEGER NOT NULL, first REAL NOT NULL,
    last REAL NOT NULL, PRIMARY KEY (agent, session, kind)
) WITHOUT ROWID;
CREATE TABLE surfaced (
    path TEXT PRIMARY KEY, times INTEGER NOT NULL, last REAL NOT NULL, best REAL NOT NULL
) WITHOUT ROWID;
"""
