#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 300
"""test_crash.py - daemons and applications that die, leave, fork or stop.

Traffic is compared byte by byte while it happens (integrity.c): whoever dies,
the others lose nothing, and go on.
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import SEED, World, main, skip_unless_built, wait_until  # noqa: E402

# So slow that there is always work in the shaper's queues: 50 MB/s.
SLOW = {"max_rate": "400 Mbit/s", "max_rate_small": "400 Mbit/s", "max_ops": "100 kop/s",
        "tick": "2 ms", "horizon": "20 ms", "token_size": "64 KB", "token_size_latency": "64 KB"}
JUSTITIA = {"tree": "justitia", "app_class": "bandwidth"}
SOON_S = 5      # a client looks for its daemon every second or so


def traffic(world, seconds, seed=0, api="post", **how):
    options = ["--seconds", str(seconds), "--seed", str(SEED * 100 + seed), "--api", api,
               "--depth", "32"]
    return world.start_integrity(options, **{**JUSTITIA, **how})


def chunks(daemon, pid):
    client = daemon.client(pid)
    return client["claimed"]["chunks"] if client else 0


def is_shaped(daemon, pid, seconds=SOON_S):
    """The client is there and its count of chunks rises."""
    first = wait_until(lambda: chunks(daemon, pid), seconds)
    return first and wait_until(lambda: chunks(daemon, pid) > first, seconds)


def card_bytes(world):
    """What all hosts of the world have sent so far."""
    return sum(port["tx_bytes"] for port in world.stat()["ports"])


def moves(world, seconds=SOON_S):
    """Does traffic flow at this moment?"""
    before = card_bytes(world)
    return wait_until(lambda: card_bytes(world) > before, seconds)


def daemon_killed_and_back(api):
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        pair = traffic(world, 8, seed=1, api=api)
        tap.ok(is_shaped(daemon, pair.client.pid), api + ": shaped at first", pair.text())
        daemon.kill()
        tap.ok(moves(world) and pair.client.status is None,
               api + ": traffic flows when the daemon was killed", pair.text())
        time.sleep(1)
        daemon.start()
        tap.ok(is_shaped(daemon, pair.client.pid),
               "%s: shaped again within %d s by the new daemon" % (api, SOON_S),
               daemon.process.text() + str(daemon.clients()))
        tap.ok(pair.wait(60).ok, api + ": not a byte lost or doubled", pair.text())


def daemon_killed():
    for api in ("post", "wr"):
        daemon_killed_and_back(api)


def daemon_killed_often():
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        pair = traffic(world, 8, seed=2)
        for i in range(6):
            # now and then before the client is back
            time.sleep(0.3 if i % 2 else 1.2)
            daemon.kill()
            daemon.start()
        tap.ok(is_shaped(daemon, pair.client.pid), "shaped after 6 daemons", str(daemon.clients()))
        tap.ok(pair.wait(60).ok, "6 daemons killed: not a byte lost", pair.text())


def daemon_late():
    """Who opened the device with no daemon there has the vendor's own functions, for good."""
    with World() as world:
        early = traffic(world, 4, seed=3)
        time.sleep(1)
        daemon = world.daemon("a", **SLOW)
        late = traffic(world, 3, seed=10)
        tap.ok(is_shaped(daemon, late.client.pid), "shaped: who came after the daemon",
               late.text())
        tap.ok(early.wait(60).ok, "not a byte lost: who came before the daemon", early.text())
        tap.ok(late.wait(60).ok, "not a byte lost: who came after the daemon", late.text())


def daemon_terminated():
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        pair = traffic(world, 4, seed=4)
        tap.ok(is_shaped(daemon, pair.client.pid), "shaped before SIGTERM")
        daemon.stop()
        tap.ok(daemon.process.status == 0, "the daemon ends well on SIGTERM",
               daemon.process.text())
        tap.ok(moves(world), "traffic flows when the daemon ended")
        tap.ok(pair.wait(60).ok, "daemon ended: not a byte lost", pair.text())


def client_killed():
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        victim, other = traffic(world, 30, seed=5), traffic(world, 8, seed=6)
        for pair, name in ((victim, "first"), (other, "second")):
            tap.ok(is_shaped(daemon, pair.client.pid), "two at once: the %s is shaped" % name)
        victim.client.kill()
        gone = wait_until(lambda: not daemon.client(victim.client.pid), 3)
        tap.ok(gone, "the daemon forgets a client that was killed", str(daemon.clients()))
        ended = victim.server.wait(15)
        tap.ok(not ended.timed_out and ended.status != 0, "the peer of the killed one notices",
               ended.text())
        tap.ok(is_shaped(daemon, other.client.pid), "the other one goes on, shaped")
        tap.ok(other.wait(60).ok, "the other one lost not a byte", other.text())
        tap.ok(daemon.process.status is None, "the daemon lives", daemon.process.text())


def clients_killed_often():
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        other = traffic(world, 10, seed=7)
        for i in range(8):
            victim = world.run("a", ["leave", "linger"], **JUSTITIA)
            time.sleep(0.05 * i)
            victim.kill()
        tap.ok(wait_until(lambda: len(daemon.clients()) <= 1, 4), "8 killed, all forgotten",
               str(daemon.clients()))
        tap.ok(is_shaped(daemon, other.client.pid) and other.wait(60).ok,
               "8 killed: the other one lost not a byte", other.text())


def two_at_once():
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        pairs = [traffic(world, 5, seed=8 + i, api=("post", "wr")[i]) for i in range(2)]
        for pair in pairs:
            tap.ok(is_shaped(daemon, pair.client.pid), "two at once: shaped")
        for pair in pairs:
            tap.ok(pair.wait(60).ok, "two at once: not a byte lost", pair.text())


def leaving():
    """Applications that end, fork or destroy with most of their work still queued."""
    with World() as world:
        daemon = world.daemon("a", **SLOW)
        for way in ("exit", "quick", "return", "abort", "exec", "destroy", "one", "fork", "linger",
                    "orphan"):
            run = world.run("a", ["leave", way], **JUSTITIA).wait(30)
            wanted = -signal.SIGABRT if way == "abort" else 0
            tap.ok(run.status == wanted and not run.timed_out,
                   "work queued, then '%s'" % way, run.text())
            tap.ok(wait_until(lambda: not daemon.clients(), 3),
                   "the daemon has forgotten '%s'" % way, str(daemon.clients()))
        tap.ok(daemon.process.status is None, "the daemon lives", daemon.process.text())


if __name__ == "__main__":
    skip_unless_built(tap, "integrity", "leave", "justitiad", "justitiactl",
                      trees=("stock", "justitia"))
    main(tap, daemon_killed, daemon_killed_often, daemon_late, daemon_terminated, client_killed,
         clients_killed_often, two_at_once, leaving)
