"""What a case is: its records and contract, the API of ``family.py``, how families are loaded and cases selected."""
