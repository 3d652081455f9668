#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 500
"""test_transparent.py - what runs with the stock driver runs the same with Justitia.

Tools that describe the device say the very same, byte for byte; all programs of
test_stock.py run shaped, with either class, and with no daemon.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import World, main, skip_unless_built  # noqa: E402
from programs import (PERFTEST, PINGPONG, both_apis, check_perftest,  # noqa: E402
                      check_pingpong, find_gid)

NOBODY = {"JUSTITIA_SOCKET": "/nonexistent/justitia.sock"}
CLASSES = ("bandwidth", "throughput", "latency", "off", "nonsense")


def described(world, argv, **how):
    run = world.run("a", argv, **how).wait(20)
    return run.output() + "\nstatus %s" % run.status


def descriptions():
    for link in ("ib", "eth"):
        with World(link=link) as world:
            for argv in (["ibv_devices"], ["ibv_devinfo", "-v"], ["ibv_devinfo", "-l"]):
                stock = described(world, argv)
                name = "%s, %s" % (" ".join(argv), link)
                tap.ok("mlx5_0" in stock and "status 0" in stock, name + ": works", stock)
                same = described(world, argv, tree="justitia", env=NOBODY)
                tap.ok(same == stock, name + ": the same without a daemon", same)
                daemon = world.daemon("a")
                for app_class in CLASSES:
                    same = described(world, argv, tree="justitia", app_class=app_class)
                    tap.ok(same == stock, "%s: the same, class %s" % (name, app_class), same)
                daemon.stop()


def programs_without_a_daemon():
    with World() as world:
        for argv in PINGPONG[::3]:
            check_pingpong(world, argv, None, "no daemon", tree="justitia", env=NOBODY)
        for argv in PERFTEST[2::5]:
            check_perftest(world, argv, None, "no daemon", tree="justitia", env=NOBODY)


def shaped_world(link, classes, pingpong, perftest):
    with World(link=link) as world:
        gid = find_gid(world)
        daemons = [world.daemon(host, token_size="64 KB") for host in world.hosts]
        for app_class in classes:
            how = {"tree": "justitia", "app_class": app_class}
            name = "%s, %s" % (link, app_class)
            for argv in pingpong:
                check_pingpong(world, argv, gid, name, **how)
            for argv in both_apis(perftest):
                check_perftest(world, argv, gid, name, **how)
        for daemon in daemons:
            tap.ok(daemon.process.status is None and not daemon.clients(),
                   "daemon of %s lives and has no client left" % daemon.host,
                   daemon.process.text())


def programs_shaped():
    shaped_world("ib", ("bandwidth",), PINGPONG, PERFTEST)


def programs_of_other_classes():
    shaped_world("ib", ("throughput", "latency"), PINGPONG[::4], PERFTEST[4::6])


def programs_on_ethernet():
    shaped_world("eth", ("bandwidth",), PINGPONG[::4], PERFTEST[3::5])


if __name__ == "__main__":
    skip_unless_built(tap, "justitiad", "justitiactl", trees=("stock", "justitia"))
    main(tap, descriptions, programs_without_a_daemon, programs_shaped,
         programs_of_other_classes, programs_on_ethernet)
