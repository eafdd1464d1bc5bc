"""tokio-postgres: the checks are in rust/src/tokio_checks.rs."""


def run(context):
    with context.server() as server:
        context.program_checks("tokio-postgres", [context.rust_clients, "tokio", "--url", server.url], timeout=300)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
