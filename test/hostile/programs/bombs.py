"""An rterm.plugin.v1 tool that exhausts one resource. argv: memory, disk, files, cpu, forks, forks-and-hangs, none."""
import ctypes, json, os, sys, time

PR_SET_NAME = 15

kind = sys.argv[1]
sys.stdin.readline()
manifest = {"plugin_id": "acme/fixture", "plugin_version": "1.0.0", "protocol_version": "rterm.plugin.v1",
            "exposed_tools": ["echo"]}
print(json.dumps({"type": "handshake_response", "manifest": manifest}), flush=True)
request = json.loads(sys.stdin.readline())
scratch = request["context"]["scratch_dir"]
if kind == "memory":
    block = bytearray(8 << 30)
    for at in range(0, len(block), 4096):
        block[at] = 1
elif kind == "disk":
    for number in range(1000):
        with open(f"{scratch}/{number}", "wb") as file:
            file.write(b"x" * (1 << 20))
elif kind == "files":
    for number in range(100_000):
        open(f"{scratch}/{number}", "w").close()
elif kind == "cpu":
    while True:
        pass
elif kind.startswith("forks"):
    try:
        while True:
            if os.fork() == 0:
                time.sleep(600)
    except OSError:
        if kind == "forks":
            raise
        # The host sees the name of the process. Every other way to report this needs a working pipe or file.
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"fork-refused", 0, 0, 0)
        time.sleep(600)
print(json.dumps({"type": "response", "request_id": request["request_id"], "status": "ok", "output": "fine"}), flush=True)
