"""Programs of checks: each prints `name ... ok` or `name ... FAILED (reason)`."""

import sys
import traceback

CHECKS = []


def check(function):
    """Makes a function one of the program's checks, named like it."""
    CHECKS.append(function)
    return function


def expect(found, wanted):
    """Ends the check unless both are equal."""
    if found != wanted:
        raise AssertionError(f"{found!r} in place of {wanted!r}")


def fails(error, work, *arguments, **named):
    """Runs `work`, which must fail with this class; the error."""
    try:
        work(*arguments, **named)
    except error as failure:
        return failure
    raise AssertionError(f"no {error.__name__}")


def run(given, only=()):
    """Runs the checks, or `only` these, each with `given`; the status to exit with."""
    failed = 0
    for function in CHECKS:
        if only and function.__name__ not in only:
            continue
        name = function.__name__.replace("_", " ")
        try:
            function(given)
            print(f"{name} ... ok", flush=True)
        except Exception as failure:  # noqa: BLE001  (whatever goes wrong is the verdict)
            where = traceback.extract_tb(failure.__traceback__)
            line = next((frame.lineno for frame in reversed(where) if frame.filename == sys.argv[0]), 0)
            print(f"{name} ... FAILED (line {line}: {type(failure).__name__}: {' '.join(str(failure).split())[:400]})", flush=True)
            failed += 1
    return 1 if failed else 0
