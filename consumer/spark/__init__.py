"""Loads as Spark DataFrames: DataFrames and mapInArrow only, so that classic Spark and a cluster run the same code."""
