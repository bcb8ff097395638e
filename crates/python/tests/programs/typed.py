"""The stubs name all that the module has, and a strict checker of types accepts the package."""

import os
import tempfile

from mypy import api, stubtest

os.environ["MYPYPATH"] = os.environ["PYTHONPATH"]
os.chdir(tempfile.mkdtemp())
with open("allowed", "w") as allowed:
    # The list of all names, which the stub's own are compared with one by one.
    allowed.write("toporing._native.__all__\n")
options = stubtest.parse_options(["toporing._native", "--allowlist", "allowed"])
assert stubtest.test_stubs(options) == 0
said, errors, status = api.run(["--strict", "-c", "import toporing.agents, toporing.__main__"])
assert status == 0, said + errors
# What users write has types, and wrong uses are found.
uses = "import toporing\ntime: float | None = toporing.plan('dgx-h100').cost('all-reduce', 8).time_us\n"
assert api.run(["--strict", "-c", uses])[2] == 0
assert api.run(["--strict", "-c", uses.replace("float", "str")])[2] == 1
