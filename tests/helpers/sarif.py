"""What a SARIF file of ours has to be: the parts of SARIF 2.1.0 that are used, and what GitHub's code scanning adds.

The numbers are sections of https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. A property that is not
here is refused, so that a new one is looked up first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}


def _all(**properties: Any) -> dict[str, Any]:
    """An object with these properties, all of them, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _some(items: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


MESSAGE = _all(text=TEXT)  # 3.11.8
RULE = _all(  # 3.49; GitHub shows each of these texts
    id=TEXT | {"pattern": r"^\S+$"},
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=_all(text=TEXT, markdown=TEXT),
)
RELATIVE = _all(
    uri=TEXT | {"pattern": "^(?![/.])[A-Za-z0-9._~%/-]+$"}, uriBaseId={"const": "%SRCROOT%"}
)  # 3.4.3, 3.4.4
ABSOLUTE = _all(uri=TEXT | {"pattern": "^file:///"})  # 3.4.4: an absolute one has no base
RESULT = _all(  # 3.27
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level={"enum": ["none", "note", "warning", "error"]},
    message=MESSAGE,
    locations=_some(  # 3.28; GitHub refuses a file with a result that has none
        _all(
            physicalLocation=_all(  # 3.29
                artifactLocation={"oneOf": [RELATIVE, ABSOLUTE]},
                region=_all(startLine={"type": "integer", "minimum": 1}),  # 3.30.5
            )
        ),
        least=1,
    ),
)
RUN = _all(  # 3.14
    tool=_all(driver=_all(name=TEXT, version=TEXT, rules=_some(RULE))),  # 3.18, 3.19
    automationDetails=_all(id=TEXT | {"pattern": "/$"}),  # 3.17.3: a category has no instance
    invocations=_some(  # 3.20
        _all(executionSuccessful={"type": "boolean"}, exitCode={"type": "integer"}), least=1
    ),
    results=_some(RESULT),
)
SCHEMA = _all(**{"$schema": TEXT, "version": {"const": "2.1.0"}, "runs": _some(RUN, least=1)})  # 3.13


def results(path: Path) -> list[tuple[str, str, str, int]]:
    """Rule, level, file and line of each result of a file that is valid."""
    document = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator(SCHEMA).validate(document)
    found = []
    for run in document["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert len(rules) == len(set(rules))
        for each in run["results"]:
            assert rules[each["ruleIndex"]] == each["ruleId"]  # 3.27.6
            place = each["locations"][0]["physicalLocation"]
            file, line = place["artifactLocation"]["uri"], place["region"]["startLine"]
            found.append((each["ruleId"], each["level"], file, line))
    return found
