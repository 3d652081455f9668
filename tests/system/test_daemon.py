#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""test_daemon.py - justitiad as a process: its life, clients, rest and configuration."""
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tap  # noqa: E402
from daemon import (  # noqa: E402
    CHUNK_BYTES, CLIENT_WAITS, DAEMON_WAITS, FLOWS, HEAD, JUSTITIACTL, JUSTITIAD, MAGIC,
    NOBODY, REGION_BYTES, RING_TOKENS, STATUS, TAIL, VERSION, WAKE, WANTED, Client,
    Daemon, Refused, connect, header, receive, run, says, skip_unless_built, until,
)


# ---- the life of the process ---------------------------------------------------


def test_life(t):
    daemon = Daemon().start()
    t.ok(os.stat(daemon.path).st_mode & 0o777 == 0o666, "every user may connect")
    t.ok(daemon.stop() == 0, "SIGTERM ends it with status 0", daemon.log())
    t.ok(not os.path.exists(daemon.path), "its socket is removed")
    daemon.start()
    t.ok(daemon.stop(signal.SIGINT) == 0, "so does SIGINT")
    version = subprocess.run([JUSTITIAD, "--version"], capture_output=True, text=True)
    t.ok(version.returncode == 0 and version.stdout.startswith("justitiad "), "--version")
    bad = subprocess.run([JUSTITIAD, "--no-such"], capture_output=True, text=True)
    t.ok(bad.returncode != 0 and "no-such" in bad.stderr, "an unknown option is named")


def test_ready(t):
    with tempfile.TemporaryDirectory() as where:
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(where + "/notify")
        notify.settimeout(5)
        os.environ["NOTIFY_SOCKET"] = where + "/notify"
        try:
            with Daemon() as daemon:
                t.ok(notify.recv(4096).startswith(b"READY=1"), "READY=1 is notified")
                daemon.process.send_signal(signal.SIGHUP)
                t.ok(b"RELOADING=1" in notify.recv(4096), "RELOADING=1, on SIGHUP")
                t.ok(notify.recv(4096) == b"READY=1", "READY=1 again, once reloaded")
        finally:
            del os.environ["NOTIFY_SOCKET"]


def test_in_the_way(t):
    with Daemon() as first:
        second = Daemon(path=first.path).start(wait=False)
        t.ok(second.process.wait(10) == 1, "a live daemon in the way: refused")
        t.ok(f"process {first.process.pid} listens there already" in second.log(),
             "the live one is named", second.log())
        t.ok(Client(first.path).cls == 0, "and goes on")
        first.stop(signal.SIGKILL)
        t.ok(os.path.exists(first.path), "a killed daemon leaves its socket")
        first.start()
        t.ok(Client(first.path).cls == 0, "a stale socket is replaced", first.log())
    with tempfile.TemporaryDirectory() as where:
        for make, what in ((lambda p: pathlib.Path(p).write_text("precious"), "regular file"),
                           (os.mkdir, "directory"),
                           (lambda p: os.symlink("/dev/null", p), "symbolic link")):
            path = f"{where}/{what.replace(' ', '')}"
            make(path)
            daemon = Daemon(path=path).start(wait=False)
            t.ok(daemon.process.wait(10) == 1 and "is not a socket" in daemon.log(),
                 f"a {what} in the way: refused", daemon.log())
            t.ok(os.path.lexists(path), f"the {what} is still there")
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.bind(where + "/stream")
        stream.listen()
        daemon = Daemon(path=where + "/stream").start(wait=False)
        t.ok(daemon.process.wait(10) == 1 and "listens there already" in daemon.log(),
             "another program's socket in the way: refused", daemon.log())
    daemon = Daemon(path="/tmp/" + "x" * 120).start(wait=False)
    t.ok(daemon.process.wait(10) == 1 and "at most 107 bytes" in daemon.log(),
         "a path that is too long: refused with the limit", daemon.log())


# ---- a client's life ----------------------------------------------------------------


