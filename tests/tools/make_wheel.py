"""Makes a wheel of the package with the built programs, for tests that have no network and nothing of PyPI.

    make_wheel.py SOURCE_DIR BIN_DIR OUT_DIR

It is what tools/build_wheel.sh makes, but for the libraries, which it takes from this machine, and for what it
needs, which it does not name. Prints the path of the wheel.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SCRIPTS = {"luthier": "luthier", "luthier-worker": "luthier_worker", "luthierd": "luthierd"}


def main() -> None:
    source, programs, out = (Path(argument) for argument in sys.argv[1:])
    stem, tag = "luthier-0.0.1", f"py3-none-manylinux_2_17_{platform.machine()}"
    info = f"{stem}.dist-info"
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{stem}-{tag}.whl"
    level = subprocess.run([programs / "luthier-programs"], check=True, capture_output=True, text=True).stdout.strip()
    files = {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: luthier\nVersion: 0.0.1\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": "[console_scripts]\n"
        + "".join(f"{script} = luthier._programs:{function}\n" for script, function in SCRIPTS.items()),
    }
    copies = {f"luthier/_bin/{level}/luthier-programs": programs / "luthier-programs"}
    copies.update({f"luthier/_bin/{script}": programs / "luthier-launcher" for script in SCRIPTS})
    package = source / "client" / "python"
    copies.update({str(file.relative_to(package)): file for file in sorted((package / "luthier").rglob("*.py"))})
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(path, "w") as wheel:
        described = Path(scratch) / "luthier.pb"
        proto = source / "proto"
        protos = sorted(str(file) for file in (proto / "luthier" / "v1").glob("*.proto"))
        subprocess.run(
            ["protoc", "-I", str(proto), "--include_imports", f"--descriptor_set_out={described}", *protos], check=True
        )
        copies["luthier/luthier.pb"] = described
        for name, file in copies.items():
            wheel.write(file, name)
        for name, text in files.items():
            wheel.writestr(name, text)
        record = [f"{name},," for name in [*copies, *files, f"{info}/RECORD"]]
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    print(path)


if __name__ == "__main__":
    main()
