"""What pyproject.toml cannot say: a wheel has the pages of docs/, which `peakgate help` shows."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithPages(build_py):
    """Puts docs/*.md and the pages one folder below it into the package, as peakgate/docs."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for page in sorted({*Path("docs").glob("*.md"), *Path("docs").glob("*/*.md")}):
            copy = Path(self.build_lib, "peakgate", page)
            self.mkpath(str(copy.parent))
            self.copy_file(str(page), str(copy))


setup(cmdclass={"build_py": WithPages})
