"""`stream-tgat`, or `python -m stream_tgat`: short for `faust -A stream_tgat`."""

import sys

APP = ("-A", "stream_tgat")


def main() -> None:
    """Run Faust's command line with our application, which is made before the first option is read."""
    from faust.cli.faust import cli

    sys.argv[1:1] = APP
    import stream_tgat

    _ = stream_tgat.app
    cli(prog_name="stream-tgat")


if __name__ == "__main__":
    main()
