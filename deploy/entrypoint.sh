#!/bin/sh
# The loops that were compiled for the image, where numba may write: it takes none from a folder that is read-only.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -a /opt/compiled/. "$NUMBA_CACHE_DIR"
exec "$@"
