# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""harness.py - worlds of emulated hosts, their daemons, and programs on them.

    with World(hosts=("a", "b")) as world:
        daemon = world.daemon("a", chunk="5 KB")
        result = world.pair(["ib_write_bw", "-s", "65536"], tree="justitia")
        tap.ok(result.ok, "write_bw", result.text())

Everything lives in one temporary directory, every program has a time limit, and
what was started is ended by its process id when the world is left.
"""
import glob
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
TREES = {name: os.path.join(BUILD, "rdma-core", name) for name in ("stock", "justitia")}
SEED = int(os.environ.get("SEED", "0"), 0) or int(time.time()) % 1000000 + 1


def binary(name):
    return os.path.join(BUILD, "bin", name)


def missing(*names, trees=("stock",)):
    """What a test needs and does not find, as a reason to skip it; None if all is there."""
    paths = [binary("softhca")] + [binary(n) for n in names]
    paths += glob.glob(os.path.join(BUILD, "lib", "libsofthca.so")) or ["libsofthca.so"]
    for tree in trees:
        paths.append(os.path.join(TREES[tree], "lib", "libmlx5-rdmav34.so"))
    absent = [os.path.relpath(p, ROOT) for p in paths if not os.path.exists(p)]
    return "not built: " + ", ".join(absent) if absent else None


class Failure(Exception):
    """The world itself does not work; the text says why."""


class Process:
    """A program that runs, with its output in a file."""

    def __init__(self, name, argv, env, log):
        self.name, self.argv, self.log = name, argv, log
        with open(log, "wb") as out:
            # a session of its own, so that children of the program end with it
            self.child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=subprocess.STDOUT, start_new_session=True)
        self.pid = self.child.pid
        self.timed_out = False

    @property
    def status(self):
        return self.child.poll()

    @property
    def ok(self):
        return self.child.poll() == 0 and not self.timed_out

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def text(self, lines=15):
        state = "out of time" if self.timed_out else "status %s" % self.child.poll()
        tail = "\n".join("    " + t for t in self.output().splitlines()[-lines:])
        return "%s: %s: %s\n%s" % (self.name, " ".join(self.argv[-12:]), state, tail)

    def wait(self, seconds):
        """Waits; ends the program when it is out of time. Returns itself."""
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.timed_out = True
            self.end()
        return self

    def kill(self):
        """As kill -9 of this one process."""
        if self.child.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.child.wait(10)

    def end(self):
        """Ends the program and whatever it left in its session."""
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, sig)
            except ProcessLookupError:
                break
            try:
                self.child.wait(2)
            except subprocess.TimeoutExpired:
                continue
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait(10)


class Pair:
    """A server and its client."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    def wait(self, seconds):
        end = time.monotonic() + seconds
        self.client.wait(seconds)
        # a client that failed leaves its server waiting
        self.server.wait(max(2, end - time.monotonic()) if self.client.ok else 2)
        return self

    @property
    def ok(self):
        return self.client.ok and self.server.ok

    def text(self):
        return self.client.text() + "\n" + self.server.text()

    def output(self):
        return self.client.output()


class Daemon:
    """A justitiad of one emulated host."""

    def __init__(self, world, host, config):
        self.world, self.host = world, host
        self.socket = os.path.join(world.directory, host + ".sock")
        self.path = os.path.join(world.directory, host + ".conf")
        with open(self.path, "w", encoding="ascii") as out:
            out.write('socket = "%s"\n' % self.socket)
            for key, value in config.items():
                out.write('%s = "%s"\n' % (key, value))
        self.process = None
        self.start()

    def start(self):
        self.process = self.world.start("justitiad-" + self.host,
                                        [binary("justitiad"), "--config", self.path])
        wait_until(lambda: self.process.status is not None or self._answers(), 10)
        if self.process.status is not None:
            raise Failure(self.process.text())

    def _answers(self):
        try:
            self.status()
            return True
        except Failure:
            return False

    def status(self):
        run = subprocess.run([binary("justitiactl"), "--socket", self.socket, "--json", "status"],
                             capture_output=True, text=True, timeout=10, check=False)
        if run.returncode:
            raise Failure("justitiactl: " + run.stderr.strip())
        return json.loads(run.stdout)

    def clients(self):
        return self.status()["clients"]

    def client(self, pid):
        """What the daemon knows of the process; None if it is no client."""
        return next((c for c in self.clients() if c["pid"] == pid), None)

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.end()


def wait_until(predicate, seconds, every=0.02):
    """The predicate's value once it is true, or its last one when time is up."""
    end = time.monotonic() + seconds
    while True:
        value = predicate()
        if value or time.monotonic() > end:
            return value
        time.sleep(every)


# Rates of which two cores can copy a good part, so that tests of correctness are
# not slow; the horizon is as long as 1024 tokens of 4 KB at that rate allow.
FAST = {
    "max_rate": "16 Gbit/s",
    "max_rate_small": "16 Gbit/s",
    "max_ops": "3 Mop/s",
    "tick": "300 us",
    "horizon": "1500 us",
}


