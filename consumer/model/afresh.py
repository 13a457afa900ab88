"""Ways on for a table of which the storage holds rows that do not say enough. To load it again reads them again."""

WITH_A_COPY = (
    "then copy the table from upstream as of a TSO after that, and go on with it under a new --name with --start-ts"
    " and --tables"
)
FROM_A_NEW_PREFIX = (
    "and have it write to a new prefix; copy the table from upstream as of the TSO that it begins with, and go on there"
    " under a new --name with --start-ts and --tables"
)
