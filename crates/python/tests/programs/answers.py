"""Answers about drawn jobs: `answers.py FILE` has questions and the library's answers, one job per
line."""

import json
import sys

import toporing

count = 0
with open(sys.argv[1]) as lines:
    for line in lines:
        drawn = json.loads(line)
        try:
            plan = toporing.plan(drawn["topology"], **drawn["options"])
        except toporing.PlanError as error:
            assert str(error) == drawn["refused"], (str(error), drawn["refused"])
            continue
        for question, details, expected in drawn["asked"]:
            if question == "doctor":
                found = toporing.doctor(drawn["topology"], settings=drawn["options"]["settings"])
            elif question == "matrix":
                found = toporing.matrix(drawn["topology"])
            elif question == "results":
                found = toporing.results(details["text"], plan, "table")
            elif question == "step":
                found = toporing.step(
                    details["text"], plan, name="calls", fabric=details["fabric"], orders=20
                )
            elif question == "log":
                settings = {"NCCL_ALGO": "Tree"}
                found = toporing.log(
                    details["text"], "log", topology="dgx-h100", hosts=1, settings=settings
                )
            elif question == "diagnose":
                found = toporing.diagnose(details["files"])
            elif question == "difference":
                found = plan.difference(toporing.plan(drawn["topology"], **details))
            else:
                found = plan.ask(question, **details)
            assert found == expected, (drawn["topology"], drawn["options"], question, found)
            count += 1
assert count >= int(sys.argv[2]), count
