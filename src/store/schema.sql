-- The store, version 1.
--
-- One file holds many captures. What is numbered within a capture (messages, exchanges, connections, streams) has the key
--     capture << 40 | number
-- so that a capture's rows lie together in order of number; `capture` and `number` are there as virtual columns for people.
-- Sessions are numbered over the whole file. Times are nanoseconds since 1970-01-01T00:00:00Z, addresses text, lists of packet
-- numbers and the `details` blobs the variable-length numbers of codec.rs. Words with few values are numbers: the position in
-- the lists of codec.rs (`Code`). AUTOINCREMENT: a number that was shown to somebody never means something else later.
-- Foreign keys stand where the writer itself makes the row referred to; records of the decoder refer freely.

CREATE TABLE capture (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  kind             INTEGER NOT NULL,
  source           TEXT NOT NULL,             -- the files, the interface, the command line
  process          INTEGER NOT NULL,          -- the process that writes it
  started          INTEGER NOT NULL,
  last_alive       INTEGER NOT NULL,
  ended            INTEGER,                   -- NULL: being written, or its writer died
  packets          INTEGER NOT NULL DEFAULT 0,
  bytes            INTEGER NOT NULL DEFAULT 0,
  first_time       INTEGER,
  last_time        INTEGER,
  packets_kept     INTEGER NOT NULL DEFAULT 0,
  packets_dropped  INTEGER NOT NULL DEFAULT 0, -- of sessions, gone before that was known
  packets_blanked  INTEGER NOT NULL DEFAULT 0, -- payload blanked unseen, see mask.rs
  records_lost     INTEGER NOT NULL DEFAULT 0, -- could not be written
  skipped          TEXT NOT NULL DEFAULT '{}', -- {"reason": count}
  damage           TEXT NOT NULL DEFAULT '[]'  -- [["file", offset, "reason"]]
) STRICT;

CREATE TABLE session (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  capture          INTEGER NOT NULL REFERENCES capture (id),
  number           INTEGER NOT NULL,          -- within the capture
  transport        INTEGER NOT NULL DEFAULT 0,
  protocol_version TEXT,
  session_id       TEXT,
  client_name      TEXT,
  client_version   TEXT,
  server_name      TEXT,
  server_version   TEXT,
  client_address   TEXT,
  server_address   TEXT,
  host             TEXT,
  process          INTEGER,                   -- NULL: a network session
  command          TEXT,                      -- ["program", "argument"]
  process_name     TEXT,
  started          INTEGER NOT NULL DEFAULT 0,
  ended            INTEGER NOT NULL DEFAULT 0,
  messages         INTEGER NOT NULL DEFAULT 0,
  requests         INTEGER NOT NULL DEFAULT 0,
  responses        INTEGER NOT NULL DEFAULT 0,
  notifications    INTEGER NOT NULL DEFAULT 0,
  errors           INTEGER NOT NULL DEFAULT 0,
  invalid          INTEGER NOT NULL DEFAULT 0,
  unanswered       INTEGER NOT NULL DEFAULT 0,
  bytes_seen       INTEGER NOT NULL DEFAULT 0,
  bytes_sent       INTEGER NOT NULL DEFAULT 0,
  exit_code        INTEGER,
  exit_signal      INTEGER,
  UNIQUE (capture, number)
) STRICT;

