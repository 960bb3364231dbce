"""A site's side names nothing of `os` and `signal` that Windows or macOS lack."""

import ast
from collections.abc import Iterable

from tests.support.checkout import ROOT
from tools.syntax import nodes

SIDES = ("common", "owner")
ABSENT = {
    "os": {
        *("sched_getaffinity", "sched_setaffinity", "fork", "forkpty", "chown", "fchmod", "fchown"),
        *("getuid", "geteuid", "getgid", "getegid", "getpgid", "killpg", "setsid", "mkfifo"),
        *("pread", "preadv", "pwrite", "pwritev", "posix_fallocate", "sendfile", "statvfs"),
        *("getloadavg", "sysconf", "nice", "uname", "wait", "waitpid", "memfd_create"),
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "O_DIRECT"),
        "O_TMPFILE",
    },
    "signal": {
        *("SIGHUP", "SIGKILL", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD"),
        *("pthread_kill", "pthread_sigmask", "setitimer", "alarm", "pause", "sigwait"),
    },
}
ALLOWED = {
    (
        "common/kernel/durable/checkpoints.py",
        "signal.SIGKILL",
    ): "planted faults, for tests on Linux",
    ("common/kernel/durable/checkpoints.py", "signal.SIGSTOP"): "planted faults",
    ("common/kernel/durable/checkpoints.py", "signal.pthread_kill"): "planted faults",
    **{
        ("common/transport/preloaded.py", name): "only where AVAILABLE, on Linux"
        for name in ("os.setsid", "signal.SIGHUP", "signal.SIGKILL")
    },
}


def find_names(source: Iterable[ast.AST]) -> set[str]:
    """Names of `ABSENT` that a module uses, such as ``os.fork``."""
    found = set()
    for node in source:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in ABSENT.get(node.value.id, ()):
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in ABSENT:
            found |= {
                f"{node.module}.{each.name}"
                for each in node.names
                if each.name in ABSENT[node.module]
            }
    return found


def test_no_module_of_a_site_names_what_other_systems_lack() -> None:
    paths = [path for side in SIDES for path in (ROOT / side).rglob("*.py")]
    assert len(paths) > 100
    found = {
        (str(path.relative_to(ROOT)), name) for path in paths for name in find_names(nodes(path))
    }
    assert found == ALLOWED.keys()
