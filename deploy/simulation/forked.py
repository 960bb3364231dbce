"""What the process that commands are forked from imports first: the rest costs less then."""

from dppca.common.shell.console import load_little

load_little()
