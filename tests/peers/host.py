"""A host in Python: passes lines from its stdin to a server, and the server's lines to its stdout.  host.py CMD ARG..."""

import subprocess
import sys
import threading

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
threading.Thread(target=server.stderr.read, daemon=True).start()


def answers():
    for line in server.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.flush()


answering = threading.Thread(target=answers)
answering.start()
for line in sys.stdin.buffer:
    server.stdin.write(line)
    server.stdin.flush()
server.stdin.close()
answering.join()
sys.exit(server.wait())
