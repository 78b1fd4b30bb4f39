#!/usr/bin/env python3
"""Datasets at scale: what writing, asking, shipping and distributed decoding cost.

    cargo build --release --features full
    target/engines/venv/bin/python benches/fleet.py dataset [--size 1300M] [--folder DIR]
    target/engines/venv/bin/python benches/fleet.py ship DB [--folder DIR]
    target/engines/venv/bin/python benches/fleet.py spark [--size 300M] [--folder DIR]

dataset  a million messages: `read --dataset` beside `read`, and what a host pays to record and ship them. The generated texts
         repeat, so their size says little
ship     the same for a database, such as that of `cargo bench --bench large_store`, whose texts differ
spark    eight captures: one local worker beside two, then two of which one is killed midway. Needs Java

`tests/engines/setup.sh` installs the engines."""

import argparse
import glob
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from versus import HERE, MCPTAP, generated, measure

sys.path.insert(0, os.path.join(HERE, "..", "samples", "fleet"))


def size(folder):
    return sum(os.path.getsize(file) for file in glob.glob(f"{folder}/**/*.parquet", recursive=True))


def row(what, figures):
    wall, cpu, memory = figures
    print(f"{what:44} {wall:7.1f} s {cpu:7.1f} s of CPU {memory:6.0f} MB", flush=True)
    return figures


def dataset(folder, options):
    capture = generated("bigpcap.py", os.path.join(folder, "capture.pcap"), "--size", options.size or "1300M")
    place, bare, database = (os.path.join(folder, name) for name in ("dataset", "without-texts", "recorded.db"))
    read = row("read", measure([MCPTAP, "read", capture]))
    row("read --json", measure([MCPTAP, "read", "--json", capture]))
    written = row("read --dataset", measure([MCPTAP, "read", "--dataset", place, capture]))
    row("read --dataset --no-text", measure([MCPTAP, "read", "--dataset", bare, "--no-text", capture]))
    print(f"speed of read --dataset: {read[0] / written[0]:.0%} of read (aim: 50 %)")
    count = ask(folder, place)
    captured = os.path.getsize(capture)
    print(f"without texts {size(bare) / 1e6:.1f} MB, {size(bare) / captured:.1%} of the capture of {captured / 1e6:.0f} MB (aim: 10 %), {size(bare) / count:.0f} bytes a message")
    row("read --save", measure([MCPTAP, "read", "--save", "--db", database, capture]))
    ship(folder, database)


def ask(folder, place):
    """Counts messages, compares the size with that of the texts alone, and asks a question. Returns the count."""
    import duckdb

    connection = duckdb.connect()
    messages = f"read_parquet('{place}/messages/*/*.parquet', hive_partitioning = true)"
    count, texts = connection.execute(f"SELECT count(*), sum(octet_length(encode(text))) FROM {messages}").fetchone()
    file = os.path.join(folder, "texts.zst")
    with open(file, "wb") as out:
        packed = subprocess.Popen(["zstd", "-3", "-c"], stdin=subprocess.PIPE, stdout=out)
        for (text,) in iter(connection.execute(f"SELECT text FROM {messages} ORDER BY time_ns").fetchone, None):
            packed.stdin.write(text.encode())
        packed.stdin.close()
        packed.wait()
    alone = os.path.getsize(file)
    print(f"{count:,} messages, {texts / 1e6:.0f} MB of texts")
    print(f"with texts {size(place) / 1e6:.1f} MB, {size(place) / alone:.2f} times zstd -3 of the texts, {alone / 1e6:.1f} MB (aim: 1.1)")
    question = f"""SELECT host, tool, count(*), quantile_disc(latency_ns, 0.95) FROM {messages}
                   WHERE latency_ns IS NOT NULL AND tool IS NOT NULL GROUP BY host, tool"""
    began = time.monotonic()
    answers = len(connection.execute(question).fetchall())
    print(f"p95 by tool and host: {time.monotonic() - began:.2f} s for {answers} rows (aim: 1 s)")
    return count


def ship(folder, database):
    place = os.path.join(folder, "shipped")
    command = [MCPTAP, "--db", database, "ship", "--once", "--dataset", place]
    row("ship --once", measure(command))
    row("ship --once, nothing new", measure(command))
    ask(folder, place)


def spark(folder, options):
    from pyspark.sql import SparkSession

    import decode

    captures = os.path.join(folder, "captures")
    for number in range(8):
        host = os.path.join(captures, f"host=web-{number}")
        os.makedirs(host)
        generated("bigpcap.py", os.path.join(host, "capture.pcap"), "--size", options.size or "300M", "--seed", str(number + 1))
    os.environ["MCPTAP"] = os.path.abspath(MCPTAP)
    times = {}
    for name, workers, kills in (("one", 1, False), ("two", 2, False), ("killed", 2, True)):
        session = SparkSession.builder.master(f"local[{workers},4]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        session.sparkContext.addPyFile(decode.__file__)
        session.sparkContext.parallelize(range(workers), workers).count()
        killer = threading.Thread(target=kill_one, args=(os.path.join(folder, name),))
        if kills:
            killer.start()
        began = time.monotonic()
        unread = decode.run(session, captures, os.path.join(folder, name), ["--capture-name", "fleet"])
        times[name] = time.monotonic() - began
        if kills:
            killer.join()
        session.stop()
        print(f"{name}: {times[name]:.1f} s, {len(unread)} captures unread", flush=True)
    print(f"two workers are {times['one'] / times['two']:.2f} times as fast as one (aim: 1.6)")
    compare = os.path.join(HERE, "..", "tests", "engines", "compare.py")
    for name in ("two", "killed"):
        print(f"{name} beside one:", "equal" if subprocess.run([sys.executable, compare, os.path.join(folder, "one"), os.path.join(folder, name)]).returncode == 0 else "DIFFERENT")


def kill_one(place):
    """Kills a worker of Spark, and its program, once the first rows are there."""
    while size(place) == 0:
        time.sleep(0.1)
    for process in descendants(os.getpid()):
        command = open(f"/proc/{process}/cmdline", "rb").read()
        if b"read\0--threads" in command:
            worker = int(open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[1])
            os.kill(worker, signal.SIGKILL)
            os.kill(process, signal.SIGKILL)
            print(f"killed worker {worker} and its program {process}", flush=True)
            return
    print("no worker was found", flush=True)


def descendants(process):
    for child in subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True).stdout.split():
        yield int(child)
        yield from descendants(int(child))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["dataset", "ship", "spark"])
    parser.add_argument("database", nargs="?")
    parser.add_argument("--size")
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "ship":
            ship(folder, options.database)
        else:
            {"dataset": dataset, "spark": spark}[options.what](folder, options)


if __name__ == "__main__":
    main()
