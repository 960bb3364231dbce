"""A Python of Linux without features that Windows or macOS lack.

Put its folder first in PYTHONPATH. Packages that are published for all systems may use the
features, DPPCA may not: it cannot import `fcntl` and the like, and ``os.sched_getaffinity`` does
not exist for any code. Texts of files need an explicit encoding, since Windows' default differs.
Modes of files carry no meaning (`dppca.common.kernel.durable.files.HAS_MODES`).
"""

import builtins
import os
import signal
import warnings
from typing import Any

_MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"}
_OF_OS = (
    "sched_getaffinity sched_setaffinity fork forkpty chown fchmod fchown getuid geteuid getgid "
    "getegid getpgid killpg setsid mkfifo O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC "
    "posix_fallocate getloadavg statvfs sendfile preadv pread pwrite"
)
_OF_SIGNAL = "SIGHUP SIGKILL SIGSTOP SIGCONT SIGUSR1 SIGUSR2 SIGALRM pthread_kill setitimer alarm"

_import = builtins.__import__


def _limited(name: str, globals: Any = None, *rest: Any, **named: Any) -> Any:  # noqa: A002
    ours = ((globals or {}).get("__name__") or "").partition(".")[0] == "dppca"
    if ours and name.partition(".")[0] in _MODULES:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, globals, *rest, **named)


builtins.__import__ = _limited
for _module, _names in ((os, _OF_OS), (signal, _OF_SIGNAL)):
    for _name in _names.split():
        delattr(_module, _name)
warnings.filterwarnings("error", category=EncodingWarning, module=r"dppca\.")

import dppca.common.kernel.durable.files  # noqa: E402 - once nothing is there that must not be used

dppca.common.kernel.durable.files.HAS_MODES = False  # type: ignore[misc]
