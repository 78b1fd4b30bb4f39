-- Version 4: the session of each HTTP exchange, whether it carried messages or not.

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
