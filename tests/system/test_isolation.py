#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 600
"""test_isolation.py - does Justitia protect the small from the large?

Everything is a ratio of two measurements on an emulated 56 Gb/s card in virtual time,
so every run gives the same figures. Directions and orders of size are the paper's
(sections 6.2 and 6.3); the bounds lie a little beyond what is measured here, so that
a change for the worse shows.
"""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "demo")]
sys.dont_write_bytecode = True

import tap  # noqa: E402
from lab import MAX_RATE_SMALL_GBPS, MODEL, Lab, LabError, require, run_together, TREES  # noqa: E402

MB = 1 << 20
SECONDS = 0.03          # of virtual time: some 20,000 latency samples when idle


def rmin_gbps(bandwidth_apps):
    """Paper 4.3.1, one latency application: B / (B + 1) of what the card can do."""
    return MAX_RATE_SMALL_GBPS * bandwidth_apps / (bandwidth_apps + 1)


def latency_beside(bandwidth_apps, justitia):
    """({p50_us, p99_us, samples}, total Gb/s of the bandwidth applications)"""
    with Lab(justitia) as lab:
        apps = [lab.bandwidth(sink="c") for _ in range(bandwidth_apps)]
        result, rates = run_together(lab, apps, SECONDS, lab.latency)
    total = sum(gbps for gbps, _ in rates)
    tap.note("latency beside %d bandwidth, %s: p50 %.2f us, p99 %.2f us (%d samples); "
             "bandwidth %.1f Gb/s" % (bandwidth_apps, "Justitia" if justitia else "stock",
                                      result["p50_us"], result["p99_us"], result["samples"],
                                      total))
    return result, total


def test_idle_latency():
    """Everything else is measured against this; the model's idle card has 1.30 and 1.40 us."""
    alone, _ = latency_beside(0, False)
    tap.ok(abs(alone["p50_us"] / 1.30 - 1) <= 0.02 and abs(alone["p99_us"] / 1.40 - 1) <= 0.02,
           "latency alone: p50 %.3f us and p99 %.3f us, within 2 %% of the model's 1.30 and 1.40" %
           (alone["p50_us"], alone["p99_us"]))
    return alone


def test_latency(alone, bandwidth_apps, harmed, p50, p99):
    name = "latency beside %d bandwidth" % bandwidth_apps
    floor = rmin_gbps(bandwidth_apps)
    stock, _ = latency_beside(bandwidth_apps, False)
    ours, total = latency_beside(bandwidth_apps, True)
    without = stock["p50_us"] / alone["p50_us"]
    tap.ok(without >= harmed, "%s, stock: p50 %.2f x alone >= %.1f (p99 %.2f x)" % (
        name, without, harmed, stock["p99_us"] / alone["p99_us"]))
    for quantile, bound in (("p50_us", p50), ("p99_us", p99)):
        ratio = ours[quantile] / alone[quantile]
        tap.ok(ratio <= bound, "%s, Justitia: %s %.2f x alone <= %.1f" % (
            name, quantile[:3], ratio, bound))
    tap.ok(total >= 0.98 * floor, "%s, Justitia: %.1f Gb/s >= 98 %% of Rmin %.1f" % (
        name, total, floor))


def throughput_rate(beside_bandwidth, justitia):
    with Lab(justitia) as lab:
        apps = [lab.throughput()]
        if beside_bandwidth:
            apps.append(lab.bandwidth(sink="c"))
        _, rates = run_together(lab, apps, SECONDS / 3)
    tap.note("throughput %s, %s: %.2f Mop/s%s" % (
        "beside bandwidth" if beside_bandwidth else "alone", "Justitia" if justitia else "stock",
        rates[0][1], "; bandwidth %.1f Gb/s" % rates[1][0] if beside_bandwidth else ""))
    return rates[0][1]


def test_throughput():
    alone = throughput_rate(False, False)
    stock = throughput_rate(True, False) / alone
    ours = throughput_rate(True, True) / alone
    tap.ok(stock <= 0.35, "throughput beside bandwidth, stock: %.0f %% of alone <= 35 %%" %
           (100 * stock))
    tap.ok(ours >= 0.48, "throughput beside bandwidth, Justitia: %.0f %% of alone >= 48 %%" %
           (100 * ours))


def test_message_sizes():
    """64 MB messages against 1 MB messages: both get the same."""
    with Lab(True) as lab:
        apps = [lab.bandwidth(MB, sink="c"), lab.bandwidth(64 * MB, sink="c")]
        _, rates = run_together(lab, apps, 10 * SECONDS)
    small, large = rates[0][0], rates[1][0]
    ratio = max(small, large) / max(min(small, large), 1e-9)
    tap.note("1 MB and 64 MB messages, Justitia: %.2f and %.2f Gb/s" % (small, large))
    tap.ok(ratio <= 1.02, "1 MB and 64 MB messages, Justitia: within %.1f %% <= 2 %%" %
           (100 * (ratio - 1)))


def test_determinism():
    """The same again, to the last digit."""
    first, second = (latency_beside(2, True) for _ in range(2))
    tap.ok(first == second, "two runs with one seed agree in every figure",
           "%s\n%s" % (first, second))


def run():
    tap.note("model %s, virtual time" % MODEL)
    alone = test_idle_latency()
    test_latency(alone, 1, 1.8, 1.2, 2.2)
    test_latency(alone, 8, 50, 1.6, 1.8)
    test_throughput()
    test_message_sizes()
    test_determinism()


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
