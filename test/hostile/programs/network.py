"""Tries connections that would bypass the proxy, and inherited descriptors.

argv: TCP port, UDP port, name of an abstract socket, near (only this machine) or far (also other hosts), further
addresses.
"""
import json, os, socket, sys

tcp, udp, abstract, reach, *addresses = sys.argv[1:]
far = reach == "far"
hits, tries = [], 0

def attempt(what, act):
    global tries
    tries += 1
    try:
        act()
        hits.append(what)
    except OSError:
        pass

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(0.5)
        s.connect(address)

def send(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        s.connect(address)
        s.send(b"canary")
        if address[1] == int(udp):
            raise OSError("only the listener knows whether it arrived")
        s.recv(1)

near = ["127.0.0.1", "127.1", "0.0.0.0", "localhost", *addresses]
for address in near + far * ["169.254.169.254", "10.0.0.1", "192.168.0.1", "172.17.0.1",
                "1.1.1.1", "8.8.8.8"]:
    attempt(f"tcp {address}", lambda: connect(socket.AF_INET, (address, int(tcp))))
    attempt(f"http {address}", lambda: connect(socket.AF_INET, (address, 80)))
    attempt(f"udp {address}", lambda: send(socket.AF_INET, (address, int(udp))))
    attempt(f"dns {address}", lambda: send(socket.AF_INET, (address, 53)))
for address in far * ["::1", "fe80::1", "::ffff:127.0.0.1", "2606:4700:4700::1111", "fd00:ec2::254"]:
    attempt(f"tcp6 {address}", lambda: connect(socket.AF_INET6, (address, int(tcp))))
    attempt(f"udp6 {address}", lambda: send(socket.AF_INET6, (address, int(udp))))
for name in far * ["example.com", "gateway", "metadata.google.internal"]:
    attempt(f"resolve {name}", lambda: socket.getaddrinfo(name, 80))
for path in ["\0" + abstract, "/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/private"]:
    attempt(f"unix {path!r}", lambda: connect(socket.AF_UNIX, path))
for fd in range(3, 1024):
    attempt(f"inherited fd {fd}", lambda: os.fstat(fd))
interfaces = [name for _, name in socket.if_nameindex()]
print(json.dumps({"tries": tries, "hits": hits, "interfaces": interfaces}))
