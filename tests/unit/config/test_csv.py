"""The changefeed's CSV options: where they are read from, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.config.load import load
from consumer.errors import BadConfig
from tests.unit.config.test_load import refused, toml

CSV = {"upstream_uri": "file:///data/cdc?protocol=csv"}
RAW = {"upstream_uri": "file:///data/cdc?protocol=csv&output-raw-change-event=true"}


def test_without_a_word_they_are_ticdcs_defaults() -> None:
    assert load(CSV, {}).settings.dialect.options == CsvFormat(",", '"', "\\N", False, False, False, False, "base64")
    assert load({"upstream_uri": "file:///data?protocol=canal-json"}, {}).settings.dialect.options is None


def test_the_changefeeds_file_has_them(tmp_path: Path) -> None:
    config = toml(
        tmp_path,
        """
        [sink]
        protocol = "csv"
        terminator = "\\n"
        [sink.csv]
        delimiter = "[*]"
        quote = ""
        null = "NULL"
        include-commit-ts = true
        binary-encoding-method = "hex"
        output-old-value = true
        output-handle-key = true
        output-field-header = true
        """,
    )
    settings = load({"upstream_uri": "file:///data"}, {}, config).settings
    assert settings.dialect.options == CsvFormat("[*]", "", "NULL", True, True, True, True, "hex")
    assert settings.terminator == b"\n"


def test_the_environment_has_them_where_there_is_no_file() -> None:
    env = {
        "STORAGE_CONSUMER_CSV_DELIMITER": "|",
        "STORAGE_CONSUMER_CSV_QUOTE": "none",
        "STORAGE_CONSUMER_CSV_INCLUDE_COMMIT_TS": "true",
    }
    assert load(CSV, env).settings.dialect.options == CsvFormat("|", "", include_commit_ts=True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("delimiter = ''", "[sink.csv] delimiter is refused"),
        ("delimiter = ';;;;'", "[sink.csv] delimiter is refused"),
        ("delimiter = '\\n'", "[sink.csv] delimiter is refused"),
        ("quote = '||'", "[sink.csv] quote is refused"),
        ("delimiter = '|'\nquote = '|'", "`quote` must not be a character of `delimiter`"),
        ("binary-encoding-method = 'base32'", "give base64 or hex"),
        ("commit-ts = true", "[sink.csv] commit-ts is not a key of a changefeed; did you mean include-commit-ts?"),
        ("separator = ';'", "[sink.csv] separator is not a key of a changefeed; known are "),
        ("include-commit-t = true", "[sink.csv] include-commit-t is not a key of a changefeed; did you mean"),
    ],
)
def test_what_ticdc_would_not_take_is_refused(tmp_path: Path, body: str, words: str) -> None:
    body = body.replace("'\\n'", '"\\n"')
    assert words in refused({**CSV}, config=toml(tmp_path, f"[sink.csv]\n{body}\n")).message


def test_a_changefeed_that_loses_keys_is_refused_unless_that_is_accepted(tmp_path: Path) -> None:
    config = toml(tmp_path, "[sink.cloud-storage-config]\noutput-raw-change-event = true\n")
    for error in (refused({**RAW}), refused({**CSV}, config=config)):
        assert "rows under old keys would stay" in error.message
        assert "--accept-key-loss" in error.hint
        assert error.exit_code == BadConfig.exit_code
    assert load({**RAW, "accept_key_loss": True}, {}).settings.output_raw_change_event
    old_value = {"STORAGE_CONSUMER_CSV_OUTPUT_OLD_VALUE": "true"}
    assert load(RAW, old_value | {"STORAGE_CONSUMER_CSV_INCLUDE_COMMIT_TS": "true"}).settings.dialect.options
    with pytest.raises(BadConfig, match="rows that exchange their keys"):
        load(RAW, old_value)
    assert load({"upstream_uri": RAW["upstream_uri"].replace("csv", "canal-json")}, {}).settings
