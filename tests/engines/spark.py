"""Run the Spark job on two local workers: spark.py CAPTURES DATASET [options of mcptap read]. A task has four attempts."""
import pathlib
import sys

from pyspark.sql import SparkSession

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "samples" / "fleet"))
import decode  # noqa: E402

spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.addPyFile(decode.__file__)
unread = decode.run(spark, sys.argv[1], sys.argv[2], sys.argv[3:])
spark.stop()
print("\n".join(unread))
