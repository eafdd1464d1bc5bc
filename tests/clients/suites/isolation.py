"""Isolation histories at 2, 16 and 64 clients: the histories are in rust/src/isolation."""

CLIENTS = "2,16,64"
HISTORIES = 9


def run(context):
    milliseconds = context.seconds * 300
    with context.server() as server:
        command = [
            context.rust_clients, "isolation", "--url", server.url, "--clients", CLIENTS, "--milliseconds", str(milliseconds),
            "--blind-aborts-allowed", "yes" if context.reference else "no",
        ]
        context.program_checks("histories", command, timeout=HISTORIES * 3 * (milliseconds / 1000 + 20))
        context.verdict("the server is still there", None if server.alive() else server.last_words())