def test_attach(t, daemon):
    client = Client(daemon.path, "throughput", "2.5")
    t.ok((client.cls, client.weight) == (1, 2500), "class and weight are as wished")
    t.ok(client.bytes == REGION_BYTES == os.fstat(client.fd).st_size, "the region's size")
    t.ok(struct.unpack_from("=4I", client.region, 0) == (MAGIC, VERSION, REGION_BYTES, RING_TOKENS),
         "the region introduces itself")
    t.ok(client.get(CHUNK_BYTES) == 1000000 and client.get(DAEMON_WAITS) == 1,
         "it holds the policy, and the daemon waits")
    for name, length in (("shrink", 4096), ("grow", 1 << 20)):
        try:
            os.ftruncate(client.fd, length)
            sealed = False
        except PermissionError:
            sealed = True
        t.ok(sealed, f"the region is sealed against {name}")
    client.close()
    t.ok(until(lambda: not daemon.status()["clients"]), "a client that leaves is forgotten")
    for cls, weight in (("Latency", ""), ("bandwidth", "heavy"), ("bandwidth", "0"), ("\x01\xff", "1e3")):
        client = Client(daemon.path, cls, weight)
        t.ok((client.cls, client.weight) == (0, 1000), f"wishes {cls!r}, {weight!r}: the default")
        client.close()
    t.ok(says(daemon, 'class "Latency" ignored; accepted: latency, throughput, bandwidth') and
         says(daemon, 'weight "heavy" ignored; accepted: 0.1 to 100'), "the log quotes them",
         daemon.log())
    for device in ("", "../etc", "x" * 64):
        try:
            Client(daemon.path, device=device)
            error = 0
        except Refused as refusal:
            error = refusal.args[0]
        t.ok(error == -errno.EINVAL, f"device name {device[:8]!r}: refused", error)


def test_scheduling(t):
    policies = {}
    for name in ("realtime", "normal"):
        with Daemon(f'scheduling = "{name}"\n') as daemon:
            policies[name] = os.sched_getscheduler(daemon.process.pid) & ~os.SCHED_RESET_ON_FORK
            refused = "scheduling stays" in daemon.log()
        if refused:
            t.skip("realtime scheduling", "no privilege")
            return
    t.ok(policies == {"realtime": os.SCHED_RR, "normal": os.SCHED_OTHER}, "scheduling as configured",
         policies)


def test_tokens(t):
    with Daemon('max_rate = "1 Gbit/s"\nmax_rate_small = "800 Mbit/s"\ntoken_size = "10 KB"\n') as daemon:
        one, two = Client(daemon.path), Client(daemon.path, "", "2")
        for client in (one, two):
            client.put(FLOWS, 1)
            client.put(WANTED, 900)
            client.look()
        t.ok(until(lambda: one.get(HEAD) >= 200 and two.get(HEAD) >= 400), "both get tokens")
        # By tokens given, not by time: how far they have come may be read apart by a tick.
        ratio = two.get(HEAD) / one.get(HEAD)
        t.ok(1.8 < ratio < 2.2, "weights 1 and 2 get tokens one to two", ratio)
        slots = sorted([one.token(i)[0] for i in range(100)] + [two.token(i)[0] for i in range(200)])
        gaps = [b - a for a, b in zip(slots, slots[1:])]
        t.ok(min(gaps) >= 40000, "10 KB at 1 Gbit/s: a slot each 80 us, and no slot twice", min(gaps))
        # A slot that nobody could be given when its time came only adds to the mean.
        t.ok(sum(gaps) / len(gaps) >= 79500, "no more than a token each 80 us", sum(gaps) / len(gaps))
        status = daemon.status()
        by_pid = {c["weight_milli"]: c for c in status["clients"]}
        t.ok(by_pid[2000]["granted_bytes"] == 10000 * by_pid[2000]["granted_tokens"] > 0,
             "status counts what was granted", status)
        one.put(WANTED, 0)
        two.put(WANTED, 0)
        t.ok(until(lambda: one.get(DAEMON_WAITS) and two.get(DAEMON_WAITS)),
             "when hunger ends the daemon waits again")
        before = one.get(HEAD), two.get(HEAD)
        time.sleep(0.05)
        t.ok(before == (one.get(HEAD), two.get(HEAD)), "and gives no more")
        late = Client(daemon.path, "latency")
        late.put(FLOWS, 1)
        late.look()
        t.ok(until(lambda: one.get(CHUNK_BYTES) == 5000), "a latency flow arrives: 5 KB tokens")
        device = daemon.status()["devices"][0]
        t.ok(device["rmin_bytes_per_s"] == 75000000 == device["safeutil_bytes_per_s"],
             "Rmin is 3 of 4 shares of 800 Mbit/s", device)
        late.put(WANTED, 500)
        late.look()
        time.sleep(0.02)
        t.ok(late.get(HEAD) == 0, "a latency app gets no tokens, whatever it asks for")
        late.close()
        t.ok(until(lambda: one.get(CHUNK_BYTES) == 10000), "it exits: large tokens again")


