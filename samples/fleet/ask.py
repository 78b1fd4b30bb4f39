#!/usr/bin/env python3
"""Ask the questions of docs/questions.md: ask.py duckdb|clickhouse|spark DATASET [--check | --write] [QUESTION...]

Prints each question with its answer. --check compares the answers with those of the page, which are about the recordings of
`samples/`, and ends with 1 if one differs. --write puts them into the page. Needs the package duckdb, chdb or pyspark."""
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "questions.md"
TABLES = ["sessions", "messages", "exchanges", "findings"]


def questions(text):
    """The number, the title, the SQL of each engine and the answer of each question."""
    for part in re.split(r"^## (?=\d+\. )", text, flags=re.M)[1:]:
        number, title = re.match(r"(\d+)\. (.*)", part).groups()
        blocks = re.findall(r"^```(\w+) ?(.*?)\n(.*?)^```", part, flags=re.M | re.S)
        sql = {}
        for kind, engines, body in blocks:
            for engine in (engines.split() or ["duckdb", "clickhouse", "spark"]) if kind == "sql" else []:
                sql[engine] = body.strip()
        answer = next((body.strip() for kind, _, body in blocks if kind == "text"), "")
        yield int(number), title, sql, answer


def duckdb(dataset):
    import duckdb as engine

    connection = engine.connect()
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{dataset}/{table}/*/*.parquet', hive_partitioning = true)")

    def ask(sql):
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description], cursor.fetchall()

    return ask


def clickhouse(dataset):
    from chdb import session

    engine = session.Session()
    engine.query("CREATE DATABASE fleet")
    for table in TABLES:
        engine.query(f"CREATE VIEW fleet.{table} AS SELECT * FROM file('{dataset}/{table}/*/*.parquet', Parquet)")
    engine.query("USE fleet")

    def ask(sql):
        lines = str(engine.query(sql, "TSVWithNames")).rstrip("\n").split("\n")
        rows = [[None if cell == "\\N" else cell for cell in line.split("\t")] for line in lines]
        return rows[0], rows[1:]

    return ask


def spark(dataset):
    from pyspark.sql import SparkSession

    engine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    engine = engine.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    engine.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        engine.read.parquet(f"{dataset}/{table}").createOrReplaceTempView(table)

    def ask(sql):
        frame = engine.sql(sql)
        return frame.columns, [tuple(row) for row in frame.collect()]

    return ask


def shown(columns, rows):
    """An answer as text: the same for all engines."""
    words = [list(columns)] + [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in words) for at in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in words)


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(words) < 2 or words[0] not in ("duckdb", "clickhouse", "spark"):
        sys.exit(__doc__)
    engine, dataset = words[0], str(pathlib.Path(words[1]).resolve()) if "://" not in words[1] else words[1]
    chosen = {int(word) for word in words[2:]}
    ask = globals()[engine](dataset)
    text, different = PAGE.read_text(), 0
    for number, title, sql, expected in questions(text):
        if chosen and number not in chosen:
            continue
        answer = shown(*ask(sql[engine]))
        if "--write" in sys.argv:
            head, part = re.split(rf"^(?=## {number}\. )", text, flags=re.M)
            text = head + re.sub(r"^```text\n.*?^```", lambda _: f"```text\n{answer}\n```", part, count=1, flags=re.M | re.S)
        elif "--check" in sys.argv:
            if answer != expected:
                different += 1
                print(f"{engine}: {number}. {title}\nexpected:\n{expected}\nanswer:\n{answer}\n")
        else:
            print(f"{number}. {title}\n{answer}\n")
    if "--write" in sys.argv:
        PAGE.write_text(text)
    elif "--check" in sys.argv:
        print(f"{engine}: {different} answers differ")
        sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
