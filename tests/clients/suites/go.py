"""pgx and lib/pq: the checks are in go/*.go, a program that is built beforehand."""


def run(context):
    with context.server() as server:
        context.program_checks("Go", [str(context.go_clients), server.url], timeout=120)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
