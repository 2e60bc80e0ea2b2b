#!/usr/bin/env bash
# What can be told of tools/release.sh without a release: what it refuses, one place for the version, the page of PyPI, the
# sources of the Python package, and the list of what is inside.
#   release_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source_dir=$1
bin=$2
command -v git >/dev/null || { echo "skipped: git is not installed" && exit 77; }
work=$(mktemp -d)
export PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# A clone of a tree with these very files, without objects of the checkout that may be a worktree.
mkdir "$work/clone"
(cd "$source_dir" && tar -c .gitattributes .gitignore CMakeLists.txt CHANGELOG.md README.md LICENSE NOTICE cmake/commit.txt lib/base/version.h tools \
  client/python/setup.py client/python/pyproject.toml client/python/luthier proto) | tar -x -C "$work/clone"
cd "$work/clone"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q
git add -A
git -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false commit -qm "Begin"
version=$(sed -n 's/.*kVersion\[\] = "\(.*\)".*/\1/p' lib/base/version.h)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "lib/base/version.h says no version: '$version'"

# refused CODE TEXT ARGUMENTS...
refused() {
  local code=0
  tools/release.sh "${@:3}" >"$work/said" 2>&1 || code=$?
  [[ $code == "$1" ]] || fail "release.sh ${*:3} ends with $code, not $1: $(<"$work/said")"
  grep -qF -- "$2" "$work/said" || fail "release.sh ${*:3} does not say '$2': $(<"$work/said")"
}
refused 2 "say which version"
refused 2 "lib/base/version.h says version $version, not 9.9.9: write it there" 9.9.9
refused 2 "there is no step 'wheel'" "$version" wheel
sed -i "s/## \[$version\]/## [9.9.9]/" CHANGELOG.md
refused 2 "CHANGELOG.md has no section [$version]" "$version" sums
git checkout -q CHANGELOG.md
touch left-over
refused 2 "files differ from the commit" "$version" sums
rm left-over
[[ ! -e dist/$version ]] || fail "what was refused made dist/$version"
# A step whose programs are not there says so, and nothing passes for made.
refused 3 "left out: tarballs: no wheel is there" "$version" tarballs
refused 3 "left out: wheels: the programs are not built" "$version" wheels

# One version everywhere.
for program in luthier luthierd luthier-worker; do
  [[ $("$bin/$program" --version) =~ ^$program\ $version\ \(([0-9a-f]{12}(-dirty)?|unknown),\ (x86-64(-v[23])?|aarch64|other)\)$ ]] ||
    fail "$program --version says $("$bin/$program" --version)"
done
[[ $(git archive HEAD cmake/commit.txt | tar -xO) == "$(git rev-parse HEAD)" ]] || fail "an archive of the sources does not say its commit"

# The page of PyPI has no links that lead nowhere, and absolute ones where there is somewhere.
page() {
  python3 - <<'PYTHON'
import sys, types, unittest.mock
for name in ("setuptools", "setuptools.command", "setuptools.command.bdist_wheel"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["setuptools"].Distribution = sys.modules["setuptools.command.bdist_wheel"].bdist_wheel = object
setup = sys.modules["setuptools"].setup = unittest.mock.Mock()
file = "client/python/setup.py"
exec(compile(open(file).read(), file, "exec"), {"__file__": file})
print(setup.call_args.kwargs["version"])
print(setup.call_args.kwargs["long_description"])
PYTHON
}
page >"$work/page"
[[ $(head -n 1 "$work/page") == "$version" ]] || fail "the Python package is of version $(head -n 1 "$work/page")"
if grep -nE '\]\([^)]*\)' "$work/page" | grep -vE '\]\([a-z]+:'; then fail "the page of PyPI has relative links"; fi
grep -q '^# Luthier' "$work/page" || fail "the page of PyPI is not README.md"
LUTHIER_PROJECT_URL=https://example.invalid/luthier/ page >"$work/page"
grep -qF '](https://example.invalid/luthier/docs/' "$work/page" || fail "links do not become absolute"

# The list of what is inside.
mkdir "$work/files"
echo one >"$work/files/luthier-$version.tar.gz"
SOURCE_DATE_EPOCH=1000000000 python3 tools/make_spdx.py "$version" 0123456789ab "$work/files" >"$work/spdx.json"
python3 - "$work/spdx.json" "$version" <<'PYTHON'
import hashlib, json, re, sys
spdx = json.load(open(sys.argv[1]))
version = sys.argv[2]
assert spdx["spdxVersion"] == "SPDX-2.3" and spdx["dataLicense"] == "CC0-1.0" and spdx["SPDXID"] == "SPDXRef-DOCUMENT"
assert spdx["creationInfo"]["created"] == "2001-09-09T01:46:40Z", spdx["creationInfo"]
assert re.match(r"[a-z]+:", spdx["documentNamespace"]) and spdx["name"] == f"luthier-{version}"
elements = spdx["packages"] + spdx["files"]
names = [element["SPDXID"] for element in elements]
assert len(set(names)) == len(names) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in names), names
for package in spdx["packages"]:
    assert {"name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"} <= package.keys(), package
for relation in spdx["relationships"]:
    assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= {*names, "SPDXRef-DOCUMENT"}, relation
inside = {package["name"]: package for package in spdx["packages"]}
assert inside["luthier"]["versionInfo"] == version and inside["luthier"]["licenseDeclared"] == "Apache-2.0"
assert "libgrpc++-dev" in inside and "libssl-dev" in inside and "libgtest-dev" not in inside, sorted(inside)
(file,) = spdx["files"]
assert file["fileName"] == f"./luthier-{version}.tar.gz"
assert {c["algorithm"]: c["checksumValue"] for c in file["checksums"]} == {
    "SHA1": hashlib.sha1(b"one\n").hexdigest(),
    "SHA256": hashlib.sha256(b"one\n").hexdigest(),
}, file
PYTHON
echo "release.sh: all cases passed"