def test_wake(t, daemon):
    client = Client(daemon.path)
    client.put(FLOWS, 1)
    client.put(CLIENT_WAITS, 1)
    client.put(WANTED, 1)
    client.look()
    data, _ = receive(client.sock)
    t.ok(data == header(WAKE) and client.get(HEAD) == 1, "a client that sleeps gets JST_WAKE")
    other = Client(daemon.path, "latency")
    other.put(FLOWS, 1)
    other.look()
    data, _ = receive(client.sock)
    t.ok(data == header(WAKE) and client.get(CHUNK_BYTES) == 5000,
         "also when the policy has changed")
    client.close()
    other.close()


# ---- idleness -----------------------------------------------------------------------------


def test_idle(t):
    with Daemon() as daemon:
        time.sleep(0.3)
        before = daemon.switches()
        time.sleep(2)
        t.ok(daemon.switches() - before == 0, "without clients: no wake-up in 2 s",
             daemon.switches() - before)
        client = Client(daemon.path)
        client.put(FLOWS, 4)
        client.look()
        time.sleep(1.5)
        before = daemon.switches()
        time.sleep(2)
        t.ok(daemon.switches() - before == 0, "with an attached idle client: none either",
             daemon.switches() - before)
        client.put(WANTED, 400)
        client.look()
        t.ok(until(lambda: client.get(HEAD) == 400), "it is served when it is hungry")
        time.sleep(0.2)
        before = daemon.switches()
        time.sleep(2)
        t.ok(daemon.switches() - before == 0, "and when it no longer is, none again",
             daemon.switches() - before)
        client.close()
    with Daemon('max_rate = "100 Mbit/s"\nmax_rate_small = "80 Mbit/s"\n') as daemon:
        client = Client(daemon.path)
        client.put(FLOWS, 1)
        client.put(WANTED, 1000)
        client.look()
        time.sleep(0.3)
        before, head = daemon.switches(), client.get(HEAD)
        time.sleep(2)
        ticks, tokens = daemon.switches() - before, client.get(HEAD) - head
        t.ok(20 <= tokens <= 30 and ticks <= 4 * tokens,
             "slots 80 ms apart: it sleeps from one to the next", (ticks, tokens))
        client.put(TAIL, client.get(HEAD) - RING_TOKENS)
        time.sleep(0.3)
        before = daemon.switches()
        time.sleep(1)
        t.ok(daemon.switches() - before <= 150, "a ring that stays full is looked at rarely",
             daemon.switches() - before)
        client.close()


# ---- configuration ---------------------------------------------------------------------------


