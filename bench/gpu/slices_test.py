#!/usr/bin/env python3
"""slices.py and gpu_slices on the emulated GPU: a program under the hook finds its slice by its socket, is charged, has its
memory counted, and is changed while it runs."""
import os
import subprocess
import time
import unittest

from slices import CORE, Slices


def eventually(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        pass
    return condition()


class SlicesTest(unittest.TestCase):
    def setUp(self):
        self.slices = self.enterContext(Slices(emulated=True))

    def start(self, number):
        command = [CORE / "gpu_tenant", "greedy", "eager", "100000", "driver", "20", ""]
        program = subprocess.Popen(command, env=os.environ | self.slices.environment(number))
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)

    def test_a_program_is_found_by_its_socket(self):
        self.slices.put(1, 200, 200)
        self.slices.put(2, 300, 1000)
        self.start(1)
        self.assertTrue(eventually(lambda: self.slices.state(1)["busy_ns"] > 20_000_000))
        self.assertEqual(self.slices.state(1)["processes"], 1)
        self.assertEqual(self.slices.state(2)["processes"], 0)

    def test_a_slice_changes(self):
        self.slices.put(1, 200, 200, mib=512)
        self.slices.put(1, 900, 1000, mib=256)
        with self.assertRaisesRegex(RuntimeError, "client 2"):
            self.slices.put(2, 200, 200)

    def test_what_is_not_understood_is_said(self):
        with self.assertRaisesRegex(RuntimeError, "no such command: turn"):
            self.slices.ask("turn", 1)
        with self.assertRaisesRegex(RuntimeError, "no slice 7"):
            self.slices.state(7)


if __name__ == "__main__":
    unittest.main()
