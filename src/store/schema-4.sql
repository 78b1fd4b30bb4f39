-- Version 4: sessions that stay, and deletions that go on.

-- 1: no deletion removes it until it is unpinned.
ALTER TABLE session ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
-- 1: it is being deleted, in small transactions. Nobody sees it any more, see maintenance.rs.
ALTER TABLE session ADD COLUMN deleting INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_deleting ON session (capture) WHERE deleting;
