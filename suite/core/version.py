"""The version of Peakgate that runs."""

from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def version() -> str:
    """That of the distribution; of an editable installation ``+editable`` in place of the commit it was made from.

    Such an installation follows its checkout, and its metadata does not.
    """
    distribution = metadata.distribution("peakgate")
    if Path(str(distribution.locate_file("peakgate"))).resolve() == PACKAGE:
        return distribution.version
    return f"{distribution.version.partition('+')[0]}+editable"