def test_reload(t):
    with Daemon('token_size = "2 MB"\n') as daemon:
        client = Client(daemon.path)
        client.put(FLOWS, 1)
        t.ok(client.get(CHUNK_BYTES) == 2000000, "the file is obeyed")

        def reload(text, line):
            pathlib.Path(daemon.conf).write_text(text)
            daemon.process.send_signal(signal.SIGHUP)
            return says(daemon, line)

        t.ok(reload('# one\n# two\ntoken_size = "3 parsecs"\n',
                    'justitia.conf:3: token_size = "3 parsecs" is not a number with a unit; accepted: 512 B to 64 MB'),
             "SIGHUP with a broken file: file, line, value and range are quoted", daemon.log())
        t.ok(says(daemon, "not reloaded"), "it says that nothing has changed")
        t.ok(client.get(CHUNK_BYTES) == 2000000 and daemon.alive(), "and nothing has")
        for text, line in (('no_such_key = "1"\n', "no_such_key"), ('token_size = "\n', ":2: "),
                           ("\0\1\2\n", "no such option"), ("rule {", "justitia.conf:1")):
            t.ok(reload(text, line) and daemon.alive(), f"SIGHUP with {text!r}", daemon.log())
        os.remove(daemon.conf)
        os.mkdir(daemon.conf)
        daemon.process.send_signal(signal.SIGHUP)
        t.ok(says(daemon, "accepted: a regular file") and daemon.alive(), "a directory as the file")
        os.rmdir(daemon.conf)
        daemon.process.send_signal(signal.SIGHUP)
        t.ok(says(daemon, "No such file") and daemon.alive(), "no file at all")
        t.ok(reload('token_size = "3 MB"\nrule "all" { class = "deny" }\n', "reloaded; rules"),
             "SIGHUP with a good file")
        t.ok(until(lambda: client.get(CHUNK_BYTES) == 3000000), "an attached client has the new policy")
        try:
            Client(daemon.path)
            error = 0
        except Refused as refusal:
            error = refusal.args[0]
        t.ok(error == -errno.EACCES and says(daemon, 'denied by rule "all"'), "the new rule denies", error)


def test_rules(t):
    exe = os.path.realpath("/proc/self/exe")
    conf = f'''
rule "nobody" {{
  user = "{NOBODY}"
  class = "latency"
}}
rule "this" {{
  executable = "{os.path.dirname(exe)}/pyth*"
  weight = "4"
}}
'''
    with Daemon(conf) as daemon:
        client = Client(daemon.path, "throughput", "0.5")
        t.ok((client.cls, client.weight) == (1, 4000), "a rule's weight wins; the wished class stays",
             (client.cls, client.weight))
        t.ok(says(daemon, "rule this"), "the log names the rule", daemon.log())
        if os.geteuid():
            t.skip("a rule for another user", "not root")
            return
        child = os.fork()
        if not child:
            os.setuid(NOBODY)
            os._exit(Client(daemon.path, "throughput").cls)
        t.ok(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2, "a rule for another user")


def test_check_config(t):
    def check(text):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(text)
            file.flush()
            return subprocess.run([JUSTITIAD, "--check-config", "--config", file.name],
                                  capture_output=True, text=True, timeout=10)
    good = check('max_rate = "1.5 GB/s"\nmax_rate_small = "1 GiB/s"\n')
    t.ok(good.returncode == 0 and "valid" in good.stdout, "--check-config, a good file", good)
    bad = check('\ntick = "5 us"\n')
    t.ok(bad.returncode == 1 and ':2: tick = "5 us" is out of range; accepted: 50 us to 100 ms' in bad.stderr,
         "--check-config, a bad one", bad)
    example = pathlib.Path(__file__).resolve().parents[2] / "justitiad" / "justitia.conf"
    t.ok(check(example.read_text()).returncode == 0, "the example is valid")
    missing = subprocess.run([JUSTITIAD, "--check-config", "--config", "/nonexistent/x"],
                             capture_output=True, text=True)
    t.ok(missing.returncode == 1 and "/nonexistent/x: No such file" in missing.stderr, "a missing file")


# ---- justitiactl --------------------------------------------------------------------------------


def ctl(*args, **kw):
    return subprocess.run([JUSTITIACTL, *args], capture_output=True, text=True, timeout=10, **kw)


