#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 400
"""test_integrity.py - no byte and no completion is lost, doubled or changed.

`integrity` (integrity.c) does the comparing; here it is run over link layers,
interfaces, kinds of queues, classes and chunk sizes. For shaped runs the
daemon's own figures must show that messages were really split.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import SEED, World, main, skip_unless_built, wait_until  # noqa: E402

LINGER_MS = 400
APIS = ("post", "wr")
# name, options: each a different shape of traffic
SHAPES = (
    ("mixed", ["--count", "300"]),
    ("small queue", ["--count", "150", "--depth", "4", "--list", "3", "--qps", "3"]),
    ("one at a time", ["--count", "60", "--depth", "1", "--list", "1"]),
    ("large queue", ["--count", "500", "--depth", "170", "--list", "16", "--max-bytes", "200000"]),
    ("many pieces", ["--count", "200", "--sge", "16", "--inline", "200"]),
    ("large messages", ["--count", "40", "--depth", "16", "--max-bytes", "4000000"]),
    ("small messages", ["--count", "1000", "--max-bytes", "3000", "--qps", "4"]),
    ("all signalled", ["--count", "200", "--signal-all"]),
    ("hardly signalled", ["--count", "300", "--unsignaled", "100", "--qps", "1"]),
    ("reads and atomics", ["--count", "200", "--ops", "read,cas,add,write"]),
    ("two-sided", ["--count", "200", "--ops", "send,send_imm,write_imm"]),
    ("extended CQ", ["--count", "200", "--cq", "ex"]),
    ("events", ["--count", "200", "--events"]),
    ("events, extended CQ", ["--count", "200", "--events", "--cq", "ex"]),
)
count = 0


def options_of(shape, api):
    """Every run has a seed of its own, derived from the printed one."""
    global count
    count += 1
    return [*shape[1], "--api", api, "--seed", str(SEED * 1000 + count)]


def stock():
    for link in ("ib", "eth"):
        with World(link=link) as world:
            for shape in SHAPES:
                for api in APIS:
                    pair = world.start_integrity(options_of(shape, api)).wait(60)
                    tap.ok(pair.ok, "stock, %s, %s, %s" % (link, shape[0], api), pair.text())


def check_split(name, shape, before):
    """The daemon's figures of the client, taken while it lingered at the end."""
    claimed = before["claimed"] if before else {}
    good = claimed.get("messages", 0) > 0 and claimed["queued_bytes"] == 0
    if shape == "two-sided":
        # what consumes a receive stays whole, and is paced by the debt that it leaves
        good = good and claimed["paced_whole"] > 0 and claimed["chunks"] == claimed["messages"]
    elif shape != "small messages":
        good = good and claimed["chunks"] > claimed["messages"]
    tap.ok(good, name + ": was shaped as it should be", str(before))


def shaped_run(world, daemon, name, shape, api, app_class):
    pair = world.start_integrity(options_of(shape, api) + ["--linger", str(LINGER_MS)],
                                 tree="justitia", app_class=app_class)
    last = {"seen": None}

    def look():
        last["seen"] = daemon.client(pair.client.pid) or last["seen"]
        return pair.client.status is not None

    wait_until(look, 60, every=0.1)
    pair.wait(10)
    name = "%s, %s, %s, %s" % (name, app_class, shape[0], api)
    if tap.ok(pair.ok, name, pair.text() + daemon.process.text()):
        check_split(name, shape[0], last["seen"])


def shaped(link, chunk, shapes, classes=("bandwidth",)):
    with World(link=link) as world:
        daemons = [world.daemon(host, token_size=chunk, token_size_latency=chunk)
                   for host in world.hosts]
        for app_class in classes:
            for shape in shapes:
                for api in APIS:
                    shaped_run(world, daemons[0], "%s, chunks of %s" % (link, chunk), shape, api,
                               app_class)
        for daemon in daemons:
            tap.ok(daemon.process.status is None and not daemon.clients(),
                   "daemon of %s lives and has no client left" % daemon.host,
                   daemon.process.text())


def chunks_of_4_kb():
    shaped("ib", "4 KB", SHAPES[:3])


def chunks_of_5_kb():
    shaped("ib", "5 KB", SHAPES)
    shaped("eth", "5 KB", SHAPES[:2] + SHAPES[-1:])


def chunks_of_64_kb():
    shaped("ib", "64 KB", SHAPES[:6], ("bandwidth", "throughput"))


def chunks_of_1_mb():
    shaped("ib", "1 MB", (("up to 4 MB", ["--count", "60", "--max-bytes", "4000000"]),
                          ("writes and reads", ["--count", "40", "--max-bytes", "4000000",
                                                "--depth", "16", "--ops", "write,read"])))


def latency_class():
    """Nothing of a latency application is touched, and it is known to the daemon."""
    with World() as world:
        daemon = world.daemon("a")
        pair = world.start_integrity(options_of(SHAPES[0], "post") + ["--linger", "1000"],
                                     tree="justitia", app_class="latency")
        client = wait_until(lambda: daemon.client(pair.client.pid), 5)
        tap.ok(client and client["class"] == "latency" and client["claimed"]["chunks"] == 0,
               "latency class: known, not shaped", str(client))
        tap.ok(pair.wait(60).ok, "latency class: all bytes right", pair.text())


if __name__ == "__main__":
    skip_unless_built(tap, "integrity", "justitiad", "justitiactl", trees=("stock", "justitia"))
    main(tap, stock, chunks_of_4_kb, chunks_of_5_kb, chunks_of_64_kb, chunks_of_1_mb,
         latency_class)
