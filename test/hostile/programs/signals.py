"""Sends signals to pids of the host, to low pids and to PID 1. argv: pids of the host."""
import json, os, signal, sys

hits, tries = [], 0
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid in [int(word) for word in sys.argv[1:]] + list(range(3, 300)):
    if pid == os.getpid():
        continue
    tries += 1
    try:
        os.kill(pid, signal.SIGKILL)
        hits.append(pid)
    except OSError:
        pass
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
    tries += 1
    os.kill(1, number)
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass  # Only PID 1 is left, and kill(-1) does not reach it.
print(json.dumps({"tries": tries, "hits": hits}))
