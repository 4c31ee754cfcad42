"""The kernels with injected defects differ from the others by their edits alone."""

from __future__ import annotations

from lab.triton.calibrate import DEFECTS, SOURCE, concerned, twins


def test_every_edit_fits_once_and_changes_a_line_of_its_kernel() -> None:
    sound = SOURCE.read_text(encoding="utf-8")
    defective = twins(sound)
    changed = [pair for pair in zip(sound.splitlines(), defective.splitlines(), strict=True) if pair[0] != pair[1]]
    assert len(changed) == len(DEFECTS) == 15
    assert concerned(sound, defective)
    compile(defective, "defective", "exec")
