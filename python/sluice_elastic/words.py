"""Exceptions in one line."""
import sys


def cause(error):
    """Returns the last line of its message: TorchScript's quotes the module's lines before it. Where they end with
    such a quote, the first. Without torch's C++ frames."""
    text = str(error).split("Exception raised from ")[0]
    lines = [line for line in text.splitlines() if line.strip(" (\t")]
    if not lines:
        return type(error).__name__
    return (lines[0] if lines[-1].startswith(" ") else lines[-1]).strip()


def end_log_with_cause():
    """Has an exception that the script does not catch end its log with the cause, behind torch's own words."""
    before = sys.excepthook

    def hook(kind, error, trace):
        before(kind, error, trace)
        if len(str(error).splitlines()) > 1:
            print(f"{kind.__name__}: {cause(error)}", file=sys.stderr)

    sys.excepthook = hook
