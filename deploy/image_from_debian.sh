#!/bin/sh
# Build the image where no registry of images can be reached: debootstrap makes the base, and buildah takes the steps of
# deploy/Containerfile on it.
#
#   sudo deploy/image_from_debian.sh [OPTION OF buildah build]…
#
# The base has Debian's own Python in place of the official image's. Needs buildah, debootstrap, and packages from Debian and PyPI.
set -eu
cd "$(dirname "$0")/.."
python=3.11
base=docker.io/library/python:$python-slim-bookworm

container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null' EXIT
root=$(buildah mount "$container")
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip bookworm "$root" >/dev/null
ln -s python3 "$root/usr/bin/python"
# pip may install here: nothing else does.
rm -rf "$root/usr/lib/python$python/EXTERNALLY-MANAGED" "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
# What this machine trusts is trusted there, where the way to PyPI has a certificate of its own.
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
buildah config --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$container"
buildah umount "$container" >/dev/null
buildah commit --quiet "$container" "$base"

buildah build --format docker --isolation chroot --network host --pull=never --build-arg "PYTHON=$python" \
    --file deploy/Containerfile --tag stream-tgat "$@" .
