#!/usr/bin/env python3
"""Decode captures into a dataset with Spark: spark-submit decode.py CAPTURES DATASET [options of mcptap read]

CAPTURES is a folder that all workers see, or s3://BUCKET/PREFIX. Each folder below it that holds captures is one task, which
runs `mcptap --threads 1` once. So captures that belong together must be in one folder: `mcptap split` makes such folders, and
captures of one machine are one (host=NAME). The program is $MCPTAP, else mcptap in the PATH of the workers.

Exit status 0: all was decoded. 1: some captures could not be read; they are listed, and everything else is in the dataset."""
import os
import subprocess
import sys
import tempfile

ENDINGS = (".pcap", ".pcapng", ".cap", ".gz", ".zst")


def parts(captures):
    """The captures of each folder, in order of name."""
    found = {}
    if captures.startswith("s3://"):
        bucket, _, prefix = captures.removeprefix("s3://").partition("/")
        pages = storage().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        names = [f"s3://{bucket}/{entry['Key']}" for page in pages for entry in page.get("Contents", [])]
    else:
        names = [os.path.join(folder, name) for folder, _, files in os.walk(captures) for name in files]
    for name in sorted(names):
        if name.endswith(ENDINGS):
            found.setdefault(name.rsplit("/", 1)[0], []).append(name)
    return sorted(found.items())


def storage():
    import boto3  # only for captures in a bucket

    return boto3.client("s3")


def fetched(names, folder):
    """The captures as files. Those of a bucket are copied, with the folder that names their host. Nothing else of a key is a part
    of the path: a key may have `..` in it."""
    for name in names:
        if not name.startswith("s3://"):
            yield name
            continue
        bucket, _, key = name.removeprefix("s3://").partition("/")
        *above, file = key.split("/")
        path = os.path.join(folder, *[part for part in above if part.startswith("host=")][-1:], file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        storage().download_file(bucket, key, path)
        yield path


def decode(part, dataset, options):
    """One task. An error makes Spark run it again; a capture that cannot be read is no error."""
    folder, names = part
    with tempfile.TemporaryDirectory() as copies:
        command = [os.environ.get("MCPTAP", "mcptap"), "read", "--threads", "1", "--dataset", dataset, *options]
        done = subprocess.run([*command, *fetched(names, copies)], capture_output=True, text=True, errors="replace")
    nothing = "no capture could be read" in done.stderr
    if done.returncode not in (0, 1) and not nothing:
        raise RuntimeError(f"{folder}: {done.stderr.strip()}")
    unread = done.stderr.strip() if done.returncode else ""
    return folder, done.stdout.strip(), unread


def run(spark, captures, dataset, options):
    """Decodes all parts. Returns what could not be read."""
    work = parts(captures)
    if not work:
        sys.exit(f"there is no capture in {captures}")
    rows = spark.sparkContext.parallelize(work, len(work)).map(lambda part: decode(part, dataset, options)).collect()
    for folder, counts, _ in rows:
        print(f"{folder}: {', '.join(counts.splitlines())}")
    return [unread for _, _, unread in rows if unread]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("mcptap").getOrCreate()
    unread = run(spark, sys.argv[1], sys.argv[2], sys.argv[3:])
    spark.stop()
    print("\n".join(unread), file=sys.stderr, end="\n" if unread else "")
    sys.exit(1 if unread else 0)


if __name__ == "__main__":
    main()
