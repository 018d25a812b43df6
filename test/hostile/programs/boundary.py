"""Looks for ways around the boundary that is built when a sandbox starts. argv: JSON with facts about the host."""
import ctypes, fcntl, json, os, resource, struct, sys, termios

host = json.loads(sys.argv[1])
hits, tries = [], 0
libc = ctypes.CDLL(None, use_errno=True)
SYSCALLS = {"x86_64": {"unshare": 272, "setns": 308, "pivot_root": 155, "umount2": 166, "mount": 165, "ptrace": 101,
                       "setgroups": 116, "setuid": 105, "setgid": 106, "chroot": 161, "clone": 56},
            "aarch64": {"unshare": 97, "setns": 268, "pivot_root": 41, "umount2": 39, "mount": 40, "ptrace": 117,
                        "setgroups": 159, "setuid": 146, "setgid": 144, "chroot": 51, "clone": 220}}[os.uname().machine]

def check(what, reached):
    global tries
    tries += 1
    if reached:
        hits.append(what)

def succeeds(act):
    try:
        act()
        return True
    except (OSError, ValueError):
        return False

def call(name, *args):
    return libc.syscall(SYSCALLS[name], *args) >= 0

def text(path):
    with open(path, errors="replace") as file:
        return file.read()

# Traces of the host's root.
same = lambda a, b: (os.stat(a).st_dev, os.stat(a).st_ino) == (os.stat(b).st_dev, os.stat(b).st_ino)
check("/.. is another folder", not same("/", "/.."))
check("/../../.. is another folder", not same("/", "/../../.."))
check("/proc/self/root/.. is another folder", not same("/", "/proc/self/root/.."))
folder = os.open("/", os.O_RDONLY)
for _ in range(8):
    os.fchdir(folder)
    os.chdir("..")
check("fchdir and .. leave the root", not same("/", "."))
os.chdir("/")
for name in host["names"]:
    check(f"/{name} of the host", os.path.lexists(f"/{name}"))
mounts = [line.split(" ") for line in text("/proc/self/mountinfo").splitlines()]
for fields in mounts:
    check(f"mount {fields[4]}", fields[4] != "/" and not any(fields[4] == path or fields[4].startswith(path + "/") for path in host["mounts"]))
    check(f"{fields[4]} propagates", any(field.startswith(("shared:", "master:")) for field in fields[6:fields.index("-")]))
for pid in (1, "self"):
    for name in ("root", "cwd"):
        if pid == 1:
            check(f"/proc/1/{name}", succeeds(lambda: os.stat(f"/proc/1/{name}/")))
check("/proc/1/exe", succeeds(lambda: os.readlink("/proc/1/exe")))

# The user: one id, no groups, none that can be gained.
for name in ("uid_map", "gid_map"):
    lines = text(f"/proc/self/{name}").splitlines()
    check(name, len(lines) != 1 or lines[0].split()[0] != "1000" or lines[0].split()[2] != "1")
check("setgroups file", text("/proc/self/setgroups").strip() != "deny")
check("setgroups", call("setgroups", 1, struct.pack("I", 1000)))
check("groups", any(group != 1000 and group != 65534 for group in os.getgroups()))
check("setuid 0", call("setuid", 0))
check("setgid 0", call("setgid", 0))
check("setuid 59000", call("setuid", 59000))
for pid in (1, "self"):
    status = dict(line.split(":\t", 1) for line in text(f"/proc/{pid}/status").splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        check(f"{pid} {name}", int(status[name], 16) != 0)
    check(f"{pid} NoNewPrivs", status["NoNewPrivs"] != "1")
    check(f"{pid} Seccomp", status["Seccomp"] != "2")

# Namespaces: all are new, and none can be created, entered or changed.
for name, target in host["namespaces"].items():
    check(f"{name} namespace of the host", os.readlink(f"/proc/self/ns/{name}") == target)
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x00000080):
    check(f"unshare {flag:#x}", call("unshare", flag))
for name in host["namespaces"]:
    fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    check(f"setns {name}", call("setns", fd, 0))
    os.close(fd)
check("mount", call("mount", b"none", b"/sandbox", b"tmpfs", 0, None))
check("remount", call("mount", None, b"/", None, 0x20 | 0x1000, None))
check("umount /proc", call("umount2", b"/proc", 2))
check("pivot_root", call("pivot_root", b"/", b"/"))
check("chroot", call("chroot", b"/sandbox"))
check("host name", os.uname().nodename != "sandbox" or text("/proc/sys/kernel/domainname").strip() not in ("", "(none)"))
check("shared memory of the host", len(text("/proc/sysvipc/shm").splitlines()) > 1)
for line in text("/proc/self/cgroup").splitlines():
    check(f"cgroup {line}", line.split(":", 2)[2] != "/")

# PID 1.
check("ptrace PID 1", call("ptrace", 16, 1, 0, 0))
for name in ("environ", "mem", "maps", "auxv", "syscall", "stack"):
    check(f"/proc/1/{name}", succeeds(lambda: open(f"/proc/1/{name}", "rb").read(1)))
check("fds of PID 1", succeeds(lambda: os.listdir("/proc/1/fd")))
check("command line of PID 1", text("/proc/1/cmdline").strip("\0") != "")

# Terminals, core dumps and descriptors.
check("session", os.getsid(0) != os.getpid())
check("terminal", text("/proc/self/stat").rsplit(")", 1)[1].split()[4] != "0")
check("/dev/tty", succeeds(lambda: os.open("/dev/tty", os.O_RDWR)))
for fd in (0, 1, 2):
    check(f"TIOCSTI on {fd}", succeeds(lambda: fcntl.ioctl(fd, termios.TIOCSTI, b"x")))
check("core dumps", resource.getrlimit(resource.RLIMIT_CORE) != (0, 0))
check("core dumps can be enabled", succeeds(lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1))))
os.close(folder)
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2 and os.path.lexists(f"/proc/self/fd/{name}"):
        check(f"descriptor {name} {os.readlink(f'/proc/self/fd/{name}')}", True)
print(json.dumps({"tries": tries, "hits": hits, "mounts": [fields[4] for fields in mounts]}))
