"""Tries to read, list and write files of the host. argv: a canary text, then further paths to try."""
import json, os, sys

canary, more = sys.argv[1], sys.argv[2:]
paths = """/root /home /var /var/log /var/lib /run /run/docker.sock /var/run/docker.sock /boot /opt /srv /mnt /media
/lost+found /sys /sys/kernel /sys/fs/cgroup /etc/shadow /etc/sudoers /etc/ssh /etc/hostname /etc/machine-id
/etc/resolv.conf /etc/crontab /etc/environment /root/.ssh /root/.bashrc /home/ubuntu /proc/1/root /proc/1/cwd
/proc/1/environ /proc/1/mem /proc/1/maps /proc/1/fd /proc/kcore /proc/kmsg /proc/2/root/root /dev/mem /dev/kmsg
/dev/vda /dev/sda /dev/shm /dev/pts /dev/tty /dev/fuse /dev/net/tun /dev/kvm /plugin/../root /proc/self/root/root
/proc/self/cwd/../home /proc/thread-self/root/var /sandbox/../etc/shadow""".split() + more

hits = []
for path in paths:
    try:
        names = os.listdir(path)
        hits.append(f"list {path}: {names[:3]}")
    except OSError:
        pass
    try:
        with open(path, "rb") as file:
            file.read(1)
        hits.append(f"read {path}")
    except OSError:
        pass
    for name in (path, path + "/backplane-attack"):
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600))
            hits.append(f"write {name}")
        except OSError:
            pass

# A readable file must not be a file of the host.
for path in ("/etc/passwd", "/etc/group", "/etc/hosts"):
    if "root:" in open(path).read() or canary in open(path).read():
        hits.append(f"host's {path}")

# Searches all files for the canary, except those below /usr and /proc.
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("usr", "proc")]
    for name in files:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if canary.encode() in file.read(1 << 20):
                    hits.append(f"canary in {folder}/{name}")
        except OSError:
            pass
print(json.dumps({"tries": len(paths), "hits": hits}))
