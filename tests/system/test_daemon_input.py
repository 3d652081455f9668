#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""test_daemon_input.py - justitiad and clients that mean it no good, or are broken."""
import contextlib
import errno
import os
import random
import resource
import signal
import socket
import struct
import time
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tap  # noqa: E402
from daemon import (  # noqa: E402
    CHUNK_BYTES, CLIENT_WAITS, DAEMON_WAITS, FLOWS, HEAD, HELLO, LOOK, REGION_BYTES,
    STATUS, TAIL, WAKE, WANTED, Client, Daemon, Refused, answers, connect, header, hello,
    run, says, skip_unless_built, until,
)


# ---- bad input -------------------------------------------------------------------------


def test_greetings(t, daemon):
    cases = (
        ("wrong magic", hello(magic=0x12345678), errno.EPROTONOSUPPORT),
        ("version 2", hello(version=2), errno.EPROTONOSUPPORT),
        ("version 0", hello(version=0), errno.EPROTONOSUPPORT),
        ("one byte", b"x", errno.EPROTONOSUPPORT),
        ("noise", os.urandom(168), errno.EPROTONOSUPPORT),
        ("noise of 60 KB", os.urandom(60000), errno.EPROTONOSUPPORT),
        ("HELLO cut short", hello()[:-1], errno.EBADMSG),
        ("HELLO too long", hello() + b"\0", errno.EBADMSG),
        ("HELLO of 100 KB", hello() + bytes(100000), errno.EBADMSG),
        ("header alone", header(HELLO), errno.EBADMSG),
        ("LOOK first", header(LOOK), errno.EBADMSG),
        ("STATUS too long", header(STATUS) + b"?", errno.EBADMSG),
        ("unknown type", header(999), errno.EBADMSG),
    )
    for name, message, error in cases:
        sock = connect(daemon.path)
        sock.send(message)
        got = answers(sock)
        t.ok(got == (-error, True), f"greeting, {name}: refused, then closed", got)
        sock.close()
    sock = connect(daemon.path)
    for _ in range(5):
        with contextlib.suppress(OSError):
            sock.send(hello(version=7))
    t.ok(answers(sock)[0] == -errno.EPROTONOSUPPORT, "greeting, five at once: the answer arrives")
    sock = connect(daemon.path)
    sock.send(b"")
    t.ok(sock.recv(64) == b"", "an empty message ends the connection")
    t.ok(says(daemon, "protocol 0x12345678 version 1; accepted: 0x4a535431 version 1"),
         "the log quotes what came and what is accepted", daemon.log())


def test_deaths(t, daemon):
    """A client dies at each step. The daemon and a bystander must not notice."""
    bystander = Client(daemon.path)
    bystander.put(FLOWS, 1)
    bystander.look()
    until(lambda: len(daemon.status()["clients"]) == 1)
    fds = daemon.fds()
    for _ in range(50):
        connect(daemon.path).close()
    for _ in range(50):
        sock = connect(daemon.path)
        sock.send(hello())
        sock.close()
    for _ in range(50):
        sock = connect(daemon.path)
        sock.send(header(STATUS))
        sock.close()
    for step in range(3):
        for _ in range(20):
            client = Client(daemon.path, "latency" if step == 2 else "")
            if step >= 1:
                client.put(FLOWS, 3)
                client.put(WANTED, 500)
                client.put(CLIENT_WAITS, 1)
                client.look()
            client.close()
    t.ok(daemon.alive(), "210 clients died in their greetings, attached, and hungry")
    t.ok(until(lambda: len(daemon.status()["clients"]) == 1), "none of them is left in the table")
    t.ok(until(lambda: daemon.fds() == fds), "no descriptor is left", (daemon.fds(), fds))
    t.ok(until(lambda: bystander.get(CHUNK_BYTES) == 1000000), "the policy is as it was")
    bystander.put(WANTED, 1)
    bystander.look()
    t.ok(until(lambda: bystander.get(HEAD) == 1), "a bystander is served as before")

    child = os.fork()
    if not child:
        client = Client(daemon.path)
        client.put(FLOWS, 1)
        client.put(WANTED, 1 << 30)
        client.look()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    t.ok(until(lambda: len(daemon.status()["clients"]) == 1), "a client killed while hungry is gone")
    bystander.close()


