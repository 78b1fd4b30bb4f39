"""Compare two datasets: compare.py ONE OTHER. Rows must be equal in all columns but numbers of a run. Prints the numbers of rows."""
import sys

import duckdb

NUMBERS = {"run", "session", "number", "answers", "operation", "exchange", "line", "packets"}


def main(one, other):
    connection = duckdb.connect()
    different = 0
    for table in ("sessions", "messages", "exchanges", "findings"):
        views = [f"read_parquet('{dataset}/{table}/*/*.parquet', hive_partitioning = true)" for dataset in (one, other)]
        names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {views[0]}").fetchall()]
        columns = ", ".join(f'"{name}"' for name in names if name not in NUMBERS)
        rows = [f"(SELECT {columns} FROM {view})" for view in views]
        for left, right in (rows, rows[::-1]):
            extra = connection.execute(f"{left} EXCEPT ALL {right}").fetchall()
            different += len(extra)
            for row in extra[:2]:
                print(table, row)
        count, keys = connection.execute(f"SELECT count(*), count(DISTINCT key) FROM {views[0]}").fetchall()[0]
        print(table, count)
        different += count - keys
    return different


sys.exit(1 if main(*sys.argv[1:3]) else 0)
