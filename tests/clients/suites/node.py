"""node-postgres: the checks are in node/checks.js."""

import os

from harness import HERE


def run(context):
    with context.server() as server:
        environment = {"HOME": str(context.work), "PATH": os.environ.get("PATH", ""), "NODE_PATH": str(context.node_modules)}
        context.program_checks("node-postgres", ["node", str(HERE / "node/checks.js"), server.url], timeout=120, env=environment)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
