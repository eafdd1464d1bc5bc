"""The isolation histories on a server that is killed with SIGKILL and started again in the midst of each."""

from suites.isolation import run_histories


def run(context):
    run_histories(context, killed=True)
