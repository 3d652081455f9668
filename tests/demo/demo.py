#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""demo.py - what Justitia is for, on an emulated ConnectX, in two minutes.

Three hosts, one RDMA card each. On host a three applications want the card:
  latency     one 16 B WRITE at a time, to b: how long from post to completion?
  bandwidth   stock ib_write_bw, 1 MB WRITEs, to c
  throughput  stock ib_write_bw, lists of 64 WRITEs of 16 B, to b
First each alone, then all together on the vendor's own libmlx5, then all together
on libmlx5 with Justitia, a justitiad on each host.

All of it lives on one virtual clock, because two cores cannot move 56 Gb/s: a
millisecond of it takes as long as it takes, and every run gives the same figures.
The result is a table, a picture (build/demo.svg) and build/demo.json. Exit status: 0
if Justitia did protect both small applications, 1 if it did not or something failed.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import lab as lab_module  # noqa: E402
from lab import (BUILD, LINK_GBPS, Lab, LabError, binary, require, run_together,  # noqa: E402
                 run_until_traffic, tool)

NAMES = {"alone": "each one alone", "shared": "together, without Justitia",
         "justitia": "together, with Justitia"}


def say(text):
    print(text, flush=True)


# ---- measuring -----------------------------------------------------------------

def new_case(name):
    return {"name": name, "latency_p50_us": None, "latency_p99_us": None,
            "latency_samples": None, "bandwidth_gbps": None, "throughput_mops": None}


def put_latency(case, result):
    case["latency_p50_us"] = result["p50_us"]
    case["latency_p99_us"] = result["p99_us"]
    case["latency_samples"] = result["samples"]


def measure_alone(args):
    case = new_case("alone")
    with Lab(justitia=False, seed=args.seed) as lab:
        say("  latency application alone ...")
        result, _ = run_together(lab, [], args.seconds, lab.latency)
        put_latency(case, result)
    with Lab(justitia=False, seed=args.seed) as lab:
        say("  bandwidth application alone ...")
        app = lab.bandwidth(sink="c")
        _, rates = run_together(lab, [app], args.seconds)
        case["bandwidth_gbps"] = rates[0][0]
    with Lab(justitia=False, seed=args.seed) as lab:
        say("  throughput application alone ...")
        app = lab.throughput()
        _, rates = run_together(lab, [app], args.seconds)
        case["throughput_mops"] = rates[0][1]
    return case


def measure_together(name, justitia, args):
    case = new_case(name)
    say("  all three %s ..." % NAMES[name])
    with Lab(justitia=justitia, seed=args.seed) as lab:
        apps = [lab.bandwidth(sink="c"), lab.throughput()]
        result, rates = run_together(lab, apps, args.seconds, lab.latency)
    put_latency(case, result)
    case["bandwidth_gbps"] = rates[0][0]
    case["throughput_mops"] = rates[1][1]
    return case


def perftest_agrees(args):
    """perftest's own report of the bandwidth application, against the card's counters."""
    with Lab(justitia=False, seed=args.seed) as lab:
        # twice what the window can hold, so that they do not end within it
        messages = 2 * int(args.seconds * LINK_GBPS * 1e9 / 8 / (1 << 20)) + 100
        app = lab.bandwidth(sink="c", iterations=messages)
        run_until_traffic(lab, [app])
        before = lab.stat()
        lab.run_clock(args.seconds)
        counted = lab.stat().rate(app.client.pid, before)[0]
        lab.free_clock()
        return app.perftest_result(60)[0], counted


# ---- telling -------------------------------------------------------------------

def print_table(cases):
    say("\n%-28s %22s   %18s   %18s" % ("", "latency application", "bandwidth app.",
                                      "throughput app."))
    say("%-28s %11s %10s   %18s   %18s" % ("", "p50", "p99", "1 MB writes", "64 x 16 B writes"))
    for case in cases:
        say("%-28s %8.2f us %7.2f us   %13.1f Gb/s   %12.2f Mop/s" % (
            NAMES[case["name"]], case["latency_p50_us"], case["latency_p99_us"],
            case["bandwidth_gbps"], case["throughput_mops"]))


def conclusion(cases):
    """(did Justitia protect, one sentence with the ratios)"""
    alone, shared, justitia = cases

    def slower(case):
        return case["latency_p50_us"] / alone["latency_p50_us"]

    def kept(case, key):
        return 100 * case[key] / alone[key]

    protects = (slower(justitia) < slower(shared) and
                justitia["throughput_mops"] > shared["throughput_mops"])
    text = ("%s a 16 B write beside the others takes %.1f times as long as alone without it and "
            "%.1f times with it (p99: %.1f and %.1f); the throughput application keeps %.0f %% "
            "without and %.0f %% with it, and the bandwidth application %.0f and %.0f %% "
            "(fair is a third for each of the three)." % (
                "Justitia protects:" if protects else "Justitia DID NOT protect:",
                slower(shared), slower(justitia),
                shared["latency_p99_us"] / alone["latency_p99_us"],
                justitia["latency_p99_us"] / alone["latency_p99_us"],
                kept(shared, "throughput_mops"), kept(justitia, "throughput_mops"),
                kept(shared, "bandwidth_gbps"), kept(justitia, "bandwidth_gbps")))
    return protects, text


