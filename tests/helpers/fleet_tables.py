"""Tables of fleets from rows, as ``peakgate.fleet.dataset`` reads and writes them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from peakgate.fleet.dataset import DATASET_COLUMNS, DATASET_SCHEMA


def fleet_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with DATASET_COLUMNS; absent values are missing."""
    return pd.DataFrame.from_records(list(rows), columns=list(DATASET_COLUMNS)).astype(dict(DATASET_COLUMNS))


def write_table(table: pd.DataFrame, path: Path) -> None:
    parquet.write_table(pa.Table.from_pandas(table[list(DATASET_COLUMNS)], DATASET_SCHEMA, preserve_index=False), path)
