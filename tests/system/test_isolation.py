#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 420
"""test_isolation.py - does Justitia protect the small from the large?

Everything is a ratio of two measurements in one run, on an emulated 56 Gb/s card.
The bounds come from the paper's evaluation (sections 6.2 and 6.3), loosened for a
card that is emulated on two shared cores.
"""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "demo")]
sys.dont_write_bytecode = True

import tap  # noqa: E402
from lab import (MAX_RATE_SMALL_GBPS, MODEL, SLOWDOWN, Lab, LabError, require,  # noqa: E402
                 run_together, TREES)

MB = 1 << 20
FAIR_SLOWDOWN = 100     # 64 MB messages: no latency is measured, so run faster


def rmin_gbps(bandwidth_apps):
    """Paper 4.3.1, one latency application: B / (B + 1) of what the card can do."""
    return MAX_RATE_SMALL_GBPS * bandwidth_apps / (bandwidth_apps + 1)


def latency_beside(bandwidth_apps, justitia, seconds):
    """({p50_us, p99_us, samples}, total Gb/s of the bandwidth applications)"""
    with Lab(justitia, slowdown=SLOWDOWN) as lab:
        apps = [lab.bandwidth(sink="c") for _ in range(bandwidth_apps)]
        result, rates = run_together(lab, apps, seconds, lab.latency)
    total = sum(gbps for gbps, _ in rates)
    tap.note("latency beside %d bandwidth, %s: p50 %.2f us, p99 %.2f us (%d samples); "
             "bandwidth %.1f Gb/s" % (bandwidth_apps, "Justitia" if justitia else "stock",
                                      result["p50_us"], result["p99_us"], result["samples"],
                                      total))
    return result, total


def judge(measure):
    """@measure returns [(holds, text), …]. What disturbs this machine spoils a measurement and
    never mends one, so one that misses is made anew, twice at most; all are printed."""
    for chance in range(3):
        checks = measure()
        if all(holds for holds, _ in checks):
            break
        if chance < 2:
            for holds, text in checks:
                tap.note(("held: " if holds else "missed, once more: ") + text)
    for holds, text in checks:
        tap.ok(holds, text)


def test_idle_latency_is_steady():
    """Everything else is measured against this."""
    alone = {}

    def measure():
        alone.update(latency_beside(0, False, 6)[0])
        steady = alone["samples"] >= 2000 and alone["p99_us"] <= 1.5 * alone["p50_us"]
        return [(steady, "latency alone: p99 %.2f us <= 1.5 x p50 %.2f us over %d >= 2000 samples" %
                 (alone["p99_us"], alone["p50_us"], alone["samples"]))]

    judge(measure)
    return alone


def test_latency(alone, bandwidth_apps, harmed, protected, seconds):
    name = "latency beside %d bandwidth" % bandwidth_apps
    floor = rmin_gbps(bandwidth_apps)

    def measure():
        stock, _ = latency_beside(bandwidth_apps, False, seconds)
        ours, total = latency_beside(bandwidth_apps, True, seconds)
        without = stock["p50_us"] / alone["p50_us"]
        ratio = ours["p50_us"] / alone["p50_us"]
        return [
            (without >= harmed, "%s, stock: p50 %.2f x alone >= %.1f (p99 %.2f x)" % (
                name, without, harmed, stock["p99_us"] / alone["p99_us"])),
            (ratio <= protected, "%s, Justitia: p50 %.2f x alone <= %.1f (p99 %.2f x)" % (
                name, ratio, protected, ours["p99_us"] / alone["p99_us"])),
            (total >= 0.95 * floor, "%s, Justitia: %.1f Gb/s >= 95 %% of Rmin %.1f" % (
                name, total, floor))]

    judge(measure)


def throughput_rate(beside_bandwidth, justitia, seconds):
    with Lab(justitia, slowdown=SLOWDOWN) as lab:
        apps = [lab.throughput()]
        if beside_bandwidth:
            apps.append(lab.bandwidth(sink="c"))
        _, rates = run_together(lab, apps, seconds)
    tap.note("throughput %s, %s: %.2f Mop/s%s" % (
        "beside bandwidth" if beside_bandwidth else "alone", "Justitia" if justitia else "stock",
        rates[0][1], "; bandwidth %.1f Gb/s" % rates[1][0] if beside_bandwidth else ""))
    return rates[0][1]


def test_throughput():
    def measure():
        alone = throughput_rate(False, False, 4)
        stock = throughput_rate(True, False, 5) / alone
        ours = throughput_rate(True, True, 6) / alone
        return [
            (stock <= 0.35, "throughput beside bandwidth, stock: %.0f %% of alone <= 35 %%" %
             (100 * stock)),
            (ours >= 0.45, "throughput beside bandwidth, Justitia: %.0f %% of alone >= 45 %%" %
             (100 * ours))]

    judge(measure)


def message_size_ratio(justitia, seconds):
    """64 MB messages against 1 MB messages: the larger share over the smaller."""
    with Lab(justitia, slowdown=FAIR_SLOWDOWN) as lab:
        # so much outstanding that a program which is not scheduled for a second stays backlogged
        apps = [lab.bandwidth(MB, sink="c", depth=64), lab.bandwidth(64 * MB, sink="c")]
        _, rates = run_together(lab, apps, seconds)
    small, large = rates[0][0], rates[1][0]
    tap.note("1 MB and 64 MB messages, %s: %.2f and %.2f Gb/s" % (
        "Justitia" if justitia else "stock", small, large))
    return max(small, large) / max(min(small, large), 1e-9)


def test_message_sizes():
    def measure():
        ratio = message_size_ratio(True, 12)
        return [(ratio <= 1.02, "1 MB and 64 MB messages, Justitia: within %.1f %% <= 2 %%" %
                 (100 * (ratio - 1)))]

    judge(measure)


def run():
    tap.note("model %s, slowdown %d (message sizes: %d), figures scaled back" % (
        MODEL, SLOWDOWN, FAIR_SLOWDOWN))
    alone = test_idle_latency_is_steady()
    test_latency(alone, 1, 1.8, 1.3, 6)
    test_latency(alone, 8, 20, 3.5, 10)
    test_throughput()
    test_message_sizes()


def main():
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))   # cleans up on the way
    try:
        require(*TREES.values())
        run()
    except LabError as error:
        tap.ok(False, "the laboratory works")
        tap.note(str(error))
    tap.note("%.0f s" % (time.monotonic() - started))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
