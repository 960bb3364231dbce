#!/usr/bin/env bash
# grpcio 1.85.1 (PyPI, CPython 3.11, Linux). A client channel with grpc.keepalive_time_ms 10000 and grpc.keepalive_timeout_ms 10000, on
# a TCP connection that has gone silent (it stays open, and no byte passes any more).
# Guess, as gRPC's documentation of keepalive reads: the connection is closed 10 s after a ping without an answer, that is some 20 s after
# the last byte, and the call fails with UNAVAILABLE.
# Seen: nothing for 45 s; the call ends with its own deadline. What closes the connection is grpc.http2.ping_timeout_ms, whose default
# is a minute and which that documentation does not mention. With 10000 there, UNAVAILABLE "ping timeout" after some 20 s.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1
cat > "$work/silent.py" <<'PY'
import os
import socket
import sys
import threading
import time
from concurrent import futures

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
silent, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))


def pump(one, other):
    while content := one.recv(65536):
        if silent.is_set():
            threading.Event().wait()  # for ever: nothing passes, nothing is closed
        other.sendall(content)


def relay():
    while True:
        near, far = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
        for ends in ((near, far), (far, near)):
            threading.Thread(target=pump, args=ends, daemon=True).start()


threading.Thread(target=relay, daemon=True).start()
options = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
if sys.argv[1] == "with":
    options.append(("grpc.http2.ping_timeout_ms", 10_000))
channel = grpc.insecure_channel(f"127.0.0.1:{listener.getsockname()[1]}", options=options)
call = channel.unary_unary("/test/Echo")
assert call(b"x", timeout=10) == b"x"
time.sleep(1)
silent.set()
began = time.monotonic()
try:
    call(b"x", timeout=45)
except grpc.RpcError as error:
    print(error.code().name, f"after {time.monotonic() - began:.0f} s", flush=True)
os._exit(0)
PY
without=$("$work/venv/bin/python" "$work/silent.py" without 2>/dev/null)
with=$("$work/venv/bin/python" "$work/silent.py" with 2>/dev/null)
echo "keepalive_timeout_ms alone: $without; with ping_timeout_ms: $with"
[[ $without == "DEADLINE_EXCEEDED after 45 s" && $with =~ ^UNAVAILABLE\ after\ (1|2)[0-9]\ s$ ]]
