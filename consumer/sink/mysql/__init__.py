"""The target of MySQL-compatible servers: MySQL, MariaDB and TiDB."""