class World:
    def __init__(self, hosts=("a", "b"), device="mlx5", link="ib", model="off", slowdown=None,
                 driver=None, settings=(), faults=None):
        self.hosts = hosts
        self.arguments = ["--hosts", ",".join(hosts), "--device", device, "--link", link,
                          "--model", model]
        for option, value in (("--slowdown", slowdown), ("--driver", driver),
                              ("--faults", faults)):
            if value is not None:
                self.arguments += [option, str(value)]
        for setting in settings:
            self.arguments += ["--set", setting]
        self.processes, self.daemons, self.count, self.port = [], {}, 0, 0
        self.directory = None

    def __enter__(self):
        # short, because unix sockets lie in it
        self.directory = tempfile.mkdtemp(prefix="jst-")
        try:
            self.softhca("up", *self.arguments)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.end()
        try:
            self.softhca("down")
        except (Failure, subprocess.TimeoutExpired) as error:
            print("# softhca down: %s" % error)
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- pieces ----

    def path(self, name):
        return os.path.join(self.directory, name)

    def environment(self, extra=None):
        # an idle loop in a test must not be steered from outside
        env = {k: v for k, v in os.environ.items() if not k.startswith("JUSTITIA_")}
        env["SOFTHCA_WORLD"] = self.path("world")
        env.update(extra or {})
        return env

    def softhca(self, *arguments):
        run = subprocess.run([binary("softhca"), *arguments], env=self.environment(),
                             capture_output=True, text=True, timeout=30, check=False)
        if run.returncode:
            raise Failure("softhca %s: %s" % (" ".join(arguments), run.stderr.strip()))
        return run.stdout

    def start(self, name, argv, env=None):
        self.count += 1
        log = self.path("%d-%s.log" % (self.count, os.path.basename(name)))
        process = Process(name, argv, self.environment(env), log)
        self.processes.append(process)
        return process

    def daemon(self, host, **config):
        """A daemon for the host, with rates for correctness unless told otherwise."""
        self.daemons[host] = Daemon(self, host, {**FAST, **config})
        return self.daemons[host]

    # ---- programs on hosts ----

    def program(self, argv, tree):
        """Names of rdma-core's own tools mean those of the tree."""
        own = os.path.join(TREES[tree], "bin", argv[0])
        ours = binary(argv[0])
        found = next((p for p in (own, ours) if os.path.exists(p)), None) or shutil.which(argv[0])
        if not found:
            raise Failure("program '%s' not found" % argv[0])
        return [found, *argv[1:]]

    def run(self, host, argv, tree="stock", app_class=None, env=None):
        """Starts a program on an emulated host; its process id is the program's own."""
        extra = {"LD_LIBRARY_PATH": os.path.join(TREES[tree], "lib"),
                 "JUSTITIA_SOCKET": self.path(host + ".sock")}
        if app_class:
            extra["JUSTITIA_CLASS"] = app_class
        extra.update(env or {})
        return self.start("%s@%s" % (argv[0], host),
                          [binary("softhca"), "run", "--host", host, "--",
                           *self.program(argv, tree)], extra)

    def next_port(self):
        self.port = (self.port or 19000 + os.getpid() % 400 * 40) + 1
        while is_listening(self.port):
            self.port += 1
        return self.port

    def pair(self, argv, seconds=60, hosts=("a", "b"), **how):
        """A program that is server without and client with an address, on two hosts."""
        return self.start_pair(argv, hosts, **how).wait(seconds)

    def start_pair(self, argv, hosts=("a", "b"), client_extra=(), **how):
        port = self.next_port()
        argv = [*argv, "-p", str(port)]
        server = self.run(hosts[1], argv, **how)
        wait_until(lambda: is_listening(port) or server.status is not None, 15)
        return Pair(server, self.run(hosts[0], [*argv, *client_extra, "localhost"], **how))

    def start_integrity(self, options, hosts=("a", "b"), **how):
        """The client runs on the first host."""
        self.count += 1
        argv = ["integrity", "--socket", self.path("integrity-%d" % self.count), *options]
        server = self.run(hosts[1], [*argv, "--server"], **how)
        return Pair(server, self.run(hosts[0], argv, **how))

    def fault(self, rules):
        """New rules of faults: the lines of a file, or None for no more faults."""
        if rules is None:
            return self.softhca("fault", "off")
        path = self.path("rules")
        with open(path, "w", encoding="ascii") as out:
            out.write("".join(rule + "\n" for rule in rules))
        return self.softhca("fault", path)

    def acted(self):
        """How often each rule has acted, in their order."""
        return [int(line.split()[-2]) for line in self.softhca("fault").splitlines()]

    def stat(self):
        return json.loads(self.softhca("stat", "--json"))


def is_listening(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        if any(r[3] == "0A" and int(r[1].split(":")[1], 16) == port for r in rows):
            return True
    return False


def skip_unless_built(tap, *names, trees=("stock",)):
    reason = missing(*names, trees=trees)
    if reason:
        tap.skip_all(reason)


def main(tap, *tests):
    """Runs the tests one after another; one that cannot go on does not stop the others."""
    print("# SEED=%d" % SEED, flush=True)
    for test in tests:
        try:
            test()
        except (Failure, subprocess.TimeoutExpired) as error:
            tap.ok(False, test.__name__, str(error))
    sys.exit(tap.done())
