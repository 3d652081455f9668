#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""run.py - what Justitia costs.

1. Instructions per post, counted by callgrind inside the posting function only:
   stock libmlx5, and libmlx5 with Justitia in the latency class, without a daemon,
   and in the bandwidth class with credit in hand. Two runs of different length are
   subtracted, so what happens once does not count. callgrind and the card's doorbell
   trap get along if callgrind keeps all registers exact at every memory access; it
   collects signal handlers apart, so the trap's is not in the figures.
2. Message rate of stock perftest on the emulated card without contention model,
   side by side, as a ratio to stock. Absolute rates there are those of the emulator.

Prints one table and writes build/bench.json.
"""
import argparse
import contextlib
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "demo")]
sys.dont_write_bytecode = True

from lab import BUILD, Lab, LabError, TREES, binary, require, tool  # noqa: E402

# Who posts: (label, Justitia's tree, class in the environment, with a daemon)
DRIVERS = (
    ("stock", False, None, False),
    ("Justitia, no daemon", True, "bandwidth", False),
    ("Justitia, latency", True, "latency", True),
    ("Justitia, bandwidth", True, "bandwidth", True),
)
INTERFACES = (("ibv_post_send", "post_legacy", []), ("ibv_wr_*", "post_extended", ["-e"]))
POSTS = (200, 1200)     # both within one token of 1 MB, so that credit is in hand

# No rate of the daemon may limit where the cost of code is measured.
UNLIMITED = {"max_rate": "400 Gbit/s", "max_rate_small": "400 Gbit/s", "max_ops": "1 Gop/s",
             "token_size_latency": "1 MB", "tick": "100 us", "horizon": "400 us"}

# -s, iterations: large enough to take a second or so on the emulated card
SIZES = ((64, 40000), (4096, 40000), (65536, 10000), (1 << 20, 1000))


def lab_for(driver, hosts):
    _, justitia, _, daemon = driver
    return Lab(justitia, hosts=hosts, model="off", daemon_settings=UNLIMITED, daemons=daemon)


# ---- instructions per post -------------------------------------------------------

def count_instructions(driver, interface, posts):
    _, function, options = interface
    with lab_for(driver, ("a",)) as lab:
        out = os.path.join(lab.directory, "callgrind.out")
        argv = [tool("valgrind"), "--tool=callgrind", "--toggle-collect=" + function,
                "--callgrind-out-file=" + out,
                # the doorbell trap reads the registers of the instruction that faulted
                "--px-default=allregs-at-mem-access", "--px-file-backed=allregs-at-mem-access",
                binary("post_cost"), "-n", str(posts), *options]
        program = lab.spawn("post_cost", "a", argv, driver[2])
        text = program.wait(120)
        if "posted %d" % posts not in text:
            raise LabError("post_cost did not post %d messages%s" % (posts, program.tail()))
        with open(out, encoding="ascii", errors="replace") as lines:
            found = re.search(r"^(?:totals|summary): (\d+)", lines.read(), re.M)
    if not found or not int(found[1]):
        raise LabError("callgrind collected nothing inside %s%s" % (function, program.tail()))
    return int(found[1])


def instructions_per_post(driver, interface):
    few, many = (count_instructions(driver, interface, posts) for posts in POSTS)
    return (many - few) / (POSTS[1] - POSTS[0])


def measure_instructions():
    rows = []
    for interface in INTERFACES:
        for driver in DRIVERS:
            rows.append({"source": "callgrind", "interface": interface[0], "driver": driver[0],
                         "message_bytes": 64,
                         "instructions_per_post": instructions_per_post(driver, interface)})
            print("  %-14s %-20s %8.1f" % (interface[0], driver[0],
                                           rows[-1]["instructions_per_post"]), flush=True)
    return rows


# ---- side by side ----------------------------------------------------------------

def message_rate(lab, driver, message_bytes, iterations):
    """Messages per second of real time, as stock perftest reports it."""
    argv = [tool("ib_write_bw"), "-F", "-s", str(message_bytes), "-n", str(iterations),
            "--report_gbits"]
    app = lab.pair("ib_write_bw", driver[2], argv, "a", "b")
    return app.perftest_result(120)[1] * 1e6


def measure_rates(rounds):
    """The best of some rounds: whatever disturbs a run makes it slower, never faster.
    Interleaved, so that the machine's moods hit all alike."""
    rows = []
    with contextlib.ExitStack() as stack:
        labs = [stack.enter_context(lab_for(driver, ("a", "b"))) for driver in DRIVERS]
        for message_bytes, iterations in SIZES:
            best = [0.0] * len(DRIVERS)
            for _ in range(rounds):
                for i, driver in enumerate(DRIVERS):
                    best[i] = max(best[i], message_rate(labs[i], driver, message_bytes,
                                                        iterations))
            rows += [{"source": "emulated, no contention model", "driver": driver[0],
                      "message_bytes": message_bytes, "messages_per_s": rate,
                      "to_stock": rate / best[0]} for driver, rate in zip(DRIVERS, best)]
            print("  %8d B  %s" % (message_bytes, "  ".join(
                "%s %.0f/s" % (driver[0], rate) for driver, rate in zip(DRIVERS, best))),
                flush=True)
    return rows


