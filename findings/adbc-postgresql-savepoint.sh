#!/bin/bash
# adbc-driver-postgresql 1.13.0 (adbc-driver-manager 1.13.0, pyarrow 26.0.1, Python 3.11; PostgreSQL of pgserver 0.1.4):
# on a connection without autocommit, which is the default of its DBAPI, no statement is sent after one that failed, so
# ROLLBACK TO SAVEPOINT does not bring the transaction back: INVALID_STATE, "the connection is in an error state; first
# rollback". The server would take it: with autocommit and a BEGIN of one's own the same statements go on.
# Leaves with 0 while this is so, and with 1 once it has changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install pgserver==0.1.4 adbc-driver-manager==1.13.0 adbc-driver-postgresql==1.13.0 pyarrow==26.0.1
cat > "$work/try.py" <<'END'
import sys

import adbc_driver_postgresql.dbapi as dbapi
import pgserver

server = pgserver.get_server(sys.argv[1], cleanup_mode="stop")


def comes_back(*, autocommit: bool) -> bool:
    with dbapi.connect(server.get_uri(), autocommit=autocommit) as connection, connection.cursor() as cursor:
        if autocommit:
            cursor.execute("BEGIN")
        cursor.execute("SAVEPOINT before")
        try:
            cursor.execute("SELECT no_such_column")
        except dbapi.ProgrammingError:
            pass
        try:
            cursor.execute("ROLLBACK TO SAVEPOINT before")
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
        except dbapi.ProgrammingError as error:
            print(f"autocommit {autocommit}: {error}")
            return False


seen = comes_back(autocommit=True), comes_back(autocommit=False)
server.cleanup()
print("comes back with autocommit, without:", seen)
sys.exit(seen != (True, False))
END
"$work/venv/bin/python" "$work/try.py" "$work/data"
