"""Inside a sandbox with egress: makes allowed requests, then forbidden ones.

argv: JSON with name and port (what is allowed), addresses (of the host), abstract (a socket of the host); or with
gateway (its URL), to send requests only to the gateway. Prints one JSON object: `served` (the responses to the allowed
requests), `hits` (what should not have been reached) and `tries`; with gateway the status of each request.
"""
import errno
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request

options = json.loads(sys.argv[1])

if "gateway" in options:
    statuses = {}
    for path, token in [("/v1/sessions", "vai_dlg_x"), ("/v1/sessions", "bpk_x"), ("/metrics", "vai_dlg_x")]:
        request = urllib.request.Request(options["gateway"] + path, headers={"Authorization": f"Bearer {token}"})
        try:
            statuses[f"{path} {token}"] = urllib.request.urlopen(request, timeout=5).status
        except urllib.error.HTTPError as error:
            statuses[f"{path} {token}"] = error.code
    print(json.dumps(statuses))
    sys.exit(0)

name, port = options["name"], options["port"]
served, hits, tries = {}, [], 0


def fetch(host, to, path="/x", named=None, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect((host, to))
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {named or name}:{to}\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while chunk := s.recv(65536):
            received += chunk
        return received.decode("latin1")


def attempt(what, run):
    global tries
    tries += 1
    try:
        if run():
            hits.append(what)
    except (OSError, subprocess.CalledProcessError) as error:
        if getattr(error, "errno", None) == errno.EPERM:
            raise


url = f"http://{name}:{port}/x"
served["proxy"] = urllib.request.urlopen(url, timeout=5).read().decode()
served["transparent"] = fetch(name, port)[-2:]
served["curl"] = subprocess.run(["/usr/bin/curl", "-s", url], capture_output=True, text=True).stdout
direct = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
served["curl-direct"] = subprocess.run(["/usr/bin/curl", "-s", url], env=direct, capture_output=True, text=True).stdout

for address in ["127.0.0.1", "127.88.0.1", "0.0.0.0", "169.254.169.254", "8.8.8.8", *options["addresses"]]:
    attempt(f"tcp {address}", lambda: "ok" in fetch(address, port, "/evil"))
attempt("tcp ::1", lambda: "ok" in fetch("::1", port, "/evil", None, socket.AF_INET6))
attempt("tcp mapped", lambda: "ok" in fetch("::ffff:8.8.8.8", port, "/evil", None, socket.AF_INET6))
attempt("another host", lambda: "ok" in fetch(name, port, "/evil", "evil.test"))
attempt("dns", lambda: socket.getaddrinfo("evil.test", 80))
attempt("proxied", lambda: urllib.request.urlopen(f"http://evil.test:{port}/", timeout=5))
attempt("direct", lambda: urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://evil.test:{port}/"))
attempt("curl", lambda: subprocess.check_output(["/usr/bin/curl", "-sf", f"http://127.0.0.1:{port}/evil"], env=direct))


def udp(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.3)
        s.sendto(b"evil", (address, 53))
        return s.recv(512)


for address in ["8.8.8.8", "127.0.0.53", *options["addresses"]]:
    attempt(f"udp {address}", lambda: udp(address))


def abstract():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect("\0" + options["abstract"])
        return True


attempt("abstract", abstract)
print(json.dumps({"served": served, "hits": hits, "tries": tries}))
