"""The specification of cases: records, contract, the API of ``family.py``, loading of families."""
