# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""lab.py - a small laboratory: emulated hosts, their daemons, programs on them.

A Lab is one world of the emulated card. Programs are started on its hosts with
the stock or with the Justitia tree of libraries, and everything that was started
is ended by its process id when the Lab is closed, also after an error.

Time is virtual: one clock for the card, the daemons and all programs, which stands
unless it is told to run (`softhca clock run`). So programs are started at leisure,
everything is measured in exact windows, and the same seed gives the same figures.

What applications get is read from the card's own counters (`softhca stat --json`,
bytes and messages per queue pair between two moments), because a program's own
report is too coarse when few messages end in the window; perftest's report is
kept as a cross-check.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("JUSTITIA_BUILD", os.path.join(ROOT, "build"))
BIN = os.path.join(BUILD, "bin")
TREES = {"stock": os.path.join(BUILD, "rdma-core", "stock", "lib"),
         "justitia": os.path.join(BUILD, "rdma-core", "justitia", "lib")}

# The card that is emulated: 56 Gb/s InfiniBand (ConnectX-3 Pro).
MODEL = "ib56"
LINK_GBPS = 56
MAX_RATE_GBPS = 48.0            # the paper's MaxRate for this card
MAX_RATE_SMALL_GBPS = 43.44     # 5.43 GB/s: what the model reaches in 5 KB chunks
MAX_MOPS = 10.8


class LabError(Exception):
    """Something is missing or a program failed; the text is for the user."""


def require(*paths):
    """Every path must be there; says which are not, and how to get them."""
    missing = [p for p in paths if not os.path.exists(p)]
    if missing:
        raise LabError("not built yet (run `make` first): " + ", ".join(
            os.path.relpath(p, ROOT) for p in missing))


def tool(name):
    path = shutil.which(name)
    if not path:
        raise LabError("program '%s' not found (run `make deps` first)" % name)
    return path


def binary(name):
    path = os.path.join(BIN, name)
    require(path)
    return path


def wait_for(what, predicate, seconds, watched=()):
    """Polls predicate; a watched program that ends early is an error at once."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        for program in watched:
            program.check_alive()
        if time.monotonic() > deadline:
            raise LabError("%s: not within %.0f s%s" % (
                what, seconds, "".join(p.tail() for p in watched)))
        time.sleep(0.02)


def is_listening(port):
    """Whether some process of this machine listens on this TCP port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines]
        except OSError:
            continue
        if any(r[3] == "0A" and int(r[1].split(":")[1], 16) == port for r in rows[1:]):
            return True
    return False


class Program:
    """One child process, its output in a file."""

    def __init__(self, name, argv, env, directory):
        self.name = name
        self.argv = argv
        self.path = os.path.join(directory, name.replace(" ", "_") + ".log")
        with open(self.path, "wb") as log:
            self.child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=subprocess.STDOUT)
        self.pid = self.child.pid

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def tail(self, lines=12):
        text = self.output().strip().splitlines()[-lines:]
        return "\n--- %s (%s)\n    %s" % (self.name, " ".join(self.argv), "\n    ".join(text))

    def check_alive(self):
        if self.child.poll() is not None:
            raise LabError("%s ended early with status %d%s" % (
                self.name, self.child.returncode, self.tail()))

    def wait(self, seconds):
        try:
            status = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabError("%s did not end within %.0f s%s" % (
                self.name, seconds, self.tail())) from None
        if status:
            raise LabError("%s ended with status %d%s" % (self.name, status, self.tail()))
        return self.output()

    def stop(self):
        for sign, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
            if self.child.poll() is not None:
                return
            self.child.send_signal(sign)
            try:
                self.child.wait(seconds)
            except subprocess.TimeoutExpired:
                pass


