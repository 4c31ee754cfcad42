"""Whatever a family gives for a parameter, loading it gives cases or refuses them in one line, and soon."""

import inspect
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from peakgate import family
from peakgate.base import config
from peakgate.spec import builds, catalogue, fields, groups, operands
from peakgate.spec.case import Case, Scale, Stage
from peakgate.spec.contract import stated

USUAL = {
    "source": "'scale.cu'",
    "arguments": "lambda n: [Out(n), In(n), Value(n)]",
    "grid": "1",
    "block": "32",
    "bytes": "lambda n: 8 * n",
    "reference": "lambda xp, x: 2 * x",
    "sizes": "[64]",
}
ODD = (
    *("None", "True", "0", "-1", "2**31", "2**63", "-(2**63)", "10**5000", "0.5", "math.nan", "math.inf", "1j"),
    *(
        "''",
        "' '",
        "'x'",
        "b'x'",
        "'a\\nb'",
        "'a\\0b'",
        "'\\ud800'",
        "'x' * 10**6",
        "'%s{}'",
        "Path('x')",
        "Path('a\\nb')",
    ),
    *(
        "()",
        "[]",
        "{}",
        "{1}",
        "[0]",
        "(0,)",
        "['']",
        "[b'x']",
        "['a\\nb']",
        "[None]",
        "[[1]]",
        "(1, 2, 3, 4)",
        "[1, 'x']",
    ),
    *("{'A': 'x\\ny'}", "{'A b': 1}", "{1: 2}", "{'A': None}", "{'': 0}", "{'A': [0]}", "{None: lambda: 0}"),
    *("range(10**9)", "itertools.count()", "iter([1])", "np.float32(2)", "np.arange(3)", "np.int64(7)", "np.bool_(1)"),
    *(
        "object()",
        "object",
        "print",
        "lambda: 0",
        "lambda *a: None",
        "lambda *a: 1 / 0",
        "lambda *a: 'a\\nb'",
        "lambda *a: -1",
    ),
    *("lambda *a: 2**70", "lambda *a: itertools.count()", "lambda *a, **k: {1: 2}", "lambda *a: range(10**9)"),
    *("In(1)", "Value(1)", "launch('k', grid=1, block=1)", "Texture()", "TensorMap('x', box=(4,))", "Temp(1)"),
)
CALLS = {
    **{f"In.{name}": f"lambda n: [Out(n), In(n, {name}=ODD), Value(n)]" for name in ("dtype", "data", "texture")},
    **{f"Out.{name}": f"lambda n: [Out(n, {name}=ODD), In(n)]" for name in ("dtype", "surface")},
    "In.shape": "lambda n: [Out(n), In(ODD)]",
    "InOut.data": "lambda n: [InOut(n, data=ODD)]",
    "Scratch.dtype": "lambda n: [Out(n), In(n), Scratch(1, dtype=ODD)]",
    "Temp.shape": "lambda n: [Out(n), In(n), Temp(ODD)]",
    "Value.value": "lambda n: [Out(n), In(n), Value(ODD)]",
    "Value.dtype": "lambda n: [Out(n), In(n), Value(1, dtype=ODD)]",
    "Struct.values": "lambda n: [Out(n), In(n), Struct(ODD, (('a', 'int32'),))]",
    "Struct.pointer": "lambda n: [Out(n), Struct((In(n), ODD), (('x', 'pointer'), ('z', 'pointer')))]",
    "Struct.struct": "lambda n: [Out(n), In(n), Struct((ODD, (ODD,)), (('a', 'struct'), ('b', 'pointer')))]",
    "Struct.members": "lambda n: [Out(n), In(n), Struct((1,), ODD)]",
    **{f"Texture.{name}": f"lambda n: [Out(n), In(n, texture=Texture({name}=ODD))]" for name in ("address", "linear")},
    **{
        f"Surface.{name}": f"lambda n: [Out(n, surface=Surface({name}=ODD)), In(n)]" for name in ("channels", "layered")
    },
    **{
        f"TensorMap.{name}": f"lambda n: [Out(n), TensorMap(In(n, 64), **{{'box': (4, 64), '{name}': ODD}})]"
        for name in ("box", "swizzle", "l2", "axes", "of")
    },
}
LAUNCH = ("entry", "takes", "grid", "block", "shared_bytes", "source")
KERNEL = [name for name in inspect.signature(family.kernel).parameters if name != "plain"]
PARAMETERS = [*KERNEL, *groups.Plain.__annotations__, *CALLS, *(f"launch.{name}" for name in LAUNCH)]
NUMBERS = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def _project(tmp_path_factory):
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("odd"))
    Path("peakgate.toml").write_text("")
    yield
    os.chdir(before)