def test_ctl(t):
    with Daemon() as daemon:
        client = Client(daemon.path, "throughput", "1.5")
        client.put(FLOWS, 7)
        client.put(WANTED, 3)
        struct.pack_into("=Q", client.region, 256, 4242)
        client.look()
        until(lambda: client.get(HEAD) == 3)
        table = ctl("--socket", daemon.path, "status")
        row = [line.split() for line in table.stdout.splitlines() if line.split()[:1] == [str(os.getpid())]]
        t.ok(row and row[0][3:8] == ["mlx5_0", "throughput", "1.5", "7", "3"], "status: a row for the client",
             table.stdout + table.stderr)
        t.ok("4242" in table.stdout and "MaxRate" in table.stdout and "48.00 Gbit/s" in table.stdout,
             "status: its claim, and the device's rates", table.stdout)
        document = json.loads(ctl("--socket", daemon.path, "status", "--json").stdout)
        keys = {"id", "pid", "uid", "command", "device", "class", "weight_milli", "flows", "hungry",
                "granted_tokens", "granted_bytes", "granted_ops", "claimed"}
        t.ok(set(document["clients"][0]) == keys, "status --json: the documented keys", document)
        t.ok(document["clients"][0]["granted_bytes"] == 3000000 and
             document["clients"][0]["claimed"]["messages"] == 4242, "status --json: truth and claim apart")
        many = [Client(daemon.path) for _ in range(255)]
        document = json.loads(ctl("--socket", daemon.path, "status", "--json").stdout)
        t.ok(len(document["clients"]) == 256, "status --json: 256 clients, in several pieces")
        for other in many:
            other.close()
        none = ctl("--socket", daemon.path + "x", "status")
        t.ok(none.returncode == 1 and "no justitiad listens there" in none.stderr, "no daemon: said clearly")
        for args in ((), ("stauts",), ("status", "status"), ("--nonsense",)):
            wrong = ctl(*args)
            t.ok(wrong.returncode not in (0, 1) and wrong.stderr, f"justitiactl {' '.join(args)}: usage")
        helped = ctl("--help")
        t.ok(helped.returncode == 0 and "status" in helped.stdout, "justitiactl --help")
        sock = connect(daemon.path)
        sock.send(header(STATUS))
        stuck = [sock]
        for _ in range(15):
            stuck.append(connect(daemon.path))
            stuck[-1].send(header(STATUS))
        t.ok(daemon.alive() and daemon.status()["pid"] == daemon.process.pid,
             "readers who do not read keep nobody else from the status")


def as_user(uid, gid, groups, function):
    """Calls function as somebody else, and returns its text."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            os.write(write, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    text = os.read(read, 1 << 16)
    os.waitpid(child, 0)
    os.close(read)
    return json.loads(text) if text else {}


def test_who_may_ask(t):
    if os.geteuid():
        t.skip("status by another user", "not root")
        return
    with Daemon('admin_group = "4711"\n') as daemon:
        answer = as_user(NOBODY, NOBODY, [], daemon.status)
        t.ok("user 65534 may not see the status; accepted: root, user 0, members of group 4711" in
             answer.get("error", ""), "a stranger is told who may ask", answer)
        t.ok("clients" in as_user(NOBODY, 4711, [], daemon.status), "the group's members may: primary")
        t.ok("clients" in as_user(NOBODY, NOBODY, [1, 4711, 9], daemon.status), "and supplementary")
        t.ok("error" in as_user(NOBODY, NOBODY, [1, 9], daemon.status), "other groups may not")
        client = as_user(NOBODY, NOBODY, [], lambda: {"class": Client(daemon.path, "latency").cls})
        t.ok(client.get("class") == 2, "attaching is open to all", client)


def main():
    skip_unless_built()
    t = tap.Tap()
    with Daemon() as daemon:
        for test in (test_attach, test_wake):
            run(t, test, daemon)
        t.ok(daemon.alive() and daemon.stop() == 0, "after all of it the daemon ends cleanly",
             daemon.log()[-2000:])
    for test in (test_life, test_ready, test_in_the_way, test_scheduling, test_tokens, test_idle, test_reload, test_rules, test_check_config, test_ctl, test_who_may_ask):
        run(t, test)
    return t.done()


if __name__ == "__main__":
    sys.exit(main())
