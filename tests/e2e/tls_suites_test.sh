#!/usr/bin/env bash
# What luthierd's port speaks, as another program sees it (openssl s_client): TLS 1.2 and 1.3, suites with forward secrecy and
# authenticated encryption, and only for those with a certificate where one is asked for.
#   tls_suites_test.sh BIN_DIR
set -euo pipefail
bin=$1
command -v openssl >/dev/null || { echo "skipped: openssl is not installed (tools/install_packages.sh check)"; exit 77; }
scratch=$(mktemp -d)
server=
stop_server() {
  [[ -z $server ]] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
}
trap 'stop_server; rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$scratch/log" >&2; exit 1; }

"$bin/luthier" admin pki init --out "$scratch/pki" >/dev/null
"$bin/luthier" admin pki issue --out "$scratch/pki" --server localhost --server 127.0.0.1 >/dev/null
"$bin/luthier" admin pki issue --out "$scratch/pki" --client alice >/dev/null
"$bin/luthier" admin pki init --out "$scratch/other" >/dev/null
"$bin/luthier" admin pki issue --out "$scratch/other" --client alice >/dev/null

start_server() {
  stop_server
  : >"$scratch/log"
  "$bin/luthierd" --listen 127.0.0.1:0 --data-dir "$scratch/data" --tls-cert "$scratch/pki/server.pem" --tls-key "$scratch/pki/server.key" "$@" \
    >"$scratch/log" 2>&1 &
  server=$!
  for ((i = 0; i < 300; i++)); do
    address=$(sed -n 's/^luthierd: serving on //p' "$scratch/log")
    [[ -z $address ]] || return 0
    sleep 0.1
  done
  fail "luthierd does not serve within 30 s"
}

# speaks OPTIONS: a handshake with them ends well. Prints protocol and suite.
speaks() {
  timeout 10 openssl s_client -connect "$address" -alpn h2 -CAfile "$scratch/pki/ca.pem" -verify_return_error -brief "$@" </dev/null >"$scratch/said" 2>&1 &&
    grep -q '^CONNECTION ESTABLISHED' "$scratch/said" && ! grep -qi 'alert' "$scratch/said"
}

start_server
speaks -tls1_2 || fail "no TLS 1.2: $(<"$scratch/said")"
speaks -tls1_3 || fail "no TLS 1.3: $(<"$scratch/said")"
for old in -tls1_1 -tls1; do
  # The client itself is told not to mind, so that the refusal is the server's.
  ! speaks "$old" -cipher 'ALL:@SECLEVEL=0' || fail "the server speaks $old"
  grep -Eq 'alert protocol version|unexpected eof' "$scratch/said" || fail "it is not the server that refuses $old: $(<"$scratch/said")"
done

offered=0
taken=()
while IFS= read -r suite; do
  offered=$((offered + 1))
  ! speaks -tls1_2 -cipher "$suite:@SECLEVEL=0" || taken+=("$suite")
done < <(openssl ciphers -s -tls1_2 'ALL:COMPLEMENTOFALL:eNULL:@SECLEVEL=0' | tr : '\n')
((offered > 50)) || fail "only $offered suites were tried"
((${#taken[@]} > 0)) || fail "no suite is taken"
for suite in "${taken[@]}"; do
  [[ $suite =~ ^ECDHE-(ECDSA|RSA)-(AES(128|256)-GCM-SHA(256|384)|CHACHA20-POLY1305)$ ]] || fail "the weak suite $suite is taken"
done

start_server --tls-client-ca "$scratch/pki/ca.pem"
for version in -tls1_2 -tls1_3; do
  # In TLS 1.3 the client's handshake ends before the server has looked: whether it is let in shows in what it may read.
  reads() { (sleep 1) | timeout 10 openssl s_client -connect "$address" -alpn h2 -CAfile "$scratch/pki/ca.pem" "$version" "$@" >"$scratch/said" 2>&1; }
  reads -cert "$scratch/pki/alice.pem" -key "$scratch/pki/alice.key" || true
  ! grep -q 'alert' "$scratch/said" || fail "a client with a certificate is refused: $(<"$scratch/said")"
  reads || true
  grep -Eq 'alert|handshake failure|unexpected eof' "$scratch/said" || fail "$version: a client without a certificate is let in: $(<"$scratch/said")"
  reads -cert "$scratch/other/alice.pem" -key "$scratch/other/alice.key" || true
  grep -Eq 'alert|unexpected eof' "$scratch/said" || fail "$version: a certificate of another authority is let in: $(<"$scratch/said")"
done
echo "TLS 1.2 and 1.3; of $offered suites of 1.2: ${taken[*]}"