def test_attached_garbage(t, daemon):
    bystander = Client(daemon.path)
    for name, message in (("noise", os.urandom(8)), ("a long one", os.urandom(5000)),
                          ("a short one", b"abc"), ("a second HELLO", hello()),
                          ("STATUS", header(STATUS)), ("WAKE", header(WAKE)),
                          ("LOOK of version 9", header(LOOK, version=9))):
        client = Client(daemon.path)
        client.sock.send(message)
        try:
            closed = client.sock.recv(64) == b""
        except ConnectionResetError:
            closed = True
        t.ok(closed, f"attached, {name}: closed")
        client.close()
    t.ok(says(daemon, "accepted: JST_LOOK of 8 bytes"), "the log says why")
    fds = daemon.fds()
    null = os.open("/dev/null", os.O_RDONLY)
    for greet in (True, False):
        sock = connect(daemon.path) if greet else Client(daemon.path).sock
        for _ in range(3):
            with contextlib.suppress(OSError):
                socket.send_fds(sock, [hello() if greet else header(LOOK)], [null] * 100)
        time.sleep(0.1)
        held = daemon.fds()
        t.ok(held <= fds + 1, f"descriptors passed {'in greeting' if greet else 'by a client'}: not kept",
             (held, fds))
        sock.close()
    os.close(null)
    t.ok(until(lambda: daemon.fds() == fds), "none is left", (daemon.fds(), fds))
    bystander.close()


def test_hostile_region(t, daemon):
    """Anything may be written in a region."""
    seed = int.from_bytes(os.urandom(4), "little")
    t.note(f"seed {seed}")
    rng = random.Random(seed)
    bystander = Client(daemon.path)
    bystander.put(FLOWS, 1)
    clients = [Client(daemon.path, rng.choice(("", "latency", "throughput"))) for _ in range(8)]
    for _ in range(300):
        client = rng.choice(clients)
        start = rng.randrange(0, REGION_BYTES - 64)
        client.region[start:start + 64] = rng.randbytes(64)
        for at in (TAIL, WANTED, FLOWS, HEAD, DAEMON_WAITS, CLIENT_WAITS):
            if rng.random() < 0.5:
                client.put(at, rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32))))
        with contextlib.suppress(BlockingIOError):
            client.sock.setblocking(False)
            client.look()
    time.sleep(0.1)
    t.ok(daemon.alive(), "regions full of noise do it no harm")
    bystander.put(WANTED, 5)
    bystander.look()
    t.ok(until(lambda: bystander.get(HEAD) >= 5), "a bystander gets its tokens")
    t.ok(bystander.get(HEAD) == 5, "and no others", bystander.get(HEAD))
    for client in clients:
        client.close()
    t.ok(until(lambda: bystander.get(CHUNK_BYTES) == 1000000), "when they are gone all is as before")
    bystander.close()


def test_flood(t, daemon):
    """A client that only sends JST_LOOK, never reads, and is stopped."""
    bystander = Client(daemon.path)
    bystander.put(FLOWS, 1)
    child = os.fork()
    if not child:
        client = Client(daemon.path)
        client.put(CLIENT_WAITS, 1)
        client.put(FLOWS, 1)
        end = time.monotonic() + 1.0
        position = 0
        while time.monotonic() < end:
            position += 1
            client.put(WANTED, position)
            client.look()
        os._exit(0)
    time.sleep(0.3)
    began = time.monotonic()
    bystander.put(WANTED, 1)
    bystander.look()
    served = until(lambda: bystander.get(HEAD) == 1, 2)
    t.ok(served, "beside a flood of nudges a bystander is served")
    t.note(f"after {1e3 * (time.monotonic() - began):.2f} ms")
    os.waitpid(child, 0)
    client = Client(daemon.path)
    client.put(FLOWS, 1)
    client.put(CLIENT_WAITS, 1)
    for position in range(1, 4000):
        client.put(WANTED, position)
        client.put(TAIL, client.get(HEAD))
        if client.get(DAEMON_WAITS):
            client.look()
    t.ok(daemon.alive() and bool(daemon.status()), "a client that never reads its JST_WAKEs blocks nobody")
    client.close()
    bystander.close()


