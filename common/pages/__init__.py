"""Pages on this machine for one person: access, rendering, charts, and serving.

::

    browser ──▶ guard ──▶ routes of a side ──▶ templates ──▶ HTML with SVG, no script needed
               (loopback, one-time token, Host, Origin, form token, strict CSP)

Both sides have pages of their own on it; a report is the same templates written to one file. The
browser talks to this machine alone, and the command behind the page talks to the curator.
"""
