-- Version 2: operations, findings of their own severity, what TLS carried.

-- What ties a message to an earlier one of its operation. Numbers are those of the capture; `operation` is the key of the first request.
CREATE TABLE link (
  message          INTEGER PRIMARY KEY,       -- key
  operation        INTEGER NOT NULL,          -- key
  previous         INTEGER NOT NULL,          -- key
  why              INTEGER NOT NULL
) STRICT;
CREATE INDEX link_operation ON link (operation, message);

-- How bad it is here, which is mostly as bad as the rule says.
ALTER TABLE finding ADD COLUMN severity INTEGER NOT NULL DEFAULT 0;
UPDATE finding SET severity = (SELECT severity FROM rule WHERE rule.id = finding.rule);
-- Findings that it stands for; 0: itself.
ALTER TABLE finding ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0;

-- Two more kinds of `stream`: 5 messages of a WebSocket, 6 what TLS carried.

-- What TLS carried, secrets masked, for streams of kind 6. A zstd frame each.
CREATE TABLE plaintext (
  stream           INTEGER NOT NULL,          -- key
  start            INTEGER NOT NULL,          -- offset of the first byte
  data             BLOB NOT NULL,
  PRIMARY KEY (stream, start)
) STRICT, WITHOUT ROWID;

-- TLS secrets of a connection as lines of a key log; written only with --keep-secrets.
CREATE TABLE key_log (
  connection       INTEGER PRIMARY KEY,       -- key
  capture          INTEGER NOT NULL AS (connection >> 40) VIRTUAL,
  lines            TEXT NOT NULL
) STRICT;
