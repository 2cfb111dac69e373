"""Rows as bench/run takes them."""
import json
import operator
import pathlib

GOALS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


class Rows:
    def __init__(self, bench):
        self.bench, self.rows = bench, []

    def add(self, case, value, unit, reference=None, reference_value=None, goal=None, n=1, spread=0, absolute=False):
        """`goal`: of the ratio where there is a reference, unless `absolute`; else of the value, as (">=", 0.95)."""
        ratio = None
        if reference:
            ratio = value / reference_value if reference_value else 0.0
        of_ratio = ratio is not None and not absolute
        met = GOALS[goal[0]](ratio if of_ratio else value, goal[1]) if goal else None
        self.rows.append({"bench": self.bench, "case": case, "value": value, "unit": unit, "reference": reference,
                          "reference_value": reference_value, "ratio": ratio,
                          "goal": f"{goal[0]} {goal[1]:g}" + (" x" if of_ratio else "") if goal else None,
                          "met": met, "n": n, "spread": spread})
        beside = f", {ratio:.3f} x of {reference}: {reference_value:.4g}" if reference else ""
        print(f"{case}: {value:.4g} {unit}{beside}{'' if met is None else ', met' if met else ', NOT MET'}", flush=True)

    def write(self, path):
        if path:
            pathlib.Path(path).write_text(json.dumps(self.rows))