# ---- the table -------------------------------------------------------------------

def print_table(instructions, rates):
    print("\n%-32s" % "" + "".join("%21s" % d[0] for d in DRIVERS))
    for name, _, _ in INTERFACES:
        cells = [r["instructions_per_post"] for r in instructions if r["interface"] == name]
        print("%-32s" % ("%s, instructions [1]" % name) + "".join("%21.1f" % c for c in cells))
    for message_bytes, _ in SIZES:
        cells = [r["to_stock"] for r in rates if r["message_bytes"] == message_bytes]
        if cells:
            print("%-32s" % ("messages/s of %d B [2]" % message_bytes) +
                  "".join("%21s" % ("%.2f x" % c) for c in cells))
    print("[1] per post of a 64 B WRITE, counted by callgrind\n"
          "[2] stock perftest on the emulated card without contention model, ratio to stock")


def judge(instructions):
    """The latency class must cost what stock costs: the same instructions."""
    worst = 0
    for name, _, _ in INTERFACES:
        cost = {r["driver"]: r["instructions_per_post"] for r in instructions
                if r["interface"] == name}
        worst = max(worst, abs(cost["Justitia, latency"] - cost["stock"]))
        print("%s: a latency-class post costs %+.1f instructions, a bandwidth-class post with "
              "credit %+.1f" % (name, cost["Justitia, latency"] - cost["stock"],
                                cost["Justitia, bandwidth"] - cost["stock"]))
    return worst < 0.5


def run(args):
    require(*TREES.values())
    for name in ("softhca", "justitiad", "post_cost"):
        binary(name)
    print("Instructions per post (callgrind) ...")
    instructions = measure_instructions()
    rates = []
    if not args.quick:
        print("Message rate against stock (perftest, emulated card, no contention model) ...")
        rates = measure_rates(args.rounds)
    print_table(instructions, rates)
    same = judge(instructions)
    path = os.path.join(BUILD, "bench.json")
    with open(path, "w", encoding="ascii") as out:
        json.dump({"post_cost": instructions, "message_rate": rates}, out, indent=1)
    print("figures: %s" % path)
    if not same:
        print("bench: a latency-class post does not cost the same as stock", file=sys.stderr)
    return 0 if same else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="instruction counts only")
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="runs of each rate, the best counts; default %(default)d")
    args = parser.parse_args()
    if not 1 <= args.rounds <= 20:
        parser.error("--rounds '%d' is not accepted: 1 to 20" % args.rounds)
    started = time.monotonic()
    try:
        status = run(args)
    except LabError as error:
        print("bench: %s" % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    print("(%.0f s)" % (time.monotonic() - started))
    return status


if __name__ == "__main__":
    sys.exit(main())
