from peakgate.common.errors import PeakgateError, refused
from peakgate.verdict import ExitCode


def test_a_users_error_is_one_line_whatever_its_message_quotes(capsys):
    assert refused(PeakgateError("floors.toml: not TOML (line 1\n  = 3\n): give TOML")) is ExitCode.BAD_INPUT
    assert capsys.readouterr() == ("", "floors.toml: not TOML (line 1 = 3 ): give TOML\n")
