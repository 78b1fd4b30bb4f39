#!/usr/bin/env python3
"""The server Directorio: MCP over standard input and output, one message a line."""

import sys

import story


def receive():
    return sys.stdin.buffer.readline().decode().rstrip("\n")


def send(text):
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    print("Directorio: ready", file=sys.stderr)
    story.play("Directorio", receive, send)
    sys.stdin.buffer.read()  # until the host hangs up
