"""DyGLib's protocol on the page: our figure beside the published one."""

from research.experiments.fidelity import PUBLISHED, WITHIN
from research.mean_std import mean_std
from research.page.markdown import origin, table
from research.page.results import Results, place_of

HEADER = ("data", "runs", "AP of batches", "published", "difference", f"within {100 * WITHIN:.0f} points", "AP")


def fidelity_section(results: Results) -> str:
    """A row for each data set; what nobody has published has no verdict."""
    lines = []
    for task in sorted({record.result.test.task for record in results.fidelity}, key=place_of):
        pairs = [record.result.test.pair() for record in results.fidelity if record.result.test.task == task]
        ours = mean_std(pair.batch_average_precision for pair in pairs)
        verdict = ["–", "–", "–"]
        if task in PUBLISHED:
            off = ours.mean - PUBLISHED[task]
            verdict = [f"{100 * PUBLISHED[task]:.2f}", f"{100 * off:+.2f}", "yes" if abs(off) <= WITHIN else "**no**"]
        lines.append([task, str(len(pairs)), str(ours), *verdict, str(mean_std(p.average_precision for p in pairs))])
    if not lines:
        return ""
    return f"{table(HEADER, lines)}\n\n{origin(results.fidelity)}"
