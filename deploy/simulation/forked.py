"""What the process that commands are forked from imports first: nothing is hidden in it later."""

from dppca.common.shell.packages import hide_packages

hide_packages()
