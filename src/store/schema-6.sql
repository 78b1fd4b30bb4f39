-- Version 6: figures of messages in the row of their session, indexes of what explains a session, and an index of all texts.

-- Of the messages of a session: a histogram of latencies (see record/figures.rs), the latency of the slowest response of the server and the
-- number of its request, and the calls of tools. NULL: an earlier version wrote the session.
ALTER TABLE session ADD COLUMN latencies BLOB;
ALTER TABLE session ADD COLUMN slowest INTEGER;
ALTER TABLE session ADD COLUMN slowest_request INTEGER;
ALTER TABLE session ADD COLUMN tool_calls INTEGER;

-- Messages that explain a session: failures, and the texts in which a server describes itself.
CREATE INDEX message_failure ON message (session, direction, position) WHERE kind IN (2, 3) AND status IN (2, 3);
CREATE INDEX message_listing ON message (session, position) WHERE kind = 2 AND method IN ('initialize', 'server/discover', 'tools/list');

-- What a chunk has of stderr: 0 nothing, else its line ends plus 1. NULL: an earlier version wrote it.
ALTER TABLE packet_chunk ADD COLUMN stderr INTEGER;
CREATE INDEX packet_chunk_stderr ON packet_chunk (connection, first_number, last_number, stderr) WHERE stderr IS NOT 0;

-- An index of message_text: sections of messages, each with the blocks that have a trigram (see text_index.rs). Messages outside
-- of all sections are searched one by one.
CREATE TABLE text_section (
  first            INTEGER PRIMARY KEY,       -- key of the first message
  last             INTEGER NOT NULL,          -- key of the last message
  blocks           BLOB NOT NULL
) STRICT;
CREATE TABLE text_posting (
  section          INTEGER NOT NULL,          -- its first
  trigram          INTEGER NOT NULL,          -- the first one of many in this row
  postings         BLOB NOT NULL,
  PRIMARY KEY (section, trigram)
) STRICT, WITHOUT ROWID;
