"""Self-test: audits and attacks on this machine that check the promises of this installation.

It does not touch the site: tables, ledgers and the curator are temporary. `reads` audits the source
of all noise, `draws` and `releases` the noise itself, `every_kind` the noise and the charge of each
kind in the table of `kinds`, `sent` what commands make of them, `sensitivities` the change that
noise must hide. `endpoint` attacks a real curator over loopback, `crashes` kills commands. Each
finding states the probability that it accuses an honest installation (`Finding.false_alarm`). A
fault that it does not find may still exist: the bound on epsilon is only a lower one, and these are
only some of the possible attacks.
"""
