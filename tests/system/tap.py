# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""tap.py - reports tests in the Test Anything Protocol; `tests/run` counts them.

    tap.ok(2 + 2 == 4, "arithmetic", "shown only when it fails")
    tap.skip("flying", "no wings")
    return tap.done()       # the plan; the value is the exit status
"""
import sys


class Tap:
    def __init__(self, stream=None):
        self.stream = stream or sys.stdout
        self.count = 0
        self.failed = 0

    def _line(self, text):
        print(text, file=self.stream, flush=True)

    def note(self, text):
        for line in str(text).splitlines():
            self._line("# " + line)

    def ok(self, cond, name, detail=""):
        """Reports one test; returns whether it passed."""
        self.count += 1
        name = name.replace("#", "no.")
        if not cond:
            self.failed += 1
        self._line("%s %d - %s" % ("ok" if cond else "not ok", self.count, name))
        if not cond and detail:
            self.note(detail)
        return bool(cond)

    def skip(self, name, reason):
        self.count += 1
        self._line("ok %d - %s # SKIP %s" % (self.count, name, reason))

    def done(self):
        """Prints the plan; returns the exit status."""
        self._line("1..%d" % self.count)
        return 1 if self.failed else 0


# One report per process: most tests need no more.
_tap = Tap()
ok, skip, note, done = _tap.ok, _tap.skip, _tap.note, _tap.done


def skip_all(reason):
    """Skips the whole file: its exit status is 77."""
    print("1..0 # SKIP %s" % reason, flush=True)
    sys.exit(77)
