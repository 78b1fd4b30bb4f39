"""The lines of story.jsonl: who says what, word for word, in order."""

import json
import pathlib
import time

HERE = pathlib.Path(__file__).resolve().parent


def rows(server=None):
    """The messages to and from one server, or all of them."""
    with open(HERE / "story.jsonl", encoding="utf-8") as file:
        told = [json.loads(line) for line in file]
    return [row for row in told if server in (None, row["server"])]


def is_call(row):
    return row["direction"] == "client-to-server"


def play(server, receive, send):
    """The server's part: every call has to be the one the story tells; every answer takes its time."""
    for row in rows(server):
        if is_call(row):
            expect(row, receive())
        else:
            time.sleep(row["after_ms"] / 1000)
            send(row["raw"])


def expect(row, got):
    if got != row["raw"]:
        raise SystemExit(f"{row['server']}: the story tells {row['raw']!r}, there came {got!r}")