GNUPLOT = """
set terminal svg size 1000,400 font 'sans,13' background 'white'
set output '%(svg)s'
set multiplot layout 1,3 title \
 "One card, three applications (emulated %(gbps)d Gb/s ConnectX, virtual time)"
set style fill solid 0.9 border -1
set boxwidth 0.4
set grid ytics lc rgb '#dddddd'
set xtics ('alone' 0, 'shared' 1, 'Justitia' 2) nomirror
set xrange [-0.7:2.7]
set ytics nomirror
set border 3
set lmargin 8
$data << EOD
%(data)s
EOD
set key top left
set title 'Latency of a 16 B write, us'
set yrange [0:*]
set offsets 0, 0, %(latency_room)f, 0
plot $data using ($0-0.2):2 with boxes lc rgb '#4477aa' title 'p50', \
     $data using ($0+0.2):3 with boxes lc rgb '#aaccee' title 'p99'
set key off
set offsets 0, 0, 0, 0
set boxwidth 0.6
set title 'Bandwidth application, Gb/s'
plot $data using 0:4 with boxes lc rgb '#cc6677'
set title 'Throughput application, Mop/s'
plot $data using 0:5 with boxes lc rgb '#ddaa33'
unset multiplot
"""


def draw(cases, path):
    data = "\n".join("%s %f %f %f %f" % (c["name"], c["latency_p50_us"], c["latency_p99_us"],
                                        c["bandwidth_gbps"], c["throughput_mops"])
                     for c in cases)
    room = 0.25 * max(c["latency_p99_us"] for c in cases)
    script = GNUPLOT % {"svg": path, "gbps": LINK_GBPS, "data": data, "latency_room": room}
    run = subprocess.run([tool("gnuplot")], input=script, text=True, capture_output=True,
                         timeout=60, check=False)
    if run.returncode or not os.path.exists(path):
        raise LabError("gnuplot: " + run.stderr.strip())


def write_json(cases, args, path):
    document = {"source": "emulated card, virtual time", "link_gbps": LINK_GBPS,
                "seed": args.seed, "seconds": args.seconds,
                "cases": [{k: round(v, 3) if isinstance(v, float) else v
                           for k, v in case.items()} for case in cases]}
    with open(path, "w", encoding="ascii") as out:
        json.dump(document, out, indent=1)
        out.write("\n")


# ---- the program ---------------------------------------------------------------

def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short windows: a first look")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="of the card's random numbers; default 1")
    parser.add_argument("--seconds", type=float, metavar="S",
                        help="window of each measurement in virtual time, 0.002 to 1; "
                        "default 0.05, --quick 0.01")
    args = parser.parse_args()
    if args.seconds is None:
        args.seconds = 0.01 if args.quick else 0.05
    if not 0.002 <= args.seconds <= 1:
        parser.error("--seconds '%g' is not accepted: 0.002 to 1" % args.seconds)
    if not 0 <= args.seed < 2 ** 64:
        parser.error("--seed '%d' is not accepted: 0 to 2^64 - 1" % args.seed)
    return args


def run(args):
    for name in ("softhca", "latency", "justitiad"):
        binary(name)
    require(*lab_module.TREES.values())
    tool("ib_write_bw")
    tool("gnuplot")
    say("Emulated ConnectX, %d Gb/s InfiniBand (model %s), virtual time: windows of %g ms, "
        "seed %d.\nRates are the card's own counters." % (
            LINK_GBPS, lab_module.MODEL, args.seconds * 1000, args.seed))
    cases = [measure_alone(args), measure_together("shared", False, args),
             measure_together("justitia", True, args)]
    if not args.quick:
        say("  cross-check against perftest's own report ...")
        say("  bandwidth application alone: perftest says %.1f Gb/s, the card counted %.1f" %
            perftest_agrees(args))
    print_table(cases)
    protects, text = conclusion(cases)
    say("\n" + text)
    svg, document = os.path.join(BUILD, "demo.svg"), os.path.join(BUILD, "demo.json")
    write_json(cases, args, document)
    draw(cases, svg)
    say("picture: %s\nfigures: %s" % (svg, document))
    return 0 if protects else 1


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        status = run(args)
    except LabError as error:
        print("demo: %s" % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    say("(%.0f s)" % (time.monotonic() - started))
    return status


if __name__ == "__main__":
    sys.exit(main())
