#!/bin/sh
# Whether the process of this container answers: a worker, or what listens on the port that is given.
exec python -c "import sys, urllib.request as r; r.urlopen(f'http://127.0.0.1:{sys.argv[1]}/livez', timeout=4)" "${1:-6066}"
