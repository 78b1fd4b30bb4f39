-- Version 4: sessions that stay, deletions that go on, the timeline beside the messages, how requests ended,
-- and the sessions of exchanges.

-- 1: no deletion removes it until it is unpinned.
ALTER TABLE session ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
-- 1: it is being deleted, in small transactions. Nobody sees it any more, see maintenance.rs.
ALTER TABLE session ADD COLUMN deleting INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_deleting ON session (capture) WHERE deleting;

-- Notes: what happened around the messages of a session. Lines of stderr are not here, because the packets hold them.
CREATE TABLE note (
  id               INTEGER PRIMARY KEY,
  capture          INTEGER NOT NULL REFERENCES capture (id),
  session          INTEGER REFERENCES session (id),
  time             INTEGER NOT NULL,
  kind             TEXT NOT NULL,             -- the `type` of its line in the output of --json
  details          TEXT NOT NULL,             -- a JSON object
  packets          BLOB NOT NULL
) STRICT;
CREATE INDEX note_session ON note (session, time, id);
CREATE INDEX note_capture ON note (capture, time, id);

-- The requests of the client, each counted in one of `ok`, `tool_errors`, `errors`, `cancelled`, `unanswered`. `requests` is their sum from now on.
ALTER TABLE session ADD COLUMN ok INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN tool_errors INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN server_requests INTEGER NOT NULL DEFAULT 0;
UPDATE session SET
  requests = coalesce(asked.requests, 0), ok = coalesce(asked.ok, 0), tool_errors = coalesce(asked.tool_errors, 0),
  errors = coalesce(asked.errors, 0), unanswered = coalesce(asked.unanswered, 0),
  server_requests = coalesce(asked.server_requests, 0)
FROM (
  SELECT session AS id, sum(direction = 0) AS requests, sum(direction = 1) AS server_requests,
    sum(direction = 0 AND status IN (1, 4)) AS ok, sum(direction = 0 AND status = 3) AS tool_errors,
    sum(direction = 0 AND status = 2) AS errors, sum(direction = 0 AND status = 0) AS unanswered
  FROM message WHERE kind = 0 GROUP BY session
) AS asked
WHERE asked.id = session.id;

-- The session that a replay sent again.
ALTER TABLE capture ADD COLUMN replay_of INTEGER;

-- The session of each HTTP exchange, whether it carried messages or not.
-- An exchange has at most one session.
CREATE TABLE session_exchange (
  session          INTEGER NOT NULL REFERENCES session (id),
  exchange         INTEGER NOT NULL,          -- key
  PRIMARY KEY (session, exchange)
) STRICT, WITHOUT ROWID;

-- Earlier versions stored no session of an exchange. Its messages show it.
INSERT OR IGNORE INTO session_exchange
SELECT session, capture << 40 | exchange FROM message WHERE exchange IS NOT NULL;

-- An exchange without messages belongs to the only session of its connection.
INSERT OR IGNORE INTO session_exchange
SELECT session_connection.session, exchange.id
FROM session_connection JOIN exchange USING (connection)
WHERE connection IN (SELECT connection FROM session_connection GROUP BY connection HAVING count(*) = 1)
  AND exchange.id NOT IN (SELECT exchange FROM session_exchange);

-- The exchanges of a session are found by `session_exchange` now.
DROP INDEX exchange_connection;
