"""Tries to create entries in every folder and mount, and to write, chmod, unlink and rename read-only files."""
import json, os

hits, tries = [], 0

def attempt(what, act):
    global tries
    tries += 1
    try:
        act()
        hits.append(what)
    except OSError:
        pass

def create(folder):
    os.close(os.open(os.path.join(folder, "backplane-attack"), os.O_WRONLY | os.O_CREAT, 0o600))

roots = {"/", "/plugin", "/plugin/assets", "/usr", "/usr/bin", "/usr/local/bin", "/etc", "/etc/ssl", "/dev",
         "/dev/shm", "/proc", "/proc/self", "/sandbox", "/tmp", "/var/tmp", "/nonexistent", os.getcwd()}
for line in open("/proc/self/mountinfo"):
    roots.add(line.split()[4])
for root in sorted(roots):
    if os.path.isdir(root):
        attempt(f"create in {root}", lambda: create(root))
        attempt(f"mkdir in {root}", lambda: os.mkdir(os.path.join(root, "backplane-folder")))
        attempt(f"link in {root}", lambda: os.symlink("/", os.path.join(root, "backplane-link")))
for path in ("/plugin/code", "/plugin/assets/file", "/etc/passwd", "/usr/bin/env", "/sandbox/init"):
    attempt(f"open {path}", lambda: os.close(os.open(path, os.O_WRONLY)))
    attempt(f"chmod {path}", lambda: os.chmod(path, 0o777))
    attempt(f"unlink {path}", lambda: os.unlink(path))
    attempt(f"rename {path}", lambda: os.rename(path, path + "2"))
flags = {line.split()[4]: line.split()[5] for line in open("/proc/self/mountinfo")}
print(json.dumps({"tries": tries, "hits": hits, "flags": flags}))
