#!/usr/bin/env python3
"""Plays the story of the help desk over real pipes and sockets, and records the HTTP part into capture.pcapng.

    make.py                                   record anew (tcpdump needs root)
    make.py --no-capture                      only play
    make.py [--no-capture] --wrap CMD ARG...  the same, the STDIO server started as: CMD ARG... python3 directory.py
"""

import argparse
import contextlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import host
import servers
from record import recording

SERVICE_DESK_PORT, MAIL_PORT = 8932, 8933


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-capture", action="store_true")
    # Everything behind --wrap belongs to the wrapper, a "--" of its own too, which argparse would take away.
    arguments = sys.argv[1:]
    at = arguments.index("--wrap") if "--wrap" in arguments else len(arguments)
    options, wrapper = parser.parse_args(arguments[:at]), arguments[at + 1 :]
    servers.start(servers.ServiceDesk, SERVICE_DESK_PORT)
    servers.start(servers.Mail, MAIL_PORT)
    recorder = recording([SERVICE_DESK_PORT, MAIL_PORT], HERE / "capture.pcapng")
    with contextlib.nullcontext() if options.no_capture else recorder:
        host.run(wrapper, SERVICE_DESK_PORT, MAIL_PORT)


if __name__ == "__main__":
    main()
