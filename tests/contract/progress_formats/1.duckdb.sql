CREATE SCHEMA storage_consumer;
CREATE TABLE storage_consumer.consumer (name VARCHAR, format INTEGER, upstream VARCHAR, applied_ts UBIGINT, start_ts
  UBIGINT, updated TIMESTAMP);
CREATE TABLE storage_consumer.table_progress (name VARCHAR, database_name VARCHAR, table_name VARCHAR, applied_ts
  UBIGINT, state VARCHAR, reason VARCHAR, hint VARCHAR);
CREATE TABLE storage_consumer.folder_progress (name VARCHAR, root VARCHAR, version UBIGINT, part VARCHAR, date
  VARCHAR, dispatcher VARCHAR, done BIGINT, size BIGINT, stamp VARCHAR, open_files VARCHAR);
CREATE TABLE storage_consumer.ddl (name VARCHAR, database_name VARCHAR, table_name VARCHAR, version UBIGINT, checksum
  UBIGINT, state VARCHAR, before_state VARCHAR, reason VARCHAR);
CREATE TABLE storage_consumer.known_table (name VARCHAR, database_name VARCHAR, table_name VARCHAR);
CREATE TABLE storage_consumer.audit (name VARCHAR, epoch BIGINT, finished TIMESTAMP, step VARCHAR, database_name
  VARCHAR, table_name VARCHAR, from_ts UBIGINT, to_ts UBIGINT, row_count BIGINT, puts BIGINT, deletes BIGINT,
  dropped_rows BIGINT, statement VARCHAR);
CREATE TABLE storage_consumer.lease (epoch BIGINT, holder VARCHAR, since TIMESTAMP);
CREATE TABLE storage_consumer.table_columns (database_name VARCHAR, table_name VARCHAR, columns VARCHAR);
CREATE VIEW storage_consumer.replica AS
SELECT k.name AS consumer, k.database_name || '.' || k.table_name AS "table",
  coalesce(p.applied_ts, c.applied_ts) AS applied_ts,
  make_timestamp(CAST((coalesce(p.applied_ts, c.applied_ts) // 262144) * 1000 AS BIGINT)) AS applied_time,
  coalesce(p.state, 'ok') AS state
FROM storage_consumer.known_table k
JOIN storage_consumer.consumer c ON c.name = k.name
LEFT JOIN storage_consumer.table_progress p
  ON p.name = k.name AND p.database_name = k.database_name AND p.table_name = k.table_name;
INSERT INTO storage_consumer.consumer VALUES ('c', 1, 's3://bucket/prefix', 40, 30, '2026-01-02 03:04:05.678');
INSERT INTO storage_consumer.consumer VALUES ('other', 1, 's3://bucket/other', 41, 0, '2026-01-02 03:04:05.678');
INSERT INTO storage_consumer.table_progress VALUES ('c', 'shop', 'item', 20, 'stopped', 'a reason', 'a hint');
INSERT INTO storage_consumer.table_progress VALUES ('other', 'shop', 'item', 21, 'ok', '', '');
INSERT INTO storage_consumer.folder_progress VALUES ('c', 'shop/item', 5, '7', '2026-01-02', '9', 12, 34, 'etag',
  '[[14, 35, 3, "s"]]');
INSERT INTO storage_consumer.ddl VALUES ('c', 'shop', 'item', 5, 4294967295, 'done', '{}', '');
INSERT INTO storage_consumer.ddl VALUES ('c', 'shop', 'log', 6, 1, 'intent', '{"before": 1}', '');
INSERT INTO storage_consumer.lease VALUES (17, 'host (pid 1)', '2026-01-02 03:04:05.678');
INSERT INTO storage_consumer.known_table VALUES ('c', 'shop', 'item');
INSERT INTO storage_consumer.known_table VALUES ('c', 'shop', 'log');
INSERT INTO storage_consumer.audit VALUES ('c', 17, '2999-01-02 03:04:05.678', 'load', 'shop', 'item', 1, 20, 3, 2, 1,
  0, '');
INSERT INTO storage_consumer.table_columns VALUES ('shop', 'item', '[]');
