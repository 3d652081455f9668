#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 200
"""test_sanitised.py - the library itself, under Address- and UndefinedBehaviorSanitizer,
inside the vendor's driver, shaping real traffic on the emulated card.

A finding ends the process with an exit status of its own, so the pair fails.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import BUILD, SEED, TREES, World, main, skip_unless_built  # noqa: E402

SHAPES = (
    ["--count", "300"],
    ["--count", "150", "--depth", "4", "--list", "3", "--qps", "3"],
    ["--count", "200", "--cq", "ex", "--events"],
    ["--count", "40", "--depth", "16", "--max-bytes", "4000000"],
    ["--count", "200", "--sge", "16", "--inline", "200", "--unsignaled", "50"],
)
LIBRARY = os.path.join(BUILD, "lib-asan")


def runtime(name):
    """The sanitizer's runtime, which has to be loaded before everything else."""
    found = subprocess.run(["gcc", "-print-file-name=" + name], check=True, text=True,
                           capture_output=True).stdout.strip()
    return os.path.realpath(found)


def environment():
    return {
        "LD_LIBRARY_PATH": LIBRARY + ":" + os.path.join(TREES["justitia"], "lib"),
        "LD_PRELOAD": runtime("libasan.so") + ":" + runtime("libubsan.so"),
        # what perftest and libmlx5 leave behind is not ours to judge
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=77:verify_asan_link_order=0",
        "UBSAN_OPTIONS": "halt_on_error=1:exitcode=78",
    }


def loads_it(env):
    driver = os.path.join(TREES["justitia"], "lib", "libmlx5.so.1")
    libraries = subprocess.run(["ldd", driver], text=True, capture_output=True, check=True,
                               env={**os.environ, "LD_LIBRARY_PATH": env["LD_LIBRARY_PATH"]})
    return os.path.join(LIBRARY, "libjustitia.so.0") in libraries.stdout


def run():
    env = environment()
    tap.ok(loads_it(env), "the driver loads the sanitised library")
    with World() as world:
        world.daemon("a", token_size="5 KB")
        world.daemon("b", token_size="5 KB")
        for i, shape in enumerate(SHAPES):
            for api in ("post", "wr"):
                options = [*shape, "--api", api, "--seed", str(SEED * 100 + i)]
                pair = world.start_integrity(options, tree="justitia", app_class="bandwidth",
                                             env=env).wait(60)
                tap.ok(pair.ok, " ".join(options), pair.text())


if __name__ == "__main__":
    skip_unless_built(tap, "integrity", "justitiad", trees=("stock", "justitia"))
    main(tap, run)