CREATE TABLE session_connection (
  session          INTEGER NOT NULL REFERENCES session (id),
  position         INTEGER NOT NULL,
  connection       INTEGER NOT NULL,          -- key
  PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE connection (
  id               INTEGER PRIMARY KEY,       -- key
  capture          INTEGER NOT NULL AS (id >> 40) VIRTUAL,
  number           INTEGER NOT NULL AS (id & 0xFFFFFFFFFF) VIRTUAL,
  protocol         TEXT NOT NULL,
  host             TEXT,
  client           INTEGER,                   -- side: 0 opened it, 1 the other
  first_address    TEXT,                      -- NULL: the pipes of a process
  second_address   TEXT,
  process          INTEGER,
  opened           INTEGER NOT NULL,
  details          BLOB NOT NULL
) STRICT;

CREATE TABLE exchange (
  id               INTEGER PRIMARY KEY,       -- key
  capture          INTEGER NOT NULL AS (id >> 40) VIRTUAL,
  number           INTEGER NOT NULL AS (id & 0xFFFFFFFFFF) VIRTUAL,
  connection       INTEGER NOT NULL,          -- key
  h2_stream        INTEGER,
  http_version     TEXT NOT NULL,
  method           TEXT,
  target           TEXT,
  status           INTEGER,
  reason           TEXT,
  request_fields   TEXT NOT NULL,             -- [["name", "value"]]
  response_fields  TEXT NOT NULL,
  request          BLOB NOT NULL,             -- details
  response         BLOB NOT NULL
) STRICT;
CREATE INDEX exchange_connection ON exchange (connection);

CREATE TABLE message (
  id               INTEGER PRIMARY KEY,       -- key
  capture          INTEGER NOT NULL AS (id >> 40) VIRTUAL,
  number           INTEGER NOT NULL AS (id & 0xFFFFFFFFFF) VIRTUAL,
  session          INTEGER NOT NULL REFERENCES session (id),
  position         INTEGER NOT NULL,          -- within the session, from 1, without holes: any window is two index steps away
  time             INTEGER NOT NULL,
  transport        INTEGER NOT NULL,
  direction        INTEGER NOT NULL,
  kind             INTEGER NOT NULL,
  json_id          TEXT,
  method           TEXT,
  subject          TEXT,                      -- the tool, prompt or resource it is about
  status           INTEGER NOT NULL,          -- of a request: of its answer, once there
  latency          INTEGER,
  answers          INTEGER,                   -- numbers, as in all that follow
  answered_by      INTEGER,
  size             INTEGER NOT NULL,          -- bytes of the text
  carrier          INTEGER NOT NULL,
  exchange         INTEGER,
  batch            INTEGER,
  batch_index      INTEGER,
  line             INTEGER,
  sse_id           TEXT,
  redelivered      INTEGER NOT NULL,
  stream           INTEGER NOT NULL,
  span_start       INTEGER NOT NULL,
  span_end         INTEGER NOT NULL,
  packets          BLOB NOT NULL
) STRICT;
CREATE INDEX message_session ON message (session, position);

-- The text apart, so that lists and filters over the columns above read none of it. TEXT: as transmitted; BLOB: a zstd frame of
-- what was transmitted. text(text) gives either as text.
CREATE TABLE message_text (
  id               INTEGER PRIMARY KEY REFERENCES message (id),
  text             ANY NOT NULL
) STRICT;

CREATE TABLE rule (
  id               TEXT PRIMARY KEY,
  severity         INTEGER NOT NULL,
  title            TEXT NOT NULL,
  spec             TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE finding (
  id               INTEGER PRIMARY KEY,
  capture          INTEGER NOT NULL REFERENCES capture (id),
  session          INTEGER REFERENCES session (id),
  rule             TEXT NOT NULL REFERENCES rule (id),
  text             TEXT NOT NULL,
  messages         BLOB NOT NULL,
  packets          BLOB NOT NULL,
  stream           INTEGER,
  span_start       INTEGER,
  span_end         INTEGER
) STRICT;
CREATE INDEX finding_capture ON finding (capture, session);
CREATE INDEX finding_session ON finding (session);

CREATE TABLE finding_message (
  message          INTEGER NOT NULL,          -- key
  finding          INTEGER NOT NULL REFERENCES finding (id),
  severity         INTEGER NOT NULL,
  PRIMARY KEY (message, finding)
) STRICT, WITHOUT ROWID;

CREATE TABLE stream (
  id               INTEGER PRIMARY KEY,       -- key
  capture          INTEGER NOT NULL AS (id >> 40) VIRTUAL,
  number           INTEGER NOT NULL AS (id & 0xFFFFFFFFFF) VIRTUAL,
  connection       INTEGER NOT NULL,          -- key
  kind             INTEGER NOT NULL,          -- 0 TCP direction, 1 pipe, 2 body, 3 decoded body, 4 event data
  which            INTEGER NOT NULL,          -- the side, the file descriptor, the direction
  exchange         INTEGER
) STRICT;

-- Where the bytes of streams came from: many parts a row, in order of their place in the stream.
CREATE TABLE part (
  stream           INTEGER NOT NULL,          -- key
  start            INTEGER NOT NULL,          -- of the first part
  parts            BLOB NOT NULL,
  PRIMARY KEY (stream, start)
) STRICT, WITHOUT ROWID;

-- Packets of one connection, in order of number, see chunk.rs.
CREATE TABLE packet_chunk (
  id               INTEGER PRIMARY KEY,
  capture          INTEGER NOT NULL REFERENCES capture (id),
  connection       INTEGER NOT NULL,          -- key
  first_number     INTEGER NOT NULL,
  last_number      INTEGER NOT NULL,
  first_time       INTEGER NOT NULL,
  last_time        INTEGER NOT NULL,
  packets          INTEGER NOT NULL,
  numbers          BLOB NOT NULL,             -- before the data: whether a packet is in it is known without reading that
  data             BLOB NOT NULL              -- a zstd frame
) STRICT;
CREATE INDEX packet_chunk_connection ON packet_chunk (connection, first_number, last_number);
CREATE INDEX packet_chunk_number ON packet_chunk (capture, first_number, last_number);
