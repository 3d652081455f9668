#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 250
"""test_mlx4.py - the emulated mlx4 card, and libmlx4 with Justitia on it.

A good part of what test_stock.py, test_errors.py and test_integrity.py do with
mlx5. libmlx4 has no ibv_wr_*(): everything goes by ibv_post_send().
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import SEED, World, main, skip_unless_built, wait_until  # noqa: E402
from programs import (OLD_API, PERFTEST, PINGPONG, check_perftest, check_pingpong,  # noqa: E402
                      find_gid)
from test_errors import NOBODY, check_sense, compare, transcript  # noqa: E402
from test_integrity import SHAPES, options_of, shaped_run  # noqa: E402

DEVICE = "mlx4"
POSTED = [argv for argv in PINGPONG if "-N" not in argv]
SHAPED = {"tree": "justitia", "app_class": "bandwidth"}


def devices():
    with World(device=DEVICE) as world:
        seen = {}
        for tree in ("stock", "justitia"):
            run = world.run("a", ["ibv_devinfo", "-v"], tree=tree, env=NOBODY).wait(20)
            seen[tree] = run.output()
            tap.ok(run.ok and re.search(r"hca_id:\s+mlx4_0", seen[tree])
                   and re.search(r"vendor_part_id:\s+4099", seen[tree]),
                   "ibv_devinfo, %s" % tree, run.text(60))
        tap.ok(seen["stock"] == seen["justitia"], "ibv_devinfo says the same with either")


def programs():
    with World(device=DEVICE) as world:
        for argv in POSTED:
            check_pingpong(world, argv, None, "mlx4")
        for argv in PERFTEST[::3]:
            check_perftest(world, [*argv, OLD_API], None, "mlx4")
        for index in range(3):
            resize(world, "stock", index)


def resize(world, tree, index, **how):
    run = world.run("a", ["resize", str(SEED + index)], tree=tree, **how).wait(30)
    tap.ok(run.ok, "mlx4, %s: CQs are resized with completions in them" % tree, run.text())


def programs_on_ethernet():
    with World(device=DEVICE, link="eth") as world:
        gid = find_gid(world)
        for argv in POSTED[::2]:
            check_pingpong(world, argv, gid, "mlx4, eth")
        check_perftest(world, ["ib_write_bw", "-s", "65536", "-n", "200", OLD_API], gid,
                       "mlx4, eth")


def modelled():
    with World(device=DEVICE, model="ib56", slowdown=50) as world:
        for argv in (["ib_write_bw", "-s", "65536", "-n", "100"],
                     ["ib_send_lat", "-s", "16", "-n", "200"], ["ib_atomic_lat", "-n", "200"]):
            check_perftest(world, [*argv, OLD_API], None, "mlx4, modelled")
        check_pingpong(world, ["ibv_rc_pingpong", "-n", "200", "-c", "-e"], None,
                       "mlx4, modelled")


def integrity():
    with World(device=DEVICE) as world:
        for shape in SHAPES[::2]:
            pair = world.start_integrity(options_of(shape, "post")).wait(60)
            tap.ok(pair.ok, "mlx4, stock, %s" % shape[0], pair.text())


def blueflame():
    """Single inline requests and reads are copied to the doorbell page."""
    with World(device=DEVICE) as world:
        for how in ({}, {"tree": "justitia"}):
            pair = world.start_integrity(
                ["--count", "200", "--list", "2", "--max-bytes", "300", "--inline", "200",
                 "--api", "post", "--seed", str(SEED)],
                env={**NOBODY, "SOFTHCA_BLUEFLAME": "1"}, **how).wait(60)
            tap.ok(pair.ok, "mlx4, BlueFlame, %s" % how.get("tree", "stock"), pair.text())


def errors():
    with World(device=DEVICE) as world:
        stock = {}
        for options in ((), ("--ex",)):
            stock[options] = transcript(world, options, "mlx4, stock")
            check_sense(stock[options], options)
            text = transcript(world, options, "mlx4, no daemon", tree="justitia", env=NOBODY)
            compare(stock[options], text, "errors, mlx4, no daemon")
        world.daemon("a", token_size="5 KB", token_size_latency="5 KB")
        for options, expected in stock.items():
            text = transcript(world, options, "mlx4, shaped", **SHAPED)
            compare(expected, text, "errors %s, mlx4, shaped" % " ".join(options))


def shaped():
    with World(device=DEVICE) as world:
        daemons = [world.daemon(host, token_size="5 KB", token_size_latency="5 KB")
                   for host in world.hosts]
        for shape in SHAPES[:6] + SHAPES[9:12]:
            shaped_run(world, daemons[0], "mlx4, chunks of 5 KB", shape, "post", "bandwidth")
        for argv in POSTED[::3]:
            check_pingpong(world, argv, None, "mlx4, shaped", **SHAPED)
        for argv in PERFTEST[4::5]:
            check_perftest(world, [*argv, OLD_API], None, "mlx4, shaped", **SHAPED)
        resize(world, "justitia", 3, app_class="bandwidth")
        # the last clients may not have been seen to leave yet
        tap.ok(wait_until(lambda: not daemons[0].clients(), 5), "mlx4: no client is left")


if __name__ == "__main__":
    skip_unless_built(tap, "errors", "integrity", "resize", "justitiad", "justitiactl",
                      trees=("stock", "justitia"))
    main(tap, devices, programs, programs_on_ethernet, modelled, integrity, blueflame, errors,
         shaped)