def source_of(parameter: str, odd: str) -> str:
    """The family with this value for this parameter, of ``kernel`` or of a call in it."""
    called, _, name = parameter.rpartition(".")
    if called == "launch":
        of_launch = {"entry": "'scale'", "grid": "1", "block": "1", name: odd}
        given = {key: value for key, value in USUAL.items() if key not in ("grid", "block")}
        given["launches"] = f"[launch({', '.join(f'{key}={value}' for key, value in of_launch.items())})]"
    elif called:
        given = USUAL | {"arguments": CALLS[parameter].replace("ODD", odd), "min_capability": "'9.0'"}
    else:
        given = USUAL | {parameter: odd}
    imports = "import itertools, math\nfrom pathlib import Path\nimport numpy as np\n"
    names = "In, InOut, Out, Scratch, Struct, Surface, Temp, TensorMap, Texture, Value, kernel, launch"
    call = ", ".join(f"{key}={value}" for key, value in given.items())
    return f"{imports}from peakgate.family import {names}\nFAMILY = kernel({call})\n"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PARAMETERS), st.sampled_from(ODD))
@example("min_capability", "2**63")
@example("options", "[0]")
@example("entry", "b'x'")
@example("defines", "{'A': 'x\\ny'}")
@example("cooperative", "range(10**9)")
@example("tolerance", "range(10**9)")
@example("arguments", "lambda *a: itertools.count()")
def test_an_odd_value_gives_cases_or_a_refusal_of_one_line(parameter, odd):
    folder = Path(f"kernels/f{next(NUMBERS)}")
    folder.mkdir(parents=True)
    (folder / "scale.cu").write_text("")
    (folder / "family.py").write_text(source_of(parameter, odd), encoding="utf-8", errors="surrogatepass")
    for scale in Scale:
        found = catalogue.described(scale, config.current(), folder / "family.py")
        for case in found.cases:
            assert isinstance(case, Case)
            stated(case)
            assert case.stage.runs_on((9, 0)) in (True, False)
            assert case.stage.functions
            assert "\n" not in repr(case.defines) + case.id
        for refused in found.refused:
            assert "\n" not in refused.reason
            assert len(refused.reason) < 1000
            assert refused.reason.endswith("]")


def test_the_usual_values_give_a_case():
    folder = Path("kernels/usual")
    folder.mkdir(parents=True)
    (folder / "scale.cu").write_text("")
    (folder / "family.py").write_text(source_of("lesson", "'Doubles.'"))
    found = catalogue.described(Scale.BENCH, config.current(), folder / "family.py")
    assert [case.id for case in found.cases] == ["usual.scale-64"]


@pytest.mark.parametrize(
    "table",
    [builds.PARAMETERS, groups.COMPILE_FIELDS, operands.LAUNCH_PARAMETERS, operands.TENSOR_MAP_FIELDS],
    ids=["kernel", "compile", "launch", "map"],
)
def test_a_kind_answers_for_every_value(table):
    values = [None, 2**70, float("nan"), "a\nb", b"", range(10**9), object(), {1: 2}, [[]], lambda: 0, Stage]
    assert all(kind.holds(value) in (True, False) for kind in table.values() for value in values)


@pytest.mark.parametrize("value", [2**63, -1, 1.5, True, "1", None, float("nan")])
def test_a_whole_number_has_its_type_and_its_bounds(value):
    assert not fields.whole(0, 2**63 - 1).holds(value)
