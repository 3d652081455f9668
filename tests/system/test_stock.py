#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 500
"""test_stock.py - unmodified programs on the emulated card with the stock driver.

Rates are not judged here: that the programs run, end well and say sane things is.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import World, main, skip_unless_built  # noqa: E402
from programs import (PERFTEST, PINGPONG, both_apis, check_perftest,  # noqa: E402
                      check_pingpong, find_gid)


def devices():
    with World(hosts=("a", "b", "c")) as world:
        seen = {}
        for host in world.hosts:
            run = world.run(host, ["ibv_devices"]).wait(20)
            tap.ok(run.ok and "mlx5_0" in run.output(), "ibv_devices on " + host, run.text())
            run = world.run(host, ["ibv_devinfo", "-v"]).wait(20)
            text = run.output()
            tap.ok(run.ok and "PORT_ACTIVE" in text, "ibv_devinfo -v on " + host, run.text())
            seen[host] = tuple(re.findall(r"(?:node_guid|port_lid):\s+(\S+)", text))
        tap.ok(len(set(seen.values())) == 3 and all(len(s) == 2 for s in seen.values()),
               "every host has its own GUID and LID", str(seen))


def infiniband():
    with World() as world:
        for argv in PINGPONG:
            check_pingpong(world, argv, None, "ib")
        for argv in both_apis(PERFTEST):
            check_perftest(world, argv, None, "ib")


def ethernet():
    """One of each kind."""
    with World(link="eth") as world:
        gid = find_gid(world)
        for argv in PINGPONG:
            check_pingpong(world, argv, gid, "eth")
        for argv in both_apis(PERFTEST[::4]):
            check_perftest(world, argv, gid, "eth")


def modelled():
    """With the contention model and the card as a process of its own."""
    with World(model="ib56", slowdown=50) as world:
        for argv in (["ib_write_bw", "-s", "65536", "-n", "100"],
                     ["ib_read_bw", "-s", "65536", "-n", "100"],
                     ["ib_send_lat", "-s", "16", "-n", "200"],
                     ["ib_atomic_lat", "-n", "200"]):
            check_perftest(world, argv, None, "ib, modelled")
        check_pingpong(world, ["ibv_rc_pingpong", "-n", "200", "-c"], None, "ib, modelled")


if __name__ == "__main__":
    skip_unless_built(tap)
    main(tap, devices, infiniband, ethernet, modelled)
