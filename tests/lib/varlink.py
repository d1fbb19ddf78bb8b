"""A stand-in for a service of systemd: listens on a Unix socket and answers Varlink calls, or fails. Used by varlink-imds and
varlink-pcrextend."""
import json
import os
import socket
import threading
import time


def serve(path, answer, fault=None, ignored=()):
    """Answers each call with answer(CALL), at `path`. Calls of the methods `ignored` get no answer. With a fault it fails:
    `refused` (the socket exists, nothing listens), `closed` (it closes each connection), `silent`, `garbage`."""
    def converse(client):
        if fault == "closed":
            client.close()
            return
        received = b""
        while piece := client.recv(65536):
            received += piece
            while b"\0" in received:
                call, received = received.split(b"\0", 1)
                if fault == "garbage":
                    client.sendall(b"\x1b[31m{not JSON\0")
                    continue
                call = json.loads(call)
                if fault == "silent" or call["method"] in ignored:
                    continue
                client.sendall(json.dumps(answer(call)).encode() + b"\0")

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o666)
    if fault != "refused":
        listener.listen(64)
    while fault == "refused":
        time.sleep(3600)
    while True:
        threading.Thread(target=converse, args=(listener.accept()[0],), daemon=True).start()
