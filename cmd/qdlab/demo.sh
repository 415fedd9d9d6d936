#!/bin/sh
# Runs in the lab's guest `all`, as root. What it leaves in /out is ./demo on the host.
set -eu
say() { printf '\n$ %s\n' "$*"; "$@"; }
say qdsweep devices
