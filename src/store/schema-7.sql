-- Version 7: views for people. They have words for codes, times as text, and the texts that are not compressed. docs/database.md
-- describes them, and `tests/it/views.rs` compares them with the output of the program. Sessions that are being deleted are left out.

CREATE VIEW captures AS
SELECT id,
  CASE kind WHEN 0 THEN 'import' WHEN 1 THEN 'sniff' WHEN 2 THEN 'wrap' WHEN 3 THEN 'proxy' WHEN 4 THEN 'replay'
    WHEN 5 THEN 'mock' WHEN 6 THEN 'attach' END AS kind,
  source,
  strftime('%Y-%m-%dT%H:%M:%S', started / 1000000000, 'unixepoch') || printf('.%09dZ', started % 1000000000) AS started,
  strftime('%Y-%m-%dT%H:%M:%S', ended / 1000000000, 'unixepoch') || printf('.%09dZ', ended % 1000000000) AS ended,
  packets, bytes, packets_kept, packets_dropped, packets_blanked, records_lost, skipped, damage, replay_of
FROM capture;

CREATE VIEW sessions AS
SELECT session.id AS session, session.capture,
  (SELECT captures.kind FROM captures WHERE captures.id = session.capture) AS recorded_by,
  CASE transport WHEN 0 THEN 'stdio' WHEN 1 THEN 'http-sse' WHEN 2 THEN 'streamable-http' WHEN 3 THEN 'http'
    WHEN 4 THEN 'websocket' END AS transport,
  protocol_version, session_id, client_name, client_version, server_name, server_version,
  process_name AS name, command, process, client_address, server_address, host,
  strftime('%Y-%m-%dT%H:%M:%S', started / 1000000000, 'unixepoch') || printf('.%09dZ', started % 1000000000) AS started,
  strftime('%Y-%m-%dT%H:%M:%S', ended / 1000000000, 'unixepoch') || printf('.%09dZ', ended % 1000000000) AS ended,
  (ended - started) / 1e9 AS seconds,
  messages, requests, ok, tool_errors, errors, cancelled, unanswered, responses, notifications, invalid, server_requests,
  severe AS error_findings, warnings AS warning_findings, infos AS info_findings,
  exit_code, exit_signal, pinned
FROM session WHERE NOT deleting;

CREATE VIEW messages AS
SELECT message.id AS key, message.session, message.number, message.position,
  strftime('%Y-%m-%dT%H:%M:%S', message.time / 1000000000, 'unixepoch') || printf('.%09dZ', message.time % 1000000000) AS time,
  message.time AS time_ns,
  CASE message.transport WHEN 0 THEN 'stdio' WHEN 1 THEN 'http-sse' WHEN 2 THEN 'streamable-http' WHEN 3 THEN 'http'
    WHEN 4 THEN 'websocket' END AS transport,
  CASE message.direction WHEN 0 THEN 'client-to-server' WHEN 1 THEN 'server-to-client' END AS direction,
  CASE message.kind WHEN 0 THEN 'request' WHEN 1 THEN 'notification' WHEN 2 THEN 'response' WHEN 3 THEN 'error'
    WHEN 4 THEN 'invalid' END AS kind,
  message.json_id, message.method, message.subject,
  CASE message.status WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'tool-error' WHEN 4 THEN 'negative'
    ELSE iif(message.kind = 0, 'unanswered', NULL) END AS outcome,
  message.latency / 1e6 AS latency_ms, message.answers, message.answered_by, message.size AS bytes,
  CASE message.carrier WHEN 0 THEN 'request-body' WHEN 1 THEN 'response-body' WHEN 2 THEN 'sse-event' WHEN 3 THEN 'line'
    WHEN 4 THEN 'websocket-message' END AS carrier,
  message.exchange, message.batch, message.batch_index, message.line, message.sse_id, message.redelivered,
  iif(typeof(message_text.text) = 'text', message_text.text, NULL) AS text,
  typeof(message_text.text) = 'blob' AS is_compressed
FROM message JOIN session ON session.id = message.session LEFT JOIN message_text ON message_text.id = message.id
WHERE NOT session.deleting;

-- Requests with their responses.
CREATE VIEW calls AS
SELECT request.session, request.number AS request, request.answered_by AS response,
  strftime('%Y-%m-%dT%H:%M:%S', request.time / 1000000000, 'unixepoch') || printf('.%09dZ', request.time % 1000000000) AS time,
  request.time AS time_ns,
  CASE request.direction WHEN 0 THEN 'client-to-server' WHEN 1 THEN 'server-to-client' END AS direction,
  request.method, request.subject,
  CASE request.status WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'tool-error' WHEN 4 THEN 'negative'
    ELSE 'unanswered' END AS outcome,
  response.latency / 1e6 AS latency_ms, request.size AS request_bytes, response.size AS response_bytes,
  iif(typeof(request_text.text) = 'text', request_text.text, NULL) AS request_text,
  iif(typeof(response_text.text) = 'text', response_text.text, NULL) AS response_text
FROM message AS request JOIN session ON session.id = request.session
  LEFT JOIN message AS response ON response.id = request.id >> 40 << 40 | request.answered_by
  LEFT JOIN message_text AS request_text ON request_text.id = request.id
  LEFT JOIN message_text AS response_text ON response_text.id = response.id
WHERE request.kind = 0 AND NOT session.deleting;

CREATE VIEW findings AS
SELECT finding.id AS finding, finding.capture, finding.session, finding.rule,
  CASE finding.severity WHEN 0 THEN 'info' WHEN 1 THEN 'warning' WHEN 2 THEN 'error' END AS severity,
  finding.text, rule.title, rule.spec, max(finding.repeated, 1) AS count
FROM finding LEFT JOIN rule ON rule.id = finding.rule LEFT JOIN session ON session.id = finding.session
WHERE NOT coalesce(session.deleting, 0);

-- The messages that a finding is about.
CREATE VIEW finding_messages AS
SELECT finding_message.finding, finding_message.message AS key, finding.session, finding_message.message & 0xFFFFFFFFFF AS number, finding.rule,
  CASE finding_message.severity WHEN 0 THEN 'info' WHEN 1 THEN 'warning' WHEN 2 THEN 'error' END AS severity
FROM finding_message JOIN finding ON finding.id = finding_message.finding LEFT JOIN session ON session.id = finding.session
WHERE NOT coalesce(session.deleting, 0);

CREATE VIEW exchanges AS
SELECT session_exchange.session, exchange.number, exchange.connection & 0xFFFFFFFFFF AS connection, exchange.h2_stream, exchange.http_version,
  exchange.method, exchange.target, exchange.status, exchange.reason, exchange.request_fields, exchange.response_fields
FROM exchange LEFT JOIN session_exchange ON session_exchange.exchange = exchange.id
  LEFT JOIN session ON session.id = session_exchange.session
WHERE NOT coalesce(session.deleting, 0);

CREATE VIEW notes AS
SELECT note.session,
  strftime('%Y-%m-%dT%H:%M:%S', note.time / 1000000000, 'unixepoch') || printf('.%09dZ', note.time % 1000000000) AS time,
  note.time AS time_ns, note.kind, note.details
FROM note LEFT JOIN session ON session.id = note.session
WHERE NOT coalesce(session.deleting, 0);
