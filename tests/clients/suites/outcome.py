"""What became of a COMMIT whose answer was lost: clients ask for the id of their transaction, the server is killed."""

CLIENTS = 16


def run(context):
    rounds = min(context.rounds, 5)
    with context.server() as server:
        command = [context.rust_clients, "outcome", "--url", server.url, "--clients", str(CLIENTS), "--rounds", str(rounds),
                   "--ids-may-return", "yes" if context.reference else "no"]
        context.program_checks("outcomes", command, timeout=60 * rounds + 60, killed=server)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
