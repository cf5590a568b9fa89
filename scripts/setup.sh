#!/usr/bin/env bash
# Installs the Debian packages that wholestep builds with, those that are missing only.
#
#   scripts/setup.sh          what `make build`, `make test` and `make demo` need
#   scripts/setup.sh bench    also what scripts/bench-venv.sh and scripts/tensorboard-venv.sh need
#   scripts/setup.sh lint     also what `make lint` and `make format` need
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  llvm-19-dev           # code for the CPU
  libfmt-dev nlohmann-json3-dev zlib1g-dev
  libcli11-dev          # the command line
  libgtest-dev          # the tests
  dataset-fashion-mnist # what the demo learns
)
for extra in "$@"; do
  case $extra in
    bench) packages+=(python3-venv) ;;
    lint) packages+=(clang-format-19 clang-tidy-19) ;;
    *) echo "setup.sh: unknown part \"$extra\": expected bench or lint" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query > /dev/null; then
  echo "setup.sh: not a Debian system, nothing is installed; the build needs the equivalents of: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "setup.sh: not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
