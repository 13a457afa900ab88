CREATE DATABASE IF NOT EXISTS storage_consumer CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.consumer (name VARCHAR(64) NOT NULL, format INT NOT NULL, upstream TEXT
  NOT NULL, applied_ts BIGINT UNSIGNED NOT NULL, start_ts BIGINT UNSIGNED NOT NULL, updated DATETIME(3) NOT NULL,
  PRIMARY KEY (name)) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.table_progress (name VARCHAR(64) NOT NULL, database_name VARCHAR(64) NOT
  NULL, table_name VARCHAR(64) NOT NULL, applied_ts BIGINT UNSIGNED NOT NULL, state VARCHAR(16) NOT NULL, reason
  LONGTEXT NOT NULL, hint LONGTEXT NOT NULL, PRIMARY KEY (name, database_name, table_name)) ENGINE = InnoDB DEFAULT
  CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.folder_progress (name VARCHAR(64) NOT NULL, id CHAR(64) NOT NULL, root
  LONGTEXT NOT NULL, version BIGINT UNSIGNED NOT NULL, part VARCHAR(64) NOT NULL, date VARCHAR(32) NOT NULL,
  dispatcher VARCHAR(255) NOT NULL, done BIGINT NOT NULL, size BIGINT NOT NULL, stamp TEXT NOT NULL, open_files
  LONGTEXT NOT NULL, PRIMARY KEY (name, id)) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.ddl (name VARCHAR(64) NOT NULL, database_name VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL, version BIGINT UNSIGNED NOT NULL, checksum BIGINT UNSIGNED NOT NULL, state
  VARCHAR(16) NOT NULL, before_state LONGTEXT NOT NULL, reason LONGTEXT NOT NULL, PRIMARY KEY (name, database_name,
  table_name, version, checksum)) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.lease (name VARCHAR(64) NOT NULL, slot INT NOT NULL, epoch BIGINT NOT
  NULL, holder TEXT NOT NULL, since DATETIME(3) NOT NULL, PRIMARY KEY (name, slot)) ENGINE = InnoDB DEFAULT CHARSET =
  utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.known_table (name VARCHAR(64) NOT NULL, database_name VARCHAR(64) NOT
  NULL, table_name VARCHAR(64) NOT NULL, PRIMARY KEY (name, database_name, table_name)) ENGINE = InnoDB DEFAULT
  CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS storage_consumer.audit (id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(64) NOT NULL, epoch
  BIGINT NOT NULL, finished DATETIME(3) NOT NULL, step VARCHAR(64) NOT NULL, database_name VARCHAR(64) NOT NULL,
  table_name VARCHAR(64) NOT NULL, from_ts BIGINT UNSIGNED NOT NULL, to_ts BIGINT UNSIGNED NOT NULL, row_count BIGINT
  NOT NULL, puts BIGINT NOT NULL, deletes BIGINT NOT NULL, dropped_rows BIGINT NOT NULL, statement LONGTEXT NOT NULL,
  statement_hash CHAR(64) NOT NULL, PRIMARY KEY (id), KEY (name, finished)) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COLLATE = utf8mb4_bin;
CREATE OR REPLACE SQL SECURITY INVOKER VIEW storage_consumer.replica
  (consumer, `table`, applied_ts, applied_time, state)
AS SELECT k.name, CONCAT(k.database_name, '.', k.table_name), COALESCE(p.applied_ts, c.applied_ts),
  TIMESTAMPADD(MICROSECOND, (COALESCE(p.applied_ts, c.applied_ts) >> 18) * 1000, CAST('1970-01-01' AS DATETIME(3))),
  COALESCE(p.state, 'ok')
FROM storage_consumer.known_table k
JOIN storage_consumer.consumer c ON c.name = k.name
LEFT JOIN storage_consumer.table_progress p
  ON p.name = k.name AND p.database_name = k.database_name AND p.table_name = k.table_name;
INSERT INTO storage_consumer.consumer VALUES ('c', 1, 's3://bucket/prefix', 40, 30, '2026-01-02 03:04:05.678');
INSERT INTO storage_consumer.consumer VALUES ('other', 1, 's3://bucket/other', 41, 0, '2026-01-02 03:04:05.678');
INSERT INTO storage_consumer.table_progress VALUES ('c', 'shop', 'item', 20, 'stopped', 'a reason', 'a hint');
INSERT INTO storage_consumer.table_progress VALUES ('other', 'shop', 'item', 21, 'ok', '', '');
INSERT INTO storage_consumer.folder_progress VALUES ('c',
  'cce615dc605db35cfbf284e55aad6c16ba92f28ea90e759a7e625de33558b426', 'shop/item', 5, '7', '2026-01-02', '9', 12, 34,
  'etag', '[[14, 35, 3, "s"]]');
INSERT INTO storage_consumer.ddl VALUES ('c', 'shop', 'item', 5, 4294967295, 'done', '{}', '');
INSERT INTO storage_consumer.ddl VALUES ('c', 'shop', 'log', 6, 1, 'intent', '{"before": 1}', '');
INSERT INTO storage_consumer.lease VALUES ('c', 0, 17, 'host (pid 1)', '2026-01-02 03:04:05.678');
INSERT INTO storage_consumer.known_table VALUES ('c', 'shop', 'item');
INSERT INTO storage_consumer.known_table VALUES ('c', 'shop', 'log');
INSERT INTO storage_consumer.audit VALUES (NULL, 'c', 17, '2999-01-02 03:04:05.678', 'load', 'shop', 'item', 1, 20, 3,
  2, 1, 0, '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
