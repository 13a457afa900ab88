"""Where settings come from, which source wins, and how a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.sink.lake.jars import FOLDER

UPSTREAM = "file:///data/cdc?protocol=canal-json"
FLAGS = {"upstream_uri": UPSTREAM}


def toml(folder: Path, text: str) -> str:
    path = folder / "changefeed.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refused(flags: dict[str, object], env: dict[str, str] | None = None, config: str | None = None) -> BadConfig:
    with pytest.raises(BadConfig) as caught:
        load(flags, env or {}, config)
    return caught.value


def test_defaults_are_the_documented_ones() -> None:
    settings = load(FLAGS, {}).settings
    assert settings.downstream_uri == "duckdb:///replica.duckdb"
    assert (settings.name, settings.master, settings.tz) == ("default", "local[*]", "System")
    assert (settings.flush_interval, settings.worker_count, settings.file_index_width) == (10.0, 16, 20)
    assert (settings.terminator, settings.date_separator, settings.round_bytes) == (b"\r\n", None, 4 << 30)
    assert (settings.checkpoint_ts, settings.accept_gap_in, settings.tables) == (None, (), ())


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    config = toml(tmp_path, '[consumer]\nname = "file"\ntz = "+01:00"\nworker-count = 3\n')
    env = {"STORAGE_CONSUMER_NAME": "env", "STORAGE_CONSUMER_TZ": "+02:00", "OTHER": "x"}
    settings = load({**FLAGS, "name": "flag"}, env, config).settings
    assert (settings.name, settings.tz, settings.worker_count) == ("flag", "+02:00", 3)


def test_everything_can_come_from_the_environment() -> None:
    env = {
        "STORAGE_CONSUMER_UPSTREAM_URI": "s3://bucket/prefix",
        "STORAGE_CONSUMER_PROTOCOL": "canal-json",
        "STORAGE_CONSUMER_TABLES": "shop.*,!shop.`a,b`",
        "STORAGE_CONSUMER_SPARK_CONF": "spark.driver.memory=4g;spark.x=a=b",
        "STORAGE_CONSUMER_ACCEPT_GAP_IN": "shop.*",
        "STORAGE_CONSUMER_ACCEPT_KEY_LOSS": "true",
        "STORAGE_CONSUMER_ROUND_BYTES": "256MiB",
        "STORAGE_CONSUMER_JSON": "0",
    }
    settings = load({}, env).settings
    assert settings.tables == ("shop.*", "!shop.`a,b`")
    assert settings.spark_conf == (("spark.driver.memory", "4g"), ("spark.x", "a=b"))
    assert (settings.accept_gap_in, settings.accept_key_loss) == (("shop.*",), True)
    assert (settings.json_output, settings.round_bytes) == (False, 256 * 1024 * 1024)


def test_the_config_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    config = toml(tmp_path, f'[consumer]\nupstream-uri = "{UPSTREAM}"\n')
    assert load({}, {"STORAGE_CONSUMER_CONFIG": config}).settings.upstream_uri == UPSTREAM


def test_a_changefeeds_own_file_is_read(tmp_path: Path) -> None:
    config = toml(
        tmp_path,
        """
        memory-quota = 1073741824
        case-sensitive = true
        force-replicate = false
        [filter]
        rules = ["shop.*", "!shop.tmp_*"]
        [[filter.event-filters]]
        matcher = ["shop.log"]
        ignore-event = ["delete"]
        [mounter]
        worker-num = 16
        [scheduler]
        enable-table-across-nodes = true
        [consistent]
        level = "none"
        [integrity]
        integrity-check-level = "none"
        [sink]
        protocol = "canal-json"
        date-separator = "Month"
        file-index-digit = 6
        terminator = "\\n"
        dispatchers = [{matcher = ["*.*"], partition = "ts"}]
        [sink.csv]
        include-commit-ts = true
        [sink.kafka-config]
        sasl-user = "u"
        [sink.cloud-storage-config]
        file-expiration-days = 7
        spool-base-dir = "/data/spool"
        spool-disk-quota = 10737418240
        """,
    )
    loaded = load({"upstream_uri": "file:///data"}, {}, config)
    settings = loaded.settings
    assert (settings.protocol, settings.date_separator, settings.terminator) == ("canal-json", "month", b"\n")
    assert (settings.file_index_width, settings.case_sensitive) == (6, True)
    assert settings.tables == ("shop.*", "!shop.tmp_*")
    assert [note.text.partition(": ")[2].partition(":")[0] for note in loaded.notes] == ["[filter] event-filters"]


@pytest.mark.parametrize("width", [0, 5, 21])
def test_a_width_that_ticdc_replaces_by_its_default_is_replaced_here_too(tmp_path: Path, width: int) -> None:
    config = toml(tmp_path, f"[sink]\nfile-index-digit = {width}\n")
    assert load(FLAGS, {}, config).settings.file_index_width == 20


def test_the_uris_protocol_counts_as_a_flag(tmp_path: Path) -> None:
    config = toml(tmp_path, '[sink]\nprotocol = "csv"\n')
    assert load(FLAGS, {"STORAGE_CONSUMER_PROTOCOL": "csv"}, config).settings.protocol == "canal-json"


def test_another_protocol_is_refused_by_the_name_it_was_given_under(tmp_path: Path) -> None:
    config = toml(tmp_path, '[sink]\nprotocol = "avro"\n')
    error = refused({"upstream_uri": "file:///data"}, config=config)
    assert error.message.startswith("[sink] protocol is refused: 'avro' is not allowed; give canal-json or csv")
    assert "protocol in --upstream-uri" in refused({"upstream_uri": "file:///data?protocol=avro"}).message


def test_a_missing_protocol_says_where_to_put_it() -> None:
    error = refused({"upstream_uri": "file:///data"})
    assert error.message == "protocol is not set"
    assert "?protocol=canal-json" in error.hint
    assert "--config" in error.hint


def test_a_missing_upstream_is_named() -> None:
    assert refused({}).message == "--upstream-uri is not set"


@pytest.mark.parametrize(
    ("field", "value", "named", "allowed"),
    [
        ("flush_interval", "10", "--flush-interval", "500ms"),
        ("flush_interval", "0s", "--flush-interval", "above zero"),
        ("worker_count", "-1", "--worker-count", "above zero"),
        ("file_index_width", "5", "--file-index-width", "6 to 20"),
        ("tz", "Mars/Olympus", "--tz", "+08:00"),
        ("log_level", "loud", "--log-level", "debug or info or warning or error"),
        ("log_format", "xml", "--log-format", "text or json"),
        ("checkpoint_ts", "min", "--checkpoint-ts", "max"),
        ("name", "a b", "--name", "letters"),
        ("spark_conf", ["x"], "--spark-conf", "K=V"),
        ("tables", ["shop"], "--tables", "db.table"),
        ("downstream_uri", "oracle://h/", "--downstream-uri", "mysql://"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_the_flag_and_what_is_allowed(
    field: str, value: object, named: str, allowed: str
) -> None:
    error = refused({**FLAGS, field: value})
    assert error.message.startswith(f"{named} is refused: ")
    assert allowed in error.message
    assert "\n" not in error.message


def test_a_wrong_value_is_named_as_it_was_given(tmp_path: Path) -> None:
    assert refused(FLAGS, {"STORAGE_CONSUMER_TZ": "x"}).message.startswith("STORAGE_CONSUMER_TZ is refused")
    config = toml(tmp_path, "[consumer]\nround-bytes = 0\n")
    assert refused(FLAGS, config=config).message.startswith("[consumer] round-bytes is refused")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[consumer]\nworker-cuont = 1\n", "[consumer] worker-cuont is not a setting; did you mean worker-count?"),
        ("[consumer]\nzzz = 1\n", "[consumer] zzz is not a setting; known are accept-gap-in"),
        ("[consumer]\nprotocol = 'canal-json'\n", "[consumer] protocol is not a setting"),
        ("[sink]\nprotocl = 'csv'\n", "[sink] protocl is not a key of a changefeed; did you mean protocol?"),
        ("[consumr]\nx = 1\n", "consumr is not a key of a changefeed; did you mean consumer?"),
        ("[filter]\nrule = []\n", "[filter] rule is not a key of a changefeed; did you mean rules?"),
        ("sink = 1\n", "sink must be a table"),
        ("[sink\n", "is not TOML"),
        ("[filter]\nrules = 'x'\n", "[filter] rules is refused"),
        ("[consumer]\ntables = [1]\n", "[consumer] tables is refused: give a list of rules"),
    ],
)
def test_a_file_with_a_slip_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in refused(FLAGS, config=toml(tmp_path, text)).message


def test_keys_of_another_version_are_told_but_not_refused(tmp_path: Path) -> None:
    loaded = load(FLAGS, {}, toml(tmp_path, "[sink]\nquantum-flux = 1\n"))
    assert len(loaded.notes) == 1
    assert "[sink] quantum-flux" in loaded.notes[0].text


def test_a_missing_file_is_named() -> None:
    assert "/no/such.toml cannot be read" in refused(FLAGS, config="/no/such.toml").message


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    error = refused(FLAGS, {"STORAGE_CONSUMER_UPSTREAM_URL": "x"})
    assert (
        error.message == "STORAGE_CONSUMER_UPSTREAM_URL is not a setting; did you mean STORAGE_CONSUMER_UPSTREAM_URI?"
    )


def test_the_folder_of_jars_is_no_setting_and_no_mistake() -> None:
    assert load(FLAGS, {FOLDER: "/jars"}, None).settings == load(FLAGS, {}, None).settings


def test_a_variable_like_none_is_not_taken_for_one() -> None:
    error = refused(FLAGS, {"STORAGE_CONSUMER_FOO": "x"})
    assert error.message == "STORAGE_CONSUMER_FOO is not a setting"
    assert "unset STORAGE_CONSUMER_FOO" in error.hint


def test_kubernetes_own_variables_are_not_ours() -> None:
    env = {
        "STORAGE_CONSUMER_SERVICE_HOST": "10.0.0.1",
        "STORAGE_CONSUMER_SERVICE_PORT_HTTP": "80",
        "STORAGE_CONSUMER_PORT": "tcp://10.0.0.1:80",
        "STORAGE_CONSUMER_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert load(FLAGS, env).settings.name == "default"


def test_an_empty_variable_is_not_set() -> None:
    assert load(FLAGS, {"STORAGE_CONSUMER_TZ": "", "STORAGE_CONSUMER_TABLES": ""}).settings.tz == "System"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[[filter.event-filters]]\nmatcher = ["d.*"]\nignore-event = ["delete"]', "[filter] event-filters"),
        ("[filter]\nignore-txn-start-ts = [1, 2]", "[filter] ignore-txn-start-ts"),
        ('[[sink.column-selectors]]\nmatcher = ["d.*"]\ncolumns = ["a"]', "[sink] column-selectors"),
        ('[sink]\ndispatchers = [{matcher = ["d.*"], target-schema = "e"}]', "[sink] dispatchers"),
    ],
)
def test_what_the_changefeed_leaves_out_of_the_files_is_told(text: str, key: str, tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(text)
    [note] = load({"upstream_uri": "file:///d?protocol=canal-json"}, {}, str(file)).notes
    assert note.text.startswith(f"{file}: {key}: ")


def test_what_the_uri_says_of_the_files_counts() -> None:
    uri = "file:///d?protocol=canal-json&date-separator=month&terminator=%0A"
    settings = load({"upstream_uri": uri}, {}).settings
    assert (settings.date_separator, settings.terminator) == ("month", b"\n")