class Lab:
    """with Lab(...) as lab: one world, up and running, with daemons if asked for.

    Its clock is virtual and stands, but for model "off", which has no time of its own.
    """

    def __init__(self, justitia, hosts=("a", "b", "c"), model=MODEL, seed=1,
                 settings=(), daemons=None, daemon_settings=None, keep=False):
        self.justitia = justitia
        self.tree = "justitia" if justitia else "stock"
        self.hosts = hosts
        self.model = model
        self.is_virtual = model != "off"
        self.seed = seed
        self.settings = settings
        self.daemons = justitia if daemons is None else daemons
        self.daemon_settings = daemon_settings or {}
        self.keep = keep
        self.programs = []
        self.next_port = 18700 + os.getpid() % 1000 * 8
        self.is_up = False
        self.directory = None

    # ---- up and down ----

    def __enter__(self):
        require(*(TREES[self.tree],))
        self.directory = tempfile.mkdtemp(prefix="justitia-lab-")
        try:
            self._up()
            if self.daemons:
                for host in self.hosts:
                    self._start_daemon(host)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind and issubclass(kind, LabError):
            self.keep = True
            value.args = ("%s\n(logs are kept in %s)" % (value, self.directory),)
        self.close()

    def _softhca(self, *arguments, timeout=30):
        try:
            run = subprocess.run([binary("softhca"), *arguments], env=self._env(), text=True,
                                 capture_output=True, timeout=timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError("softhca %s: %s" % (" ".join(arguments), error)) from None
        if run.returncode:
            raise LabError("softhca %s: %s" % (
                " ".join(arguments), (run.stderr or run.stdout).strip()))
        return run.stdout

    def _up(self):
        arguments = ["up", "--hosts", ",".join(self.hosts), "--model", self.model,
                     "--seed", str(self.seed)]
        if self.is_virtual:
            arguments += ["--clock", "virtual", "--hold"]
        for setting in self.settings:
            arguments += ["--set", setting]
        self.is_up = True
        self._softhca(*arguments)

    def close(self):
        for program in reversed(self.programs):
            program.stop()
        self.programs = []
        if self.is_up:
            self.is_up = False
            self._down()
        if self.directory and not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _down(self):
        """By the launcher; if that fails, by the process id that the card left."""
        path = os.path.join(self.directory, "world", "card.pid")
        try:
            with open(path, encoding="ascii") as file:
                pid = int(file.read())
        except (OSError, ValueError):
            return          # it never came up
        try:
            self._softhca("down")
        except LabError as error:
            print("warning: %s" % error, file=sys.stderr)
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass

    # ---- daemons ----

    def socket(self, host):
        return os.path.join(self.directory, "justitiad-%s.sock" % host)

    def daemon_conf(self, host):
        """What the operator of this card would write."""
        conf = {
            "socket": self.socket(host),
            "max_rate": "%g Gbit/s" % MAX_RATE_GBPS,
            "max_rate_small": "%g Gbit/s" % MAX_RATE_SMALL_GBPS,
            "max_ops": "%g Mop/s" % MAX_MOPS,
        }
        conf.update(self.daemon_settings)
        return "".join('%s = "%s"\n' % item for item in conf.items())

    def _start_daemon(self, host):
        path = os.path.join(self.directory, "justitiad-%s.conf" % host)
        with open(path, "w", encoding="ascii") as conf:
            conf.write(self.daemon_conf(host))
        argv = [binary("justitiad"), "--config", path]
        if self.is_virtual:     # it lives on the same clock
            argv = [binary("softhca"), "run", "--host", host, "--", *argv]
        daemon = self._spawn("justitiad %s" % host, argv, self._env())
        wait_for("the socket of %s" % daemon.name,
                 lambda: os.path.exists(self.socket(host)), 10, [daemon])

    def daemon_status(self, host):
        run = subprocess.run([binary("justitiactl"), "--socket", self.socket(host), "status",
                              "--json"], text=True, capture_output=True, timeout=10, check=False)
        if run.returncode:
            raise LabError("justitiactl status: " + (run.stderr or run.stdout).strip())
        return json.loads(run.stdout)

    # ---- programs ----

    def _env(self, extra=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("JUSTITIA_")}
        env["SOFTHCA_WORLD"] = os.path.join(self.directory, "world")
        env.update(extra or {})
        return env

    def _spawn(self, name, argv, env):
        same = sum(p.name.split("#")[0] == name for p in self.programs)
        program = Program("%s#%d" % (name, same + 1) if same else name, argv, env,
                          self.directory)
        self.programs.append(program)
        return program

    def spawn(self, name, host, argv, app_class, extra=None):
        """A program on a host. softhca execs it, so the process id is its own."""
        env = self._env({"LD_LIBRARY_PATH": TREES[self.tree], **(extra or {})})
        if self.justitia:
            env["JUSTITIA_SOCKET"] = self.socket(host)
            env["JUSTITIA_CLASS"] = app_class
        return self._spawn(name, [binary("softhca"), "run", "--host", host, "--", *argv], env)

    def port(self):
        self.next_port += 1
        while is_listening(self.next_port):
            self.next_port += 1
        return self.next_port

    def pair(self, name, app_class, argv, source, sink):
        """A perftest-like pair: the same command, with a host on the sending side."""
        port = self.port()
        argv = [*argv, "-p", str(port)]
        server = self.spawn(name + " server", sink, argv, app_class)
        wait_for("%s listening" % server.name, lambda: is_listening(port), 15, [server])
        client = self.spawn(name, source, [*argv, "127.0.0.1"], app_class)
        return App(self, name, server, client)

    def bandwidth(self, message_bytes=1 << 20, source="a", sink="b", depth=8, iterations=None,
                  extra=()):
        """stock ib_write_bw: for ever, or so many messages and then its report."""
        how_long = ["-n", str(iterations)] if iterations else ["-D", "3600"]
        argv = [tool("ib_write_bw"), "-F", "-s", str(message_bytes), "-t", str(depth),
                *how_long, "--report_gbits", *extra]
        return self.pair("bandwidth", "bandwidth", argv, source, sink)

    def throughput(self, source="a", sink="b", extra=()):
        argv = [tool("ib_write_bw"), "-F", "-s", "16", "-t", "128", "--post_list", "64",
                "-D", "3600", "--report_gbits", *extra]
        return self.pair("throughput", "throughput", argv, source, sink)

    def latency(self, seconds, source="a", sink="b", warmup=0.001):
        argv = [binary("latency"), "--json", "-T", "%g" % seconds, "-w", "%g" % warmup]
        return self.pair("latency", "latency", argv, source, sink)

    # ---- the clock ----

    def wait_set_up(self, programs, seconds=30):
        """Until each of the programs stands on the clock: all that it does without time is done."""
        pids = {program.pid for program in programs}

        def stand():
            stat = json.loads(self._softhca("stat", "--json"))
            waits = {p["pid"]: p["waits"] for p in stat["programs"]}
            return stat["parked"] and all(waits.get(pid) in ("time", "card") for pid in pids)

        wait_for("set-up of " + ", ".join(p.name for p in programs), stand, seconds, programs)

    def free_clock(self):
        """Lets the clock run on, for programs that end by themselves."""
        self._softhca("clock", "go")

    def run_clock(self, seconds):
        """Lets the clock run for so long, and returns when it stands again."""
        self._softhca("clock", "run", "%dns" % round(seconds * 1e9), timeout=300)

    # ---- the card's counters ----

    def stat(self):
        return Snapshot(json.loads(self._softhca("stat", "--json")))


class App:
    """A pair of programs that move data from one host to another."""

    def __init__(self, lab, name, server, client):
        self.lab, self.name, self.server, self.client = lab, name, server, client

    def has_traffic(self):
        return self.lab.stat().sent(self.client.pid)[1] > 0

    def latency_result(self, seconds):
        text = self.client.wait(seconds)
        return json.loads(text[text.index("{"):])

    def perftest_result(self, seconds):
        """(Gb/s, Mop/s) as perftest printed them, in real time."""
        text = self.client.wait(seconds)
        for line in reversed(text.splitlines()):
            fields = line.split()
            if len(fields) >= 5 and fields[0].isdigit():
                return float(fields[3]), float(fields[4])
        raise LabError("no result in the report of %s%s" % (
            self.client.name, self.client.tail()))

    def stop(self):
        self.client.stop()
        self.server.stop()


class Snapshot:
    """What the card had counted at one moment of its own (model) time."""

    def __init__(self, stat):
        self.stat = stat
        self.seconds = stat["model_ns"] / 1e9

    def sent(self, pid):
        queues = [q for q in self.stat["queue_pairs"] if q["pid"] == pid]
        return sum(q["bytes"] for q in queues), sum(q["messages"] for q in queues)

    def rate(self, pid, before):
        """(Gb/s, Mop/s) since @before, in the card's time: nothing to scale back."""
        now, then = self.sent(pid), before.sent(pid)
        seconds = self.seconds - before.seconds
        return (now[0] - then[0]) * 8 / 1e9 / seconds, (now[1] - then[1]) / 1e6 / seconds


# perftest sleeps for a second, and looks at the clock for another part of one, before it begins.
SET_UP_SECONDS = 3.0
SET_UP_STEP = 0.01


def run_until_traffic(lab, apps):
    """Until every one of the apps has sent something."""
    lab.wait_set_up([app.client for app in apps])
    for _ in range(round(SET_UP_SECONDS / SET_UP_STEP)):
        if all(app.has_traffic() for app in apps):
            return
        lab.run_clock(SET_UP_STEP)
    raise LabError("no traffic within %g s of virtual time%s" % (
        SET_UP_SECONDS, "".join(app.client.tail() for app in apps)))


def run_together(lab, apps, seconds, latency_app=None, settle=0.005):
    """Lets apps run side by side. Returns (latency result or None, [(Gb/s, Mop/s)]).

    Without latency_app, a window of @seconds. With it, latency_app() starts the
    latency program once the others run, and the window is the one it measures in.
    """
    if apps:
        run_until_traffic(lab, apps)
        lab.run_clock(settle)
    if latency_app:
        watcher = latency_app(seconds)
        lab.wait_set_up([watcher.client])
        lab.run_clock(0.001)
    before = lab.stat()
    lab.run_clock(seconds)
    after = lab.stat()
    rates = [after.rate(app.client.pid, before) for app in apps]
    for app in apps:
        app.client.check_alive()
    if not latency_app:
        return None, rates
    lab.run_clock(0.001)
    return watcher.latency_result(60), rates
