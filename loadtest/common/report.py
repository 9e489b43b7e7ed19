"""What a program leaves behind: a table on the screen, one JSON file, one plot."""
import datetime
import json
import pathlib

JSON_FORMAT = 1


def ms(seconds, digits=1):
    return "-" if seconds is None else f"{seconds * 1000:.{digits}f}"


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value, digits=1):
    return "-" if value is None else f"{value * 100:.{digits}f} %"


def print_table(title, head, rows):
    """Words to the left, figures to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    # A table of one thing's properties has no head.
    for row in [*([head, ["-" * width for width in widths]] if any(head) else []), *rows]:
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]).rstrip())


class Report:
    def __init__(self, scenario, args):
        self.scenario = scenario
        self._args = args
        self._started = datetime.datetime.now(datetime.timezone.utc)
        stem = f"{scenario}-{self._started:%Y%m%d-%H%M%S}"
        self._stem = pathlib.Path(args.out) / stem
        self._stem.parent.mkdir(parents=True, exist_ok=True)
        self._server = None

    def log_path(self, name):
        return f"{self._stem}-{name}.log"

    def note_server(self, server):
        self._server = self._server or server.to_json()

    def write(self, figures, runs):
        """`runs` as of Run.to_json."""
        path = self._stem.with_suffix(".json")
        content = {"format": JSON_FORMAT, "scenario": self.scenario, "seed": self._args.seed,
                   "started": self._started.isoformat(), "settings": vars(self._args), "server": self._server,
                   "figures": figures, "runs": runs}
        path.write_text(json.dumps(content, separators=(",", ":")) + "\n")
        print(f"\nall samples: {path}")

    def plot(self, rows, draw, height_in=3.2):
        """Calls draw(axes), a list of that many, one below the other."""
        if self._args.no_plot:
            return
        try:
            import matplotlib
        except ImportError:
            print("no plot: matplotlib is not installed (loadtest/requirements.txt)")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot
        figure, axes = pyplot.subplots(rows, 1, figsize=(10, height_in * rows), squeeze=False, layout="constrained")
        figure.suptitle(f"{self.scenario}, seed {self._args.seed}")
        draw(list(axes[:, 0]))
        path = self._stem.with_suffix(".png")
        figure.savefig(path, dpi=110)
        pyplot.close(figure)
        print(f"plot: {path}")
