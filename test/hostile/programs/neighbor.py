"""Searches for the scratch folder of another call. argv: the canary in it."""
import json, os, sys

canary = sys.argv[1].encode()
hits, tries = [], 0
os.symlink("/sandbox/scratch/..", "/sandbox/scratch/up")
folders = ["/sandbox/scratch", "/sandbox/scratch/..", "/sandbox/scratch/../..", "/sandbox/scratch/up/scratch", "/tmp",
          "/sandbox", "/proc/1/root/sandbox/scratch", "/proc/1/cwd"]
folders += [f"/proc/{pid}/root/sandbox/scratch" for pid in range(1, 400)]
folders += [f"/proc/{pid}/cwd" for pid in range(1, 400)]
for folder in folders:
    tries += 1
    try:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not path.startswith("/proc/self") and canary in open(path, "rb").read(1 << 16):
                hits.append(path)
    except OSError:
        pass
print(json.dumps({"tries": tries, "hits": hits}))
