"""What must hold between the settings of a CSV changefeed."""

from __future__ import annotations

from consumer.codec.csv.form import fault_of
from consumer.config.settings import Settings
from consumer.config.values import LEFT_OPEN
from consumer.errors import BadConfig


def loses_keys(settings: Settings) -> bool:
    """Whether rows under old keys stay, or rows that exchange keys be lost: `check_csv` refuses it if not accepted."""
    csv = settings.csv_format
    if csv is None or not settings.output_raw_change_event:
        return False
    return not (csv.output_old_value and csv.include_commit_ts)


def check_csv(settings: Settings) -> None:
    """Raises BadConfig for settings under which rows cannot be told apart, or lose the keys that they had before."""
    csv = settings.csv_format
    if csv is None:
        return
    if fault := fault_of(csv, settings.terminator):
        raise BadConfig(
            f"the changefeed's [sink.csv] leaves it open where cells and rows end: {fault}",
            hint="give the changefeed's own values; where they are these, write its files anew with others",
        )
    if open_key := next((key for key in settings.unproven if key not in LEFT_OPEN), ""):
        raise BadConfig(
            f"{open_key} is not set, and the file's [consumer] unproven says that the storage does not show it",
            hint=f"set {open_key} in the file as the changefeed has it",
        )
    if not settings.output_raw_change_event or settings.accept_key_loss:
        return
    if not csv.output_old_value:
        raise BadConfig(
            "with output-raw-change-event=true and without output-old-value, CSV does not tell which row an update of a"
            " key was made of: rows under old keys would stay",
            hint="set output-old-value=true in the changefeed's [sink.csv], or output-raw-change-event=false, and have"
            " the files written anew; where keys never change, go on with --accept-key-loss",
        )
    if not csv.include_commit_ts:
        raise BadConfig(
            "with output-raw-change-event=true and without include-commit-ts, rows that exchange their keys in one"
            " transaction cannot be told from rows that are deleted",
            hint="set include-commit-ts=true in the changefeed's [sink.csv], or output-raw-change-event=false, and have"
            " the files written anew; where keys never change, go on with --accept-key-loss",
        )
