"""``dppca-curator page``: the operator's studies in a browser of the operator's machine.

The page runs where the operator sits, with the operator's certificate, and asks the curator as the
other commands do. The daemon serves no page and opens no further port. Nothing can be changed here.
"""
