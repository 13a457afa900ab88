"""The MySQL that scripts/mysql.sh unpacks, run with the libraries that came with it."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers import SqlServer, as_root

NO_MYSQL = "no MySQL is unpacked: bash scripts/mysql.sh says why"

_BUILD = Path(__file__).parents[1] / "build"
_ROOT = _BUILD / "mysql"
_ROOT_USER = (
    "CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY '';\nGRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n"
)
"""It knows the root of the socket alone, and host names are not resolved."""
_FAST = ("--skip-log-bin", "--innodb-flush-method=nosync", "--innodb-doublewrite=OFF")
"""Its data need not outlive this machine."""


class MySql(SqlServer):
    """A mysqld."""

    name = "MySQL"
    integer = "int"
    nopad_collation = "utf8mb4_0900_bin"

    def _program(self) -> Sequence[str]:
        return [*_command("usr/sbin/mysqld"), *_options(), "--mysqlx=OFF", "--secure-file-priv=", *_FAST]

    def _zone_reader(self) -> Sequence[str]:
        return _command("usr/bin/mysql_tzinfo_to_sql")


def has_mysql() -> bool:
    return _ROOT.exists()


def mysql_template() -> Path:
    """A freshly installed data folder, to be copied by each server: made once for all test runs, as it takes long."""
    template, making = _BUILD / "mysql-data", _BUILD / "mysql-data.new"
    with (_BUILD / "mysql-data.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            shutil.rmtree(making, ignore_errors=True)
            users = _BUILD / "mysql-users.sql"
            users.write_text(_ROOT_USER)
            install = [*_command("usr/sbin/mysqld"), *_options(), *_FAST, "--initialize-insecure"]
            install += [f"--datadir={making}", f"--init-file={users}", *as_root()]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"mysqld cannot install its data folder: {done.stderr[-2000:]}")
            making.rename(template)
    return template


def _command(program: str) -> list[str]:
    """A program that was unpacked, run by the loader that came with it: this machine's own libraries may be older."""
    (loader,) = (_ROOT / "usr").glob("lib/*/ld-linux*")
    return [str(loader), "--library-path", str(loader.parent), str(_ROOT / program)]


def _options() -> list[str]:
    """Where an unpacked server finds what an installed one has in known places."""
    share = _ROOT / "usr/share/mysql"
    return ["--no-defaults", f"--lc-messages-dir={share}", f"--character-sets-dir={share}/charsets"]
