#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""demo.py - what Justitia is for, on an emulated ConnectX, in two minutes.

Three hosts, one RDMA card each. On host a three applications want the card:
  latency     one 16 B WRITE at a time, to b, with short random pauses: how long
              from post to completion?
  bandwidth   stock ib_write_bw, 1 MB WRITEs, to c
  throughput  stock ib_write_bw, lists of 64 WRITEs of 16 B, to b
First each alone, then all together on the vendor's own libmlx5, then all together
on libmlx5 with Justitia, a justitiad on each host.

The card runs slowed down, because two cores cannot move 56 Gb/s; lab.py says which
factor and why. Every time and rate printed is scaled back. The result is a table,
a picture (build/demo.svg) and build/demo.json. Exit status: 0 if Justitia did
protect both small applications, 1 if it did not or something failed.
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
from lab import (BUILD, LINK_GBPS, SLOWDOWN, SLOWDOWN_WHY, Lab, LabError, binary, require,
                 run_together, tool)  # noqa: E402

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
    with Lab(justitia=False, slowdown=args.slowdown) as lab:
        say("  latency application alone ...")
        result, _ = run_together(lab, [], args.seconds, lab.latency, settle=0)
        put_latency(case, result)
    with Lab(justitia=False, slowdown=args.slowdown) as lab:
        say("  bandwidth application alone ...")
        app = lab.bandwidth(sink="c")
        _, rates = run_together(lab, [app], args.seconds)
        case["bandwidth_gbps"] = rates[0][0]
    with Lab(justitia=False, slowdown=args.slowdown) as lab:
        say("  throughput application alone ...")
        app = lab.throughput()
        _, rates = run_together(lab, [app], args.seconds)
        case["throughput_mops"] = rates[0][1]
    return case


def measure_together(name, justitia, args):
    case = new_case(name)
    say("  all three %s ..." % NAMES[name])
    with Lab(justitia=justitia, slowdown=args.slowdown) as lab:
        duration = args.seconds + 600
        apps = [lab.bandwidth(sink="c", seconds=duration), lab.throughput(seconds=duration)]
        result, rates = run_together(lab, apps, args.seconds, lab.latency)
    put_latency(case, result)
    case["bandwidth_gbps"] = rates[0][0]
    case["throughput_mops"] = rates[1][1]
    return case


def perftest_agrees(args):
    """perftest's own report of the bandwidth application, against the card's counters."""
    with Lab(justitia=False, slowdown=args.slowdown) as lab:
        seconds = max(4, int(args.seconds))
        app = lab.bandwidth(sink="c", seconds=seconds + 2)
        app.wait_traffic()
        time.sleep(1)
        before = lab.stat()
        time.sleep(seconds - 1)
        counted = lab.stat().rate(app.client.pid, before)[0]
        return app.perftest_result(60)[0] * args.slowdown, counted


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
 "One card, three applications (emulated %(gbps)d Gb/s ConnectX, slowed down %(slowdown)d times)"
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


def draw(cases, slowdown, path):
    data = "\n".join("%s %f %f %f %f" % (c["name"], c["latency_p50_us"], c["latency_p99_us"],
                                        c["bandwidth_gbps"], c["throughput_mops"])
                     for c in cases)
    room = 0.25 * max(c["latency_p99_us"] for c in cases)
    script = GNUPLOT % {"svg": path, "gbps": LINK_GBPS, "slowdown": slowdown, "data": data,
                        "latency_room": room}
    run = subprocess.run([tool("gnuplot")], input=script, text=True, capture_output=True,
                         timeout=60, check=False)
    if run.returncode or not os.path.exists(path):
        raise LabError("gnuplot: " + run.stderr.strip())


def write_json(cases, slowdown, path):
    document = {"source": "emulated", "slowdown": slowdown, "link_gbps": LINK_GBPS,
                "cases": [{k: round(v, 3) if isinstance(v, float) else v
                           for k, v in case.items()} for case in cases]}
    with open(path, "w", encoding="ascii") as out:
        json.dump(document, out, indent=1)
        out.write("\n")


# ---- the program ---------------------------------------------------------------

def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short windows: a first look")
    parser.add_argument("--slowdown", type=int, default=SLOWDOWN, metavar="N",
                        help="the card's slowdown, 10 to 2000; default %(default)d")
    parser.add_argument("--seconds", type=float, metavar="S",
                        help="window of each measurement, 1 to 20; default 5, --quick 2")
    args = parser.parse_args()
    if args.seconds is None:
        args.seconds = 2.0 if args.quick else 5.0
    if not 10 <= args.slowdown <= 2000:
        parser.error("--slowdown '%d' is not accepted: 10 to 2000" % args.slowdown)
    if not 1 <= args.seconds <= 20:
        parser.error("--seconds '%g' is not accepted: 1 to 20" % args.seconds)
    return args


def run(args):
    for name in ("softhca", "latency", "justitiad"):
        binary(name)
    require(*lab_module.TREES.values())
    tool("ib_write_bw")
    tool("gnuplot")
    say("Emulated ConnectX, %d Gb/s InfiniBand (model %s), slowdown %d: %s.\n"
        "All figures are scaled back by it; rates are the card's own counters." % (
            LINK_GBPS, lab_module.MODEL, args.slowdown, SLOWDOWN_WHY % (1.3e-3 * args.slowdown)))
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
    write_json(cases, args.slowdown, document)
    draw(cases, args.slowdown, svg)
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
