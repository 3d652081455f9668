# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""programs.py - the unmodified programs that must run, and what they say when they did."""
import re

import tap

PINGPONG = (
    [["ibv_rc_pingpong", "-n", "300", *o] for o in (
        [], ["-e"], ["-c"], ["-N"], ["-e", "-c", "-N"], ["-s", "65537", "-c"])]
    + [["ibv_%s_pingpong" % kind, "-n", "300", *size, *o]
       for kind, size in (("uc", []), ("ud", ["-s", "1024"]), ("srq", []))
       for o in ([], ["-e"])])

PERFTEST = (
    [["ib_%s_bw" % op, *o] for op in ("write", "read", "send") for o in (
        ["-s", "65536", "-n", "200"], ["-a", "-n", "5"], ["-s", "4096", "-n", "200", "-b"],
        ["-s", "4096", "-n", "100", "-q", "8"], ["-s", "2", "-n", "1000"])]
    + [["ib_%s_lat" % op, "-s", "16", "-n", "200"] for op in ("write", "read", "send")]
    + [["ib_atomic_bw", "-n", "200"], ["ib_atomic_bw", "-n", "200", "-A", "FETCH_AND_ADD", "-b"],
       ["ib_atomic_lat", "-n", "200"], ["ib_atomic_lat", "-n", "200", "-A", "FETCH_AND_ADD"],
       ["ib_send_bw", "-s", "1024", "-n", "200", "-c", "UD"],
       ["ib_send_bw", "-s", "65536", "-n", "100", "-c", "UC"],
       ["ib_write_bw", "-s", "65536", "-n", "100", "-c", "UC"],
       ["ib_send_lat", "-s", "16", "-n", "100", "-e"],
       ["ib_send_bw", "-s", "4096", "-n", "100", "-e"],
       ["ib_write_bw", "-s", "16", "-n", "640", "--post_list", "64", "-t", "128"]])

OLD_API = "--use_old_post_send"


def both_apis(perftest):
    """Every command by ibv_wr_*(), the default, and by ibv_post_send()."""
    for argv in perftest:
        yield argv
        # all sizes take ten seconds: once is enough for two of the three
        if "-a" not in argv or argv[0] == "ib_write_bw":
            yield [*argv, OLD_API]


ROW = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s", re.M)


def find_gid(world):
    """The index of a RoCE v2 GID as ibv_devinfo shows it; None on InfiniBand."""
    text = world.run("a", ["ibv_devinfo", "-v"]).wait(20).output()
    if "Ethernet" not in text:
        return None
    found = re.findall(r"GID\[\s*(\d+)\]:.*RoCE v2", text)
    return found[0] if found else "0"


def check_pingpong(world, argv, gid, name, **how):
    result = world.pair(argv + (["-g", gid] if gid else []), seconds=40, **how)
    sane = re.search(r"\d+ iters in [\d.]+ seconds", result.output())
    tap.ok(result.ok and sane, "%s, %s" % (" ".join(argv), name), result.text())


def check_perftest(world, argv, gid, name, **how):
    result = world.pair([*argv, "-F"] + (["-x", gid] if gid else []), seconds=60, **how)
    rows = len(ROW.findall(result.output()))
    tap.ok(result.ok and rows >= (10 if "-a" in argv else 1),
           "%s, %s" % (" ".join(argv), name), result.text())
