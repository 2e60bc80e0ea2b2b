#!/bin/sh
# A coordinator in a container, with TLS and tokens: makes the keys that are missing, then becomes luthierd.
#
#   serve.sh [LUTHIERD_OPTION...]
#
# Keys and the coordinator's certificate are in $LUTHIER_DATA/pki; the certificate names localhost and $LUTHIER_NAMES (names
# and addresses by which others reach it, with spaces between). /access/worker and /access/user, where these folders are, get
# ca.pem and token: what a worker and a user need. Tokens and the certificate are renewed before they end, as long as this
# runs.
set -eu
umask 077

data=${LUTHIER_DATA:-/data}
pki=$data/pki
export LUTHIER_SERVER="unix:$data/socket"
say() { printf 'serve.sh: %s\n' "$*" >&2; }

# True if file $1 is there and younger than $2 days.
fresh() { [ -s "$1" ] && [ -z "$(find "$1" -mtime "+$2")" ]; }

# A certificate for localhost and $LUTHIER_NAMES; a new one for other names than before, and after ten months.
certificate() {
  [ -s "$pki/ca.pem" ] || luthier admin pki init --out "$pki" >/dev/null || return 1
  names="localhost ${LUTHIER_NAMES:-}"
  if fresh "$pki/server.pem" 300 && [ "$(cat "$pki/names" 2>/dev/null)" = "$names" ]; then return 0; fi
  set --
  for name in $names; do
    set -- "$@" --server "$name"
  done
  luthier admin pki issue --out "$pki" "$@" >/dev/null || return 1
  printf '%s\n' "$names" >"$pki/names"
  say "certificate for $names"
}

# A token of role $1 in /access/$1: the one that is there, with a new secret after two months, or a new one.
token() {
  folder=/access/$1
  file=$folder/token
  [ -d "$folder" ] || return 0
  cp "$pki/ca.pem" "$folder/ca.pem" || return 1
  id=$(cut -d_ -f2 "$file" 2>/dev/null || true)
  if [ -n "$id" ] && luthier admin token list -o csv | grep -q "^$id,.*,in force,"; then
    if fresh "$file" 60; then return 0; fi
    luthier admin token rotate "$id" --overlap 24h >"$file.new" 2>/dev/null || return 1
  else
    luthier admin token create --role "$1" --name "compose-$1" >"$file.new" 2>/dev/null || return 1
  fi
  mv "$file.new" "$file" || return 1
  say "token for $1 in $file"
}

keep_access() {
  until luthier health >/dev/null 2>&1; do sleep 0.1; done
  while :; do
    if ! { certificate && token user && token worker; }; then say "keys could not be renewed; tomorrow again"; fi
    sleep 86400
  done
}

certificate
# By itself, so that the process that becomes luthierd has no child.
(keep_access &)
exec luthierd --tls-cert "$pki/server.pem" --tls-key "$pki/server.key" "$@"
