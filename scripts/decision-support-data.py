"""Writes the tables of TPC-H or TPC-DS, and the reference answers of TPC-H, into a directory.

Usage: decision-support-data.py tpch|tpcds SCALE DIRECTORY, with DuckDB's wheel (scripts/setup-duckdb.sh) in PYTHONPATH.

TABLE.csv has no heading, `|` between the columns and `\\N` for NULL, as LOAD DATA reads it. queries/NN.sql is query NN in DuckDB's
SQL; answers/NN.csv its answer, with a heading, and without values for NULL. Those of TPC-DS are of scale 1 only.
"""

import pathlib
import sys

import duckdb

GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def write_tables(database, directory):
    for (table,) in database.execute("SHOW TABLES").fetchall():
        database.execute(f"COPY {table} TO '{directory / table}.csv' (FORMAT CSV, HEADER FALSE, DELIMITER '|', NULL '\\N')")


def write_texts(rows, directory, suffix):
    directory.mkdir()
    for number, text in rows:
        (directory / f"{number:02}.{suffix}").write_text(text)


def main(bench, scale, target):
    directory = pathlib.Path(target)
    database = duckdb.connect()
    database.execute(f"LOAD {bench}")
    database.execute(f"CALL {GENERATORS[bench]}(sf={scale})")
    write_tables(database, directory)
    write_texts(database.execute(f"SELECT query_nr, query FROM {bench}_queries()").fetchall(), directory / "queries", "sql")
    if bench == "tpch":
        answers = f"SELECT query_nr, answer FROM tpch_answers() WHERE scale_factor = {scale}"
        write_texts(database.execute(answers).fetchall(), directory / "answers", "csv")


if __name__ == "__main__":
    main(*sys.argv[1:])
