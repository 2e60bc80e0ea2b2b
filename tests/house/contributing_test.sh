#!/usr/bin/env bash
# What CONTRIBUTING.md says of the code is so: functions longer than 80 lines are those of long_functions.txt, which may only become fewer,
# and none has more than 7 parameters; of the C++ tests only those sleep that it names, and the changelog has the form that it gives.
#   contributing_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
here=$(dirname "${BASH_SOURCE[0]}")

# shellcheck disable=SC2016  # Fields of awk.
# Prints, sorted, "path name" of each function below $1 that is longer than 80 lines from its first line to its brace (if $2 is long), or has
# more than 7 parameters (if it is wide), as clang-format lays it out: at the margin, or within a class at the margin.
functions() {
  (cd "$1" && find lib server worker client \( -name '*.h' -o -name '*.cc' \) -print0 2>/dev/null | LC_ALL=C sort -z |
    LC_ALL=C xargs -0 -r awk -v kind="$2" '
      function report() {
        name = said
        sub(/\(.*/, "", name)
        sub(/.*[ *&]/, "", name)
        print FILENAME, name
      }
      # Counts what commas divide within the first parentheses: not those within other brackets.
      function parameters(text) {
        depth = commas = given = 0
        for (i = index(text, "("); i <= length(text); ++i) {
          c = substr(text, i, 1)
          if (c ~ /[({[<]/) ++depth
          else if (c ~ /[)}\]]/ || (c == ">" && substr(text, i - 1, 1) != "-")) --depth
          else if (c == "," && depth == 1) ++commas
          else if (c != " ") given = 1
          if (depth == 0) break
        }
        return given ? commas + 1 : 0
      }
      function open(line) {
        if (said == "") first = FNR
        said = said " " line
        if (line ~ /[;}]$/) said = ""
        else if (line ~ /\{$/) {
          body = said ~ /\(/
          if (body && kind == "wide" && parameters(said) > 7) report()
          if (!body) said = ""
        }
      }
      function close_at() {
        if (kind == "long" && FNR - first + 1 > 80) report()
        body = 0
        said = ""
      }
      FNR == 1 { inside = 0; body = 0; said = "" }
      body { if (inside ? /^  }/ : /^}/) close_at(); next }
      !inside && /^(template|class|struct|union|enum|namespace)[ <]/ {
        said = ""
        if (/^(class|struct)/ && /\{$/) inside = 1
        next
      }
      inside && /^}/ { inside = 0; said = ""; next }
      inside && /^ (public|private|protected):/ { said = ""; next }
      /^ *(\/\/|#)/ { next }
      (inside ? /^  [A-Za-z~]/ : /^[A-Za-z~]/) || said != "" { open($0) }') | LC_ALL=C sort
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch"/{lib,server,worker,client}
lines() { for ((i = 0; i < $1; i++)); do printf '%s  x = %d;\n' "$2" "$i"; done; }
{
  printf 'namespace a {\n// A comment {\nint Short(int a) {\n'; lines 78 ''; printf '}\n'
  printf 'static const T* Long(int a,\n                     int b) {\n'; lines 78 ''; printf '}\nconst int kTable[] = {\n'
  lines 100 ''; printf '};\ntemplate <typename T>\nvoid A::Method() const {\n  if (a) {\n'; lines 90 ''; printf '  }\n}\n'
  printf 'class B : public C {\n public:\n  B(int x) : x_(x) {\n'; lines 79 '  '; printf '  }\n  void In();\n  int Get() { return 1; }\n'
  printf '  void Small() override {\n'; lines 78 '  '; printf '  }\n private:\n  int x_;\n};\n}  // namespace a\n'
} >"$scratch/lib/a.cc"
found=$(functions "$scratch" long | tr '\n' ',')
[[ $found == "lib/a.cc A::Method,lib/a.cc B,lib/a.cc Long," ]] || { echo "self-test: found '$found'" >&2; exit 1; }
{
  printf 'int Seven(std::map<int, int> a, F<int(int, int)> b, int c, int d, int e = G(1, 2), int f,\n          int g) {\n}\n'
  printf 'static T Eight(int a, int b, int c,\n               int d, int e, int f, int g, int h) {\n}\n'
  printf 'int Called(int a) {\n  return Eight(a, a, a, a, a, a, a, a);\n}\nint None() {\n}\n'
} >"$scratch/lib/a.cc"
found=$(functions "$scratch" wide | tr '\n' ',')
[[ $found == "lib/a.cc Eight," ]] || { echo "self-test: found '$found'" >&2; exit 1; }

# Compares the functions of kind $1 with those of file $2. $3: what they are, $4: how to mend that.
compare() {
  functions "$source_dir" "$1" >"$scratch/$1"
  if ! LC_ALL=C comm -23 "$scratch/$1" "$2" | awk '{ print } END { exit NR > 0 }' >&2; then
    echo "these functions $3: $4 (CONTRIBUTING.md, Conventions)" >&2
    exit 1
  fi
  if ! LC_ALL=C comm -13 "$scratch/$1" "$2" | awk '{ print } END { exit NR > 0 }' >&2; then
    echo "these are mended, or gone: take them out of $2, so that it stays so" >&2
    exit 1
  fi
}
compare long "$here/long_functions.txt" "are longer than 80 lines" "divide them"
compare wide /dev/null "have more than 7 parameters" "let a struct name what belongs together"
long=$(wc -l <"$scratch/long")
grep -qF " $long functions are longer" "$source_dir/CONTRIBUTING.md" ||
  { echo "CONTRIBUTING.md does not say that $long functions are longer than 80 lines" >&2; exit 1; }

sleeping=$({ grep -rlE '(SleepFor|sleep_for|sleep_until|usleep|nanosleep)\(' "$source_dir/tests" --include='*.cc' --include='*.h' || true; } |
  sed "s|^$source_dir/||; /^tests\/e2e\//d")
while IFS= read -r file; do
  [[ -z $file ]] || grep -qF "\`${file##*/}\`" "$source_dir/CONTRIBUTING.md" ||
    { echo "$file sleeps: give it a clock of its own, or tell CONTRIBUTING.md why it must" >&2; exit 1; }
done <<<"$sleeping"
# shellcheck disable=SC2016  # Fields of awk.
# Says what is wrong with the form of changelog $1, a line each.
changelog_faults() {
  awk '
    function fault(text) { print "line " FNR ": " text ": " $0 }
    /^## / { if (!/^## \[(Unreleased|[0-9]+\.[0-9]+\.[0-9]+)\]( - [0-9-]+)?$/) fault("no version"); versions = 1; section = ""; next }
    /^### / { section = $2; plain = 0; if ($2 !~ /^(Added|Changed|Deprecated|Fixed|Removed|Security)$/) fault("no heading of Keep a Changelog"); next }
    /^- \*\*Breaking:\*\* / { if (plain) fault("breaking changes come first"); next }
    /^- / { plain = 1; if (section == "") fault("an entry below no heading"); if (/[Bb]reaking/) fault("mark it **Breaking:**"); next }
    versions && section != "" && NF { if ($0 !~ /:$/) fault("an entry is one line") }' "$1"
}
printf '%s\n' '# C' 'text' '## [Unreleased]' '### New' '- a' '### Fixed' '- b' '- **Breaking:** c' '- d' '  e' '## 1.0' '- f' >"$scratch/changelog"
[[ $(changelog_faults "$scratch/changelog" | cut -d: -f1 | tr '\n' ',') == "line 4,line 8,line 10,line 11,line 12," ]] ||
  { echo "self-test: $(changelog_faults "$scratch/changelog")" >&2; exit 1; }
faults=$(changelog_faults "$source_dir/CHANGELOG.md")
[[ -z $faults ]] || { printf 'CHANGELOG.md, %s\n' "$faults" >&2; exit 1; }
echo "$long functions are longer than 80 lines, none has more than 7 parameters; of the C++ tests outside of" \
  "tests/e2e sleep: ${sleeping:-none}"
