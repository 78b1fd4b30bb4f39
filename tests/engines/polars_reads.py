"""Read all tables of a dataset with Polars and PyArrow: polars_reads.py DATASET. Prints the numbers of rows."""
import sys

import polars
import pyarrow.dataset

for table in ("sessions", "messages", "exchanges", "findings"):
    frame = polars.scan_parquet(f"{sys.argv[1]}/{table}/*/*.parquet", hive_partitioning=True).collect()
    rows = pyarrow.dataset.dataset(f"{sys.argv[1]}/{table}", partitioning="hive").to_table()
    assert frame.height == rows.num_rows, table
    assert frame.schema["time"] == polars.Datetime("us", "UTC"), frame.schema["time"]
    print(table, frame.height)
