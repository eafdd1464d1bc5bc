"""Hermitage's anomalies at each isolation level's name: the scripts are in rust/src/hermitage."""

LEVELS = "default,read uncommitted,read committed,repeatable read,serializable"


def run(context):
    # Of the levels of the reference only the one that its setting chooses is strict.
    levels = "default" if context.reference else LEVELS
    with context.server() as server:
        command = [context.rust_clients, "hermitage", "--url", server.url, "--levels", levels]
        context.program_checks("anomalies", command, timeout=600)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
