-- Version 3: a stream that is told whole is one row.

-- The first parts of a stream, where they were known when its row was written, from offset 0 on; `part` has those that follow.
ALTER TABLE stream ADD COLUMN parts BLOB;
