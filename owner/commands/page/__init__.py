"""``dppca-owner page``: the steward's commands in a browser of the same machine.

Nothing here decides, charges or sends: pages show the output of the commands, and consent goes
through `dppca.owner.commands.contribute.contribute`, on the one release path and under the site's
lock.
"""
