#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 300
"""test_errors.py - what applications see when things go wrong is as with the stock driver.

`errors` prints everything an application can see of 27 failures. The stock
driver's transcript is the right one, and has to make sense by itself.
"""
import difflib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import World, main, skip_unless_built  # noqa: E402

NOBODY = {"JUSTITIA_SOCKET": "/nonexistent/justitia.sock"}
CHUNKS = ("4 KB", "5 KB", "64 KB", "1 MB")


def transcript(world, options, name, **how):
    run = world.run("a", ["errors", *options], **how).wait(60)
    tap.ok(run.ok, "errors %s, %s, ends well" % (" ".join(options), name), run.text())
    return run.output()


def check_sense(text, options):
    """Of the stock transcript: what the verbs specification says."""
    cases, name = {}, None
    for line in text.splitlines():
        if not line.startswith(" "):
            name = line
            cases[name] = []
        else:
            cases[name].append(line.strip())
    wanted = (("write_bad_lkey", "A send 1: local protection error"),
              ("write_bad_rkey", "A send 1: remote access error"),
              ("write_remote_end_in_the_middle", "A send 1: remote access error"),
              ("write_remote_end_unsignalled", "A send 1: remote access error"),
              ("write_remote_end_unsignalled", "A send 3: Work Request Flushed Error"),
              ("read_remote_end_in_the_middle", "A send 1: remote access error"),
              ("receive_too_small_large", "A send 1: remote invalid request error"),
              ("receive_too_small_large", "B receive 101: local length error"),
              ("no_receive", "A send 1: RNR retry counter exceeded"),
              ("peer_is_gone", "A send 0: transport retry counter exceeded"),
              ("stuck_work_goes_on_when_it_can", "A send 3: success, opcode 2, 1000000 bytes"))
    absent = ["%s: %s" % (c, w) for c, w in wanted if w not in cases.get(c, ())]
    tap.ok(not absent and "missing" not in text and "gone" not in text.replace("peer_is_gone", ""),
           "errors %s, stock, says what the specification says" % " ".join(options),
           "not found: %s\n%s" % (absent, text))


def compare(stock, other, name):
    diff = "\n".join(difflib.unified_diff(stock.splitlines(), other.splitlines(), "stock", name,
                                          lineterm="", n=4))
    tap.ok(not diff, name + ": transcript as with the stock driver", diff)


def errors_on(link, variants, chunks):
    with World(link=link) as world:
        stock = {}
        for options in variants:
            stock[options] = transcript(world, options, link + ", stock")
            check_sense(stock[options], options)
            text = transcript(world, options, link + ", patched, no daemon", tree="justitia",
                              env=NOBODY)
            compare(stock[options], text, "errors %s, %s, no daemon" % (" ".join(options), link))
        for chunk in chunks:
            daemon = world.daemon("a", token_size=chunk, token_size_latency=chunk)
            for options in variants:
                for app_class in ("bandwidth", "throughput", "latency")[:3 if chunk == "64 KB"
                                                                        else 1]:
                    name = "%s, %s, chunks of %s" % (link, app_class, chunk)
                    text = transcript(world, options, name, tree="justitia", app_class=app_class)
                    compare(stock[options], text, "errors %s, %s" % (" ".join(options), name))
            tap.ok(daemon.process.status is None, "the daemon lives, chunks of " + chunk)
            daemon.stop()


def infiniband():
    errors_on("ib", ((), ("--wr",), ("--ex",)), CHUNKS[2:3])
    errors_on("ib", ((), ("--wr",)), CHUNKS[:2] + CHUNKS[3:])


def races():
    """States that change while the progress thread is posting: again and again."""
    with World() as world:
        world.daemon("a", token_size="4 KB", token_size_latency="4 KB")
        for case in ("reset_with_work_and_reuse", "flush_by_error_state", "destroyed_with_work"):
            stock = world.run("a", ["errors", case]).wait(30).output()
            wrong = ""
            for _ in range(12):
                run = world.run("a", ["errors", case], tree="justitia", app_class="bandwidth")
                text = run.wait(30).output()
                wrong = wrong or (run.text(40) if text != stock else "")
            tap.ok(not wrong, "12 times %s: as with the stock driver" % case, wrong)


def ethernet():
    errors_on("eth", ((), ("--wr", "--ex")), CHUNKS[1:2])


if __name__ == "__main__":
    skip_unless_built(tap, "errors", "justitiad", "justitiactl", trees=("stock", "justitia"))
    main(tap, infiniband, ethernet, races)
