#!/usr/bin/env python3
"""Writes to standard output what a release has inside, in SPDX 2.3 (JSON).

    make_spdx.py VERSION COMMIT FOLDER

FOLDER is the one of the release: each of its files is listed with its checksums. Libraries of Debian that are compiled or linked into
the programs are those of [build] in tools/packages.txt that are installed here, with their versions; what each is licensed under
is in the copyright file that every artefact carries.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Only used to build and to test.
NOT_INSIDE = re.compile(r"^lib(gtest|gmock|benchmark)-dev$")
# Packages that those of [build] bring along, if they are linked statically.
BROUGHT = ["libc-ares-dev", "libfmt-dev", "libgrpc-dev"]


def identifier(text):
    """Returns `text` with the letters alone that SPDX allows in identifiers."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def run(*command):
    """Returns what a command prints, stripped; "" where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def libraries():
    """Returns (name, version, source package) of each library of Debian that is inside."""
    listed = run(str(ROOT / "tools" / "install_packages.sh"), "--list", "build").split("\n")
    names = [name for name in listed if name.endswith("-dev") and not NOT_INSIDE.match(name)]
    names += BROUGHT + [f"libstdc++-{run('g++', '-dumpversion').split('.')[0]}-dev"]
    found = []
    for name in sorted(set(names)):
        told = run("dpkg-query", "-W", "-f", "${Version}\\t${source:Package}", name)
        if told:
            found.append((name, *told.split("\t")))
    return found


def package(name, version, **more):
    """Returns the description of one package."""
    return {
        "SPDXID": identifier(f"Package-{name}"),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        **more,
    }


def document(version, commit, folder):
    """Returns the whole document."""
    made = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    luthier = package(
        "luthier", version, licenseConcluded="Apache-2.0", licenseDeclared="Apache-2.0", primaryPackagePurpose="APPLICATION",
        supplier="Organization: The developers of Luthier", sourceInfo=f"commit {commit}",
    )
    packages, relations = [luthier], [("SPDXRef-DOCUMENT", "DESCRIBES", luthier["SPDXID"])]
    for name, number, source in libraries():
        packages.append(package(
            name, number, supplier="Organization: Debian", primaryPackagePurpose="LIBRARY",
            sourceInfo=f"built from Debian's source package {source}",
            externalRefs=[{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{number}?distro=bookworm".replace("+", "%2B"),
            }],
        ))
        relations.append((luthier["SPDXID"], "STATIC_LINK", packages[-1]["SPDXID"]))
    for name in ("grpcio", "protobuf"):
        packages.append(package(f"python-{name}", "", primaryPackagePurpose="LIBRARY", comment="not inside: pip installs it"))
        del packages[-1]["versionInfo"]
        relations.append((luthier["SPDXID"], "DEPENDS_ON", packages[-1]["SPDXID"]))
    files = []
    for path in sorted(pathlib.Path(folder).iterdir()):
        if not path.is_file() or path.name == "SHA256SUMS" or ".spdx.json" in path.name:
            continue
        content = path.read_bytes()
        files.append({
            "SPDXID": identifier(f"File-{path.name}"),
            "fileName": f"./{path.name}",
            "checksums": [{"algorithm": name, "checksumValue": hashlib.new(name, content).hexdigest()} for name in ("sha1", "sha256")],
            "licenseConcluded": "NOASSERTION",
            "licenseInfoInFiles": ["NOASSERTION"],
            "copyrightText": "NOASSERTION",
        })
        for checksum in files[-1]["checksums"]:
            checksum["algorithm"] = checksum["algorithm"].upper()
        relations.append((files[-1]["SPDXID"], "GENERATED_FROM", luthier["SPDXID"]))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"luthier-{version}",
        "documentNamespace": f"urn:luthier:release:{version}:{commit}",
        "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: luthier-make_spdx"]},
        "packages": packages,
        "files": files,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations
        ],
    }


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("usage: make_spdx.py VERSION COMMIT FOLDER")
    json.dump(document(*sys.argv[1:]), sys.stdout, indent=1)
    print()