def test_slow_greetings(t):
    with Daemon() as daemon:
        began = time.monotonic()
        sock = connect(daemon.path)
        got = answers(sock)
        took = time.monotonic() - began
        t.ok(got == (-errno.ETIMEDOUT, True), "who says nothing is told so, and closed", got)
        t.ok(0.9 < took < 3, "after a second", took)
        t.ok(says(daemon, "said nothing for 1000 ms"), "and the log has it")
        idle = daemon.fds()
        silent = [connect(daemon.path) for _ in range(200)]
        began = time.monotonic()
        client = Client(daemon.path)
        t.ok(time.monotonic() - began < 0.9, "behind 200 silent connections a client attaches at once")
        t.ok(daemon.fds() <= idle + 64 + 2, "64 of them at the most are kept", daemon.fds())
        t.ok(until(lambda: daemon.fds() == idle + 1, 4), "and none after the deadline",
             (daemon.fds(), idle))
        t.ok(daemon.log().count("pushed out") <= 6, "the log counts instead of repeating", daemon.log())
        for sock in silent:
            sock.close()
        client.close()


def test_full_table(t):
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with Daemon() as daemon:
        clients = [Client(daemon.path, device=f"mlx5_{i % 3}") for i in range(256)]
        t.ok(len(daemon.status()["clients"]) == 256, "256 clients attach")
        errors = []
        for _ in range(50):
            try:
                Client(daemon.path)
            except Refused as refusal:
                errors.append(refusal.args[0])
        t.ok(errors == [-errno.EUSERS] * 50, "the 257th and 49 more are refused with EUSERS", errors)
        t.ok(daemon.log().count("places for clients") == 1, "said once in the log")
        clients.pop().close()
        t.ok(until(lambda: len(daemon.status()["clients"]) == 255), "one leaves")
        clients.append(Client(daemon.path))
        t.ok(says(daemon, "room for clients again; 50 were refused"), "another comes; the count is told",
             daemon.log()[-300:])
        t.ok(daemon.status()["refused"] == 50, "status counts them too")
        devices = {d["device"]: d["clients"] for d in daemon.status()["devices"]}
        t.ok(sorted(devices.values()) == [85, 85, 86], "each device has its own", devices)
        while clients:
            clients.pop().close()
        t.ok(until(lambda: daemon.status()["devices"] == []), "all leave, and the devices with them")
        t.ok(until(lambda: daemon.fds() < 16), "no descriptor is left", daemon.fds())
    with Daemon('max_clients = "1024"\n') as daemon:
        held = []
        try:
            for i in range(100):
                held.append(Client(daemon.path, device=f"made_up_{i}"))
            error = 0
        except Refused as refusal:
            error = refusal.args[0]
        t.ok((len(held), error) == (64, -errno.EUSERS), "64 device names are the most", (len(held), error))


def test_no_descriptors(t):
    with Daemon('max_clients = "64"\n', limit=32) as daemon:
        clients, error = [], None
        for _ in range(40):
            try:
                clients.append(Client(daemon.path))
            except Refused as refusal:
                error = refusal.args[0]
            except (ConnectionError, struct.error, IndexError) as why:
                error = why
        t.ok(error == -errno.EMFILE, "out of descriptors: refused with EMFILE", error)
        waiting = [connect(daemon.path) for _ in range(8)]
        before = daemon.cpu_s()
        time.sleep(1)
        used = daemon.cpu_s() - before
        t.ok(used < 0.3, "it does not spin on accept", f"{used:.2f} s of a second")
        for sock in waiting:
            sock.close()
        for client in clients:
            client.close()
        def again():
            with contextlib.suppress(Refused, OSError, struct.error):
                Client(daemon.path).close()
                return True
        t.ok(until(again), "once there is room it takes clients again")


def main():
    skip_unless_built()
    t = tap.Tap()
    with Daemon() as daemon:
        for test in (test_greetings, test_deaths, test_attached_garbage, test_hostile_region, test_flood):
            run(t, test, daemon)
        t.ok(daemon.alive() and daemon.stop() == 0, "after all of it the daemon ends cleanly",
             daemon.log()[-2000:])
    for test in (test_slow_greetings, test_full_table, test_no_descriptors):
        run(t, test)
    return t.done()


if __name__ == "__main__":
    sys.exit(main())
