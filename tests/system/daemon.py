# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""daemon.py - a justitiad of one's own, and clients of it written by hand.

The clients follow abi.h with sockets, struct and mmap, and so are a second
implementation of what two processes share. Test programs that import this
take [JUSTITIAD [JUSTITIACTL]] as their arguments.
"""
import array
import json
import mmap
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import time
import traceback
import sys

import tap

BIN = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin"
JUSTITIAD = sys.argv[1] if len(sys.argv) > 1 else str(BIN / "justitiad")
JUSTITIACTL = sys.argv[2] if len(sys.argv) > 2 else str(pathlib.Path(JUSTITIAD).parent / "justitiactl")

MAGIC, VERSION = 0x4A535431, 1
HELLO, WELCOME, LOOK, WAKE, STATUS = 1, 2, 3, 4, 5
HEADER = struct.Struct("=IHH")
HELLO_BODY = struct.Struct("=32s32s64s32s")
WELCOME_BODY = struct.Struct("=iIII32s")
TOKEN = struct.Struct("=QII")
REGION_BYTES, RING_TOKENS = 5 * 64 + 1024 * 16, 1024
CHUNK_BYTES, TOKEN_OPS, HEAD, DAEMON_WAITS = 64, 68, 128, 132
TAIL, WANTED, FLOWS, CLIENT_WAITS, RING = 192, 196, 200, 204, 320
NOBODY = 65534


def header(kind, magic=MAGIC, version=VERSION):
    return HEADER.pack(magic, version, kind)


def hello(cls="", weight="", device="mlx5_0", **kw):
    return header(HELLO, **kw) + HELLO_BODY.pack(
        cls.encode(), weight.encode(), device.encode(), b"")


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(5)
    sock.connect(path)
    return sock


def receive(sock):
    """One message and the descriptors that came with it."""
    fds = array.array("i")
    data, ancillary, _, _ = sock.recvmsg(65536, socket.CMSG_SPACE(4 * 8))
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
    return data, list(fds)


class Refused(Exception):
    pass


class Client:
    """A process that is attached; its region is mapped."""

    def __init__(self, path, cls="", weight="", device="mlx5_0"):
        self.sock = connect(path)
        self.sock.send(hello(cls, weight, device))
        data, fds = receive(self.sock)
        self.fd = fds[0] if fds else -1
        error, self.cls, self.weight, self.bytes, _ = WELCOME_BODY.unpack(data[8:])
        if error:
            self.sock.close()
            raise Refused(error)
        self.region = mmap.mmap(self.fd, self.bytes)

    def get(self, at):
        return struct.unpack_from("=I", self.region, at)[0]

    def put(self, at, value):
        struct.pack_into("=I", self.region, at, value & 0xFFFFFFFF)

    def look(self):
        self.sock.send(header(LOOK))

    def token(self, index):
        return TOKEN.unpack_from(self.region, RING + index % RING_TOKENS * TOKEN.size)

    def close(self):
        self.region.close()
        os.close(self.fd)
        self.sock.close()


class Daemon:
    """A justitiad of its own, on a socket of its own."""

    def __init__(self, conf="", path=None, limit=None):
        self.dir = tempfile.TemporaryDirectory(prefix="justitiad-")
        os.chmod(self.dir.name, 0o755)
        self.path = path or self.dir.name + "/justitia.sock"
        self.conf = self.dir.name + "/justitia.conf"
        self.log_path = self.dir.name + "/log"
        pathlib.Path(self.conf).write_text(conf)
        self.limit = limit
        self.process = None

    def start(self, wait=True):
        preexec = None
        before = self.log().count("listening at") if os.path.exists(self.log_path) else 0
        if self.limit:
            preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.limit,) * 2)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [JUSTITIAD, "--config", self.conf, "--socket", self.path],
                stderr=log, preexec_fn=preexec)
        if wait:
            until(lambda: self.log().count("listening at") > before, 10)
        return self

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def alive(self):
        return self.process.poll() is None

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def switches(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                return int(line.split()[1])

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def status(self):
        sock = connect(self.path)
        sock.send(header(STATUS))
        text = b""
        while True:
            piece = sock.recv(65536)
            if not piece:
                return json.loads(text)
            text += piece

    def stop(self, how=signal.SIGTERM):
        if self.process and self.alive():
            self.process.send_signal(how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode if self.process else None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        """A daemon that crashed or, under a sanitizer, leaked, fails its test."""
        status, log = self.stop(), self.log()
        self.dir.cleanup()
        if status:
            raise AssertionError(f"the daemon ended with {status}\n{log[-4000:]}")


def until(predicate, seconds=5):
    """Waits for something to become true; says whether it did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if predicate():
            return True
        time.sleep(0.005)
    return bool(predicate())


def says(daemon, text):
    return until(lambda: text in daemon.log(), 3)


def error_of(data):
    return WELCOME_BODY.unpack(data[8:])[0] if len(data) == 56 else None


def answers(sock):
    """The error of the JST_WELCOME that comes, and whether the end follows it."""
    data, fds = receive(sock)
    for fd in fds:
        os.close(fd)
    try:
        closed = sock.recv(64) == b""
    except ConnectionResetError:
        closed = True
    return error_of(data), closed


def run(t, test, *args):
    """An exception is one failure, not the end of the program."""
    try:
        test(t, *args)
    except Exception:  # pylint: disable=broad-except
        t.ok(False, test.__name__, traceback.format_exc())


def skip_unless_built():
    if not os.access(JUSTITIAD, os.X_OK):
        tap.skip_all(f"{JUSTITIAD} is not built")
