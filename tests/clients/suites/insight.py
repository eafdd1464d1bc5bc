"""The system views: waits, hot items, aborts, sessions. The checks are in rust/src/insight.rs."""


def run(context):
    with context.server() as server:
        context.program_checks("views", [context.rust_clients, "insight", "--url", server.url], timeout=300)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
