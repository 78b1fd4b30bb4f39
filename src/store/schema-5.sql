-- Version 5: findings of each session are counted, so that a list of sessions reads none of them.

ALTER TABLE session ADD COLUMN infos INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN warnings INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN severe INTEGER NOT NULL DEFAULT 0; -- findings of severity `error`
UPDATE session SET infos = counted.infos, warnings = counted.warnings, severe = counted.severe
FROM (
  SELECT session AS id, sum(iif(severity = 0, max(repeated, 1), 0)) AS infos,
    sum(iif(severity = 1, max(repeated, 1), 0)) AS warnings, sum(iif(severity = 2, max(repeated, 1), 0)) AS severe
  FROM finding WHERE session IS NOT NULL GROUP BY session
) AS counted
WHERE counted.id = session.id;
