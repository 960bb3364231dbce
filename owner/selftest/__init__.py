"""The self-test: does what is installed here keep its promise? Audited on this machine, by attack.

Nothing of the site is touched: tables, ledgers and the curator are thrown away afterwards. `draws`
audits the noise itself, `endpoint` attacks a real curator over loopback, `crashes` kills commands.
Each finding states how likely it would be to accuse an honest installation (`Finding.false_alarm`);
what it does not find is not proved absent: a lower bound on epsilon is one, and these attacks are
a few of all.
"""
