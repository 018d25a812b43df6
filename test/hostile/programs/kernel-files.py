"""Tries to open the files in /proc that give access to the kernel or PID 1, and reports the state that prevents it."""
import json, os

hits, tries = [], 0

def write(path, text):
    global tries
    tries += 1
    try:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, text)
        hits.append(path)
    except OSError:
        pass

def read(path):
    global tries
    tries += 1
    try:
        with open(path, "rb") as file:
            file.read(16)
        hits.append(path)
    except OSError:
        pass

for path, text in [("/proc/sys/kernel/core_pattern", b"|/bin/sh"), ("/proc/sysrq-trigger", b"h"),
                   ("/proc/sys/kernel/hostname", b"x"), ("/proc/sys/kernel/modprobe", b"/bin/sh"),
                   ("/proc/sys/vm/overcommit_memory", b"1"), ("/proc/sys/net/ipv4/ip_forward", b"1"),
                   ("/proc/self/oom_score_adj", b"900"), ("/proc/1/oom_score_adj", b"1000"),
                   ("/proc/self/uid_map", b"0 0 1"), ("/proc/self/setgroups", b"allow"),
                   ("/proc/self/loginuid", b"0"), ("/proc/irq/0/smp_affinity", b"1")]:
    write(path, text)
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/auxv", "/proc/1/stack", "/proc/kcore",
             "/proc/kmsg", "/proc/vmallocinfo"):
    read(path)
for path in ("/proc/1/fd", "/proc/1/root", "/proc/1/cwd", "/proc/1/map_files"):
    tries += 1
    try:
        os.listdir(path)
        hits.append(path)
    except OSError:
        pass

def status(pid):
    return dict(line.rstrip("\n").split(":\t", 1) for line in open(f"/proc/{pid}/status") if ":\t" in line)

fds = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
       if os.path.lexists(f"/proc/self/fd/{name}")}
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
print(json.dumps({"tries": tries, "hits": hits, "me": status("self"), "init": status(1), "fds": fds, "pids": pids}))
