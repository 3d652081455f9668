#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# timeout: 120
"""test_faults.py - faults on demand do what softhca(1) says, to programs that know nothing of them.

Each rule is tried on a stock program or on `integrity`, which compares every byte; the
rule's own counter must show that it acted.
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from harness import SEED, Failure, World, main, skip_unless_built, wait_until  # noqa: E402

MODELS = ("off", "ib56")     # the program's own thread does the work; the card process does
# enough for every opcode, and short with a slowed-down card
TRAFFIC = ["--count", "120", "--max-bytes", "60000", "--seed", str(SEED)]


def traffic(world, *options, seconds=30):
    return world.start_integrity([*TRAFFIC, *options]).wait(seconds)


def goes_well(world, name, rules, *options, least=1):
    """Data is whole and completions are in order in spite of the faults."""
    world.fault(rules)
    begin = time.monotonic()
    pair = traffic(world, *options)
    taken = time.monotonic() - begin
    acted = world.acted()
    tap.ok(pair.ok, name + ": data is whole", pair.text())
    tap.ok(all(n >= least for n in acted), name + ": the rule acted", str(acted))
    return taken, acted


def fails_with(world, name, rules, words, argv, acted=(1,), every=False):
    """The program fails, and says why in the words of the verbs."""
    world.fault(rules)
    run = world.run("a", argv).wait(20)
    text = run.output()
    tap.ok((every or not run.ok) and words in text and not run.timed_out,
           "%s: '%s'" % (name, words), run.text(30))
    tap.ok(tuple(world.acted()) == acted, name + ": the rule acted", str(world.acted()))


def commands():
    with World() as world:
        for rule, words in (
                ("command op=create_qp fail=ENOMEM", "Cannot allocate memory"),
                ("command op=reg_mr nth=1 fail=EPERM", "Operation not permitted"),
                ("command op=create_cq fail=ENOSPC", "No space left on device"),
                ("command host=a op=alloc_pd fail=EMFILE", "Too many open files")):
            fails_with(world, rule, [rule], words, ["errors", "write_bad_lkey"])
        fails_with(world, "another host's rule", ["command host=b op=create_qp fail=ENOMEM"],
                   "write_bad_lkey", ["errors", "write_bad_lkey"], acted=(0,), every=True)


def answers():
    """A chosen status; `errors` prints it. Without rules its third request succeeds."""
    with World() as world:
        case = ["errors", "stuck_work_goes_on_when_it_can"]
        for status, words in (("rem_op_err", "remote operation error"),
                              ("rem_access_err", "remote access error"),
                              ("retry_exc_err", "transport retry counter exceeded"),
                              ("rem_abort_err", "aborted error"),
                              ("bad_resp_err", "bad response error"),
                              ("loc_prot_err", "local protection error")):
            fails_with(world, "status=" + status, ["message op=read status=" + status],
                       "A send 3: " + words, case, every=True)
        world.fault(None)
        text = world.run("a", case).wait(20).output()
        tap.ok("A send 3: success" in text, "without rules it succeeds again", text)


def messages(model):
    def name(text):
        return "%s, model %s" % (text, model)

    with World(model=model) as world:
        alone, _ = goes_well(world, name("no rules"), [])
        goes_well(world, name("dropped"), ["message host=a every=11 times=8 drop"])
        goes_well(world, name("not ready"), ["message every=7 rnr"])
        taken, acted = goes_well(world, name("delayed"),
                                 ["message host=a every=20 times=5 delay_us=100000"])
        # two queue pairs may wait side by side
        tap.ok(acted == [5] and taken > alone + 0.2, name("delays take their time"),
               "%s, %.2f s, without %.2f s" % (acted, taken, alone))
        world.fault(["message host=a nth=20 every=1 drop"])
        pair = traffic(world, "--qps", "1")
        tap.ok(not pair.client.ok and "retry counter exceeded" in pair.client.output(),
               name("all dropped: retries run out"), pair.text())
        goes_well(world, name("all at once"), [
            "seed %d" % SEED, "message per_million=100000 times=5 drop",
            "message per_million=150000 rnr", "message per_million=200000 delay_us=300"])


def unreliable():
    """What is lost stays lost."""
    with World() as world:
        world.fault(["message host=a nth=50 drop"])
        pair = world.start_pair(["ibv_uc_pingpong", "-n", "200"])
        lost = wait_until(lambda: world.acted() == [1], 5)
        pair.client.wait(1)
        tap.ok(lost and pair.client.timed_out, "an unreliable message is lost", pair.text())
        pair.server.end()
        pair = world.pair(["ibv_uc_pingpong", "-n", "200"], seconds=10)
        tap.ok(pair.ok, "an unreliable connection of its own goes well", pair.text())


def repeats():
    """The same seed, program and order: the same fate. One queue pair has one order."""
    with World() as world:
        seen = []
        for _ in range(2):
            world.fault(["seed %d" % SEED,
                         "message host=a nth=40 status=rem_op_err",
                         "message host=a per_million=500000 delay_us=50"])
            pair = traffic(world, "--qps", "1", "--ops", "write", "--depth", "1", "--list", "1")
            seen.append((world.acted(), pair.client.ok))
        tap.ok(seen[0] == seen[1] and seen[0][0][0] == 1 and
               5 < seen[0][0][1] < 35 and not seen[0][1],
               "one seed, one fate", str(seen))


def events(model):
    def name(text):
        return "%s, model %s" % (text, model)

    with World(model=model) as world:
        goes_well(world, name("no rules, sleeping"), [], "--events")
        goes_well(world, name("late events"), ["event times=20 delay_us=10000"], "--events")
        world.fault(["event host=a every=3 times=20 delay_us=10000"])
        begin = time.monotonic()
        pair = world.pair(["ibv_rc_pingpong", "-e", "-n", "200"], seconds=10)
        tap.ok(pair.ok and time.monotonic() - begin > 0.2 and world.acted() == [20],
               name("20 late events, 10 ms each: that much longer"), pair.text())
        world.fault(["event host=a nth=3 drop"])
        pair = world.start_pair(["ibv_rc_pingpong", "-e", "-n", "200"])
        lost = wait_until(lambda: world.acted() == [1], 5)
        pair.client.wait(1)
        tap.ok(lost and pair.client.timed_out,
               name("a lost event: who sleeps is not woken"), pair.text())
        pair.server.end()
        world.fault(["completion host=a nth=20 overrun"])
        pair = traffic(world, "--timeout", "3", seconds=8)
        tap.ok(not pair.client.ok and world.acted() == [1],
               name("overrun: the completion queue is lost"), pair.text())
        goes_well(world, name("no more rules"), [], "--events")


def watcher(world, host):
    """A stock program that prints asynchronous events."""
    # stdbuf, for it buffers what it prints
    watch = world.run(host, ["stdbuf", "-oL", *world.program(["ibv_asyncwatch"], "stock")])
    wait_until(lambda: "async event" in watch.output() or watch.status is not None, 5)
    return watch


def port_state(world, host):
    with open(world.path("world/hosts/%s/sysfs/class/infiniband/mlx5_0/ports/1/state" % host),
              encoding="ascii") as state:
        return state.read().strip()


def ports():
    for model in MODELS:
        with World(model=model) as world:
            watch = watcher(world, "a")
            world.fault(["at ms=300 host=a port_down", "at ms=330 host=a port_up"])
            pair = traffic(world, "--seconds", "1")
            text = watch.output()
            tap.ok(pair.ok, "port down for 30 ms, model %s: data is whole" % model, pair.text())
            tap.ok("PORT_ERR" in text and "PORT_ACTIVE" in text,
                   "port down and up, model %s: events" % model, text)
            world.fault(["at ms=0 host=a port_down"])
            pair = traffic(world)
            tap.ok("retry counter exceeded" in pair.client.output(),
                   "port down, model %s: retries run out" % model, pair.text())
            texts = [world.run(h, ["ibv_devinfo"]).wait(5).output() for h in "ab"]
            tap.ok("PORT_DOWN" in texts[0] and "PORT_ACTIVE" in texts[1],
                   "port down, model %s: of one host" % model, "\n".join(texts))
            tap.ok(port_state(world, "a") == "1: DOWN" and port_state(world, "b") == "4: ACTIVE",
                   "port down, model %s: in sysfs" % model)
            world.fault(None)
            text = world.run("a", ["ibv_devinfo"]).wait(5).output()
            tap.ok("PORT_ACTIVE" in text and port_state(world, "a") == "4: ACTIVE",
                   "no more rules, model %s: port up" % model, text)


def fatal():
    with World() as world:
        watch = watcher(world, "a")
        world.fault(["at ms=300 host=a fatal"])
        pair = traffic(world, "--seconds", "2", "--timeout", "2", seconds=8)
        tap.ok(not pair.client.ok, "fatal: programs fail", pair.text())
        tap.ok(wait_until(lambda: "DEVICE_FATAL" in watch.output(), 3), "fatal: event", watch.output())
        refused = world.run("a", ["ibv_devinfo"]).wait(5)
        tap.ok(not refused.ok, "fatal: the device cannot be opened", refused.text())
        other = world.run("b", ["ibv_devinfo"]).wait(5)
        tap.ok(other.ok, "fatal: only of one host", other.text())
        world.fault(None)
        tap.ok(traffic(world).ok, "fatal: heals with the rules gone")


def state_of(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def hosts():
    for model in MODELS:
        with World(model=model) as world:
            world.fault(["at ms=400 host=b freeze_ms=700"])
            begin = time.monotonic()
            pair = world.start_integrity([*TRAFFIC, "--seconds", "2"])
            stopped = wait_until(lambda: state_of(pair.server.pid) == "T", 2)
            at = time.monotonic() - begin
            going = wait_until(lambda: state_of(pair.server.pid) != "T", 2)
            lasted = time.monotonic() - begin - at
            pair.wait(20)
            tap.ok(stopped and going and 0.5 < lasted < 1.2,
                   "a frozen host, model %s: for its time" % model,
                   "after %.2f s, for %.2f s" % (at, lasted))
            tap.ok(pair.ok, "a frozen host, model %s: data is whole" % model, pair.text())
            world.fault(["at ms=300 host=b kill"])
            pair = world.start_integrity([*TRAFFIC, "--seconds", "5", "--timeout", "3"])
            pair.server.wait(5)
            pair.client.wait(10)
            tap.ok(pair.server.status == -9 and pair.client.status not in (None, -9),
                   "a killed host, model %s: dead, and only that one is" % model, pair.text())
            world.fault(None)
            tap.ok(traffic(world).ok, "a killed host, model %s: the world lives on" % model)


def command_line():
    """At the start, at run time, and what is said of a bad file."""
    with World() as world:
        path = world.path("bad")
        with open(path, "w", encoding="ascii") as out:
            out.write("# one\nmessage nth=0 drop\n")
        for argv in (["fault", path], ["--faults"]):
            try:
                if argv[0] == "fault":
                    world.softhca(*argv)
                else:
                    world.softhca("up", "--world", world.path("other"), "--faults", path)
                text = "nothing"
            except Failure as failure:
                text = str(failure)
            tap.ok(path + ":2: nth: '0' is not a whole number from 1 to 4294967295" in text,
                   "a bad file, %s: line, value and range" % argv[0], text)
        tap.ok(not os.path.exists(world.path("other")), "a bad file: no world is made")
        tap.ok(world.softhca("fault") == "", "a bad file: no rule comes into force")
    rules = os.path.join(os.environ.get("TMPDIR", "/tmp"), "faults-%d" % os.getpid())
    with open(rules, "w", encoding="ascii") as out:
        out.write("command op=alloc_pd fail=EACCES\n")
    try:
        with World(settings=(), faults=rules) as world:
            run = world.run("a", ["errors", "write_bad_lkey"]).wait(10)
            tap.ok(not run.ok and "Permission denied" in run.output(), "up --faults", run.text())
            tap.ok(world.acted() == [1], "up --faults: the rule acted")
    finally:
        os.unlink(rules)


if __name__ == "__main__":
    skip_unless_built(tap, "errors", "integrity")
    main(tap, commands, answers, *[lambda m=m: messages(m) for m in MODELS], unreliable, repeats,
         *[lambda m=m: events(m) for m in MODELS], ports, fatal, hosts, command_line)
