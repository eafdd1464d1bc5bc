"""Isolation histories at 2, 16 and 64 clients: the histories are in rust/src/isolation."""

CLIENTS = "2,16,64"
HISTORIES = 12


def run(context):
    run_histories(context, killed=False)


def run_histories(context, killed):
    """All histories; with `killed`, each on a server that is killed and started again in its midst."""
    milliseconds = context.seconds * 300
    with context.server() as server:
        command = [
            context.rust_clients, "isolation", "--url", server.url, "--clients", CLIENTS, "--milliseconds", str(milliseconds),
            "--blind-aborts-allowed", "yes" if context.reference else "no", "--kill", "yes" if killed else "no",
        ]
        timeout = HISTORIES * 3 * (milliseconds / 1000 + 20)
        context.program_checks("histories", command, timeout, killed=server if killed else None)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
