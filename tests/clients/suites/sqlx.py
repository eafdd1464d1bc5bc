"""sqlx: the checks are in rust/src/sqlx_checks.rs."""


def run(context):
    with context.server() as server:
        context.program_checks("sqlx", [context.rust_clients, "sqlx", "--url", server.url], timeout=120)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
