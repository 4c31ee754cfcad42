"""The code of each kind of refusal: one per mistake and remedy, whatever sentence it is reported in.

A code is never given to another kind. ``docs/troubleshooting.md`` lists them; a test keeps that table equal to this.
"""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """A kind of refusal, as errors end with it in brackets; what is wrong, and what to do."""

    problem: str
    remedy: str

    def __new__(cls, code: str, problem: str, remedy: str) -> Code:
        """A member that is equal to its code."""
        made = str.__new__(cls, code)
        made._value_ = code
        made.problem, made.remedy = problem, remedy
        return made

    # The command line
    OPTION = (
        "PG101",
        "an option or argument that is not possible, alone or with the others",
        "a value it lists; `--help`",
    )
    SELECTION = "PG102", "no case has that id, or `-k` selects none", "`peakgate bench --collect-only` lists the cases"
    COMMIT = "PG103", "git has no such commit, branch or repository", "`git fetch`, and the name that `git log` shows"

    # Files and settings
    UNREADABLE = (
        "PG201",
        "a file that cannot be read: gone, too large, not regular, not UTF-8",
        "name another, or write it again",
    )
    MALFORMED = (
        "PG202",
        "a file that is not whole, valid JSON, TOML, gzip or array data",
        "the line it names, or write the file again",
    )
    RECORD = "PG203", "a key or value that a file of this kind does not have", "the line and key it names"
    UNWRITABLE = "PG204", "a file or folder that cannot be written", "free or open it, or name another with `--out`"
    TAKEN = "PG205", "an output that exists already, or that another run writes", "name another folder or file"
    PROJECT = "PG206", "no project here, or one too many", "change to the project's folder; `peakgate init` makes one"
    SETTING = (
        "PG207",
        "a setting of the project that does not fit this machine or tree",
        "the line of the settings it names",
    )
    CHANGED = (
        "PG208",
        "something changed since what is to be continued or compared",
        "measure again, without `--resume`",
    )

    # Cases and benchmark tests
    FAMILY = "PG301", "a `family.py` that cannot be imported, or describes no cases", "the file and line it names"
    REFERENCE = "PG302", "a reference that is missing, fails, or gives other shapes", "the reference of that case"
    DATA = "PG303", "input data that fails, or does not fit its type and shape", "`data` of that argument"
    TYPE = "PG304", "a type of elements that does not exist or cannot be passed", "a type it lists"
    TEXELS = "PG305", "a texture or surface that CUDA does not have", "its channels, shape or modes"
    BENCHMARK_TEST = (
        "PG306",
        "a benchmark test that cannot be collected or uses the fixture wrongly",
        "the test it names",
    )
    OPERATION = "PG307", "an operation that the device does not have", "one that it lists"

    # Kernels
    BUILD = "PG401", "a kernel that does not compile", "the file and line it names"
    SOURCE = "PG402", "a kernel's source that is not text, or lacks the requested kernel", "the file it names"
    ARGUMENTS = "PG403", "arguments or constants that do not fit the kernel's parameters", "`arguments` of the family"
    LAUNCH = "PG404", "a launch that no GPU can run", "grid, block or `shared_bytes` of the family"
    WRONG = "PG405", "a result that is wrong, where only right ones are recorded", "`peakgate check -k` that case"

    # The machine
    INSTALLATION = "PG501", "a package or program that is not installed", "the command it names"
    NO_GPU = "PG502", "a GPU that is not there, or of an unknown model", "`nvidia-smi -L`; `--device cpu`"
    BUSY = (
        "PG503",
        "a GPU that cannot be used now, or a run that did not end by itself",
        "`nvidia-smi`; run again, or `--resume`",
    )
    MEMORY = "PG504", "less memory than is needed", "smaller sizes, fewer files or a free machine"
    ISOLATION = "PG505", "no sandbox can be made on this machine", "what it names, or a virtual machine"
    PROCESS = "PG506", "a process of Peakgate's that ended without an answer", "what it printed last"
    SYSTEM = "PG507", "the operating system refuses something", "what it names"
    UPSTREAM = (
        "PG508",
        "a server, scheduler or worker that does not answer or refuses",
        "start it again; its address and token",
    )
    ENVIRONMENT = (
        "PG509",
        "an environment of packages that cannot be installed or used",
        "the installer's last lines; a file, folder or environment that it takes",
    )

    # Saved runs and their judgement
    WHICH_RUN = "PG601", "no saved run, or several, where one is meant", "give more of its name; `--runs`"
    NO_RUN = "PG602", "a file or frame that is not of whole runs of this version", "name another, or measure again"
    GPU_MODELS = "PG603", "runs, floors or outputs of several or other GPUs", "name those of one GPU; `--gpu`"
    EMULATED = "PG604", "the emulator's times, where a GPU's are needed", "runs of a GPU"
    TOO_FEW = "PG605", "too few runs or cases to judge", "measure more"
    NOT_ALIKE = "PG606", "runs or commits that cannot be compared", "name others"
    SIDE = "PG607", "a project, or a side of a comparison, that does not build or run", "the log it names"
    PROTECTED = "PG608", "a change that names its judge itself", "the protected branch; a new folder elsewhere"
    PAGE = "PG609", "a document without the markers or runs that it needs", "the line it names"
