"""Every run that the table of claims asks of `reproduce` can begin: settings and problems have the names that it knows.

    begin_test.py REPRODUCE
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LUTHIER_SOURCE_DIR"], "bench", "reproduce"))
import search  # noqa: E402
import table  # noqa: E402

program = sys.argv[1]
known = {line.split(",")[0] for line in subprocess.run([program, "--problems"], stdout=subprocess.PIPE, text=True,
                                                       check=True).stdout.splitlines()[1:]}
pairs = {key for claim in table.load()[0] if claim.family == "search" for part in claim.parts
         for key in search.needs(part, claim.recipe)}
# Robot pushing is there with Box2D only.
lines = [f"{problem} {setting} 0 1" for problem, setting in sorted(pairs) if problem in known]
unknown = {problem for problem, _ in pairs} - known - {"robot3", "robot4"}
assert not unknown, unknown
assert len(lines) > 500, len(lines)
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([program, f"--results={folder}"], input="".join(line + "\n" for line in lines), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == lines
    again = subprocess.run([program, f"--results={folder}"], input=lines[0] + "\n", text=True, stdout=subprocess.PIPE)
    assert again.returncode == 0 and not again.stdout, "a finished run was made again"
    assert search.packed(next(pathlib.Path(folder).glob("*/*/*.csv")))[3] == 1
